"""How one text will be translated: in which pieces, each with how it begins and what it must hold."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.base.errors import ClearheadError
from clearhead.base.log import logger
from clearhead.base.seeds import mix
from clearhead.recipes.phrases import Phrases
from clearhead.recipes.pieces import split_text
from clearhead.text.tokenizer import Tokenizers

__all__ = ["Piece", "Plan", "make_plan"]


@dataclass(frozen=True)
class Piece:
    """What is given to the model at once: a text or a part of one.

    Attributes:
        line: the place of the text in its window.
        ids: its tokens, without EOS.
        prefix: the tokens that the translation begins with.
        key: what its random numbers depend on.
        phrases: tokens that the translation must hold.
        text: what the tokens spell.
    """

    line: int
    ids: list[int]
    prefix: list[int]
    key: int
    phrases: tuple[tuple[int, ...], ...] = ()
    text: str = ""

    @property
    def length(self) -> int:
        """Tokens that the model reads, EOS among them."""
        return len(self.ids) + 1


@dataclass(frozen=True)
class Plan:
    """How one text will be translated; no pieces if the model is not asked."""

    pieces: tuple[Piece, ...]
    flags: tuple[str, ...] = ()


def make_plan(  # noqa: PLR0913 (every choice by name)
    text: str,
    prefix: str,
    *,
    line: int,
    number: int,
    tokenizers: Tokenizers,
    longest: int,
    phrases: Phrases | None,
    script: str,
) -> Plan:
    """The pieces of a text, of at most `longest` tokens, and how they are to be translated.

    `line` is the place of the text in its window, `number` that among all texts; `script` is what its translation is
    written in. A text that cannot be encoded is flagged "failed", with a warning.
    """
    if not text.strip():
        return Plan((), ("blank",))
    try:
        parts = split_text(text, tokenizers.source, longest)
        forced = tokenizers.target.encode(prefix)
        needed = [phrases.tokens(part, tokenizers.target, script) if phrases else () for part, _ in parts]
    except ClearheadError as error:
        logger.warning("text %d cannot be translated: %s", number + 1, error)
        return Plan((), ("failed",))
    if not parts:
        return Plan((), ("blank",))
    if len(parts) == 1:
        return Plan((Piece(line, parts[0][1], forced, number, needed[0], parts[0][0]),))
    return Plan(
        tuple(
            Piece(line, ids, [] if part else forced, mix(number, part), need, own)
            for part, ((own, ids), need) in enumerate(zip(parts, needed, strict=True))
        ),
        ("split",),
    )
