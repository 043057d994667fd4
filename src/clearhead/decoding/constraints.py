"""Which of the phrases that a translation must hold are written already, and which tokens bring it further.

The phrases of a sentence are sequences of tokens. A translation meets them when each stands in it, its tokens side by
side, as often as it is listed, and no token serves two of them. After some tokens there may be several ways to
tell which phrases are met (after `4 5 6`, `4 5` or `5 6`, not both), so a state holds every such reading that no other
makes needless. A phrase that is broken off leaves nothing behind, since a reading without it was there all the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clearhead.base.errors import DecodingError
from clearhead.text.symbols import BOS, EOS, PAD, UNK

__all__ = ["START", "Constraints"]

START = 0
"""The state in which nothing is written yet."""

READINGS = 64
"""Readings that one state keeps, those with the most tokens met. Few arise unless phrases overlap each other."""

_ROOT = 0
_FOREIGN = -1  # stands for every token that no phrase holds


@dataclass(frozen=True)
class _Node:
    """A beginning that phrases share: `ends` is the phrase that is complete here, `through` those that go on."""

    depth: int
    children: dict[int, int]
    through: set[int]
    ends: int | None = None


@dataclass(frozen=True, order=True)
class _Reading:
    """`met[p]` counts how often phrase p is written; `node` says how far the open one is, the root if none is."""

    met: tuple[int, ...]
    node: int


@dataclass(frozen=True)
class _State:
    readings: frozenset[_Reading]
    met: int
    wanted: tuple[int, ...]


class Constraints:
    """The phrases of one sentence, and the states that a hypothesis passes through while it writes them.

    A state is a small number that means something to these constraints only.

    >>> phrases = Constraints([[4, 5], [6]])
    >>> state = phrases.read([7, 4])
    >>> phrases.met(state), phrases.missing(state), phrases.wanted(state)
    (1, 2, (4, 5, 6))
    >>> phrases.missing(phrases.after(state, 4)), phrases.missing(phrases.after(state, 6))
    (2, 2)
    """

    def __init__(self, phrases: Sequence[Sequence[int]], where: str = "the sentence") -> None:
        """`where` is how an error names the sentence.

        Raises DecodingError for an empty phrase, or one with a token that is never written (PAD, UNK, BOS, EOS).
        """
        for phrase in phrases:
            if not phrase:
                raise DecodingError(f"a phrase that {where} must hold is empty: leave it out")
            if reserved := {PAD, UNK, BOS, EOS}.intersection(phrase):
                raise DecodingError(
                    f"the phrase {list(phrase)} that {where} must hold has the reserved token {min(reserved)}, "
                    "which is never written: leave the phrase out"
                )
        counts = Counter(tuple(phrase) for phrase in phrases)
        self._phrases = sorted(counts)
        self._needs = tuple(counts[phrase] for phrase in self._phrases)
        self.total = sum(len(phrase) for phrase in phrases)
        """Tokens of all phrases together: the fewest that can meet them."""
        self._nodes = [_Node(0, {}, set())]
        for number, phrase in enumerate(self._phrases):
            self._plant(number, phrase)
        self._alphabet = {token for phrase in self._phrases for token in phrase}
        self._states: list[_State] = []
        self._numbers: dict[frozenset[_Reading], int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._number([_Reading((0,) * len(self._needs), _ROOT)])

    def after(self, state: int, token: int) -> int:
        """The state after one more token."""
        key = (state, token if token in self._alphabet else _FOREIGN)
        found = self._next.get(key)
        if found is None:
            readings = [new for old in self._states[state].readings for new in self._continued(old, token)]
            found = self._next[key] = self._number(readings)
        return found

    def read(self, tokens: Iterable[int]) -> int:
        """The state after `tokens`."""
        state = START
        for token in tokens:
            state = self.after(state, token)
        return state

    def met(self, state: int) -> int:
        """How many tokens of phrases are written, those of a phrase that is still open included."""
        return self._states[state].met

    def missing(self, state: int) -> int:
        """The fewest tokens that still have to be written until all phrases are met; 0: they are."""
        return self.total - self._states[state].met

    def wanted(self, state: int) -> tuple[int, ...]:
        """The tokens that begin an unmet phrase or continue an open one, in rising order."""
        return self._states[state].wanted

    # ---------------------------------------------------------------------------------------------------- inside

    def _plant(self, number: int, phrase: Sequence[int]) -> None:
        place = _ROOT
        for token in phrase:
            self._nodes[place].through.add(number)
            children = self._nodes[place].children
            if token not in children:
                children[token] = len(self._nodes)
                self._nodes.append(_Node(self._nodes[place].depth + 1, {}, set()))
            place = children[token]
        node = self._nodes[place]
        self._nodes[place] = _Node(node.depth, node.children, node.through, number)

    def _unmet(self, met: tuple[int, ...], phrases: Iterable[int]) -> bool:
        return any(met[each] < self._needs[each] for each in phrases)

    def _continued(self, reading: _Reading, token: int) -> list[_Reading]:
        """The readings that one reading becomes: the token may be passed over, or belong to a phrase."""
        found = [reading] if reading.node == _ROOT else []
        place = self._nodes[reading.node].children.get(token)
        if place is None:
            return found
        node, met = self._nodes[place], reading.met
        if node.ends is not None and self._unmet(met, [node.ends]):
            more = (*met[: node.ends], met[node.ends] + 1, *met[node.ends + 1 :])
            found.append(_Reading(more, _ROOT))
        if self._unmet(met, node.through):
            found.append(_Reading(met, place))
        return found

    def _tokens(self, reading: _Reading) -> int:
        whole = sum(count * len(phrase) for count, phrase in zip(reading.met, self._phrases, strict=True))
        return whole + self._nodes[reading.node].depth

    def _number(self, readings: Iterable[_Reading]) -> int:
        """The number of the state that holds these readings, but for those that others make needless."""
        kept: list[_Reading] = []
        for reading in sorted(set(readings), key=lambda each: (-self._tokens(each), each)):
            if not any(_covers(other, reading) for other in kept):
                kept.append(reading)
        # One that has no phrase open must stay, for it alone is left when a phrase is broken off.
        idle, busy = [one for one in kept if one.node == _ROOT], [one for one in kept if one.node != _ROOT]
        kept = sorted([*idle[: READINGS // 2], *busy[: READINGS // 2]], key=lambda each: (-self._tokens(each), each))
        if self._tokens(kept[0]) == self.total:
            kept = kept[:1]  # all is met, and no other reading can do better
        key = frozenset(kept)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._states)
            self._states.append(_State(key, self._tokens(kept[0]), self._wanted(kept)))
        return found

    def _wanted(self, readings: Iterable[_Reading]) -> tuple[int, ...]:
        tokens = set()
        for reading in readings:
            for token, place in self._nodes[reading.node].children.items():
                node = self._nodes[place]
                ends = [] if node.ends is None else [node.ends]
                if token not in tokens and self._unmet(reading.met, [*ends, *node.through]):
                    tokens.add(token)
        return tuple(sorted(tokens))


def _covers(one: _Reading, other: _Reading) -> bool:
    """Whether whatever completes `other` completes `one` as well."""
    return one.node == other.node and all(a >= b for a, b in zip(one.met, other.met, strict=True))
