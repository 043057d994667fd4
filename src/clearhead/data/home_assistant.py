"""Parallel interface strings of Home Assistant, read out of its wheel.

Each integration of Home Assistant carries `translations/LANGUAGE.json`, a tree of strings; the strings under one key
path are translations of each other. They are short (5.6 words on average), modern and full of `{placeholders}`.
Some languages may be machine-assisted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.base.errors import DataError, InputError
from clearhead.data.packages import ZipReader, download_wheel

__all__ = ["REQUIREMENT", "SHA256", "Extraction", "extract", "fetch", "join_lines", "language_files"]

REQUIREMENT = "homeassistant==2026.2.3"
PYTHON_VERSION = "3.14"
SHA256 = "8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c"
MAX_WORDS = 80
RULES = (
    f"strings under one key path; line breaks joined by a space; empty sides, sides of more than {MAX_WORDS} words, "
    f"untranslated strings and repeated pairs left out"
)
# Home Assistant's name for a language code, where it is not the code itself
LANGUAGE_FILES = {"zh": "zh-Hans", "zh-cn": "zh-Hans", "zh-tw": "zh-Hant"}
MEMBER = re.compile(r"homeassistant/components/([^/]+)/translations/([A-Za-z0-9-]+)\.json")
LINE_BREAK = re.compile(r"[\r\n]")


@dataclass
class Extraction:
    """Aligned pairs and how they came about; every string pair found is in exactly one of the counts."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: {"found": 0, "empty": 0, "too long": 0, "untranslated": 0, "duplicate": 0, "kept": 0}
    )
    line_breaks_joined: int = 0
    rules: str = ""


def fetch(directory: Path) -> Path:
    """Download the pinned wheel into `directory`. Raises InputError."""
    return download_wheel(REQUIREMENT, PYTHON_VERSION, directory)


def join_lines(text: str) -> str:
    """One line out of several: each is stripped, blank ones go, a space stands between the rest.

    A text without a line break comes back as it is.
    """
    if not LINE_BREAK.search(text):
        return text
    return " ".join(line.strip() for line in LINE_BREAK.split(text) if line.strip())


def language_files(archive: ZipReader) -> dict[str, dict[str, str]]:
    """{language file name: {integration: member name}}, integrations in alphabetical order."""
    found: dict[str, dict[str, str]] = {}
    for name in sorted(archive.names):
        if match := MEMBER.fullmatch(name):
            found.setdefault(match[2], {})[match[1]] = name
    return found


def extract(wheel: Path, source: str, target: str) -> Extraction:
    """The pairs of two languages, in order of integration and of key in the source file.

    A pair is left out when a side is empty, when a side has more than 80 words (parted by white space), when both
    sides are the same (not translated), or when the same pair came before. Line breaks inside a string are joined to
    one line first. Raises InputError for a language that the wheel has not, DataError for a damaged wheel.
    """
    result, seen = Extraction(rules=RULES), set[tuple[str, str]]()
    with ZipReader.open(wheel) as archive:
        files = language_files(archive)
        if not files:
            raise DataError(f"{wheel}: holds no Home Assistant translations; expected the wheel of {REQUIREMENT}")
        sources = _members(files, source)
        targets = _members(files, target)
        for integration in sources:
            if integration not in targets:
                continue
            translated = dict(_strings(archive.read_json(targets[integration])))
            for key, text in _strings(archive.read_json(sources[integration])):
                if key in translated:
                    _add(result, seen, text, translated[key])
    result.counts["kept"] = len(result.pairs)
    return result


def _add(result: Extraction, seen: set[tuple[str, str]], source: str, target: str) -> None:
    pair = join_lines(source), join_lines(target)
    result.counts["found"] += 1
    if not pair[0].strip() or not pair[1].strip():
        result.counts["empty"] += 1
    elif max(len(side.split()) for side in pair) > MAX_WORDS:
        result.counts["too long"] += 1
    elif pair[0] == pair[1]:
        result.counts["untranslated"] += 1
    elif pair in seen:
        result.counts["duplicate"] += 1
    else:
        seen.add(pair)
        result.pairs.append(pair)
        result.line_breaks_joined += pair != (source, target)


def _members(files: dict[str, dict[str, str]], code: str) -> dict[str, str]:
    name = LANGUAGE_FILES.get(code.lower(), code)
    if name not in files:
        raise InputError(f"Home Assistant has no language {code!r}; it has: {', '.join(sorted(files))}")
    return files[name]


def _strings(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _strings(value, (*path, key))
    elif isinstance(tree, str):
        yield path, tree
