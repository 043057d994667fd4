"""An expectation of the story and the verdict on it: what both are, and the words in which numbers are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.explorer.content import Both
from clearhead.recipes.compare.cited import Cited, Section, cited
from clearhead.recipes.compare.results import Interval

__all__ = [
    "ABOVE",
    "PAIRED",
    "VERDICTS",
    "Claim",
    "Judgement",
    "Verdict",
    "claim",
    "judge",
    "missing",
    "paper",
    "scientific",
    "signed",
    "span",
]

Verdict = Literal["holds", "fails", "undecided", "missing"]

VERDICTS: dict[Verdict, Both] = {
    "holds": Both("holds here", "此处成立"),
    "fails": Both("does not hold here", "此处不成立"),
    "undecided": Both("not decided", "无法判定"),
    "missing": Both("not measured", "未测量"),
}


@dataclass(frozen=True)
class Claim:
    """One expectation, its source, what would confirm it, and what was found."""

    section: Section
    words: Both
    source: Both
    test: Both
    verdict: Verdict
    reading: Both


Judgement = tuple[Verdict, Both]


def judge(gap: Interval) -> Verdict:
    """Whether a difference that was expected to be positive is.

    >>> [judge(Interval(1, low, high)) for low, high in ((0.2, 2), (-0.3, 2), (-2, -0.1))]
    ['holds', 'undecided', 'fails']
    """
    return "holds" if gap.low > 0 else "fails" if gap.high < 0 else "undecided"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, and a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def span(gap: Interval, digits: int = 1) -> str:
    """A difference and its interval."""
    low, high = (f"{each:.{digits}f}".replace("-", "−") for each in (gap.low, gap.high))
    return f"{signed(gap.value, digits)} [{low}, {high}]"


def missing(*names: str) -> Judgement:
    """Models that the claim is about are not there."""
    listed = ", ".join(f"`{name}`" for name in names)
    return "missing", Both(f"Not finished: {listed}.", f"尚未完成：{listed}。")


ABOVE = Both("the difference of the two scores, with its interval, above zero", "两者得分之差及其区间高于零")


PAIRED = Both("the paired bootstrap of the two: p < 0.05", "两者的配对自助法：p < 0.05")

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scientific(value: float) -> str:
    """Two significant digits, as people write them.

    >>> scientific(0.97), scientific(7.1e-10), scientific(1.9e8)
    ('0.97', '7.1·10⁻¹⁰', '1.9·10⁸')
    """
    digits, _, power = f"{value:.2g}".partition("e")
    return f"{digits}·10{str(int(power)).translate(SUPERSCRIPTS)}" if power else digits


def claim(section: Section, words: Both, source: Both | str, judged: Judgement, test: Both = ABOVE) -> Claim:
    """A claim with the judgement on it."""
    told = Both(source, source) if isinstance(source, str) else source
    return Claim(section, words, told, test, *judged)


def paper(*names: str) -> Both:
    """The papers' figures as a source, each after the place where it is printed."""
    places: dict[str, list[Cited]] = {}
    for each in map(cited, names):
        places.setdefault(each.source, []).append(each)
    en = "; ".join(
        f"{place}: {', '.join(f'{each.en} {each.value:g}' for each in them)}" for place, them in places.items()
    )
    zh = "；".join(
        f"{place}：{'，'.join(f'{each.zh} {each.value:g}' for each in them)}" for place, them in places.items()
    )
    return Both(en, zh)
