"""Where the text of a run is, and how it is cut into batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from clearhead.config.strict import Config
from clearhead.formats.pairs import read_pairs, read_tsv

__all__ = ["CorpusConfig", "DataConfig"]


class CorpusConfig(Config):
    """One corpus: two aligned files (`source`, `target`) or one file of tab-separated pairs (`tsv`).

    Any of them may end in .gz, .xz or .zst.
    """

    source: str | None = None
    target: str | None = None
    tsv: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = (self.source is not None, self.target is not None, self.tsv is not None)
        if given in ((True, True, False), (False, False, True)):
            return self
        if given in ((True, False, False), (False, True, False)):
            raise ValueError(f"'{'source' if self.source is None else 'target'}' is missing: both sides are needed")
        raise ValueError("give either both 'source' and 'target', or 'tsv' alone")

    def files(self) -> tuple[Path, ...]:
        """The files of the corpus: (source, target) or (tsv,)."""
        return tuple(Path(name) for name in (self.source, self.target, self.tsv) if name is not None)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Read the pairs from the start. Raises DataError for text that breaks the line contract."""
        files = self.files()
        return read_tsv(files[0]) if len(files) == 1 else read_pairs(files[0], files[1])

    def __str__(self) -> str:
        return " + ".join(str(path) for path in self.files())


class DataConfig(Config):
    """The text of a run and its batches. Subword sampling belongs to the tokenizer's configuration."""

    languages: tuple[str, str]
    """Codes of the source and the target language, such as ["en", "de"]."""

    train: CorpusConfig
    dev: CorpusConfig | None = None

    max_length: int = Field(default=256, ge=1)
    """Tokens that a side may have, EOS not counted; a longer pair is dropped whole, counted and reported."""

    batch_tokens: int = Field(default=25_000, ge=1)
    """Tokens that a batch may hold on each side, padding and EOS counted (Vaswani et al. 2017, section 5.1:
    "approximately 25000 source tokens and 25000 target tokens")."""

    batch_pairs: int | None = Field(default=None, ge=1)
    """Pairs that a batch may hold, beside `batch_tokens`; not bounded by default."""

    pool: int = Field(default=100_000, ge=1)
    """Pairs that are sorted by length together; more means less padding and less randomness of the batches."""

    cache: str | None = None
    """Directory for token stores; by default it is inside the run directory."""
