"""The work behind `clearhead data align`: which word of a translation belongs to which word of its source."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import DataError, InputError
from clearhead.base.log import logger
from clearhead.bundle.resolve import resolve
from clearhead.data.aligner import Aligner, Generated, ModelOne, Table, best_translations
from clearhead.data.bitext import Bitext
from clearhead.data.hmm_aligner import HiddenMarkov
from clearhead.data.symmetrise import Symmetrisation, symmetriser
from clearhead.formats.corpus import Corpus
from clearhead.formats.lines import check_apart, display_name, is_one_stream, write_lines
from clearhead.formats.pharaoh import GoldLinks, pharaoh_line, read_gold_links, read_links
from clearhead.metrics.alignment_error import AlignmentError, alignment_error
from clearhead.text.tokenizer import Tokenizers

__all__ = ["AlignReport", "Model", "align_corpus", "judge_links", "passes", "read_bitext", "scores_of"]

Model = Literal["ibm1", "hmm"]


@dataclass
class AlignReport:
    """What was aligned.

    Attributes:
        pairs: lines written.
        blank, long: those of them without a link because a side has no words, or too many.
        links: links written.
        perplexity: by direction ("target given source", …), that of a generated word in the last round, given the other
            side: exp of the mean negative log-likelihood.
        scores: against the gold links, if there were any.
    """

    pairs: int
    blank: int
    long: int
    links: int = 0
    perplexity: dict[str, float] = field(default_factory=dict)
    scores: AlignmentError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, as what JSON can hold."""
        table = asdict(self)
        if self.scores is not None:
            table["scores"] = scores_of(self.scores)
        return table

    def __str__(self) -> str:
        lines = [f"{self.links:,} links in {self.pairs:,} pairs written"]
        left = [(self.blank, "with a blank side"), (self.long, "too long (--max-length)")]
        if told := [f"{count:,} {what}" for count, what in left if count]:
            lines.append(f"  without links: {', '.join(told)}")
        lines += [f"  {name}: perplexity {value:.2f} a word" for name, value in self.perplexity.items()]
        if self.scores is not None:
            lines.append(f"  {self.scores}, over the first {self.scores.pairs:,} pairs")
        return "\n".join(lines)


def scores_of(scores: AlignmentError) -> dict[str, Any]:
    """Counts and scores, as what JSON can hold."""
    return asdict(scores) | {"precision": scores.precision, "recall": scores.recall, "aer": scores.error_rate}


def judge_links(links: str | Path, gold: str | Path) -> AlignmentError:
    """The scores of a file of links against a file of gold links, line by line.

    Raises DataError for what is no link, and where one of the two files has more lines. Raises InputError where
    both are one stream.
    """
    if is_one_stream(links, gold):
        raise InputError(f"{display_name(links)}: cannot be both the links and the gold links; name a file for one")
    return alignment_error(read_links(links), read_gold_links(gold), name=display_name(gold))


def read_bitext(corpus: Corpus, *, tokenizer: str | Path | None = None, longest: int = 200) -> Bitext:
    """The words of a corpus, which is read once: what white space separates, or the pieces of a bundle's tokenizer.

    Pairs with a blank side, or more than `longest` words on one, are left out but keep their place. Raises DataError
    for what the format does not allow, BundleError for a bundle that is none.
    """
    split: tuple[Callable[[str], Sequence[str]], Callable[[str], Sequence[str]]] = (str.split, str.split)
    if tokenizer is not None:
        both = Tokenizers.load(resolve(tokenizer) / "tokenizer")
        split = (
            lambda text: both.source.pieces(both.source.encode(text)) if text.strip() else (),
            lambda text: both.target.pieces(both.target.encode(text)) if text.strip() else (),
        )
    return Bitext(((split[0](source), split[1](target)) for source, target in corpus.pairs()), longest=longest)


def passes(bitext: Bitext, model: Model, iterations: int, symmetrise: Symmetrisation) -> int:
    """What `align_corpus` moves its progress up to: pairs that it looks at, each as often as it does."""
    rounds = iterations * (2 if model == "hmm" else 1) + 1
    return bitext.aligned * rounds * (1 if symmetrise == "none" else 2)


def align_corpus(  # noqa: PLR0913 (what the command takes)
    bitext: Bitext,
    output: str | Path,
    *,
    model: Model = "hmm",
    iterations: int = 5,
    symmetrise: Symmetrisation = "grow-diag-final-and",
    lexicon: str | Path | None = None,
    gold: str | Path | None = None,
    read: Sequence[Path] = (),
    progress: Callable[[int], None] | None = None,
) -> AlignReport:
    """Write the links of every pair into `output`, a line a pair in Pharaoh format (`formats/pharaoh.py`).

    Both directions are trained by `iterations` rounds of Model 1, and with "hmm" as many of the HMM begun with what
    Model 1 learnt; their best alignments become one set of links by `symmetrise` (with "none" only the targets given
    the sources are modelled). The same input gives the same output.

    `lexicon` gets, as tab-separated lines, up to five translations of each source word and their probabilities,
    t(target word | source word), of at least 0.01. `gold` holds the links that people made of the first pairs. `read`
    are the files that must not be written over. Files appear whole or not at all. Raises InputError and DataError.
    """
    join = symmetriser(symmetrise)
    check_apart(
        [*read, *([] if gold is None else [gold])],
        [output, *([] if lexicon is None else [lexicon])],
        "--output or --lexicon",
    )
    judged = [] if gold is None else _gold_links(gold, bitext)
    scores = None if gold is None else AlignmentError()
    report = AlignReport(len(bitext.lengths), bitext.blank, bitext.long, scores=scores)
    if not bitext.aligned:
        logger.warning("there is no pair to learn from")
    run = _Run(bitext, model, iterations, progress)
    forward, table = run.direction("target", report)
    backward = None if symmetrise == "none" else run.direction("source", report)[0]
    with ExitStack() as stack:
        write = stack.enter_context(write_lines(output))
        if lexicon is not None:
            write_word = stack.enter_context(write_lines(lexicon))
            for source, target, probability in best_translations(bitext, table):
                write_word(f"{source}\t{target}\t{probability:.6f}")
        for number, (one, other) in enumerate(_both(bitext, forward, backward)):
            links = join(one, other)
            write(pharaoh_line(links))
            report.links += len(links)
            if scores is not None and number < len(judged):
                scores.add(links, *judged[number])
    return report


class _Run:
    """The training of both directions, with one progress."""

    def __init__(self, bitext: Bitext, model: Model, iterations: int, progress: Callable[[int], None] | None) -> None:
        self._bitext, self._model, self._iterations = bitext, model, iterations
        self._progress, self._done = progress, 0

    def direction(self, generated: Generated, report: AlignReport) -> tuple[NDArray[np.int16], Table]:
        """The given word of each word of a side, from 1 or 0 for none, pair after pair; and the translations."""
        name = "target given source" if generated == "target" else "source given target"
        first = ModelOne(self._bitext, generated)
        models: list[tuple[str, Aligner]] = [("Model 1", first)]
        if self._model == "hmm":
            models.append(("HMM", HiddenMarkov(self._bitext, first)))
        words = max(1, self._bitext.sequences[1 if generated == "target" else 0])
        for kind, aligner in models:
            for number in range(1, self._iterations + 1):
                likelihood = 0.0
                for pairs, part in aligner.round():
                    likelihood += part
                    self._moved(pairs)
                report.perplexity[name] = math.exp(-likelihood / words)
                logger.debug("%s, %s, round %d: perplexity %.3f", name, kind, number, report.perplexity[name])
        return self._best(models[-1][1], generated), first.table

    def _best(self, aligner: Aligner, generated: Generated) -> NDArray[np.int16]:
        lengths = self._bitext.lengths[:, 1 if generated == "target" else 0]
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        found = np.zeros(int(lengths.sum()), dtype=np.int16)
        for batch in self._bitext.batches():
            best = aligner.align(batch)
            found[starts[batch.pairs, None] + np.arange(best.shape[1])] = best
            self._moved(len(batch.pairs))
        return found

    def _moved(self, pairs: int) -> None:
        self._done += pairs
        if self._progress is not None:
            self._progress(self._done)


def _both(
    bitext: Bitext, forward: NDArray[np.int16], backward: NDArray[np.int16] | None
) -> Iterator[tuple[set[tuple[int, int]], set[tuple[int, int]]]]:
    """The (source, target) links of both alignments of each pair, also of those left out, which have none."""
    source_start = target_start = 0
    for source_words, target_words in bitext.lengths.tolist():
        one = forward[target_start : target_start + target_words].tolist()
        other = [] if backward is None else backward[source_start : source_start + source_words].tolist()
        yield (
            {(given - 1, target) for target, given in enumerate(one) if given},
            {(source, given - 1) for source, given in enumerate(other) if given},
        )
        source_start, target_start = source_start + source_words, target_start + target_words


def _gold_links(path: str | Path, bitext: Bitext) -> list[GoldLinks]:
    """The gold links, which belong to the first pairs. Raises DataError for more lines or a word that is not there."""
    gold = []
    for number, links in enumerate(read_gold_links(path)):
        if number == len(bitext.lengths):
            raise DataError(f"{display_name(path)}: more lines than the corpus has pairs ({number:,})")
        sources, targets = bitext.lengths[number].tolist()
        for source, target in sorted(links.possible) if sources else ():
            if source >= sources or target >= targets:
                raise DataError(
                    f"{display_name(path)}, line {number + 1}: there is no link {source}-{target} in a pair of "
                    f"{sources} and {targets} words; words are counted from 0, source first"
                )
        gold.append(links)
    return gold
