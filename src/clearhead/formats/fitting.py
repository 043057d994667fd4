"""Texts that a format cannot hold: spaces in place of line breaks, and an error that says where the text came from."""

import re
from collections.abc import Callable
from typing import Literal

from clearhead.base.errors import DataError
from clearhead.formats.corpus import Corpus, Format

__all__ = ["Breaks", "Fitting"]

Breaks = Literal["refuse", "space"]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # those of XML's forbidden characters that `data filter` finds
_LINE_END = re.compile(r"\r*\n|\r+$")


class Fitting:
    """Writes entries of one corpus in another format, which may hold less.

    Lines hold no line break, nor a carriage return at their end; TSV holds no tab either. XML and gettext hold some
    control characters not at all.

    Args:
        corpus: where the entries come from; errors name it.
        format: of what is written.
        breaks: "refuse" raises DataError for line breaks and tabs where they cannot stand, "space" writes a space for
            each.
    """

    def __init__(self, corpus: Corpus, format: Format, breaks: Breaks = "refuse") -> None:
        self.changed = 0
        """Pairs that were written with spaces."""
        self._corpus, self._format, self._breaks = corpus, format, breaks

    def write(self, write: Callable[[str, str], None], where: str, source: str, target: str) -> None:
        """Give one pair to `write`, the function of `formats.corpus.write_corpus`.

        `where` is what the entry is called in the corpus. Raises DataError that names it, what stands against it and
        what helps.
        """
        pair = source, target
        if self._breaks == "space":
            pair = _spaced(source, self._format), _spaced(target, self._format)
            self.changed += pair != (source, target)
        try:
            write(*pair)
        except DataError as error:
            raise DataError(f"{self._corpus.name}, {where}: {error}{self._advice(pair)}") from None

    def _advice(self, pair: tuple[str, str]) -> str:
        if any(_spaced(text, self._format) != text for text in pair):
            return "; --breaks space writes a space for it"
        if self._format in ("tmx", "xliff", "po") and any(map(_CONTROL.search, pair)):
            return "; `clearhead data filter --only control-character` leaves such entries out"
        return "; change the text, or take it out of the corpus"


def _spaced(text: str, format: Format) -> str:
    """The text with a space for each thing that the format cannot hold."""
    match format:
        case "plain":
            return _LINE_END.sub(" ", text)
        case "tsv":
            return _LINE_END.sub(" ", text).replace("\t", " ")
        case _:
            return text
