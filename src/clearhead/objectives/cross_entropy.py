"""Cross-entropy with label smoothing, from logits, in one pass."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.nn.padding import Padded
from clearhead.objectives.loss import Loss

__all__ = ["CrossEntropy", "Labelled", "PrefixModel", "smoothed_cross_entropy"]


class Labelled(Protocol):
    """A batch for teacher forcing: `prefix` is BOS + y, `gold` is y + EOS, of equal lengths."""

    @property
    def source(self) -> Padded: ...
    @property
    def prefix(self) -> Padded: ...
    @property
    def gold(self) -> Padded: ...


class PrefixModel(Protocol):
    """Whatever gives logits [N, V] for the N real positions of `prefix`."""

    def __call__(self, source: Padded, prefix: Padded) -> Tensor: ...


class _SmoothedCrossEntropy(torch.autograd.Function):
    """loss = lse(z) − (1 − ε − a)·z_y − a·Σz with a = ε/(V − 1), whose gradient is softmax(z) − q.

    One softmax serves the loss, the unsmoothed NLL and the gradient; autograd would keep three tensors of N·V and
    take the exponential twice. lse(z) = z_max − log p_max cannot underflow, and two maxima cost less than a sum of
    exponentials, or than the place of one maximum.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, logits: Tensor, gold: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        probabilities = torch.softmax(exact, -1)
        normaliser = exact.amax(-1) - probabilities.amax(-1).log()
        label = exact.gather(-1, gold[:, None]).squeeze(-1)
        loss = nll = normaliser - label
        if smoothing:
            other = smoothing / (logits.shape[-1] - 1)
            loss = normaliser - (1.0 - smoothing - other) * label - other * exact.sum(-1)
        ctx.save_for_backward(probabilities, gold)
        ctx.smoothing, ctx.dtype = smoothing, logits.dtype  # type: ignore[attr-defined]
        return loss.sum(), nll.detach().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        probabilities, gold = ctx.saved_tensors  # type: ignore[attr-defined]
        smoothing = ctx.smoothing  # type: ignore[attr-defined]
        other = smoothing / (probabilities.shape[-1] - 1)
        difference = probabilities - other
        difference.scatter_add_(
            -1, gold[:, None], torch.full_like(gold[:, None], other + smoothing - 1.0, dtype=difference.dtype)
        )
        return difference.mul_(grad).to(ctx.dtype), None, None  # type: ignore[attr-defined]


def smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], gold: Int[Tensor, " N"], smoothing: float
) -> tuple[Tensor, Tensor]:
    """(Σ smoothed loss, Σ unsmoothed NLL) in nats over the N positions.

    The target distribution is 1 − ε on the label and ε/(V − 1) on each other entry (Szegedy et al. 2016, §7, in
    tensor2tensor's form; PyTorch's `label_smoothing` spreads ε over all V, the label included). The smoothed loss
    cannot reach zero, so the NLL is what perplexity is made of. Gradients flow through the first result only.
    """
    loss, nll = _SmoothedCrossEntropy.apply(logits, gold, smoothing)
    return loss, nll.detach()


class CrossEntropy:
    """−Σ log p(y_t | y_<t, x), smoothed, over the real target positions of a batch."""

    def __init__(self, label_smoothing: float = 0.1) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"label_smoothing must lie in [0, 1), not {label_smoothing}")
        self.label_smoothing = label_smoothing

    def __call__(self, model: PrefixModel, batch: Labelled) -> Loss:
        """The loss of `batch` as a sum, its token count, and the unsmoothed NLL; zero for a batch without tokens."""
        logits = model(batch.source, batch.prefix)
        gold = batch.gold.ids[batch.gold.mask]
        loss, nll = smoothed_cross_entropy(logits, gold, self.label_smoothing)
        return Loss(loss, gold.numel(), {"nll": nll})
