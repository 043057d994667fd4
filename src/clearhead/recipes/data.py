"""The work behind `clearhead data`: check, filter and split corpora on disk."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write
from clearhead.bundle.resolve import resolve
from clearhead.data.entries import entries_to_check, held_out_texts, languages_of, open_rereadable
from clearhead.data.filter import FilterReport, Sieve
from clearhead.data.overlap import Overlap
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.split import SplitReport, plan_split
from clearhead.data.trainable import TrainLimits
from clearhead.formats.corpus import open_corpus, output_format, write_corpus
from clearhead.formats.lines import gives_itself_once, is_standard_stream, write_lines
from clearhead.text.tokenizer import Tokenizers

__all__ = ["filter_corpus", "limits_of", "split_corpus"]

PARTS = ("train", "dev", "test")


def split_corpus(
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    dev: int,
    test: int,
    seed: int,
    by: str = "strict",
    names: tuple[str, str] | None = None,
) -> SplitReport:
    """Split a corpus of any format into `out`/{train,dev,test}.{SOURCE,TARGET} and `out`/split.json.

    SOURCE and TARGET are `names`, or else what the file names end in (`corpus.en` → `en`), or "source" and "target";
    `names` are also the languages to be taken from TMX or XLIFF.
    The corpus is read twice and streamed. The files of an earlier split are replaced, each as a whole, split.json last;
    others of these names are not touched. Raises InputError or DataError.
    """
    opened = open_corpus(corpus, names)
    if any(gives_itself_once(path) for path in corpus):
        raise InputError("the corpus is read twice, which standard input ('-') or a pipe cannot be: name files")
    suffixes = names or _suffixes(corpus)
    targets = {f"{part}.{suffix}": Path(out) / f"{part}.{suffix}" for part in PARTS for suffix in suffixes}
    for path in targets.values():
        if any(path.resolve() == Path(given).resolve() for given in corpus):
            raise InputError(f"{path} is part of the corpus and would be replaced: choose another directory with --out")
    strangers = [] if (Path(out) / "split.json").exists() else [path for path in targets.values() if path.exists()]
    if strangers:
        raise InputError(f"{strangers[0]} is there and no earlier split's: choose another directory with --out")
    plan = plan_split(opened.pairs(), dev=dev, test=test, seed=seed, by=by)
    Path(out).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        write = {name: stack.enter_context(write_lines(path)) for name, path in targets.items()}
        for part, pair in plan.route(opened.pairs()):
            for suffix, text in zip(suffixes, pair, strict=True):
                write[f"{part}.{suffix}"](text)
    record = plan.report.to_dict() | {"corpus": [str(path) for path in corpus]}
    atomic_write(Path(out) / "split.json", json.dumps(record, ensure_ascii=False, indent=2) + "\n")
    return plan.report


def filter_corpus(
    files: Sequence[str | Path],
    out: Sequence[str | Path],
    dropped: str | Path,
    *,
    rules: Sequence[str],
    languages: tuple[str, str] | None = None,
    max_ratio: float = RATIO_FACTOR,
    against: Sequence[str | Path] = (),
) -> FilterReport:
    """Write what breaks none of `rules` (`data/filter.py`) into `out`, and the rest with its reasons into `dropped`.

    `out` is one file or two aligned ones, of any format; `dropped` holds one JSON object a line: "where", "reasons",
    "source", "target". Closed entries (obsolete, not to be translated) stand in neither and are not counted. The files
    appear whole, or none does. Raises InputError or DataError.
    """
    corpus = open_rereadable(files, languages)
    output_format(out)
    _check_apart(files, [*out, dropped])
    languages = languages or languages_of(files)
    overlaps = {str(path): Overlap.of(held_out_texts(path, languages)) for path in against}
    sieve = Sieve(lambda: entries_to_check(corpus), rules, languages=languages, max_ratio=max_ratio, overlaps=overlaps)
    kept = left = 0
    with write_corpus(out, languages, fields=corpus.fields) as write, write_lines(dropped) as write_dropped:
        for entry, reasons in sieve.sift():
            if reasons:
                record = {"where": entry.where, "reasons": reasons, "source": entry.source, "target": entry.target}
                write_dropped(json.dumps(record, ensure_ascii=False))
                left += 1
            else:
                write(entry.source, entry.target)
                kept += 1
        report = sieve.report
        if (kept, left) != (report.kept, report.dropped) or kept + left != report.read:
            raise RuntimeError(f"{report.read} entries were read, but {kept} kept and {left} dropped")
    return report


def limits_of(bundle: str | Path, max_length: int) -> TrainLimits:
    """What training with the tokenizers of a bundle or run directory would drop. Raises BundleError."""
    path = resolve(bundle)
    return TrainLimits(Tokenizers.load(path / "tokenizer"), max_length, str(path))


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
