"""Translations whose placeholders and tags come out as they went in: the same, as often, well nested.

Models break them now and then: they drop one, write one twice, or translate its name. A translation that is broken is
mended by the first of these that helps:

1. the same spelling as in the source, where only case or space in a placeholder differs;
2. another translation out of the n-best list of a wider search;
3. the same with `{name}` in the place of `%(name)s` and its like, which more models know;
4. the same with a search that is forced to write every placeholder (`decoding/constrained.py`);
5. the parts between the placeholders, translated one by one and joined with the placeholders where they were.

The last is always right as far as a program is concerned, and often poor as language. What none of them helps is
flagged "placeholders", what one did "placeholders_repaired". The broken texts of a window are mended together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.recipes.batching import windows
from clearhead.recipes.phrases import FORCED_BEAM, Phrases
from clearhead.recipes.placeholders import (
    MANY,
    exchange,
    has_words,
    is_message_format,
    keeps_placeholders,
    mend,
    parts,
    plain,
    respace,
    stand_ins,
)
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import WINDOW, Progress, Translator
from clearhead.text.glossary import UNSPACED_SCRIPTS, Glossary
from clearhead.text.languages import language
from clearhead.text.placeholders import find_placeholders

__all__ = ["Protector"]

_SENTENCE_ENDS = ".。!！?？"
_CAPITAL_NOUNS = frozenset({"de", "lb"})  # languages in which a capital may be right anywhere
_AFTER = ",:;.!?…)]}\"'”’»-–—/|·、，：；。！？）」』"
"""Signs that follow something else, so that a part does not begin with them."""
_BEFORE = ",:;([{\"'“‘„«-–—/|·、，：；（「『"
"""Signs after which something else follows; final punctuation is none, since a model knows what to do with it."""


@dataclass(frozen=True)
class Protector:
    """A translator that keeps placeholders.

    Attributes:
        translator: who translates.
        config: its search; no sampling, which cannot be forced.
        glossary: terms to be forced.
        batch_tokens: as in `Translator.stream`.
    """

    translator: Translator
    config: DecodingConfig
    glossary: Glossary | None = None
    batch_tokens: int | None = None

    def __post_init__(self) -> None:
        """Raises InputError for sampling."""
        if self.config.sampling is not None:
            raise InputError("placeholders cannot be kept while sampling: leave out one of the two")

    def stream(
        self, texts: Iterable[tuple[str, str]], *, window: int = WINDOW, progress: Progress | None = None
    ) -> Iterator[Translation]:
        """The translation of each text, for pairs of a text and how its translation begins ("" if nothing is forced).

        A text without a letter outside its placeholders is given back as it is, without asking the model.
        """
        done = 0
        for part in windows(texts, window):
            yield from self._window(part, done, progress)
            done += len(part)
            if progress is not None:
                progress(done)

    def in_parts(self, texts: Sequence[str]) -> list[Translation]:
        """Each text translated between its placeholders, which stay where they are, flagged "placeholders_repaired".

        One is flagged "placeholders" if even so something came in that is no text, "failed" if a part failed.
        """
        cut = [parts(text) for text in texts]
        words = [part for pieces in cut for part, fixed in pieces if not fixed and has_words(part)]
        found = iter(self._translated([(_bare(part), "") for part in words]))
        return [self._joined(text, pieces, found) for text, pieces in zip(texts, cut, strict=True)]

    # ---------------------------------------------------------------------------------------------------- inside

    def _window(self, texts: Sequence[tuple[str, str]], done: int, progress: Progress | None) -> list[Translation]:
        results: list[Translation | None] = [
            Translation(text, 0.0) if text.strip() and not prefix and not has_words(text) else None
            for text, prefix in texts
        ]
        asked = [number for number, result in enumerate(results) if result is None]
        shown = None if progress is None else lambda count: progress(done + len(texts) - len(asked) + count)
        first = self._translated([texts[number] for number in asked], progress=shown)
        broken: dict[int, Translation] = {}
        for number, translation in zip(asked, first, strict=True):
            results[number] = self._first_kept(texts[number][0], translation)
            if results[number] is None:
                broken[number] = translation
        for number, translation in self._mended(texts, sorted(broken)).items():
            results[number] = translation
        return [
            replace(broken[number], flags=(*broken[number].flags, "placeholders"), alternatives=())
            if result is None
            else self._with_terms(texts[number][0], result)
            for number, result in enumerate(results)
        ]

    def _with_terms(self, text: str, translation: Translation) -> Translation:
        """The translation, flagged by the terms that are missing in it, not in those that it was chosen from."""
        if not translation.text:
            return translation
        flags = [flag for flag in translation.flags if flag != "glossary"]
        return replace(translation, flags=(*flags, *Phrases(self.glossary).flags(text, translation.text)))

    def _mended(self, texts: Sequence[tuple[str, str]], broken: list[int]) -> dict[int, Translation]:
        """The translations of those texts that could be mended, by their numbers."""
        wide = max(self.config.beam, FORCED_BEAM)
        many = self.config.model_copy(update={"beam": wide, "n_best": wide})
        hopeful = [number for number in broken if not is_message_format(texts[number][0])]
        left = [number for number in hopeful if len(find_placeholders(texts[number][0])) <= MANY]
        found: dict[int, Translation] = {}
        for forced, standing_in in ((False, False), (False, True), (True, True)):
            left = [number for number in left if number not in found]
            tables = {number: stand_ins(texts[number][0]) if standing_in else {} for number in left}
            asked = [number for number in left if tables[number] or forced or not standing_in]
            sources = [exchange(texts[number][0], tables[number]) for number in asked]
            pairs = [(source, texts[number][1]) for source, number in zip(sources, asked, strict=True)]
            again = self._translated(pairs, many, forced=forced)
            for number, source, translation in zip(asked, sources, again, strict=True):
                back = {shown: placeholder for placeholder, shown in tables[number].items()}
                kept = self._first_kept(source, translation)
                if kept is None or {"failed", "blank"} & set(kept.flags):
                    continue
                kept = replace(kept, text=exchange(kept.text, back))
                if keeps_placeholders(texts[number][0], kept.text):
                    found[number] = _repaired(kept)
        left = [number for number in hopeful if number not in found and not texts[number][1]]
        for number, translation in zip(left, self.in_parts([texts[number][0] for number in left]), strict=True):
            if "placeholders" not in translation.flags:
                found[number] = translation
        return found

    def _translated(
        self,
        texts: Sequence[tuple[str, str]],
        config: DecodingConfig | None = None,
        *,
        forced: bool = False,
        progress: Progress | None = None,
    ) -> list[Translation]:
        phrases = Phrases(self.glossary, placeholders=forced) if forced or self.glossary is not None else None
        stream = self.translator.stream_forced(
            texts,
            config or self.config,
            phrases=phrases,
            batch_tokens=self.batch_tokens,
            window=max(1, len(texts)),
            progress=progress,
        )
        return list(stream)

    def _first_kept(self, source: str, translation: Translation) -> Translation | None:
        """The best of an n-best list that keeps the placeholders, with the others that do; None if none does."""
        if "failed" in translation.flags or "blank" in translation.flags:
            return translation
        kept: list[Translation] = []
        for rank, each in enumerate((replace(translation, alternatives=()), *translation.alternatives)):
            mended = mend(source, each.text)
            if keeps_placeholders(source, mended) and not is_message_format(source):
                result = replace(each, text=respace(source, mended, spaced=self._spaced))
                kept.append(_repaired(result) if not kept and (rank or mended != each.text) else result)
        return replace(kept[0], alternatives=tuple(kept[1:])) if kept else None

    @property
    def _spaced(self) -> bool:
        return language(self.translator.languages[1]).script not in UNSPACED_SCRIPTS

    def _as_part(self, source: str, translation: str) -> str:
        """A part of a sentence without the full stop and the capital of a whole one, which the model took it for."""
        if translation[-1:] in _SENTENCE_ENDS and source[-1:] not in _SENTENCE_ENDS:
            translation = translation[:-1].rstrip() or translation
        begins_small = source[:1].islower() and translation[1:2].islower()
        if begins_small and self.translator.languages[1].split("-")[0] not in _CAPITAL_NOUNS:
            translation = translation[:1].lower() + translation[1:]
        return translation

    def _joined(self, text: str, pieces: Sequence[tuple[str, bool]], found: Iterator[Translation]) -> Translation:
        """One text out of its parts, taking the translations of those with words out of `found`."""
        written = []
        used: list[Translation] = []
        for part, fixed in pieces:
            if fixed or not has_words(part):
                written.append(part)
                continue
            used.append(next(found))
            core = _bare(part)
            start = part.index(core)
            text_of_part = used[-1].text.strip()
            if not keeps_placeholders(core, text_of_part) or any(bracket in text_of_part for bracket in "()[]"):
                text_of_part = plain(text_of_part)
            written += [part[:start], self._as_part(core, text_of_part), part[start + len(core) :]]
        joined = "".join(written)
        flags = tuple(dict.fromkeys(flag for each in used for flag in each.flags))
        empty = any(not each.text.strip() for each in used)
        right = not empty and keeps_placeholders(text, joined)
        return Translation(
            joined if right else "",
            sum(each.score for each in used),
            tuple(token for each in used for token in each.tokens),
            (*flags, "placeholders_repaired" if right else "placeholders"),
            sum(each.log_prob for each in used),
        )


def _repaired(translation: Translation) -> Translation:
    flags = dict.fromkeys((*translation.flags, "placeholders_repaired"))
    return replace(translation, flags=tuple(flags), alternatives=())


def _bare(part: str) -> str:
    """A part without the space at its ends and without the punctuation that belongs to what is around it."""
    return part.strip().lstrip(_AFTER + " ").rstrip(_BEFORE + " ").strip()
