"""The pairs that a sample is made of: read from files or given, as ids and as text, with links between their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clearhead.base.errors import ClearheadError, DataError, InputError
from clearhead.base.log import logger
from clearhead.formats.lines import count_lines, display_name, gives_itself_once
from clearhead.formats.pairs import read_pairs
from clearhead.formats.pharaoh import Links, read_links
from clearhead.inspection.records import Token
from clearhead.recipes.inspect.pair import InspectedPair
from clearhead.recipes.inspect.tokens import tokens_of
from clearhead.recipes.translator import Translator
from clearhead.text.languages import language

__all__ = ["Sample", "pair_tokens", "read_sample", "take_sample"]


@dataclass(frozen=True)
class Sample:
    """Pairs that were read, as ids and as text, with gold links between their words where these are known."""

    chosen: tuple[InspectedPair, ...]
    links: tuple[Links | None, ...]

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """The ids of the sources."""
        return [pair.source for pair in self.chosen]

    @property
    def targets(self) -> list[tuple[int, ...]]:
        """The ids of the targets."""
        return [pair.target for pair in self.chosen]


def read_sample(translator: Translator, source: str, target: str, most: int, links: str | None = None) -> Sample:
    """`take_sample` of two files of aligned lines, and of a file of links in Pharaoh format, a line a pair.

    Files are read as far as pairs are wanted; the lines of the rest are counted, but not those of a stream that gives
    itself once. Raises DataError if the files are not equally long, or for what is no link.
    """
    pairs = read_pairs(source, target)
    _check_lengths(source, target, "aligned files need the same number (a line ends at a line feed only)")
    if links is None:
        return take_sample(translator, pairs, most)
    _check_lengths(links, source, "they must belong together line by line")
    return take_sample(translator, pairs, most, _links_of_all(links), links_name=display_name(links))


def _check_lengths(first: str, second: str, why: str) -> None:
    """Before anything is read, and without decoding; DataError with both counts."""
    if gives_itself_once(first) or gives_itself_once(second):
        return
    counts = count_lines(first), count_lines(second)
    if counts[0] != counts[1]:
        raise DataError(
            f"{display_name(first)} has {counts[0]} lines but {display_name(second)} has {counts[1]}; {why}"
        )


def _links_of_all(links: str) -> Iterator[Links]:
    """A line a pair; DataError when a pair is asked for that has none, as only a stream can come to."""
    count = 0
    for each in read_links(links):
        count += 1
        yield each
    raise DataError(f"{display_name(links)} has {count} lines, and the sample more; give the links of every pair")


def take_sample(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    most: int,
    links: Iterable[Links] | None = None,
    *,
    links_name: str = "links",
) -> Sample:
    """The first `most` pairs that can be read; one without text, or too long for the model, is left out and counted.

    No more of `pairs` is read than that takes. `links` holds those of each pair, in the order of `pairs`; `links_name`
    is what an error calls them. Raises InputError if none can be read, and DataError for a link to a word that its pair
    does not have.
    """
    if most < 1:
        raise InputError(f"{most} pairs are no sample: take at least 1")
    chosen: list[InspectedPair] = []
    known: list[Links | None] = []
    left_out = 0
    links_of = None if links is None else iter(links)
    for number, (source, target) in enumerate(pairs, 1):
        its_links = None if links_of is None else next(links_of, None)
        try:
            pair = _encoded(translator, source, target)
        except ClearheadError as error:
            logger.debug("pair %d is left out: %s", number, error)
            left_out += 1
            continue
        if its_links:
            _check_links(translator, pair, its_links, f"{links_name}: pair {number}")
        chosen.append(pair)
        known.append(its_links)
        if len(chosen) == most:
            break
    if not chosen:
        raise InputError("the sample has no pair that the model can read: give pairs with text on both sides")
    if left_out:
        logger.warning("left out of the sample, since blank or longer than the model reads: %d of its pairs", left_out)
    return Sample(tuple(chosen), tuple(known))


def _encoded(translator: Translator, source: str, target: str) -> InspectedPair:
    ids = translator.tokenizers.source.encode(source)
    gold = translator.tokenizers.target.encode(target)
    limit = translator.model.max_positions
    if not ids or not gold or not source.strip() or not target.strip():
        raise InputError("blank")
    if len(ids) > translator.max_source_length or (limit is not None and len(gold) >= limit):
        raise InputError(f"{len(ids)} and {len(gold)} tokens")
    return InspectedPair(source, target, (*translator.lead, *ids), tuple(gold), len(translator.lead), "given")


def _check_links(translator: Translator, pair: InspectedPair, links: Links, where: str) -> None:
    sides = pair_tokens(translator, pair)
    words = [1 + max((token.word for token in side if token.word is not None), default=-1) for side in sides]
    for source, target in sorted(links):
        if source >= words[0] or target >= words[1]:
            raise DataError(
                f"{where}: the link {source}-{target} is to a word that is not there: the pair has {words[0]} "
                f"and {words[1]} words, counted from 0; the links must belong to these lines, split in the same way"
            )


def pair_tokens(translator: Translator, pair: InspectedPair) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens of both sides, without BOS and EOS, with their words."""
    tokenizers = translator.tokenizers
    scripts = [language(code).script for code in translator.languages]
    return (
        tokens_of(tokenizers.source, pair.source, pair.source_text, script=scripts[0], lead=pair.lead),
        tokens_of(tokenizers.target, pair.target, pair.target_text, script=scripts[1]),
    )
