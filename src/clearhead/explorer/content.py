"""What a walk-through page is made of, before it is HTML: steps that hold matrices, tables and words in two "
"languages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from clearhead.inspection.search_account import SearchAccount, SearchStep

__all__ = [
    "Both",
    "Chance",
    "Chances",
    "Finals",
    "Fold",
    "Group",
    "Item",
    "Lattice",
    "Look",
    "Matrix",
    "Note",
    "Operator",
    "Scale",
    "SearchTable",
    "Sentence",
    "Step",
    "Tokens",
    "Variant",
    "Window",
]

Scale = Literal["share", "signed", "mask"]
"""How a matrix is coloured: from 0 to 1, around 0 up to its own largest magnitude, or by what is hidden."""


@dataclass(frozen=True)
class Both:
    """A text of ours in English and in Chinese: `code` in backquotes is set as code, W_O with a subscript."""

    en: str
    zh: str


@dataclass(frozen=True)
class Window:
    """How much of a matrix is shown: its first rows and columns, all of them where there are no more than `whole_…`.

    `full` says that the model is small enough for every number to be followed, learnt matrices among them.
    """

    rows: int = 12
    columns: int = 8
    whole_rows: int = 24
    whole_columns: int = 8
    full: bool = False

    @classmethod
    def of(cls, d_model: int) -> Window:
        """Small models in full; of large ones the first columns, which keeps their pages to a few megabytes."""
        return cls(whole_columns=64, full=True) if d_model <= 16 else cls()


@dataclass(frozen=True)
class Look:
    """How a matrix is to be shown: by which window, with which names, in which colours.

    Without `rows` the rows are numbered, without `columns` (None) the columns.
    """

    window: Window
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    scale: Scale = "signed"

    def size(self, count: int, width: int) -> tuple[int, int]:
        """How many rows and columns of a matrix [count, width] are shown.

        Named columns are positions like the rows, not coordinates, and follow their rule.
        """
        window = self.window
        rows = count if count <= window.whole_rows else window.rows
        if self.columns is not None:
            return rows, width if width <= window.whole_rows else window.rows
        return rows, width if width <= window.whole_columns else window.columns


@dataclass(frozen=True)
class Matrix:
    """A matrix as it is shown: a window of its numbers, and what is true of all of them.

    `name` is unique in the page and says where the numbers are from. `rows` and `columns` name what the window shows;
    no `columns` means that they are numbered. `values[r][c]` is None where nothing is there (hidden by a mask).
    """

    name: str
    symbol: str
    caption: Both
    values: tuple[tuple[float | None, ...], ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...] | None
    shape: tuple[int, int]
    smallest: float
    largest: float
    norm: float
    scale: Scale = "signed"

    @classmethod
    def of(
        cls, name: str, symbol: str, caption: Both, values: Tensor, look: Look, visible: Tensor | None = None
    ) -> Matrix:
        """What `look` shows of `values` [n, m]. `visible` bool [n, m], if given, says which of them exist."""
        count, width = values.shape
        rows, columns = look.size(count, width)
        there = values if visible is None else values[visible]
        cells = [
            tuple(
                None if visible is not None and not bool(visible[row, column]) else float(values[row, column])
                for column in range(columns)
            )
            for row in range(rows)
        ]
        named = look.rows or tuple(str(row + 1) for row in range(rows))
        return cls(
            name,
            symbol,
            caption,
            tuple(cells),
            named[:rows],
            None if look.columns is None else look.columns[:columns],
            (count, width),
            float(there.min()) if there.numel() else math.nan,
            float(there.max()) if there.numel() else math.nan,
            float(there.double().norm()) if there.numel() else math.nan,
            look.scale,
        )

    @property
    def whole(self) -> bool:
        """Whether the window shows everything."""
        return (len(self.values), len(self.values[0]) if self.values else 0) == self.shape


@dataclass(frozen=True)
class Operator:
    """What turns the items before it into those behind it."""

    sign: str
    words: Both | None = None


@dataclass(frozen=True)
class Note:
    """A remark set apart from the explanation."""

    words: Both


@dataclass(frozen=True)
class Sentence:
    """A text of the user's or of the model's, in the language `code`."""

    caption: Both
    text: str
    code: str


@dataclass(frozen=True)
class Tokens:
    """Pieces in a row, each with its id; `unknown` is what was written in the place of those that are UNK, in order."""

    caption: Both
    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chance:
    """One token that might come next."""

    piece: str
    logit: float
    probability: float
    chosen: bool


@dataclass(frozen=True)
class Chances:
    """The likeliest next tokens after one position, and the one that the target takes (`chosen`), likely or not."""

    after: str
    position: int
    chances: tuple[Chance, ...]


@dataclass(frozen=True)
class SearchTable:
    """One step of the search; `vocabulary` names the ids."""

    step: SearchStep
    vocabulary: tuple[str, ...]


@dataclass(frozen=True)
class Lattice:
    """A whole search to be drawn: what lived on or ended, and the way to the best, `winner` (without EOS)."""

    caption: Both
    account: SearchAccount
    winner: tuple[int, ...]
    vocabulary: tuple[str, ...]


@dataclass(frozen=True)
class Finals:
    """The finished hypotheses, best first: pieces, log-probability, |Y|, divisor, score, whether the search "
    "gave it."""

    rows: tuple[tuple[tuple[str, ...], float, int, float, float, bool], ...]


@dataclass(frozen=True)
class Fold:
    """A matrix that is closed until asked for."""

    summary: Both
    symbol: str
    items: tuple[Matrix, ...]


Item = Matrix | Operator | Note | Sentence | Tokens | Chances | SearchTable | Lattice | Finals | Fold


@dataclass(frozen=True)
class Variant:
    """One of several views of a step, such as one head."""

    label: Both
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Step:
    """One thing to look at. `variants` has one entry, without a label, where there is nothing to choose; `before`
    is what all of them start from."""

    name: str
    title: Both
    words: Both
    variants: tuple[Variant, ...]
    formula: str = ""
    before: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Group:
    """Steps that belong together in the navigation."""

    title: Both
    steps: tuple[Step, ...]
