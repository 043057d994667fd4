"""Splitting a corpus into train, dev and test so that nothing held out is also trained on.

Interface strings, manuals and example sentences repeat themselves with small changes: "Device {name} added",
"device %s added!", "Device 3 added". A split by line puts some of these in training and others in the test set, and
the score then measures memory. Here every pair has a *key*, pairs of one key form a group, and a group is never on
two sides:

- `strict_split` takes `normal_key` of the source text as the key;
- `exact_split` takes the source text as it is (comparable with what most papers do, and higher in score).

Dev and test take one pair of a group, the first in file order; the other pairs of that group are dropped and counted.
Pairs whose key is empty (only placeholders, digits, punctuation) always go to train.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import DataError, InputError
from clearhead.data.columns import BLOCK, Column, Shelf
from clearhead.data.runs import Runs
from clearhead.text.placeholders import strip_placeholders

__all__ = ["Split", "SplitPlan", "SplitReport", "exact_key", "exact_split", "normal_key", "plan_split", "strict_split"]

_BRACES = re.compile(r"\{[^{}]*\}")
TRAIN, DEV, TEST, DROPPED = 0, 1, 2, 3
SIDES = {"train": TRAIN, "dev": DEV, "test": TEST}


def normal_key(text: str) -> str:
    """What is left of `text` when everything is removed in which near-duplicates differ.

    The text is put in NFKC and casefolded; placeholders, and whatever else stands in braces, go; then only letters and
    their marks are kept: digits, punctuation, symbols, controls and white space are removed. White space goes
    altogether, so that "Wi-Fi", "wi fi" and "wifi" have one key: this makes the relation at least as coarse as any
    that replaces punctuation by a space or by nothing.

    >>> normal_key("Device {name} added (3)!") == normal_key("device %s  ADDED")
    True
    """
    # Placeholders are looked for before folding (%S is one in the text as it is) and after it (fullwidth braces).
    folded = _nfkc(_bare(text)).casefold()
    # Casefolding can leave the normal form, and a removed sign can bring a letter and a mark together: hence thrice.
    letters = _nfkc(_bare(folded)).translate(_LETTERS)
    return _nfkc(letters)


def _nfkc(text: str) -> str:
    """The text in NFKC, in proportionate time: of the marks on one letter those after the 30th are left out.

    No language has so many (Unicode Standard Annex 15, section 13), and putting them in order takes the square of
    their number.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _many_marks().sub(r"\1", text))


@cache
def _many_marks() -> re.Pattern[str]:
    # The marks that have an order among themselves, and what becomes one: U+0F73 is two marks in one sign of no class,
    # U+FF9E the narrow form of a mark. The last ones are in the block of Adlam, U+1E900 to U+1E95F.
    marks = "".join(filter(_is_mark, map(chr, range(0x300, 0x1F000))))
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def _is_mark(sign: str) -> bool:
    if unicodedata.combining(sign):
        return True
    return bool(unicodedata.decomposition(sign) and unicodedata.combining(unicodedata.normalize("NFKD", sign)[0]))


def _bare(text: str) -> str:
    return _BRACES.sub(" ", strip_placeholders(text))


class _Letters(dict[int, int | None]):
    """For str.translate: a letter or mark stays, anything else goes; filled as characters turn up."""

    def __missing__(self, code: int) -> int | None:
        self[code] = kept = code if unicodedata.category(chr(code))[0] in "LM" else None
        return kept


_LETTERS = _Letters()


def exact_key(text: str) -> str:
    """The text itself."""
    return text


@dataclass(frozen=True)
class SplitReport:
    """How many pairs went where.

    `groups` counts distinct keys that are not empty; `dropped` the pairs that shared a held-out key; `keyless` the
    pairs without a key, all of them in train.
    """

    by: str
    seed: int
    pairs: int
    groups: int
    train: int
    dev: int
    test: int
    dropped: int
    keyless: int

    def to_dict(self) -> dict[str, str | int]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class SplitPlan:
    """Where each pair goes: `side` [pairs] uint8, 0 train · 1 dev · 2 test · 3 dropped; kept as a `Column`."""

    side: Column
    report: SplitReport

    def route(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
        """Read the same pairs again and yield ("train" | "dev" | "test", pair) in file order, without the dropped."""
        names = {number: name for name, number in SIDES.items()}
        sides = (int(side) for block in self.side.blocks() for side in block.tolist())
        count = 0
        for pair in pairs:
            side = next(sides, None)
            if side is None:
                raise DataError(f"the corpus grew while it was being split: more than {count} pairs; split it again")
            count += 1
            if side != DROPPED:
                yield names[side], pair
        if count != len(self.side):
            raise DataError(f"the corpus shrank while it was being split: {len(self.side)} pairs, then {count}")


@dataclass(frozen=True)
class Split:
    """A corpus split in memory."""

    train: list[tuple[str, str]]
    dev: list[tuple[str, str]]
    test: list[tuple[str, str]]
    report: SplitReport


def plan_split(pairs: Iterable[tuple[str, str]], *, dev: int, test: int, seed: int, by: str = "strict") -> SplitPlan:
    """Decide in one pass where each pair goes; keeps 11 bytes a pair, those of a large corpus in a temporary file.

    A group is known by a 64-bit hash of (seed, key); the groups with the smallest hashes are held out, test first. So
    the choice is random in the seed and does not depend on the order of the file, and a pair added to the corpus
    moves at most one other group. (Two keys with one hash would merely be treated as one group.)

    Raises InputError if the corpus has fewer groups than are to be held out, or `by` is unknown, and `Shelf.put`'s
    errors.
    """
    key_of = _key_function(by)
    if dev < 0 or test < 0:
        raise InputError(f"dev and test must not be negative; they are {dev} and {test}")
    salt = seed.to_bytes(16, "little", signed=True)
    shelf = Shelf()
    runs, gathered, keyed, count = Runs(shelf), array("Q"), bytearray(), 0

    def put_away() -> None:
        hashes, has_key = np.frombuffer(gathered, dtype=np.uint64), np.frombuffer(keyed, dtype=np.bool_)
        runs.append(count - len(hashes), hashes, kept=has_key)

    for source, _ in pairs:
        key = key_of(source)
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
        gathered.append(int.from_bytes(digest, "little"))
        keyed.append(bool(key))
        count += 1
        if len(gathered) == BLOCK:
            put_away()
            gathered, keyed = array("Q"), bytearray()
    if gathered:
        put_away()
    held = _held_out(runs, dev + test)
    if dev + test >= held.groups and dev + test > 0:
        raise InputError(
            f"dev {dev} + test {test} need {dev + test} different sources and at least one must stay for training, "
            f"but the corpus has {held.groups} ({by}) in {count} pairs: ask for fewer"
        )
    side, sides = Column(shelf), np.zeros(4, dtype=np.int64)
    for block in _sides(runs, held, test, count):
        side.append(block)
        sides += np.bincount(block, minlength=4)
    report = SplitReport(
        by=by,
        seed=seed,
        pairs=count,
        groups=held.groups,
        train=int(sides[TRAIN]),
        dev=int(sides[DEV]),
        test=int(sides[TEST]),
        dropped=int(sides[DROPPED]),
        keyless=count - len(runs),
    )
    return SplitPlan(side, report)


class _HeldOut(NamedTuple):
    """How many groups there are, and of those that are held out, by rising hash, the first pairs and the last hash."""

    groups: int
    places: NDArray[np.int64]
    highest: int


def _held_out(runs: Runs, most: int) -> _HeldOut:
    groups, highest = 0, -1
    places: list[NDArray[np.int64]] = []
    left = most
    for group in runs.distinct():
        groups += len(group.hashes)
        if left:
            places.append(group.places[:left])
            highest = int(group.hashes[:left][-1])
            left -= len(places[-1])
    return _HeldOut(groups, np.concatenate(places) if places else np.zeros(0, np.int64), highest)


def _sides(runs: Runs, held: _HeldOut, test: int, pairs: int) -> Iterator[NDArray[np.uint8]]:
    """The side of each pair, block by block."""
    order = np.argsort(held.places)
    rising = held.places[order]
    sides = np.where(order < test, TEST, DEV).astype(np.uint8)
    for start, places in runs.up_to(held.highest):
        block = np.full(min(BLOCK, pairs - start), TRAIN, dtype=np.uint8)
        block[places - start] = DROPPED
        begin, end = np.searchsorted(rising, (start, start + len(block)))
        block[rising[begin:end] - start] = sides[begin:end]
        yield block


def strict_split(pairs: Iterable[tuple[str, str]], *, dev: int, test: int, seed: int) -> Split:
    """Split so that no source of dev or test is in train, nor in the other, after `normal_key`. Raises InputError."""
    return _split(pairs, dev=dev, test=test, seed=seed, by="strict")


def exact_split(pairs: Iterable[tuple[str, str]], *, dev: int, test: int, seed: int) -> Split:
    """Split so that no source string of dev or test is in train, nor in the other. Raises InputError."""
    return _split(pairs, dev=dev, test=test, seed=seed, by="exact")


def _split(pairs: Iterable[tuple[str, str]], *, dev: int, test: int, seed: int, by: str) -> Split:
    kept = list(pairs)
    plan = plan_split(kept, dev=dev, test=test, seed=seed, by=by)
    sides: dict[str, list[tuple[str, str]]] = {"train": [], "dev": [], "test": []}
    for name, pair in plan.route(kept):
        sides[name].append(pair)
    return Split(sides["train"], sides["dev"], sides["test"], plan.report)


def _key_function(by: str) -> Callable[[str], str]:
    match by:
        case "strict":
            return normal_key
        case "exact":
            return exact_key
        case _:
            raise InputError(f"unknown kind of split {by!r}: use 'strict' or 'exact'")
