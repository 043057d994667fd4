import random
import re
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import DataError, InputError
from clearhead.data.split import exact_split, normal_key, plan_split, strict_split

WORDS = [
    "Device",
    "added",
    "Wi-Fi",
    "öffnen",
    "ÖFFNEN",
    "ﬁle",
    "room",
    "Room",
    "20",
    "7",
    "{name}",
    "%s",
    "!",
    "(x)",
    "中文",
]


def corpus(pairs: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(" ".join(rng.choices(WORDS, k=rng.randint(1, 4))), f"target {i}") for i in range(pairs)]


def naive_key(text: str) -> str:
    """An independent reading of "NFKC, casefolding, no digits, placeholders, punctuation; white space collapsed"."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"\{.*?\}|%s", " ", text)
    kept = [c if c.isalpha() or unicodedata.category(c).startswith("M") else " " for c in text]
    return " ".join("".join(kept).split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Device {name} added (3)!", "device %s  ADDED"),
        ("Wi-Fi", "wi fi"),
        ("ﬁle", "FILE"),
        ("Straße", "STRASSE"),
        ("ｆｕｌｌ width", "Full Width"),
        ("e\u0301te", "\u00e9te"),
        ("100 % of {0}", "20% OF {1}"),
        ("<b>Bold</b> text", "bold text"),
        ("soft\u00adhyphen", "softhyphen"),
        ("{count, plural, one {# item}} left", "left"),
        ("Stopp ②", "stopp"),
    ],
)
def test_near_duplicates_have_one_key(one, other):
    assert normal_key(one) == normal_key(other) != ""


@pytest.mark.parametrize(("one", "other"), [("open", "close"), ("中文", "日文"), ("का", "की"), ("uber", "über")])
def test_different_texts_keep_different_keys(one, other):
    assert normal_key(one) != normal_key(other)


@pytest.mark.parametrize("text", ["", "  ", "42", "{name}", "%s: {x} (3)", "—…!", "😀", "100 %"])
def test_texts_without_letters_have_no_key(text):
    assert normal_key(text) == ""


@given(st.text(), st.sampled_from(["!", " ", "7", " {x} ", "\u00ad"]), st.integers(0, 50))
def test_a_sign_put_in_anywhere_changes_no_key(text, sign, place):
    text = "".join(c for c in text if unicodedata.category(c)[0] in "LZ")  # nothing that could join into a placeholder
    text = unicodedata.normalize("NFKC", text)
    assert normal_key(text[:place] + sign + text[place:]) == normal_key(text)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_strict_split_leaves_no_overlap_by_an_independent_normalisation(seed):
    split = strict_split(corpus(3000, seed), dev=60, test=90, seed=seed)
    keys = {part: {naive_key(s) for s, _ in getattr(split, part)} for part in ("train", "dev", "test")}
    assert not keys["dev"] & keys["train"]
    assert not keys["test"] & keys["train"]
    assert not keys["dev"] & keys["test"]
    assert (len(split.dev), len(split.test)) == (60, 90)
    assert len(keys["dev"]) == 60  # one pair of a group


def test_the_exact_split_of_the_same_text_does_overlap_by_that_measure():
    """The test above can fail: by exact source string alone, near-duplicates are on both sides."""
    split = exact_split(corpus(3000), dev=60, test=90, seed=0)
    assert {naive_key(s) for s, _ in split.test} & {naive_key(s) for s, _ in split.train}
    assert not {s for s, _ in split.test} & {s for s, _ in split.train}
    assert not {s for s, _ in split.dev} & {s for s, _ in split.train + split.test}


def test_every_pair_is_in_train_dev_test_or_counted_as_dropped():
    pairs = corpus(2000)
    split = strict_split(pairs, dev=50, test=50, seed=4)
    report = split.report
    assert (report.pairs, report.train, report.dev, report.test) == (2000, len(split.train), 50, 50)
    assert report.train + report.dev + report.test + report.dropped == 2000
    held = {normal_key(s) for s, _ in split.dev + split.test}
    assert report.dropped == sum(normal_key(s) in held for s, _ in pairs) - 100 > 0
    assert report.keyless == sum(normal_key(s) == "" for s, _ in pairs) > 0
    assert report.groups == len({normal_key(s) for s, _ in pairs} - {""})
    assert set(split.train) <= set(pairs)


def test_keyless_pairs_are_never_held_out():
    pairs = [("42", "a"), ("{x}", "b"), ("one", "c"), ("two", "d"), ("three", "e")]
    for seed in range(20):
        split = strict_split(pairs, dev=1, test=1, seed=seed)
        assert {("42", "a"), ("{x}", "b")} <= set(split.train)


def test_held_out_is_the_first_pair_of_its_group_and_order_is_kept():
    pairs = [(f"text {chr(97 + i % 20)}", str(i)) for i in range(60)]
    split = strict_split(pairs, dev=5, test=5, seed=0)
    assert all(int(t) < 20 for _, t in split.dev + split.test)
    for part in (split.train, split.dev, split.test):
        assert [int(t) for _, t in part] == sorted(int(t) for _, t in part)


def test_the_choice_depends_on_the_seed_alone_and_not_on_the_order_of_the_file():
    pairs = [(w, w) for w in {"".join(random.Random(i).choices("abcdefgh", k=6)) for i in range(400)}]
    once = strict_split(pairs, dev=20, test=20, seed=7)
    shuffled = random.Random(1).sample(pairs, len(pairs))
    again = strict_split(shuffled, dev=20, test=20, seed=7)
    assert (set(once.dev), set(once.test)) == (set(again.dev), set(again.test))
    assert set(strict_split(pairs, dev=20, test=20, seed=8).test) != set(once.test)


def test_the_choice_is_the_same_in_another_process():
    code = (
        "from clearhead.data.split import strict_split;"
        "print(strict_split([(f'word{chr(97 + i)}', str(i)) for i in range(26)], dev=3, test=3, seed=5).test)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": h}, capture_output=True, text=True, check=True
        ).stdout
        for h in ("1", "2")
    }
    assert len(runs) == 1


def test_more_held_out_than_there_are_different_sources_is_refused():
    with pytest.raises(InputError, match=r"dev 2 \+ test 1 need 3 .* has 3 \(strict\) in 4 pairs"):
        plan_split([("a", "1"), ("A!", "2"), ("b", "3"), ("c", "4")], dev=2, test=1, seed=0)
    with pytest.raises(InputError, match="negative"):
        plan_split([("a", "1")], dev=-1, test=0, seed=0)


def test_nothing_held_out_keeps_all_in_train():
    assert strict_split(corpus(10), dev=0, test=0, seed=0).train == corpus(10)


def test_a_corpus_that_changes_between_the_readings_is_noticed():
    plan = plan_split(corpus(50), dev=2, test=2, seed=0)
    with pytest.raises(DataError, match="shrank"):
        list(plan.route(corpus(49)))
    with pytest.raises(DataError, match="grew"):
        list(plan.route(corpus(51)))


def test_marks_without_end_take_no_time_without_end() -> None:
    """Normalising alone takes the square of the number of marks: some 10 s for this, and minutes for twice of it."""
    for unit in ("\u0301\u0323", "\u03017\u0323."):  # the second are brought together when digits go
        begun = time.process_time()
        normal_key("a" + unit * 50_000)
        assert time.process_time() - begun < 2
    # Up to thirty marks are kept, in whatever order they stand.
    many = ["\u0301", "\u0323"] * 15
    assert normal_key("a" + "".join(many)) == normal_key("a" + "".join(sorted(many))) != normal_key("a")
    assert normal_key("a" + "\u0301" * 29) != normal_key("a" + "\u0301" * 30) == normal_key("a" + "\u0301" * 31)


def test_every_character_that_becomes_marks_is_bounded_like_a_mark() -> None:
    """The signs whose own class is 0, or that turn into marks only in NFKC, doubled: U+0F73, U+FF9E and their like."""

    def seconds(text: str) -> float:
        begun = time.process_time()
        normal_key(text)
        return time.process_time() - begun

    turned = [
        c
        for c in map(chr, range(0x80, 0x110000))
        if not unicodedata.combining(c) and unicodedata.combining(unicodedata.normalize("NFKD", c)[0])
    ]
    assert {"\u0f73", "\u0f75", "\u0f81", "\uff9e", "\uff9f"} <= set(turned)
    seconds("a\u0316")  # what is made once
    for unit in ["\u0f75\u0f73", "\u0316\uff9e", *(f"\u0f74{c}\u0316" for c in turned)]:
        short, long = ("a" + unit * count for count in (10_000, 20_000))
        assert seconds(long) < 3 * seconds(short) + 0.1, unit.encode("unicode_escape")
