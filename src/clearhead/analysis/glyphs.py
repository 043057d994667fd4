"""Tokens as labels that matplotlib can draw: which fonts, and what is written where no font has a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

from clearhead.base.errors import InputError

__all__ = ["CJK_FONTS", "drawable", "families", "width"]

CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "SimHei",
)
_LATIN = "DejaVu Sans"
"""Comes with matplotlib; has Greek, Cyrillic, Hebrew, Arabic, ▁ and some emoji, too."""
_CJK_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "IDEOGRAPHIC")
_LONGEST = 28
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@cache
def families() -> tuple[str, ...]:
    """The fonts that labels are drawn in, the first that has a character taking it."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return (_LATIN, *(name for name in CJK_FONTS if name in installed))


def drawable(tokens: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """The tokens as they are written at an axis: nothing in them is formatting, and no character becomes a box.

    Line breaks and tabs are written `\\n`, `\\t`. A character that no font has is written by its number, `U+1F680`;
    one that is only a mark of another is left out. A token of more than `longest` characters is cut, with "…".

    Raises InputError if a token is written in Chinese, Japanese or Korean and no font for it is installed.
    """
    return [_drawable(token, longest) for token in tokens]


def _drawable(token: str, longest: int) -> str:
    written = "".join(_character(each, token) for each in token)
    if len(written) > longest:
        written = f"{written[: longest - 1]}…"
    return written if _shapes() else _right_to_left(written)


def _character(character: str, token: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    category = unicodedata.category(character)
    if category == "Cc":
        return f"\\x{ord(character):02x}"
    if ord(character) in _covered(families()):
        return character if category != "Cf" else ""
    if unicodedata.name(character, "").startswith(_CJK_NAMES):
        raise InputError(
            f"the token {token!r} holds {character!r}, and no installed font has it: install one for Chinese, Japanese "
            "and Korean (on Debian and Ubuntu: apt install fonts-noto-cjk)"
        )
    return "" if category.startswith("M") or category == "Cf" else f"U+{ord(character):04X}"


@cache
def _covered(names: tuple[str, ...]) -> frozenset[int]:
    """All characters that these fonts have, by number."""
    from matplotlib import font_manager

    codes: set[int] = set()
    for name in names:
        font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties(family=name)))
        codes |= font.get_charmap().keys()
    return frozenset(codes)


@cache
def _shapes() -> bool:
    """Whether matplotlib itself sets text from right to left and joins letters, as it does from 3.11 on."""
    import matplotlib

    major, minor = (int(part) for part in matplotlib.__version__.split(".")[:2])
    return (major, minor) >= (3, 11)


def _right_to_left(text: str) -> str:
    """A token of one direction in the order in which it is seen; letters stay unjoined.

    >>> _right_to_left("אב"), _right_to_left("ab")
    ('בא', 'ab')
    """
    directions = {unicodedata.bidirectional(each) for each in text}
    return text[::-1] if directions & {"R", "AL"} and not directions & {"L", "EN"} else text


def width(text: str) -> float:
    """How wide a label is, about, in units of the size of its letters.

    >>> width("我爱") > width("ab")
    True
    """
    return sum(1.0 if unicodedata.east_asian_width(each) in "WF" else 0.62 for each in text)
