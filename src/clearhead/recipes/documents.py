"""Documents of localisers pre-translated: what is empty is filled and marked for review, all else stays as it is.

The formats know how a file is written (`formats/document.py`); here it is decided which slots are filled, and with
what. Texts are translated line by line, since the model reads one line, and the white space at the ends of a line
stays. Placeholders and tags are kept (`recipes/protection.py`); a slot that cannot be filled as it must is left as it
was and told of, never delivered broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from clearhead.base.errors import DataError
from clearhead.base.log import logger
from clearhead.decoding.config import DecodingConfig
from clearhead.formats.document import Piece, Slot
from clearhead.formats.lines import open_output
from clearhead.recipes.document_files import STATES, Fill
from clearhead.recipes.protection import Protector
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import Progress, Translator
from clearhead.text.glossary import Glossary

__all__ = ["FAILED", "WINDOW", "Filled", "translate_document"]

WINDOW = 1000
"""Slots to be filled that are read ahead to make batches of equal lengths."""
_MOST_WAITING = 8 << 20  # bytes of a document that wait for a window to fill

_BREAK = re.compile(r"(\r\n|[\n\r])")
FAILED = "it could not be translated"
"""Why a slot was left whose text made the model fail; the log says how."""


@dataclass
class Filled:
    """What became of a document.

    Attributes:
        entries: all slots.
        filled: those that were given a translation.
        kept: those that had one and kept it.
        closed: those that are not to be translated.
        left: why slots were left as they were, and which: "the model wrote nothing": ["line 12"].
        flagged: the filled slots with each flag of `Translation`.
    """

    entries: int = 0
    filled: int = 0
    kept: int = 0
    closed: int = 0
    left: dict[str, list[str]] = field(default_factory=dict)
    flagged: dict[str, list[str]] = field(default_factory=dict)

    def summary(self) -> str:
        """`120 entries: 100 filled, 15 translated before, 3 not to be translated, 2 left empty; 4 glossary`."""
        counts = {
            "filled": self.filled,
            "translated before": self.kept,
            "not to be translated": self.closed,
            "left as they were": sum(map(len, self.left.values())),
        }
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "filled")
        flags = ", ".join(f"{len(slots):,} {flag}" for flag, slots in sorted(self.flagged.items()))
        return f"{self.entries:,} entr{'y' if self.entries == 1 else 'ies'}: {told}" + (f"; {flags}" if flags else "")


def translate_document(  # noqa: PLR0913 (every choice by name)
    translator: Translator,
    config: DecodingConfig,
    pieces: Iterable[Piece],
    output: str | Path,
    *,
    fill: Fill = "empty",
    glossary: Glossary | None = None,
    batch_tokens: int | None = None,
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Filled:
    """Write a document, given by `open_document`, into `output` ("-": standard output) with its slots filled.

    Memory does not grow with the document. A named output appears whole at the end or not at all, and may be the file
    that is read. `progress` is called with the number of slots filled or left. Raises DataError for what is wrong with
    the document, and InputError for sampling, with which placeholders cannot be kept.
    """
    protector = Protector(translator, config, glossary, batch_tokens)
    with open_output(output) as stream:
        filling = _Filling(protector, stream, fill, window, progress)
        for piece in pieces:
            filling.take(piece)
        filling.flush()
        return filling.outcome


class _Filling:
    """A document on its way: what waits to be written, and what has become of the rest."""

    def __init__(
        self, protector: Protector, stream: BinaryIO, fill: Fill, window: int, progress: Progress | None
    ) -> None:
        self.outcome = Filled()
        self._protector, self._stream, self._progress = protector, stream, progress
        self._wanted, self._window = STATES[fill], window
        self._waiting: list[Piece] = []
        self._slots = self._bytes = self._done = 0

    def take(self, piece: Piece) -> None:
        """The next of the document."""
        if isinstance(piece, Slot):
            self.outcome.entries += 1
            if piece.state not in self._wanted:
                self.outcome.closed += piece.state == "closed"
                self.outcome.kept += piece.state != "closed"
                piece = piece.raw
        if isinstance(piece, bytes) and not self._slots:
            self._stream.write(piece)
            return
        self._waiting.append(piece)
        self._slots += isinstance(piece, Slot)
        self._bytes += len(piece.raw if isinstance(piece, Slot) else piece)
        if self._slots >= self._window or self._bytes >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Translate the slots that wait, and write all that waits."""
        slots = [piece for piece in self._waiting if isinstance(piece, Slot)]
        lines = dict.fromkeys(line for slot in slots for text in slot.source for line in _lines(text))
        stream = self._protector.stream(
            [(line, "") for line in lines], window=max(1, len(lines)), progress=self._shown(len(slots), len(lines))
        )
        found = dict(zip(lines, stream, strict=True))
        for piece in self._waiting:
            self._stream.write(piece if isinstance(piece, bytes) else self._filled(piece, found))
        self._done += len(slots)
        self._waiting.clear()
        self._slots = self._bytes = 0
        if slots and self._progress is not None:
            self._progress(self._done)

    def _shown(self, slots: int, lines: int) -> Progress | None:
        """Progress by lines, told as progress by slots."""
        if self._progress is None:
            return None
        done, told = self._done, self._progress
        return lambda count: told(done + slots * count // max(1, lines))

    def _filled(self, slot: Slot, found: dict[str, Translation]) -> bytes:
        """The bytes of a slot with its translation, or as they were."""
        lines = list(dict.fromkeys(line for text in slot.source for line in _lines(text)))
        if not lines:
            return self._left(slot, "there is nothing to translate")
        used = {line: found[line] for line in lines}
        if reason := _unfit(used.values()):
            return self._left(slot, reason)
        try:
            data = slot.fill([_with_lines(text, used) for text in slot.source])
        except DataError:
            # The order of tags may be one that the format does not allow. Between its tags a text never has another.
            used = dict(zip(lines, self._protector.in_parts(lines), strict=True))
            if reason := _unfit(used.values()):
                return self._left(slot, reason)
            try:
                data = slot.fill([_with_lines(text, used) for text in slot.source])
            except DataError as error:
                logger.warning("%s", error)
                return self._left(slot, "the file cannot hold the translation")
        self.outcome.filled += 1
        for flag in dict.fromkeys(flag for each in used.values() for flag in each.flags):
            self.outcome.flagged.setdefault(flag, []).append(slot.where)
        return data

    def _left(self, slot: Slot, reason: str) -> bytes:
        self.outcome.left.setdefault(reason, []).append(slot.where)
        return slot.raw


def _unfit(translations: Iterable[Translation]) -> str | None:
    """Why a slot cannot be filled with these; None if it can."""
    for translation in translations:
        if "failed" in translation.flags:
            return FAILED
        if not translation.text.strip():
            return "the model wrote nothing"
        if "placeholders" in translation.flags:
            return "its placeholders, tags or characters could not be kept"
    return None


def _lines(text: str) -> Iterator[str]:
    """What is translated of a text: its lines, without the space at their ends, and none that is blank."""
    return (line.strip() for line in _BREAK.split(text) if line.strip())


def _with_lines(text: str, translations: dict[str, Translation]) -> str:
    """A text with its lines translated, its line breaks and the space beside them as they were."""
    written = []
    for line in _BREAK.split(text):
        core = line.strip()
        start = line.index(core)
        written.append(line[:start] + translations[core].text + line[start + len(core) :] if core else line)
    return "".join(written)
