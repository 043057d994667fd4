"""How far back a state can still be changed: the norm of ∂h_T/∂h_t against the distance T − t.

Measured is the Jacobian matrix itself, not the gradient of a loss: what a small change of the state at t does to the
state at T. For a recurrent cell it is the product of the Jacobians of the steps between (Pascanu et al. 2013, §1.1,
equation 5); for a Transformer it is the derivative of the top state at T by what enters the first layer at t. **The
norm is the spectral norm**, the largest singular value: what becomes of the direction that fares best, and the norm
that the theory bounds.

What the theory says, and it says no more: if ‖U‖ < 1/γ, γ the largest slope of the squashing function (1 for tanh),
every step shrinks, and the norm vanishes exponentially: *sufficient* to vanish. That some singular value of U is larger
than 1/γ is *necessary*, and not sufficient, to explode (Pascanu et al. 2013, §2.1, equations 6 and 7; the text of the
arXiv version says "eigenvalue" where these need the norm). For a linear cell and great distances the spectral radius
decides alone, but a matrix whose eigenvectors are not orthogonal may let the norm grow for a while although its radius
is below 1. The decay was found by Hochreiter (1991; Hochreiter and Schmidhuber 1997, §3.1) and, for any network that
keeps information robustly, by Bengio et al. (1994).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.models.recurrent import RecurrentEncoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn.cells import Cell
from clearhead.nn.kernels import reverse_within
from clearhead.nn.padding import Padded
from clearhead.nn.recurrent import BidirectionalRecurrent, CellKind, make_cell

__all__ = [
    "RADII",
    "GradientCurve",
    "Recurrence",
    "decoder_curve",
    "encoder_curve",
    "initial_curve",
    "initial_curves",
    "scale_to_radius",
    "spectral_radius",
    "state_norms",
]

RADII = (0.9, 1.0, 1.1)
"""Spectral radii below, at and above the one where a linear cell neither forgets nor explodes."""

VANISHED = 0.01
"""Below this part of its value at distance 1 a gradient counts as gone; a convention of ours."""

ROWS = 32
"""Rows of a Transformer's Jacobian made at once: so many copies of the text are in memory."""

Recurrence = Literal["orthogonal", "gaussian"]
"""The recurrent matrix at first: as `Cell.initialise` draws it, or entries from N(0, 1/H): not a normal matrix."""


@dataclass(frozen=True)
class GradientCurve:
    """‖∂h_T/∂h_t‖ over the distances T − t: the median over sentences (or draws of weights and inputs) and quartiles.

    Attributes:
        name: whose it is: a cell's or a model's name.
        state: what is meant by h: "h"; "h and c" of an LSTM, taken as one vector; "top state by layer input".
        distances: 0, 1, 2, …; the shortest sentence ends them.
        median, low, high: one number a distance; low and high are the quartiles.
        trained: whether the weights have been trained.
        radius: the spectral radius that the recurrent matrix was scaled to; None if it was left as it was.
    """

    name: str
    state: str
    distances: tuple[int, ...]
    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    trained: bool = False
    radius: float | None = None

    @classmethod
    def of(
        cls,
        name: str,
        state: str,
        norms: Sequence[Sequence[float]],
        *,
        trained: bool = False,
        radius: float | None = None,
    ) -> GradientCurve:
        """The curve of some sentences, each with its norms by distance. Raises InputError if there is none.

        >>> GradientCurve.of("elman", "h", [[1, 0.5], [1, 0.3], [1, 0.1, 0.01]]).median
        (1, 0.3)
        """
        if not norms or not min(map(len, norms)):
            raise InputError(f"gradients of {name}: there is no text, or an empty one; give texts of a token or more")
        columns = list(zip(*norms, strict=False))  # as far as every sentence reaches
        sides = [_quartiles(column) for column in columns]
        return cls(
            name,
            state,
            tuple(range(len(columns))),
            tuple(median(column) for column in columns),
            tuple(low for low, _ in sides),
            tuple(high for _, high in sides),
            trained,
            radius,
        )

    @property
    def effective_context(self) -> int | None:
        """The first distance at which the median is below 1 % of what it is at distance 1; None if it never is."""
        if len(self.median) < 2:
            return None
        floor = VANISHED * self.median[1]
        return next((distance for distance in self.distances[1:] if self.median[distance] < floor), None)

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON can hold."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> GradientCurve:
        """What `to_json` wrote. Raises InputError for anything else."""
        try:
            fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
            return cls(**fields)
        except TypeError as error:
            raise InputError(f"this is no gradient curve ({error}); measure it anew") from error


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def spectral_radius(matrix: Float[Tensor, "H H"]) -> float:
    """The largest absolute value of an eigenvalue, in float64."""
    return float(torch.linalg.eigvals(matrix.detach().double()).abs().max())


@torch.no_grad()
def scale_to_radius(cell: Cell, radius: float) -> None:
    """Multiply the recurrent matrix of a cell without gates so that its spectral radius is `radius`.

    Raises InputError for a cell with gates, which has a recurrent matrix a gate, and for a matrix of radius 0.
    """
    if len(cell.gates) != 1:
        raise InputError(f"{type(cell).__name__} has {len(cell.gates)} recurrent matrices; only one can be scaled")
    present = spectral_radius(cell.hidden_weight)
    if present == 0:
        raise InputError(f"every eigenvalue of the recurrent matrix of {type(cell).__name__} is 0; draw another")
    cell.hidden_weight.mul_(radius / present)


def state_norms(cell: Cell, x: Float[Tensor, "T I"], distance: int | None = None) -> list[float]:
    """‖∂s_T/∂s_t‖ for T − t = 0, 1, …, `distance` (None: T − 1), of a cell that reads x_1 … x_T from zeros.

    s is everything that the cell carries from step to step: h, or of an LSTM h and c side by side. With h alone the
    road along the cell, which is what an LSTM has it for, would not be counted. Exact in float64: the identity is
    pulled back step by step, M ← M·∂s_k/∂s_{k−1}, by autograd through the cell's own `recur`. `cell` is not changed.
    """
    cell = copy.deepcopy(cell).double().requires_grad_(False)
    with torch.no_grad():
        drives = cell.drive(x.detach().double())  # [T, G·H]
        states = [cell.start(1, drives)]
        for drive in drives:
            states.append(cell.recur(drive[None], states[-1]))
    rows = cell.parts * cell.width
    chain = torch.eye(rows, dtype=torch.float64, device=drives.device)
    norms = [1.0]
    farthest = len(drives) - 1
    for back in range(1, 1 + (farthest if distance is None else min(distance, farthest))):
        before = tuple(part.expand(rows, -1).clone().requires_grad_() for part in states[-1 - back])
        after = cell.recur(drives[-back].expand(rows, -1), before)
        pulled = torch.autograd.grad(after, before, chain.chunk(cell.parts, 1))
        chain = torch.cat(pulled, 1)  # row i: the derivative of component i of s_T
        norms.append(float(_spectral_norm(chain)))
    return norms


def _spectral_norm(matrix: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch"]:
    """The largest singular value, as √λ_max(M·Mᵀ): twice as fast as all of them, and as good for the largest.

    Divided by its Frobenius norm first, so that a product of hundreds of small factors does not underflow when squared.
    """
    size: Tensor = torch.linalg.matrix_norm(matrix)
    unit = matrix / size.clamp(min=torch.finfo(matrix.dtype).tiny)[..., None, None]
    largest: Tensor = torch.linalg.eigvalsh(unit @ unit.mT)[..., -1]
    return size * largest.clamp(min=0.0).sqrt()


def initial_curve(
    kind: CellKind,
    *,
    width: int = 128,
    distance: int = 200,
    draws: int = 3,
    radius: float | None = None,
    recurrence: Recurrence = "orthogonal",
    seed: int = 0,
) -> GradientCurve:
    """The curve of an untrained cell: `draws` times new weights, and inputs of N(0, 1), as wide as the state.

    Word vectors enter clearhead's models with unit variance, so that is what an untrained encoder reads. Cells without
    gates may be scaled to a spectral `radius`; an orthogonal matrix so scaled is `radius` times one of norm 1. With
    entries from N(0, 1/H) the radius is near 1 too (Geman 1986), the norm near 2 (Geman 1980).
    """
    norms = []
    for draw in range(draws):
        generator = torch.Generator().manual_seed(seed + draw)
        cell = make_cell(kind, width, width)
        cell.initialise(generator)
        if recurrence == "gaussian":
            nn.init.normal_(cell.hidden_weight, std=width**-0.5, generator=generator)
        if radius is not None:
            scale_to_radius(cell, radius)
        norms.append(state_norms(cell, torch.randn(distance + 1, width, generator=generator), distance))
    name = kind if recurrence == "orthogonal" else f"{kind}, gaussian"
    return GradientCurve.of(name, _carried(cell), norms, radius=radius)


def initial_curves(
    *,
    width: int = 128,
    distance: int = 200,
    draws: int = 3,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[GradientCurve]:
    """Every cell as it begins, the two without gates also at the spectral radii `RADII`.

    These two stand there twice, with orthogonal and with Gaussian recurrent matrices. An orthogonal matrix has radius
    1 by itself, so that the curves at 1 and unscaled are the same.
    """
    wanted: list[tuple[CellKind, float | None, Recurrence]] = [
        (kind, None, "orthogonal") for kind in ("linear", "elman", "lstm-1997", "lstm", "gru-before", "gru-after")
    ]
    for kind in ("linear", "elman"):
        wanted += [(kind, radius, recurrence) for recurrence in ("orthogonal", "gaussian") for radius in RADII]
    curves = []
    for kind, radius, recurrence in wanted:
        if progress is not None:
            progress(kind if radius is None else f"{kind}, spectral radius {radius}")
        options = {"width": width, "distance": distance, "draws": draws, "seed": seed}
        curves.append(initial_curve(kind, radius=radius, recurrence=recurrence, **options))
    return curves


def encoder_curve(
    name: str, model: Seq2Seq, sources: Iterable[Sequence[int]], *, distance: int = 200, trained: bool = True
) -> GradientCurve:
    """The curve of a model's encoder over the token ids of some sources, T being the last token of each.

    Recurrent: the states of the first layer, of the forward direction if there are two, in the order in which the
    encoder reads (a reversed source is read from its end). Transformer: ∂(top state at T)/∂(layer input at t), D × D;
    no chain of steps lies between the two, whatever the distance. Evaluation mode, the model's own precision for a
    Transformer. Raises InputError for an encoder of another kind.
    """
    encoder = model.encoder
    with _evaluating(model):
        if isinstance(encoder, RecurrentEncoder):
            cell = _first_cell(encoder)
            norms = [state_norms(cell, _read_by(encoder, source), distance) for source in sources]
            return GradientCurve.of(name, _carried(cell), norms, trained=trained)
        if isinstance(encoder, TransformerEncoder):
            norms = [
                _norms_by_attention(encoder.input, lambda copies: encoder(copies).keys, source, distance)
                for source in sources
            ]
            return GradientCurve.of(name, "top state by layer input", norms, trained=trained)
    raise InputError(
        f"gradients of {name}: {type(encoder).__name__} is neither a recurrent encoder nor a Transformer's"
    )


def decoder_curve(
    name: str,
    model: Seq2Seq,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    *,
    distance: int = 200,
    trained: bool = True,
) -> GradientCurve:
    """The same of a Transformer's decoder, over (source, prefix) pairs of token ids: T is the last of the prefix.

    Raises InputError for a decoder of another kind.
    """
    decoder = model.decoder
    if not isinstance(decoder, TransformerDecoder):
        raise InputError(f"gradients of {name}: {type(decoder).__name__} is not a Transformer's decoder")
    norms = []
    with _evaluating(model):
        device = next(model.parameters()).device
        for source, prefix in pairs:
            with torch.no_grad():
                memory = model.encoder(Padded.from_lists([source], device))

            def read(copies: Padded) -> Tensor:
                rows = torch.zeros(len(copies), dtype=torch.int64, device=device)
                return decoder.advance(copies, decoder.start(memory.rows(rows)))[0]  # noqa: B023 (called at once)

            norms.append(_norms_by_attention(decoder.input, read, prefix, distance))
    return GradientCurve.of(name, "top state by layer input", norms, trained=trained)


def _carried(cell: Cell) -> str:
    return "h and c" if cell.parts == 2 else "h"


def _first_cell(encoder: RecurrentEncoder) -> Cell:
    stack = encoder.stack
    return cast("Cell", stack.forwards[0] if isinstance(stack, BidirectionalRecurrent) else stack.cells[0])


@torch.no_grad()
def _read_by(encoder: RecurrentEncoder, source: Sequence[int]) -> Float[Tensor, "T I"]:
    """The word vectors of a source in the order in which its encoder reads them."""
    read = Padded.from_lists([source], next(encoder.parameters()).device)
    ids = reverse_within(read.ids, read.lengths - 1) if encoder.reverse else read.ids  # EOS stays where it is
    vectors: Tensor = encoder.input(ids)[0]
    return vectors


def _norms_by_attention(
    entry: nn.Module, read: Callable[[Padded], Float[Tensor, "R T D"]], text: Sequence[int], distance: int
) -> list[float]:
    """Norms of ∂(last state that `read` gives)/∂(what leaves `entry` at t), by distance from the last token.

    Each of as many copies of the text as the state is wide gives one row of every Jacobian.
    """
    ids = torch.tensor([text], device=next(entry.parameters()).device)
    with torch.no_grad():
        like = read(Padded.full(ids))
    identity = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
    blocks = []
    for rows in torch.split(identity, ROWS):
        with _held_apart(entry) as held:
            states = read(Padded.full(ids.expand(len(rows), -1)))
        blocks.append(torch.autograd.grad(states[:, -1], held, rows)[0][:, -1 - distance :])  # [ROWS, ≤ distance+1, D]
    jacobians = torch.cat(blocks).transpose(0, 1).flip(0).double()  # [distances, D, D], the nearest first
    norms: list[float] = _spectral_norm(jacobians).tolist()
    return norms


@contextmanager
def _held_apart(entry: nn.Module) -> Iterator[list[Tensor]]:
    """What leaves `entry` becomes a leaf of the graph, which the list then holds."""
    held: list[Tensor] = []

    def hold(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> Tensor:
        held.append(output.detach().requires_grad_())
        return held[-1]

    handle = entry.register_forward_hook(hold)
    try:
        yield held
    finally:
        handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)
