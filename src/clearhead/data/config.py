"""Where the text of a run is, and how it is cut into batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from clearhead.base.errors import ConfigError, InputError
from clearhead.config.strict import Config, structure
from clearhead.formats.corpus import open_corpus
from clearhead.formats.pairs import read_pairs, read_tsv
from clearhead.text.config import TokenizerConfig
from clearhead.text.languages import translation_pair

__all__ = ["FORMS", "CorpusConfig", "DataConfig", "TrainingCorpus"]

FORMS = (("source", "target"), ("tsv",), ("file",))
"""The keys that say where a corpus is; those of one form go together."""

LONGEST_TAG = 64
"""Characters that a tag may have; it is a name for a corpus and no text of its own."""


class CorpusConfig(Config):
    """One corpus: two aligned files (`source`, `target`), tab-separated pairs (`tsv`), or a file of another format.

    Any of them may end in .gz, .xz or .zst.
    """

    source: str | None = None
    target: str | None = None
    tsv: str | None = None

    file: str | None = None
    """A file whose name tells its format: TMX, XLIFF, PO, JSONL or TSV (formats/corpus.py)."""

    tag: str | None = None
    """A symbol that the model reads before every source: which language to write (Johnson et al. 2017, section 3), or
    that the source is machine-made (Caswell et al. 2019, section 3)."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        for name in (name for form in FORMS for name in form):
            if getattr(self, name) == "":  # which would be the current directory
                raise ValueError(f"{name!r} is empty; name a file")
        given = tuple(name for form in FORMS for name in form if getattr(self, name) is not None)
        if given in FORMS:
            return self
        if given in (("source",), ("target",)):
            raise ValueError(f"'{'source' if self.source is None else 'target'}' is missing: both sides are needed")
        raise ValueError("give either both 'source' and 'target', or 'tsv' alone, or 'file' alone")

    @field_validator("tag")
    @classmethod
    def _a_symbol(cls, tag: str | None) -> str | None:
        if tag is not None:
            if len(tag) > LONGEST_TAG:
                raise ValueError(f"{len(tag):,} characters; a tag has at most {LONGEST_TAG}, such as '<2de>'")
            try:
                structure(TokenizerConfig, {"symbols": [tag]}, where="")
            except ConfigError as error:
                raise ValueError(str(error).removeprefix(": symbols: ")) from None
        return tag

    def files(self) -> tuple[Path, ...]:
        """The files of the corpus: (source, target), (tsv,) or (file,)."""
        return tuple(Path(name) for name in (self.source, self.target, self.tsv, self.file) if name is not None)

    def pairs(self, languages: tuple[str, str] | None = None) -> Iterator[tuple[str, str]]:
        """Read the pairs from the start, without the tag. `languages` are needed for a `file` that names its own.

        Raises DataError, or InputError, for text that breaks the rules of its format.
        """
        files = self.files()
        if self.file is not None:
            return open_corpus(files, languages).pairs()
        return read_tsv(files[0]) if len(files) == 1 else read_pairs(files[0], files[1])

    def __str__(self) -> str:
        return " + ".join(str(path) for path in self.files())


class TrainingCorpus(CorpusConfig):
    """A corpus to train on, and how often."""

    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch shows each pair; with 0.5 each comes once in two epochs, with 1.5 three times."""


def _form(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else "table"


class DataConfig(Config):
    """The text of a run and its batches. Subword sampling belongs to the tokenizer's configuration."""

    languages: tuple[str, str]
    """Codes of the source and the target language, such as ["en", "de"]; kept as BCP 47 writes them."""

    train: Annotated[
        Annotated[TrainingCorpus, Tag("table")] | Annotated[tuple[TrainingCorpus, ...], Tag("list")],
        Discriminator(_form),
    ]
    """One corpus (`[data.train]`) or several (`[[data.train]]`)."""

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

    @field_validator("languages")
    @classmethod
    def _two_languages(cls, codes: tuple[str, str]) -> tuple[str, str]:
        try:
            return translation_pair(codes)
        except InputError as error:
            raise ValueError(str(error)) from None

    @field_validator("train")
    @classmethod
    def _one_as_a_table(
        cls, train: TrainingCorpus | tuple[TrainingCorpus, ...]
    ) -> TrainingCorpus | tuple[TrainingCorpus, ...]:
        """One in a list is one: a run may be written either way."""
        if train == ():
            raise ValueError("empty; name a corpus")
        return train[0] if isinstance(train, tuple) and len(train) == 1 else train

    @property
    def corpora(self) -> tuple[TrainingCorpus, ...]:
        """The corpora to train on, however many."""
        return self.train if isinstance(self.train, tuple) else (self.train,)

    @property
    def named(self) -> Iterator[tuple[str, CorpusConfig]]:
        """Every corpus with its key: those to train on, then the development set if there is one."""
        for place, corpus in enumerate(self.corpora):
            yield "data.train" if len(self.corpora) == 1 else f"data.train[{place}]", corpus
        if self.dev is not None:
            yield "data.dev", self.dev

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all corpora, each once, in their order."""
        return tuple(dict.fromkeys(corpus.tag for _, corpus in self.named if corpus.tag is not None))

    @field_validator("cache")
    @classmethod
    def _not_blank(cls, cache: str | None) -> str | None:
        if cache is not None and not cache.strip():
            raise ValueError("empty; name a directory, or leave the key out")
        return cache
