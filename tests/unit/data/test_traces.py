"""What is told of the whole of a corpus: the same in blocks and from a file as from all of it at once."""

import random
import tempfile
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from clearhead.base.errors import ClearheadError
from clearhead.data import columns, runs, split, traces
from clearhead.data.alignment import find_shift
from clearhead.data.check import check_pairs
from clearhead.data.filter import Sieve, choose_rules
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.split import normal_key, plan_split
from clearhead.data.traces import Traces
from clearhead.formats.corpus import Entry

SOURCES = ["Door", "door!", "door", "House {n}", "house", "3", "{n}", "", " ", "a door is open now, is it not"]
TARGETS = ["Tür", "Tor", "3", "", " ", "eine Tür ist nun offen", "ja " * 40]


def corpus(pairs: int, seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(SOURCES, k=rng.choice((1, 1, 2, 9)))) for _ in range(pairs // 2 + 1)]
    return [
        (source, rng.choice(TARGETS) if rng.random() < 0.5 else "n" * round(len(source) * rng.uniform(0.5, 2)))
        for source in rng.choices(texts, k=pairs)
    ]


@pytest.fixture(params=[(8, 0, 9), (8, 500, 40), (64, 2000, 16)], ids=str)
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks, room in memory and parts that a few hundred pairs exceed."""
    block, room, part = request.param
    for module in (traces, split):
        monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(columns, "ROOM", room)
    monkeypatch.setattr(runs, "PART", part)
    return


def filled(pairs: list[tuple[str, str]]) -> Traces:
    found = Traces()
    for source, target in pairs:
        found.add(source, target)
    return found


def places(found: Traces) -> dict[str, list[int]]:
    return {name: flags.first(len(found)) for name, flags in found.broken().items()}


def repetitions(pairs: list[tuple[str, str]]) -> dict[str, list[int]]:
    """By the texts themselves."""
    found: dict[str, list[int]] = {"duplicate pair": [], "other translation": [], "near-duplicate source": []}
    seen_pairs: set[tuple[str, str]] = set()
    seen_sources: set[str] = set()
    seen_keys: set[str] = set()
    for place, (source, target) in enumerate(pairs):
        key = normal_key(source)
        if (source, target) in seen_pairs:
            found["duplicate pair"].append(place)
        elif source in seen_sources:
            found["other translation"].append(place)
        if key and key in seen_keys and source not in seen_sources:
            found["near-duplicate source"].append(place)
        seen_pairs.add((source, target))
        seen_sources.add(source)
        seen_keys.add(key)
    return found


def lengths(pairs: list[tuple[str, str]], side: int) -> "np.ndarray":
    return np.array([len(pair[side]) if pair[side].strip() else 0 for pair in pairs], dtype=np.uint32)


def logarithms(pairs: list[tuple[str, str]]) -> "np.ndarray":
    """Of all ratios of lengths in one array, NaN where they say nothing."""
    source, target = lengths(pairs, 0), lengths(pairs, 1)
    told = (np.maximum(source, target) >= 20) & (source > 0) & (target > 0)
    ratio = np.full(len(pairs), np.nan, dtype=np.float32)
    ratio[told] = np.log(target[told] / source[told])
    return ratio


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("pairs", [1, 2, 8, 9, 63, 64, 65, 700])
@pytest.mark.parametrize("seed", range(2))
def test_all_is_as_brute_force_finds_it(pairs, seed):
    texts = corpus(pairs, seed)
    found, ratio = filled(texts), logarithms(texts)
    assert len(found) == pairs
    known = ratio[np.isfinite(ratio)]
    unusual = np.abs(ratio - np.median(known)) > np.log(RATIO_FACTOR) if len(known) else np.zeros(0)
    assert places(found) == {"length ratio": np.flatnonzero(unusual).tolist()} | repetitions(texts)
    assert found.distinct_sources() == len({source for source, _ in texts})
    assert found.shift() == find_shift(lengths(texts, 0), lengths(texts, 1))
    quantiles = np.exp(np.quantile(known.astype(np.float64), [0, 0.05, 0.5, 0.95, 1])) if len(known) else []
    assert list(found.ratios().values()) == pytest.approx(quantiles, abs=0.00051)
    assert len(known) > 0 or pairs < 700


@pytest.mark.usefixtures("tiny")
def test_sides_without_relation_are_told_as_numpy_tells_them():
    rng = random.Random(0)
    told: list[float] = []
    for swing in (0, 3, 12, 30):
        drawn = [rng.randint(20, 60) for _ in range(400)]
        texts = [("a" * length, "b" * (length // 2 + rng.randint(0, swing) ** 2)) for length in drawn]
        ratio = logarithms(texts)
        share = float((np.abs(ratio - np.median(ratio)) > np.log(RATIO_FACTOR)).mean())
        together = np.corrcoef(np.log(lengths(texts, 0)), np.log(lengths(texts, 1)))[0, 1]
        told.append(filled(texts).strangeness())
        assert told[-1] == (share if share > 0.05 and abs(together) < 0.3 else 0.0)
    assert told[0] == 0 < told[-1]
    one_length = [("a" * 30, "b" * rng.choice((10, 400))) for _ in range(400)]
    assert filled(one_length).strangeness() > 0.05  # what never changes goes together with nothing


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("by", ["strict", "exact"])
def test_a_split_is_as_brute_force_makes_it(by):
    for seed in range(4):
        texts = corpus(300, seed)
        keys = [normal_key(source) if by == "strict" else source for source, _ in texts]
        salt = seed.to_bytes(16, "little", signed=True)
        hashed = {key: split.blake2b(key.encode(), digest_size=8, salt=salt).digest()[::-1] for key in keys if key}
        groups = sorted(hashed, key=hashed.__getitem__)
        dev, test = seed * 5, 7
        sides = {key: "test" if rank < test else "dev" for rank, key in enumerate(groups[: dev + test])}
        expected = []
        for place, (key, pair) in enumerate(zip(keys, texts, strict=True)):
            if key not in sides or keys.index(key) == place:
                expected.append((sides.get(key, "train"), pair))
        plan = plan_split(texts, dev=dev, test=test, seed=seed, by=by)
        assert list(plan.route(texts)) == expected
        report = plan.report
        assert (report.groups, report.keyless) == (len(groups), keys.count(""))
        assert report.dropped == len(texts) - len(expected)


@pytest.mark.usefixtures("tiny")
def test_filter_drops_what_brute_force_names():
    texts = corpus(500, 5)
    entries = [Entry(f"line {number}", *pair, "translated") for number, pair in enumerate(texts, 1)]
    names = ["duplicate pair", "near-duplicate source"]
    sieve = Sieve(lambda: entries, choose_rules(only=names))
    dropped = [set(reasons) for _, reasons in sieve.sift()]
    told = repetitions(texts)
    assert dropped == [{name for name in names if place in told[name]} for place in range(500)]


@pytest.mark.parametrize("work", ["check", "filter", "split"])
def test_a_full_disk_ends_the_work_with_a_plain_error(work, monkeypatch):
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115 (closed with the shelf)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: full)
    texts = corpus(100, 0)
    entries = [Entry(f"line {number}", *pair, "translated") for number, pair in enumerate(texts, 1)]

    def run() -> object:
        if work == "check":
            return check_pairs(texts)
        if work == "filter":
            return list(Sieve(lambda: entries, choose_rules()).sift())
        return list(plan_split(texts, dev=1, test=1, seed=0).route(texts))

    assert run()  # so few pairs touch no disk
    monkeypatch.setattr(columns, "ROOM", 100)
    with pytest.raises(ClearheadError, match=r"cannot be written: No space left on device .* TMPDIR"):
        run()


def look_at(pairs: list[tuple[str, str]]) -> None:
    found = filled(pairs)
    assert found.broken()["duplicate pair"].count == (len(pairs) - 1 if pairs[0] == pairs[1] else 0)
    found.ratios(), found.shift(), found.strangeness(), found.distinct_sources()


def split_up(pairs: list[tuple[str, str]]) -> None:
    for _ in plan_split(pairs, dev=0, test=0, seed=0, by="exact").route(pairs):
        pass


@pytest.mark.parametrize("work", [look_at, split_up])
@pytest.mark.parametrize("kind", ["different", "one pair", "one source"])
def test_memory_does_not_grow_with_the_corpus(work, kind, monkeypatch):
    """By a few bytes a pair at most; where all that is kept of a pair is kept in memory, the growth is noticed."""
    for module in (traces, split):
        monkeypatch.setattr(module, "BLOCK", 512)
    monkeypatch.setattr(runs, "PART", 512)
    texts = {
        "different": [(f"{number:x}", f"{number}") for number in range(8_000)],
        "one pair": [("b", "b")] * 8_000,
        "one source": [("b", f"{number}") for number in range(8_000)],
    }[kind]

    def peak(pairs: list[tuple[str, str]]) -> int:
        tracemalloc.start()
        try:
            work(pairs)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def growth() -> float:
        few = texts[:4_000]
        return (peak(texts) - peak(few)) / (len(texts) - len(few))

    assert growth() > (8 if work is split_up else 30)
    monkeypatch.setattr(columns, "ROOM", 0)
    assert growth() < 6
