import random

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.data.filter import Sieve, choose_rules
from clearhead.data.overlap import Overlap
from clearhead.data.rules import PAIR_RULES, RULES
from clearhead.formats.corpus import Entry

ENGLISH = "the quick house which was there has often been with children and they should know nothing"
GERMAN = "das schnelle Haus welches dort stand ist oft mit Kindern gewesen und sollte wissen nichts"


def entries(pairs: list[tuple[str, str]], review: tuple[int, ...] = ()) -> list[Entry]:
    return [
        Entry(f"line {number}", *pair, "review" if number in review else "translated")
        for number, pair in enumerate(pairs, 1)
    ]


def sift(pairs, rules=None, review=(), **settings) -> tuple[dict[int, list[str]], Sieve]:
    given = entries(pairs, review)
    sieve = Sieve(lambda: given, choose_rules() if rules is None else rules, **settings)
    found = {}
    for number, (entry, reasons) in enumerate(sieve.sift(), 1):
        assert entry == given[number - 1]
        if reasons:
            found[number] = reasons
    return found, sieve


PLANTED = [
    ("a usual sentence of some length", "ein üblicher Satz von einiger Länge"),
    ("", "leer"),
    ("untranslated", "untranslated"),
    ("another usual sentence of length", "noch ein üblicher Satz mit Länge"),
    ("short for a very long one it is", "z" * 300),
    ("Hi {name}", "Hallo {Name}"),
    ("Hi {name}", "Hallo"),
    ("yet another sentence, for review", "noch ein Satz, der zu prüfen ist"),
    ("a usual sentence of some length", "ein üblicher Satz von einiger Länge"),
    ("kitchen", ""),
    ("kitchen {x}", "KÃ¼che"),
]


def test_planted_faults_are_dropped_for_their_reasons_and_nothing_else_is():
    found, sieve = sift(PLANTED, review=(8,))
    assert found == {
        2: ["empty source"],
        3: ["identical sides"],
        5: ["length ratio"],
        6: ["placeholders differ"],
        7: ["placeholders differ"],
        8: ["needs review"],
        10: ["empty target"],
        11: ["placeholders differ", "mojibake"],
    }
    report = sieve.report
    assert (report.read, report.kept, report.dropped) == (11, 3, 8)
    assert report.counts["placeholders differ"] == 3
    assert report.alone["placeholders differ"] == 2
    assert "3 of 11 pairs kept, 8 dropped" in str(report)


def test_a_note_drops_nothing_unless_asked():
    assert 9 not in sift(PLANTED)[0]
    assert sift(PLANTED, choose_rules(drop=["duplicate-pair"]))[0][9] == ["duplicate pair"]
    assert sift(PLANTED, choose_rules(only=["Duplicate-Pair"]))[0] == {9: ["duplicate pair"]}
    assert "placeholders differ" not in choose_rules(keep=["placeholders-differ"])
    assert all(RULES[name].level != "note" for name in choose_rules())


def test_every_rule_can_be_named_with_hyphens_and_others_cannot():
    for name in PAIR_RULES:
        assert choose_rules(only=[name.replace(" ", "-")]) == (name,)
    with pytest.raises(InputError, match="did you mean 'empty source'"):
        choose_rules(keep=["emty source"])
    with pytest.raises(InputError, match="no rule 'no tab'"):
        choose_rules(drop=["no tab"])


def test_the_ratio_can_be_set():
    pairs = [("a usual sentence of length", "ein üblicher Satz mit Länge")] * 5 + [("x" * 20, "y" * 50)]
    assert sift(pairs)[0] == {}
    assert sift(pairs, max_ratio=2)[0] == {6: ["length ratio"]}
    with pytest.raises(InputError, match="above 1"):
        sift(pairs, max_ratio=1.0)


def test_held_out_text_is_dropped_from_its_own_side_only():
    pairs = [("open the door", "x"), ("Open the DOOR 2", "y"), ("other", "open the door"), ("Status", "Zustand")]
    overlaps = {"test.en": Overlap.of(["open the door", "not there"])}
    assert sift(pairs, overlaps=overlaps)[0] == {
        1: ["held-out text in corpus"],
        2: ["held-out text nearly in corpus"],
    }
    of_target = {"test.de": Overlap.of(["x", "y"])}
    assert sift(pairs, overlaps=of_target)[0] == {}
    asked = choose_rules(only=["held-out target in corpus"])
    assert sift(pairs, asked, overlaps={"test.de": Overlap.of(["x", "y"])})[0] == {1: list(asked), 2: list(asked)}


def test_swapped_and_untranslated_lines_are_found_among_many_of_one_script():
    rng = random.Random(5)
    english, german = ENGLISH.split(), GERMAN.split()
    pairs = [(" ".join(rng.choices(english, k=8)), " ".join(rng.choices(german, k=8))) for _ in range(900)]
    pairs[99] = pairs[99][::-1]
    pairs[199] = pairs[199][0], pairs[199][0] + "."
    pairs[299] = pairs[299][0], pairs[299][0]
    assert sift(pairs, choose_rules(keep=["length ratio"]))[0] == {
        100: ["wrong source language", "wrong target language"],
        200: ["wrong target language"],
        300: ["identical sides"],  # which says it all
    }


def test_kept_and_dropped_are_all_that_was_read_whatever_the_text():
    rng = random.Random(0)
    words = ["a", "", "{x}", "<b>", "Привет", "Ã¼", "\x07", "one two three four five six seven", "我们", "é" * 30]
    for size in (0, 1, 2, 500, 4001):
        pairs = [(rng.choice(words) * rng.randint(1, 3), rng.choice(words)) for _ in range(size)]
        found, sieve = sift(pairs, PAIR_RULES, languages=("en", "de"), review=tuple(range(1, size, 7)))
        report = sieve.report
        assert (report.read, report.kept, report.dropped) == (size, size - len(found), len(found))
        assert sum(report.counts.values()) == sum(map(len, found.values()))


def test_rules_on_single_pairs_do_not_depend_on_the_order():
    rules = [name for name in choose_rules() if name not in ("length ratio",)]
    order = list(range(len(PLANTED)))
    random.Random(3).shuffle(order)
    straight, _ = sift(PLANTED, rules)
    shuffled, _ = sift([PLANTED[place] for place in order], rules)
    assert {order[number - 1] + 1: reasons for number, reasons in shuffled.items()} == straight


def test_a_corpus_that_changes_between_the_readings_is_refused():
    for sizes in ((3, 4), (4, 3)):
        left = iter(sizes)
        sieve = Sieve(lambda left=left: entries([("a", "b")] * next(left)), choose_rules())
        with pytest.raises(DataError, match="while it was read"):
            list(sieve.sift())
