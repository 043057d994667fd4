"""The work behind `clearhead data`: fetch, check and split corpora on disk."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write
from clearhead.data.split import SplitReport, plan_split
from clearhead.formats.lines import gives_itself_once, write_lines
from clearhead.formats.pairs import read_pairs, read_tsv

__all__ = ["split_corpus"]

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
    """Split two aligned files, or one TSV, into `out`/{train,dev,test}.{SOURCE,TARGET} and `out`/split.json.

    SOURCE and TARGET are `names`, or else what the file names end in (`corpus.en` → `en`), or "source" and "target".
    The corpus is read twice and streamed. The files of an earlier split are replaced, each as a whole, split.json last;
    others of these names are not touched. Raises InputError or DataError.
    """
    if len(corpus) not in (1, 2):
        raise InputError(f"a corpus is two aligned files or one TSV file; {len(corpus)} files were given")
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
    plan = plan_split(_read(corpus), dev=dev, test=test, seed=seed, by=by)
    Path(out).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        write = {name: stack.enter_context(write_lines(path)) for name, path in targets.items()}
        for part, pair in plan.route(_read(corpus)):
            for suffix, text in zip(suffixes, pair, strict=True):
                write[f"{part}.{suffix}"](text)
    record = plan.report.to_dict() | {"corpus": [str(path) for path in corpus]}
    atomic_write(Path(out) / "split.json", json.dumps(record, ensure_ascii=False, indent=2) + "\n")
    return plan.report


def _read(corpus: Sequence[str | Path]) -> Iterator[tuple[str, str]]:
    return read_tsv(corpus[0]) if len(corpus) == 1 else read_pairs(corpus[0], corpus[1])


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
