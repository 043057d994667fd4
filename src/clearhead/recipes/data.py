"""The work behind `clearhead data`: check, filter and split corpora on disk."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write
from clearhead.base.log import logger
from clearhead.bundle.resolve import resolve
from clearhead.data.entries import BY_NAME, Layout, entries_to_check, held_out_texts, languages_of, open_rereadable
from clearhead.data.filter import FilterReport, Sieve
from clearhead.data.overlap import Overlap
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.split import SplitReport, plan_split
from clearhead.data.trainable import TrainLimits
from clearhead.formats.corpus import Corpus, open_corpus, output_format, write_corpus
from clearhead.formats.fitting import Breaks, Fitting
from clearhead.formats.lines import gives_itself_once, is_standard_stream, write_lines
from clearhead.text.tokenizer import Tokenizers

__all__ = ["filter_corpus", "limits_of", "split_corpus"]

PARTS = ("train", "dev", "test")
RECORD = "split.json"
LARGEST_SEED = 2**63 - 1
_OWN_NAME = re.compile(rf"({'|'.join(PARTS)})\.[^/]+")


def split_corpus(
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    dev: int,
    test: int,
    seed: int,
    by: str = "strict",
    names: tuple[str, str] | None = None,
    breaks: Breaks = "refuse",
) -> SplitReport:
    """Split a corpus of any format into `out`/{train,dev,test}.{SOURCE,TARGET} and `out`/split.json.

    SOURCE and TARGET are `names`, or else what the file names end in (`corpus.en` → `en`), or "source" and "target";
    `names` are also the languages to be taken from TMX or XLIFF.
    Line breaks in the texts of other formats are refused, or with `breaks` "space" each becomes a space. The corpus is
    read twice and streamed. The files of an earlier split are replaced, each as a whole, split.json last; an earlier
    split with other endings is refused, and other files of these names are not touched. Raises InputError or DataError.
    """
    if abs(seed) > LARGEST_SEED:
        raise InputError(f"--seed must be from {-LARGEST_SEED} to {LARGEST_SEED}; any other number serves as well")
    opened = open_corpus(corpus, names)
    if any(gives_itself_once(path) for path in corpus):
        raise InputError("the corpus is read twice, which standard input ('-') or a pipe cannot be: name files")
    suffixes = names or _suffixes(corpus)
    if suffixes[0] == suffixes[1]:
        raise InputError(f"both sides would be written to train.{suffixes[0]}: give --languages two different endings")
    targets = {f"{part}.{suffix}": Path(out) / f"{part}.{suffix}" for part in PARTS for suffix in suffixes}
    for path in targets.values():
        if any(path.resolve() == Path(given).resolve() for given in corpus):
            raise InputError(f"{path} is part of the corpus and would be replaced: choose another directory with --out")
    _check_place(Path(out), list(targets))
    plan = plan_split(opened.pairs(), dev=dev, test=test, seed=seed, by=by)
    fitting = Fitting(opened, "plain", breaks)
    reading = _Placed(opened)
    with _directory(Path(out)), ExitStack() as stack:
        write = {}
        for part in PARTS:
            sides = [targets[f"{part}.{suffix}"] for suffix in suffixes]
            write[part] = stack.enter_context(write_corpus(sides, format="plain"))
        for part, (source, target) in plan.route(reading.pairs()):
            fitting.write(write[part], reading.where, source, target)
    record = plan.report.to_dict() | {"corpus": [str(path) for path in corpus], "files": list(targets)}
    text = json.dumps(record, ensure_ascii=False, indent=2) + "\n"
    # A name that is not UTF-8 stands in a text as lone surrogates; JSON can write those as escapes.
    atomic_write(Path(out) / RECORD, text.encode("utf-8", "backslashreplace"))
    if not plan.report.pairs:
        logger.warning("%s: no pair was found", opened.name)
    return plan.report


class _Placed:
    """The pairs of a corpus, read once, and where the last one that was given stands."""

    def __init__(self, corpus: Corpus) -> None:
        self.where = ""
        self._corpus = corpus

    def pairs(self) -> Iterator[tuple[str, str]]:
        for entry in self._corpus.placed_pairs():
            self.where = entry.where
            yield entry.source, entry.target


def _check_place(out: Path, names: Sequence[str]) -> None:
    """Raise InputError if files of these names are in `out` that no split wrote, or a split into other names is."""
    own = _recorded(out)
    strangers = [out / name for name in names if (out / name).exists() and own is not None and name not in own]
    if strangers:
        raise InputError(f"{strangers[0]} is there and no earlier split's: choose another directory with --out")
    left = [name for name in own or () if name not in names and (out / name).exists()]
    if left:
        raise InputError(
            f"{out}: an earlier split is there with other endings ({', '.join(left)}), which would stay beside the new "
            f"files; remove it or choose another directory with --out"
        )


def _recorded(out: Path) -> list[str] | None:
    """The files of the split that is in `out`: none without a split.json; None if that does not say."""
    try:
        text = (out / RECORD).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    try:
        files = json.loads(text)["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(files, list):
        return None
    return [name for name in files if isinstance(name, str) and _OWN_NAME.fullmatch(name)]


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[None]:
    """A directory that is made if it is not there, and goes again, empty, if the block fails."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # something of another's is in it
            for folder in made:
                folder.rmdir()
        raise


def filter_corpus(  # noqa: PLR0913 (what the command takes)
    files: Sequence[str | Path],
    out: Sequence[str | Path],
    dropped: str | Path,
    *,
    rules: Sequence[str],
    languages: tuple[str, str] | None = None,
    max_ratio: float = RATIO_FACTOR,
    against: Sequence[str | Path] = (),
    breaks: Breaks = "refuse",
    layout: Layout = BY_NAME,
) -> FilterReport:
    """Write what breaks none of `rules` (`data/filter.py`) into `out`, and the rest with its reasons into `dropped`.

    `out` is one file or two aligned ones, of any format; `dropped` holds one JSON object a line: "where", "reasons",
    "source", "target". Closed entries (obsolete, not to be translated) stand in neither and are not counted. The files
    appear whole, or none does. Line breaks and tabs that the format of `out` cannot hold are refused, or with `breaks`
    "space" each becomes a space. Raises InputError or DataError.
    """
    corpus = open_rereadable(files, languages, layout)
    fitting = Fitting(corpus, output_format(out, option=None), breaks)
    _check_apart(files, [*out, dropped])
    languages = languages or languages_of(files)
    overlaps = {str(path): Overlap.of(held_out_texts(path, languages, layout)) for path in against}
    sieve = Sieve(lambda: entries_to_check(corpus), rules, languages=languages, max_ratio=max_ratio, overlaps=overlaps)
    kept = left = 0
    with write_corpus(out, languages, fields=corpus.fields) as write, write_lines(dropped) as write_dropped:
        for entry, reasons in sieve.sift():
            if reasons:
                record = {"where": entry.where, "reasons": reasons, "source": entry.source, "target": entry.target}
                write_dropped(json.dumps(record, ensure_ascii=False))
                left += 1
            else:
                fitting.write(write, entry.where, entry.source, entry.target)
                kept += 1
        report = sieve.report
        if (kept, left) != (report.kept, report.dropped) or kept + left != report.read:
            raise RuntimeError(f"{report.read} entries were read, but {kept} kept and {left} dropped")
    return report


def limits_of(bundle: str | Path, max_length: int, tag: str | None = None) -> TrainLimits:
    """What training with the tokenizers of a bundle or run directory, and a tag of theirs, would drop.

    Raises BundleError, and InputError for a tag that is none of its symbols.
    """
    path = resolve(bundle)
    tokenizers = Tokenizers.load(path / "tokenizer")
    if tag is not None:
        tokenizers.source.symbol(tag)
    return TrainLimits(tokenizers, max_length, str(path), tag)


def _check_apart(files: Sequence[str | Path], out: Sequence[str | Path]) -> None:
    """Raise InputError if a file would be written that is read, or one would be written twice."""
    taken = {Path(path).resolve(): "is to be read and would be replaced" for path in files}
    for path in out:
        place = Path("-") if is_standard_stream(path) else Path(path).resolve()
        if place in taken:
            raise InputError(f"{path}: {taken[place]}; name another file with --out or --dropped")
        taken[place] = "would be written twice"


def _suffixes(corpus: Sequence[str | Path]) -> tuple[str, str]:
    if len(corpus) == 2:
        first, second = (_suffix(Path(path)) for path in corpus)
        if first and second and first != second:
            return first, second
    return "source", "target"


def _suffix(path: Path) -> str:
    """The last part of the name that is not that of a compression."""
    parts = [part for part in path.name.split(".")[1:] if part.lower() not in ("gz", "xz", "zst")]
    return parts[-1] if parts and parts[-1].lower() not in ("txt", "tsv") else ""
