"""Whether a translation holds the placeholders and tags of its source as it must, and what mends it without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from clearhead.text.placeholders import PLACEHOLDER, find_placeholders, strip_placeholders

__all__ = [
    "MANY",
    "exchange",
    "has_words",
    "is_message_format",
    "keeps_placeholders",
    "mend",
    "parts",
    "plain",
    "respace",
    "stand_ins",
]

MANY = 20
"""Placeholders of one text beyond which it is no use to look for other ways than to translate around them: what is
tried for each takes time in proportion to the text, or more."""

# Arguments of ICU MessageFormat with something in them to be translated: {count, plural, one {# file} other {# files}}
_MESSAGE_FORMAT = re.compile(r"\{\s{0,8}[\w.-]{1,64}\s{0,8},\s{0,8}(?:plural|select|selectordinal|choice)\s{0,8},")
# What looks like the remains of a placeholder or tag where none was recognised, or of a character.
_REMAINS = re.compile(r"[{}\ufffd]|<(?=[/A-Za-z])")
# Where a text may be cut beside its placeholders: brackets, but not those of "file(s)".
_BRACKET = re.compile(r"(?<!\w)[(\[]|[)\]](?!\w)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][^\s/<>]*)[^<>]*?(?P<single>/?)>")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
# Placeholders that mean the next argument, whichever that is: %s and {}, but not %1$s, %(name)s, {0} or {name}.
_POSITIONAL = re.compile(r"%(?!%)[^($]*|\{(?:[!:].*)?\}", re.DOTALL)
# These are too short to be recognised in another spelling: "%S" may be the end of "50 %" and the start of a word.
_TERSE = re.compile(r"%%|%[^($]*")


_ASCII_WORD = re.compile(r"[A-Za-z0-9]")
_TWO_LETTERS = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u052f]{2}")  # Latin, Greek and Cyrillic: they have spaces
_SPACES = re.compile(" +")
_NAMED = re.compile(r"\{[A-Za-z]\w*\}")
_NAME = re.compile(r"[A-Za-z]\w+")


def has_words(text: str) -> bool:
    """Whether a text has anything to translate: a letter that is not in a placeholder.

    >>> has_words("{count} / %d"), has_words("{count} files")
    (False, True)
    """
    return any(character.isalpha() for character in strip_placeholders(text))


def is_message_format(text: str) -> bool:
    """Whether a text has an ICU plural or select, in which words to be translated stand inside the placeholder."""
    return _MESSAGE_FORMAT.search(text) is not None


def keeps_placeholders(source: str, translation: str) -> bool:
    """Whether a translation holds the placeholders and tags of its source so that a program can use it.

    They are the same, each as often; those that mean the next argument (`%s`, `{}`) stand in the same order; tags are
    well nested, or in the source's order where that is not; no pair of tags has lost what it was around; no remains of
    placeholders have come in; there still are words; none is joined to the end of a placeholder (`%(name)sich`, by a
    model that takes the end of one for the beginning of a word); and brackets are closed if they were.

    >>> keeps_placeholders("%s of <b>%d</b>", "%s von <b>%d</b>"), keeps_placeholders("%s of %d", "%d von %s")
    (True, False)
    """
    wanted, found = find_placeholders(source), find_placeholders(translation)
    if Counter(wanted) != Counter(found) or _remains(source) != _remains(translation):
        return False
    if _positional(wanted) != _positional(found) or (has_words(source) and not has_words(translation)):
        return False
    if wanted and (_balanced(source) and not _balanced(translation)):
        return False
    if _joined(translation) > _joined(source):
        return False
    if _well_nested(source):
        return _well_nested(translation) and _hollow(translation) <= _hollow(source)
    return _tags(wanted) == _tags(found)


def mend(source: str, translation: str) -> str:
    """The translation, with placeholders that are there in another spelling spelt as in the source.

    >>> mend("Open {name}", "{ Name } öffnen")
    '{name} öffnen'
    """
    wanted = Counter(find_placeholders(source))
    missing = wanted - Counter(find_placeholders(translation))
    if len(missing) > MANY:
        return translation
    for placeholder, count in missing.items():
        if _TERSE.fullmatch(placeholder):
            continue
        left = count

        def spelt(match: re.Match[str], placeholder: str = placeholder) -> str:
            nonlocal left
            if match[0] in wanted or not left:
                return match[0]
            left -= 1
            return placeholder

        translation = _loose(placeholder).sub(spelt, translation)
    return translation


def respace(source: str, translation: str, *, spaced: bool) -> str:
    """The translation, with the space around its placeholders as it is in the source, as far as that can be told.

    Inside a pair of tags, and between a placeholder and a sign that stands beside it in the source, too, there is as
    much space as there. Where the source has a space, or begins, a placeholder is not joined to the word before it,
    nor a closing tag to the one behind (if the target language is `spaced`, that is, parts its words by spaces).

    >>> respace("See <b>({name})</b> now", "Siehe jetzt<b> ( {name} ) </b>", spaced=True)
    'Siehe jetzt <b>({name})</b>'
    """
    neighbours = _neighbours(source)
    seen: Counter[str] = Counter()
    written: list[str] = []
    at = 0
    for match in PLACEHOLDER.finditer(translation):
        placeholder = match[0]
        around = neighbours.get((placeholder, seen[placeholder]), ("x", "x"))
        seen[placeholder] += 1
        written += [
            _before(translation[at : match.start()], written, placeholder, around[0], spaced=spaced),
            placeholder,
        ]
        at = match.end() + _after(translation, match.end(), placeholder, around[1])
        if spaced and placeholder.startswith("</") and not around[1].strip() and translation[at : at + 1].isalnum():
            written.append(" ")
    return "".join(written) + translation[at:]


def _before(gap: str, written: list[str], placeholder: str, neighbour: str, *, spaced: bool) -> str:
    """The text between two placeholders, `written` being what stands before it, with the space that belongs there."""
    closes = placeholder.startswith("</")
    text = gap.rstrip(" ")
    sign = text[-1:] or (written[-1][-1:] if written else "")
    if text != gap:
        return text if neighbour.strip() and (closes or _same_sign(neighbour, sign)) else text + " "
    return text + " " if spaced and not closes and not neighbour.strip() and sign.isalnum() else text


def _after(text: str, end: int, placeholder: str, neighbour: str) -> int:
    """How many spaces at `end`, behind a placeholder, are too many."""
    tag = _TAG.fullmatch(placeholder)
    opens = tag is not None and not tag["close"] and not tag["single"]
    spaces = _SPACES.match(text, end)
    if spaces is None or not neighbour.strip():
        return 0
    return len(spaces[0]) if opens or _same_sign(neighbour, text[spaces.end() : spaces.end() + 1]) else 0


def stand_ins(text: str) -> dict[str, str]:
    """For each printf or other placeholder of a text one in braces, which models know best: `{name}` for `%(name)s`.

    Tags, entities and what is in single braces already have none.

    >>> stand_ins("%s: {{ limit }} of %(count)d %s {x}")
    {'%s': '{value}', '{{ limit }}': '{limit}', '%(count)d': '{count}'}
    """
    found: dict[str, str] = {}
    placeholders = find_placeholders(text)
    taken = {each for each in placeholders if _NAMED.fullmatch(each)}
    for placeholder in dict.fromkeys(placeholders):
        if placeholder in taken or placeholder[0] in "<&" or placeholder == "%%":
            continue
        name = _NAME.search(placeholder)
        stem = name[0] if name else "value" if placeholder[-1] in "s}" else "count"
        names = (f"{{{stem}{number}}}" for number in ("", *range(2, len(placeholders) + 2)))
        found[placeholder] = next(name for name in names if name not in taken)
        taken.add(found[placeholder])
    return found


def exchange(text: str, pairs: dict[str, str]) -> str:
    """The text with those of its placeholders that are keys of `pairs` exchanged for their values."""
    return PLACEHOLDER.sub(lambda match: pairs.get(match[0], match[0]), text)


def parts(text: str) -> list[tuple[str, bool]]:
    """A text cut at its placeholders and brackets: each part with whether it stays as it is; joined they are the text.

    What is joined to a placeholder, as a unit is, stays with it; not so with tags.

    >>> parts("Width ({x}px) is <b>wrong</b>")
    [('Width ', False), ('(', True), ('{x}px', True), (')', True), (' is ', False), ('<b>', True), ('wrong', False), \
('</b>', True)]
    """
    found: list[tuple[str, bool]] = []
    at = 0
    for match in PLACEHOLDER.finditer(text):
        start, end = match.span()
        if match[0][0] not in "<&":
            while start > at and _ASCII_WORD.match(text[start - 1]):
                start -= 1
            while end < len(text) and _ASCII_WORD.match(text[end]):
                end += 1
        found += [*_between_brackets(text[at:start]), (text[start:end], True)]
        at = end
    return [part for part in [*found, *_between_brackets(text[at:])] if part[0]]


def _between_brackets(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for match in _BRACKET.finditer(text):
        yield text[at : match.start()], False
        yield match[0], True
        at = match.end()
    yield text[at:], False


def plain(text: str) -> str:
    """The text without placeholders, brackets and what looks like remains of them, where none should be.

    >>> plain("Breite ({x} px")
    'Breite px'
    """
    return " ".join(_REMAINS.sub(" ", strip_placeholders(re.sub(r"[()\[\]]", " ", text))).split())


# ------------------------------------------------------------------------------------------------------------- inside


def _remains(text: str) -> Counter[str]:
    return Counter(_REMAINS.findall(strip_placeholders(text)))


def _balanced(text: str) -> bool:
    bare = strip_placeholders(text)
    return all(bare.count(opening) == bare.count(closing) for opening, closing in ("()", "[]"))


def _joined(text: str) -> int:
    """How many placeholders that end in a letter are followed at once by two or more: `%(name)sichere`.

    That is what a model writes that has taken the end of a placeholder for the beginning of a word. Behind a bracket,
    as in `{name}ban`, it may be a suffix; behind `%s` a suffix is hard to read for people, too.
    """
    return sum(
        match[0][0] == "%" and match[0] != "%%" and _TWO_LETTERS.match(text, match.end()) is not None
        for match in PLACEHOLDER.finditer(text)
    )


def _positional(placeholders: list[str]) -> list[str]:
    return [each for each in placeholders if _POSITIONAL.fullmatch(each)]


def _tags(placeholders: list[str]) -> list[str]:
    return [each for each in placeholders if each.startswith("<")]


def _paired(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The placeholders of a text that are one of a pair of tags, each with its match as a tag."""
    for match in PLACEHOLDER.finditer(text):
        tag = _TAG.fullmatch(match[0])
        if tag is not None and not tag["single"] and tag["name"].lower() not in _VOID:
            yield match, tag


def _well_nested(text: str) -> bool:
    waiting: list[str] = []
    for _, tag in _paired(text):
        if not tag["close"]:
            waiting.append(tag["name"])
        elif not waiting or waiting.pop() != tag["name"]:
            return False
    return not waiting


def _hollow(text: str) -> int:
    """How many pairs of tags have nothing but space between them."""
    count = 0
    end, name = -1, ""
    for match, tag in _paired(text):
        if tag["close"] and tag["name"] == name and not text[end : match.start()].strip():
            count += 1
        end, name = match.end(), "" if tag["close"] else tag["name"]
    return count


@lru_cache(maxsize=1024)
def _loose(placeholder: str) -> re.Pattern[str]:
    return re.compile(" ?".join(map(re.escape, placeholder)), re.IGNORECASE)


def _neighbours(source: str) -> dict[tuple[str, int], tuple[str, str]]:
    """The characters before and after each placeholder ("" at the ends), by the placeholder and its number."""
    seen: Counter[str] = Counter()
    found = {}
    for match in PLACEHOLDER.finditer(source):
        start, end = match.span()
        found[match[0], seen[match[0]]] = (source[max(0, start - 1) : start], source[end : end + 1])
        seen[match[0]] += 1
    return found


def _same_sign(one: str, other: str) -> bool:
    return one == other and not one.isalnum()
