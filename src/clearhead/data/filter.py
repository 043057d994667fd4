"""Which pairs of a corpus are dropped, by the rules of the data doctor.

The corpus is read twice: once for what only the whole of it can teach (usual lengths, repetitions, the two languages,
to which side a held-out file belongs), once to tell each pair's reasons.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.base.errors import DataError, InputError
from clearhead.config.strict import suggestion
from clearhead.data.columns import Flags
from clearhead.data.entries import chunks
from clearhead.data.overlap import Overlap
from clearhead.data.rules import PAIR_RULES, RATIO_FACTOR, RULES, PairRules
from clearhead.data.sides import SideModel
from clearhead.data.traces import Traces
from clearhead.formats.corpus import Entry

__all__ = ["FilterReport", "Sieve", "choose_rules"]

_REPETITIONS = frozenset(("duplicate pair", "other translation", "near-duplicate source"))
_LANGUAGES = frozenset(("wrong source language", "wrong target language"))


def choose_rules(*, only: Sequence[str] = (), drop: Sequence[str] = (), keep: Sequence[str] = ()) -> tuple[str, ...]:
    """The rules by which pairs are dropped: all errors and warnings, or `only` some, and `drop`, but not `keep`.

    Notes are thus opt-in. A hyphen may stand for a space. Raises InputError for a name that is no rule's, and if no
    rule is left.

    >>> choose_rules(only=["empty-source"], drop=["duplicate pair"])
    ('empty source', 'duplicate pair')
    """
    chosen = set(_known(only)) or {name for name in PAIR_RULES if RULES[name].level != "note"}
    chosen = (chosen | set(_known(drop))) - set(_known(keep))
    if not chosen:
        raise InputError("no rule is left to drop by: --keep takes out all that --only and --drop name")
    return tuple(name for name in PAIR_RULES if name in chosen)


def _known(names: Sequence[str]) -> list[str]:
    known = {_plain(name): name for name in PAIR_RULES}
    for name in names:
        if _plain(name) not in known:
            hint = suggestion(name, list(PAIR_RULES))
            raise InputError(f"there is no rule {name!r}{hint}; the rules are: {', '.join(PAIR_RULES)}")
    return [known[_plain(name)] for name in names]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", " ")


@dataclass
class FilterReport:
    """What became of the entries. `counts` has for each rule how many pairs broke it, and `alone` how many broke
    nothing else; a pair can break several."""

    read: int = 0
    kept: int = 0
    dropped: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    alone: dict[str, int] = field(default_factory=dict)

    def count(self, reasons: Sequence[str]) -> None:
        """One more entry, dropped if there are reasons."""
        self.read += 1
        if not reasons:
            self.kept += 1
            return
        self.dropped += 1
        for reason in reasons:
            self.counts[reason] += 1
        if len(reasons) == 1:
            self.alone[reasons[0]] += 1

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"read": self.read, "kept": self.kept, "dropped": self.dropped} | {
            "rules": [{"name": name, "count": count, "alone": self.alone[name]} for name, count in self.counts.items()]
        }

    def __str__(self) -> str:
        """A line on the whole, then a table of the rules that any pair broke."""
        lines = [f"{self.kept:,} of {self.read:,} pairs kept, {self.dropped:,} dropped"]
        broken = {name: count for name, count in self.counts.items() if count}
        if broken:
            width = max(len(name) for name in broken)
            lines.append(f"  {'rule':<{width}}  {'pairs':>10}  {'by it alone':>11}")
            lines += [f"  {name:<{width}}  {count:>10,}  {self.alone[name]:>11,}" for name, count in broken.items()]
        return "\n".join(lines)


class Sieve:
    """Tells for each entry of a corpus by which of some rules it is dropped.

    `entries` is called twice and must give the same entries; `overlaps` are held-out files by name. Wrong languages are
    told by script where the two languages have different ones. After `sift` is consumed, `report` holds the counts.
    """

    def __init__(
        self,
        entries: Callable[[], Iterable[Entry]],
        rules: Sequence[str],
        *,
        languages: tuple[str, str] | None = None,
        max_ratio: float = RATIO_FACTOR,
        overlaps: Mapping[str, Overlap] | None = None,
    ) -> None:
        if not max_ratio > 1:
            raise InputError(f"a ratio of lengths is above 1, got {max_ratio:g}")
        self._entries = entries
        self._rules = tuple(rules)
        self._pair_rules = PairRules(languages)
        self._factor = max_ratio
        self._overlaps = list((overlaps or {}).values())
        self.report = FilterReport(counts=dict.fromkeys(rules, 0), alone=dict.fromkeys(rules, 0))

    def sift(self) -> Iterator[tuple[Entry, list[str]]]:
        """Each entry in order, with the names of the rules that it breaks: none if it is kept.

        Raises DataError if the corpus changes between the readings.
        """
        flags, sides, number = self._survey()
        chosen = frozenset(self._rules)
        done = 0
        for chunk in chunks(self._entries()):
            foreign: dict[int, list[str]] = {}
            if sides is not None:
                for index, name in sides.rules_broken([e.source for e in chunk], [e.target for e in chunk]):
                    foreign.setdefault(index, []).append(name)
            marks = {name: bits[done : done + len(chunk)] for name, bits in flags.items()}
            for index, entry in enumerate(chunk):
                if done == number:
                    raise DataError(f"the corpus grew while it was read: more than {number} entries; filter it again")
                broken = {name for name, marked in marks.items() if marked[index]}
                broken.update(self._pair_rules.broken(entry.source, entry.target), foreign.get(index, ()))
                broken.update(overlap.rule(entry.source, entry.target) for overlap in self._overlaps)
                if entry.state == "review":
                    broken.add("needs review")
                reasons = [name for name in self._rules if name in broken & chosen]
                done += 1
                self.report.count(reasons)
                yield entry, reasons
        if done != number:
            raise DataError(f"the corpus shrank while it was read: {done} entries, {number} before; filter it again")

    def _survey(self) -> tuple[dict[str, Flags], SideModel | None, int]:
        """The first reading: for the rules on the whole corpus which entries break them, and the model of the sides."""
        chosen = frozenset(self._rules)
        traces = Traces(hashes=bool(chosen & _REPETITIONS), factor=self._factor)
        by_script = self._pair_rules.tells_scripts
        sides = SideModel() if chosen & _LANGUAGES and not by_script else None
        for chunk in chunks(self._entries()):
            for entry in chunk:
                traces.add(entry.source, entry.target)
                for overlap in self._overlaps:
                    overlap.look(len(traces), entry.source, entry.target)
            if sides is not None:
                sides.learn([entry.source for entry in chunk], [entry.target for entry in chunk])
        broken = traces.broken() if len(traces) else {}
        return {name: flags for name, flags in broken.items() if name in chosen}, sides, len(traces)
