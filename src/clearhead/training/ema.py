"""An exponential moving average of the parameters, kept beside the raw weights and never over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clearhead.base.errors import TrainingError

__all__ = ["MovingAverage"]


class MovingAverage:
    """average ← d · average + (1 − d) · parameter after every update, with d = min(decay, (1 + n) / (10 + n)).

    n counts the updates already averaged: the early average forgets quickly, so it is of use before 1 / (1 − decay)
    updates have passed. Tied parameters are averaged once.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.count = 0
        self._parameters = dict(model.named_parameters())
        self.tensors: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters as they are now."""
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        for name, parameter in self._parameters.items():
            self.tensors[name].lerp_(parameter, 1 - decay)
        self.count += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model compute with the averages inside the block; the raw weights come back bit for bit."""
        raw = {name: parameter.data for name, parameter in self._parameters.items()}
        try:
            for name, parameter in self._parameters.items():
                parameter.data = self.tensors[name]
            yield
        finally:
            for name, parameter in self._parameters.items():
                parameter.data = raw[name]

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], count: int) -> None:
        """Go on from saved averages. Raises `TrainingError` if they are not those of this model."""
        for name, tensor in self.tensors.items():
            if name not in tensors or tensors[name].shape != tensor.shape:
                raise TrainingError(f"the checkpoint's moving average lacks {name!r} of shape {list(tensor.shape)}")
            tensor.copy_(tensors[name])
        self.count = count
