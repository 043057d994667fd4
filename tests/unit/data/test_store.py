import json
import logging
import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest

from clearhead.base.errors import DataError
from clearhead.data.batches import BatchPlan
from clearhead.data.store import PairStore, TextStore, build_store, store_key


@dataclass
class Spelling:
    """A tokenizer that spells: one id a character; sampling doubles the characters that the key picks."""

    vocab_size: int = 1000
    stretch: int = 2
    calls: list[str] = field(default_factory=list)

    def encode(self, text: str) -> list[int]:
        return [ord(c) % self.vocab_size for c in text]

    def encode_all(self, texts, threads=1) -> list[list[int]]:
        self.calls += texts
        return [self.encode(text) for text in texts]

    def encode_sampled(self, text: str, key: int) -> list[int]:
        return [i for n, i in enumerate(self.encode(text)) for _ in range(self.stretch if key >> (n % 60) & 1 else 1)]


@dataclass
class Both:
    source: Spelling = field(default_factory=Spelling)
    target: Spelling = field(default_factory=Spelling)
    fingerprint: str = "f1"


@dataclass(frozen=True)
class Settings:
    max_length: int = 10


PAIRS = [("abc", "xy"), ("ä 中", "z"), ("q" * 10, "w"), ("m", "n" * 10)]


def build(tmp_path, pairs=None, tokenizers=None, settings=Settings(), **options):
    return build_store(lambda: pairs or PAIRS, tokenizers or Both(), settings, tmp_path, **options)


def test_pairs_come_back_as_the_tokenizer_encoded_them(tmp_path):
    both = Both()
    store = build(tmp_path, tokenizers=both)
    assert isinstance(store, PairStore)
    assert len(store) == 4
    for i, (source, target) in enumerate(PAIRS):
        assert store.pair(i) == (both.source.encode(source), both.target.encode(target))
        assert store.pair(i, epoch=7) == store.pair(i)
    assert store.lengths("source").tolist() == [3, 3, 10, 1]
    assert store.lengths("target").tolist() == [2, 1, 1, 10]
    assert store.lengths("source").dtype == np.int32


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65536, np.uint16), (65537, np.uint32)])
def test_ids_take_two_bytes_as_long_as_they_fit(tmp_path, vocab_size, dtype):
    highest = chr(vocab_size - 1)
    store = build(tmp_path, [(highest, "a")], Both(Spelling(vocab_size), Spelling(vocab_size)))
    assert store.pair(0) == ([vocab_size - 1], [97])
    assert (store.path / "source.values").stat().st_size == np.dtype(dtype).itemsize


def test_blank_and_over_long_pairs_are_dropped_together_counted_and_shown(tmp_path):
    pairs = [
        ("one", "eins"),
        ("", "leer"),
        ("  \t", ""),
        ("two", " "),
        ("s" * 11, "t"),
        ("s", "t" * 11),
        ("s" * 11, "t" * 11),
        ("three", "drei"),
    ]
    store = build(tmp_path, pairs)
    report = store.report
    assert [store.pair(i)[0] for i in range(len(store))] == [Spelling().encode("one"), Spelling().encode("three")]
    assert report.counts == {"empty-source": 2, "empty-target": 1, "too-long-source": 2, "too-long-target": 1}
    assert report.read == report.kept + sum(report.counts.values()) == 8
    lines = {reason: [e.line for e in examples] for reason, examples in report.examples.items()}
    assert lines == {
        "empty-source": [2, 3],
        "empty-target": [4],
        "too-long-source": [5, 7],
        "too-long-target": [6],
    }
    assert report.examples["too-long-target"][0].target == "t" * 11
    assert "2 of 8 pairs kept, 6 dropped" in report.summary()
    assert "too-long-source: 2 (line 5, 7)" in report.summary()
    assert build(tmp_path, pairs).report.to_dict() == report.to_dict()  # also of a store that is used again


def test_only_the_first_examples_are_kept_in_memory(tmp_path):
    store = build(tmp_path, [("a", "b")] + [("x" * 5000, "y")] * 100)
    assert store.report.counts["too-long-source"] == 100
    examples = store.report.examples["too-long-source"]
    assert len(examples) == 5
    assert all(len(e.source) <= 80 for e in examples)


def test_a_corpus_of_which_nothing_is_left_is_refused_with_the_reasons_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(DataError, match=r"dev text: no pair is left to use(.|\n)*empty-target: 2 \(line 1, 2\)"):
        build(tmp_path, [("a", ""), ("b", "")], name="dev text")
    assert list(tmp_path.iterdir()) == []


def test_a_matching_store_is_used_again_without_encoding(tmp_path):
    build(tmp_path)
    both = Both()
    again = build(tmp_path, tokenizers=both)
    assert both.source.calls == []
    assert again.pair(1)[1] == both.target.encode("z")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [*PAIRS, ("new", "neu")]},
        {"pairs": [("ab", "cxy"), *PAIRS[1:]]},
        {"pairs": [("abcx", "y"), *PAIRS[1:]]},  # the same characters, cut elsewhere
        {"pairs": [PAIRS[1], PAIRS[0], *PAIRS[2:]]},
        {"tokenizers": Both(fingerprint="f2")},
        {"settings": Settings(9)},
        {"sampling": True},
    ],
)
def test_changed_text_tokenizer_or_settings_make_another_store(tmp_path, change):
    first = build(tmp_path)
    assert build(tmp_path, **change).key != first.key


def test_the_key_is_the_same_in_another_directory_and_does_not_depend_on_sampling_seed(tmp_path):
    a = build(tmp_path / "a", sampling=True, seed=1)
    b = build(tmp_path / "b", sampling=True, seed=2)
    assert a.key == b.key == store_key(lambda: PAIRS, Both(), 10, "text")


def test_a_text_that_is_not_accepted_is_refused_before_it_is_encoded(tmp_path):
    both, seen = Both(), []

    def accept(key):
        seen.append(key)
        if len(seen) == 2:
            raise DataError("another text")

    first = build(tmp_path, accept=accept)
    assert seen == [first.key]
    with pytest.raises(DataError, match="another text"):
        build(tmp_path, [("new", "neu")], tokenizers=both, accept=accept)
    assert both.source.calls == both.target.calls == []
    assert seen == [first.key, store_key(lambda: [("new", "neu")], Both(), 10, "tokens")]
    assert [path.name for path in tmp_path.iterdir()] == [first.key[:32]]


@pytest.mark.parametrize("name", ["source.values", "target.offsets", "source.lengths", "store.json"])
@pytest.mark.parametrize("damage", ["shorter", "flipped", "missing"])
def test_a_damaged_store_is_built_again_with_a_line_in_the_log(tmp_path, name, damage, caplog):
    store = build(tmp_path)
    wanted = [store.pair(i) for i in range(4)]
    file = store.path / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "shorter":
        file.write_bytes(content[: len(content) // 2])
    else:
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        again = build(tmp_path, name="train text")
    assert "train text: the token store is damaged and is built again" in caplog.text
    assert [again.pair(i) for i in range(4)] == wanted
    assert json.loads((again.path / "store.json").read_text())["key"] == again.key


def test_a_failure_while_building_leaves_no_store(tmp_path):
    def cut_short():
        yield from PAIRS
        raise DataError("a.en has 4 lines but a.de has 5")

    with pytest.raises(DataError, match="4 lines"):
        build_store(cut_short, Both(), Settings(), tmp_path)
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []


def test_text_that_changes_between_hashing_and_encoding_is_noticed(tmp_path):
    readings = iter([PAIRS, [*PAIRS, ("late", "spät")]])
    with pytest.raises(DataError, match="changed while it was read"):
        build_store(lambda: next(readings), Both(), Settings(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_the_pairs_read(tmp_path):
    seen: list[int] = []
    build_store(lambda: (("ab", "cd") for _ in range(4500)), Both(), Settings(), tmp_path, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 4500
    assert len(seen) >= 3


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    def peak(pairs: int) -> int:
        tracemalloc.start()
        build_store(
            lambda: (("some words here", "a few more words") for _ in range(pairs)),
            Both(),
            Settings(20),
            tmp_path / str(pairs),
        )
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    small, large = peak(4_000), peak(12_000)
    assert large < 1.3 * small + 200_000


def test_an_index_out_of_range_is_an_error_and_not_another_pair(tmp_path):
    store = build(tmp_path)
    for index in (4, -1):
        with pytest.raises(IndexError):
            store.pair(index)


def test_a_text_store_samples_anew_each_epoch_from_seed_epoch_and_pair_alone(tmp_path):
    store = build(tmp_path, sampling=True, seed=3)
    assert isinstance(store, TextStore)
    drawn = {(epoch, i): store.pair(i, epoch) for epoch in range(6) for i in range(4)}
    again = build(tmp_path, sampling=True, seed=3)
    assert all(again.pair(i, epoch) == drawn[epoch, i] for epoch, i in reversed(drawn))
    assert len({str(drawn[epoch, 0]) for epoch in range(6)}) > 1
    other = build(tmp_path, sampling=True, seed=4)
    assert any(other.pair(i, epoch) != drawn[epoch, i] for epoch, i in drawn)


def test_a_text_store_gives_the_unsampled_lengths_and_keeps_the_text(tmp_path):
    tokens, text = build(tmp_path), build(tmp_path, sampling=True)
    for side in ("source", "target"):
        assert text.lengths(side).tolist() == tokens.lengths(side).tolist()
    for i, (source, target) in enumerate(PAIRS):
        drawn = text.pair(i, 1)
        for ids, whole in zip(drawn, (source, target), strict=True):
            assert [i for n, i in enumerate(ids) if n == 0 or ids[n - 1] != i] == dedupe(Spelling().encode(whole))


def dedupe(ids: list[int]) -> list[int]:
    return [i for n, i in enumerate(ids) if n == 0 or ids[n - 1] != i]


def test_sampling_never_passes_max_length_nor_the_bound_and_never_cuts(tmp_path):
    both = Both(Spelling(stretch=40), Spelling(stretch=40))
    store = build(tmp_path, [("abcdefghij", "a"), ("abc", "abcd")] * 20, both, Settings(30), sampling=True)
    drawn = [(store.pair(i, e), i) for e in range(5) for i in range(40)]
    for pair, i in drawn:
        for ids, side in zip(pair, ("source", "target"), strict=True):
            length = int(store.lengths(side)[i])
            assert len(ids) <= min(30, 2 * length + 8)
            if len(ids) < 30:
                assert dedupe(ids) == both.source.encode("abcdefghij"[:length])


def test_a_sampled_batch_stays_within_the_bound_that_is_promised(tmp_path):
    store = build(tmp_path, [("abcdef"[: 1 + i % 6], "abcdef"[: 1 + i % 4]) for i in range(300)], sampling=True)
    for epoch in range(3):
        for batch in BatchPlan(store, 60, seed=0).epoch(epoch):
            drawn = [store.pair(int(i), epoch) for i in batch]
            for side in (0, 1):
                assert len(batch) * (max(len(pair[side]) for pair in drawn) + 1) <= 2 * 60 + 7 * len(batch)


def test_with_real_tokenizers_a_store_holds_what_decodes_to_the_text(tmp_path):
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    pairs = [(f"the house number {i} is green", f"das Haus Nummer {i} ist grün") for i in range(60)]
    tokenizers = Tokenizers.train(TokenizerConfig(vocab_size=350, sampling=0.2), lambda: pairs)
    plain = build_store(lambda: pairs, tokenizers, Settings(200), tmp_path)
    sampled = build_store(lambda: pairs, tokenizers, Settings(200), tmp_path, sampling=True)
    for i in (0, 17, 59):
        assert plain.pair(i) == (tokenizers.source.encode(pairs[i][0]), tokenizers.target.encode(pairs[i][1]))
        source, target = sampled.pair(i, 2)
        assert (tokenizers.source.decode(source), tokenizers.target.decode(target)) == pairs[i]
    assert any(sampled.pair(i, 0) != plain.pair(i) for i in range(60))


@pytest.mark.parametrize("sampling", [False, True])
def test_a_tag_stands_before_every_source_and_counts_as_a_token(tmp_path, sampling):
    plain, tagged = (build(tmp_path, sampling=sampling, tag=tag) for tag in (None, 7))
    assert plain.key != tagged.key != build(tmp_path, sampling=sampling, tag=8).key
    assert plain.key == store_key(lambda: PAIRS, Both(), 10, plain.kind)
    kept = [0, 1, 3]  # pair 2 has ten characters, and its tag makes eleven
    assert tagged.report.counts["too-long-source"] == 1
    for place, number in enumerate(kept):
        for epoch in range(3):
            source, target = plain.pair(number, epoch)
            if sampling:  # a pair draws by its number in the store, which the dropped one has moved
                assert tagged.pair(place, epoch)[0][0] == 7
                assert 7 not in tagged.pair(place, epoch)[0][1:] + tagged.pair(place, epoch)[1]
            else:
                assert tagged.pair(place, epoch) == ([7, *source], target)
    assert tagged.lengths("source").tolist() == [plain.lengths("source")[i] + 1 for i in kept]
    assert tagged.lengths("target").tolist() == [plain.lengths("target")[i] for i in kept]
