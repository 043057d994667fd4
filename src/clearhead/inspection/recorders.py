"""Recorders: modules that stand in a twin for those of the model, do what these do, and write down what passes.

A recorder calls the very module that it stands for, so the output of the twin is the model's to the last bit. What a
core does not return (scores and weights) is worked out beside that call from the same queries and keys; where the core
took a fused kernel, weights · V equals its output within float rounding (1e-5 in float32), not to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.inspection.twin import twin
from clearhead.nn.cores import Core, ScaledDotProduct, spread
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.linear import Linear
from clearhead.nn.positions import LearnedPositions, NoPositions, SinusoidalPositions
from clearhead.nn.visibility import Visibility

__all__ = ["LEAVES", "CoreRecord", "CoreRecorder", "ModuleRecorder", "Recording", "keeping_twin", "recording_twin"]

LEAVES = (
    Linear,
    nn.LayerNorm,
    nn.Identity,
    Embedding,
    Projection,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
"""The kinds of module, attention cores apart, that a recording twin records if nothing else is asked for."""


@dataclass(frozen=True)
class CoreRecord:
    """What one attention core did in one call, or in several joined along the queries.

    Row t belongs to the query at position t, which helps to predict token t + 1. `scores` are before the mask, with
    the scaling of the core; None where a core has no scores apart from its weights. `weights` are before any dropout.

    Shapes: `query` [R, H, T, E]; `key`, `value` [R, G, S, E]; `visible` bool, `scores`, `weights` [R, H, T, S];
    `mixed` [R, H, T, E].
    """

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Tensor
    scores: Tensor | None
    weights: Tensor
    mixed: Tensor

    def then(self, later: CoreRecord) -> CoreRecord:
        """This call and a later one of the same rows, whose keys are these keys and perhaps more.

        A key that a query could not see because it had not been written yet has weight 0 and is marked invisible; its
        score is minus infinity, for there was none.
        """
        grown = later.key.shape[2] - self.key.shape[2]

        def both(mine: Tensor, theirs: Tensor, fill: float) -> Tensor:
            return torch.cat([F.pad(mine, (0, grown), value=fill), theirs], dim=2)

        scored = self.scores is not None and later.scores is not None
        return CoreRecord(
            torch.cat([self.query, later.query], dim=2),
            later.key,
            later.value,
            both(self.visible, later.visible, False),
            both(self.scores, later.scores, -torch.inf) if scored else None,  # type: ignore[arg-type]
            both(self.weights, later.weights, 0.0),
            torch.cat([self.mixed, later.mixed], dim=2),
        )


@dataclass
class Recording:
    """What the recorders of one twin wrote down, by the paths that the modules have in the model.

    `attention[path]` is what a core did. `inputs[path]` and `outputs[path]` are what went into another module (its
    first argument) and what came out, calls in their order.
    """

    attention: dict[str, CoreRecord] = field(default_factory=dict)
    inputs: dict[str, list[Tensor]] = field(default_factory=dict)
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)

    def entered(self, path: str) -> Tensor:
        """What went into the module at `path`, its calls joined along the positions: [R, T, …]."""
        return torch.cat(self.inputs[path], dim=1)

    def left(self, path: str) -> Tensor:
        """What came out of the module at `path`, its calls joined along the positions: [R, T, …]."""
        return torch.cat(self.outputs[path], dim=1)


class CoreRecorder(Core):
    """Stands for an attention core; calls with a few more positions each (T = 1, in a search) become one record.

    For one row a sentence: hypotheses that a search rearranges between its calls have no single past to join.
    """

    def __init__(self, core: Core, path: str, recording: Recording) -> None:
        super().__init__()
        self.core = core
        self._path = path
        self._recording = recording

    def remember(self, keys: Tensor) -> Tensor:
        """What the core keeps of the keys."""
        return self.core.remember(keys)

    def weights(self, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        """Those of the core."""
        return self.core.weights(query, key, visibility)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        """The core's own output; queries, keys, values, mask, scores and weights are written down."""
        mixed: Tensor = self.core(query, key, value, visibility)
        weights = self.core.weights(query, key, visibility)
        scores = None
        if isinstance(self.core, ScaledDotProduct):
            scores = query @ spread(key, query.shape[1]).transpose(-2, -1) / math.sqrt(query.shape[-1])
        visible = visibility.mask.expand(weights.shape)
        found = CoreRecord(query, key, value, visible, scores, weights, mixed)
        earlier = self._recording.attention.get(self._path)
        self._recording.attention[self._path] = found if earlier is None else earlier.then(found)
        return mixed


class ModuleRecorder(nn.Module):
    """Stands for any other module; writes down its first argument and its output."""

    def __init__(self, module: nn.Module, path: str, recording: Recording) -> None:
        super().__init__()
        self.module = module
        self._path = path
        self._recording = recording

    def forward(self, first: Tensor, *others: object) -> Tensor:
        """The module's own output."""
        output: Tensor = self.module(first, *others)
        self._recording.inputs.setdefault(self._path, []).append(first)
        self._recording.outputs.setdefault(self._path, []).append(output)
        return output


N = TypeVar("N", bound=nn.Module)


def recording_twin(model: N, kinds: tuple[type[nn.Module], ...] = LEAVES) -> tuple[N, Recording]:
    """A twin of `model` that records every attention core and every module of these `kinds`, and its recording."""
    recording = Recording()

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        if isinstance(module, Core):
            return CoreRecorder(module, path, recording)
        return ModuleRecorder(module, path, recording) if isinstance(module, kinds) else None

    return twin(model, swap), recording


def keeping_twin(model: N, paths: Collection[str]) -> tuple[N, dict[str, Tensor]]:
    """A twin of `model`, in evaluation mode, that keeps what the modules at `paths` gave last, by path.

    For whole layers, which `recording_twin` does not record: of a module that gives several things the first is kept.
    """
    kept: dict[str, Tensor] = {}

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        return _Keeper(module, path, kept) if path in paths else None

    return twin(model, swap).eval(), kept


class _Keeper(nn.Module):
    """Stands for a module and keeps what it gives; for all else, such as its parts, it is that module."""

    def __init__(self, module: nn.Module, path: str, kept: dict[str, Tensor]) -> None:
        super().__init__()
        self.module = module
        self._path = path
        self._kept = kept

    def forward(self, *inputs: object) -> object:
        output = self.module(*inputs)
        self._kept[self._path] = output[0] if isinstance(output, tuple) else output
        return output

    def __getattr__(self, name: str) -> object:  # type: ignore[override]
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)
