"""RNNsearch's decoder over a whole target as one operation of autograd, with the gradient written out by hand.

Every step asks the source with the state before it, so the steps cannot be one product. But most of what autograd would
do for a step need not be done in it: the gradients of all matrices are one product each over all steps, and of the
energies, tanh of every target word with every source word, the gradients are never made at that size. The loop in
`models/attentive_decoders.py` is the twin: they agree to 1e-11 in float64.

It stands for the papers' GRU (`GruBeforeCell`) with additive attention over the whole source (`Additive`) alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.nn.gru import GruBeforeCell
from clearhead.nn.scores import Additive, tanh_in_place
from clearhead.nn.visibility import Visibility

__all__ = ["Source", "swept_with_attention"]


@dataclass(frozen=True)
class Source:
    """What is asked: U_a·h as `Additive.remember` keeps it, without its axis of heads, the annotations, and the mask.

    Shapes: `keys` [R, S, N]; `values` [R, S, C]; `mask` bool [R, S]. One row a target.
    """

    keys: Float[Tensor, "R S N"]
    values: Float[Tensor, "R S C"]
    mask: Bool[Tensor, "R S"]


class _AttentiveSweep(torch.autograd.Function):
    """States s₁ … s_T [T, R, H] and contexts c₁ … c_T [T, R, C].

    `asking` is W_a above the rows of U for r and z, all that is multiplied with s₋₁ itself: [N + 2H, H]. `inner` is U
    for s̃ [H, H], `context_weight` C [3H, C], `energy` v_a [N], `words` the words' share of the drives [T, R, 3H], and
    `bias` what is added to the energies: 0, or so little that the weight is 0.
    """

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917 (autograd passes every tensor by its place)
        ctx: torch.autograd.function.FunctionCtx,
        words: Float[Tensor, "T R gates"],
        start: Float[Tensor, "R H"],
        keys: Float[Tensor, "R S N"],
        values: Float[Tensor, "R S C"],
        asking: Float[Tensor, "N2H H"],
        inner: Float[Tensor, "H H"],
        context_weight: Float[Tensor, "gates C"],
        energy: Float[Tensor, " N"],
        bias: Float[Tensor, "R S"],
        blank: Bool[Tensor, "R 1"] | None,
    ) -> tuple[Float[Tensor, "T R H"], Float[Tensor, "T R C"]]:
        steps, rows, _ = words.shape
        length, hidden_units = keys.shape[1:]
        width = start.shape[1]
        split = 2 * width
        gates = torch.empty_like(words)  # r, z, s̃ of every step
        reset_states = words.new_empty(steps, rows, width)  # r∘s₋₁
        states, contexts = torch.empty_like(reset_states), words.new_empty(steps, rows, values.shape[2])
        joint = words.new_empty(steps, rows, length, hidden_units)  # tanh(W_a·s₋₁ + U_a·h)
        shares = words.new_empty(steps, rows, length)  # α
        state = start
        for step in range(steps):
            asked = state @ asking.t()  # W_a·s₋₁ and U·s₋₁ of r and z
            tanh_in_place(torch.add(keys, asked[:, None, :hidden_units], out=joint[step]))
            weights = torch.softmax(torch.addmv(bias.flatten(), joint[step].flatten(0, 1), energy).view_as(bias), -1)
            shares[step] = weights if blank is None else weights.masked_fill_(blank, 0.0)
            torch.bmm(shares[step, :, None], values, out=contexts[step, :, None])
            drive = torch.addmm(words[step], contexts[step], context_weight.t(), out=gates[step])
            reset_update, candidate = drive[:, :split], drive[:, split:]
            reset_update.add_(asked[:, hidden_units:]).sigmoid_()
            torch.mul(reset_update[:, :width], state, out=reset_states[step])
            candidate.addmm_(reset_states[step], inner.t()).tanh_()
            state = torch.lerp(state, candidate, reset_update[:, width:], out=states[step])  # (1 − z)∘s₋₁ + z∘s̃
        ctx.save_for_backward(
            start, values, asking, inner, context_weight, energy, gates, reset_states, states, contexts, joint, shares
        )
        return states, contexts

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx,
        grad_states: Float[Tensor, "T R H"],
        grad_contexts: Float[Tensor, "T R C"],
    ) -> tuple[Tensor | None, ...]:
        """The GRU's part is that of `sweep.py`. With a the arguments of its gates, from the last step to the first:

        ∂c = its own + Cᵀ·∂a;  ∂α = h·∂c;  ∂e = α∘(∂α − Σ_j α_j ∂α_j);
        ∂(W_a·s₋₁) = Σ_j ∂e_j·v∘(1 − t_j²) = −v∘Σ_j ∂e_j·t_j², since the ∂e of a softmax sum to 0, t the tanh;
        ∂(U_a·h_j) = v∘(Σ_i ∂e_ij − Σ_i ∂e_ij·t_ij²), whose sums run along as the steps go.
        """
        start, values, asking, inner, context_weight, energy, gates, reset_states, states, contexts, joint, shares = (
            ctx.saved_tensors  # type: ignore[attr-defined]
        )
        steps, _, width = states.shape
        hidden_units = energy.shape[0]
        split = hidden_units + 2 * width
        before = torch.cat([start[None], states[:-1]])  # s₋₁ of every step
        reset, update, candidate = gates.split(width, -1)
        # What of each formula does not wait for δ, for all steps at once.
        to_candidate = update * (1 - candidate.square())
        to_update = (candidate - before) * update * (1 - update)
        to_reset = before * reset * (1 - reset)
        passed_on = 1 - update
        arguments = gates.new_empty(*gates.shape[:2], split + width)  # of W_a·s₋₁, r, z and s̃
        whole_contexts = torch.empty_like(contexts)  # ∂c
        to_energies = torch.empty_like(shares)  # ∂e
        squares, seen = torch.empty_like(joint[0]), torch.zeros_like(joint[0])  # t², and Σ ∂e·t² so far
        grad_energy, delta = torch.zeros_like(energy), torch.zeros_like(start)
        for step in range(steps - 1, -1, -1):
            delta = delta + grad_states[step]
            outer, to_inner = arguments[step, :, :split], arguments[step, :, split:]
            torch.mul(delta, to_candidate[step], out=to_inner)
            torch.mul(delta, to_update[step], out=outer[:, hidden_units + width :])
            through_reset = to_inner @ inner
            torch.mul(through_reset, to_reset[step], out=outer[:, hidden_units : hidden_units + width])
            found = whole_contexts[step]
            torch.addmm(grad_contexts[step], arguments[step, :, hidden_units:], context_weight, out=found)
            to_shares = torch.bmm(values, found[:, :, None])[:, :, 0]
            share = shares[step]
            mean = (share * to_shares).sum(-1, keepdim=True)
            asked = torch.mul(share, to_shares - mean, out=to_energies[step])
            grad_energy.addmv_(joint[step].flatten(0, 1).t(), asked.flatten())
            torch.mul(joint[step], joint[step], out=squares)
            torch.mul(torch.bmm(asked[:, None], squares)[:, 0], -energy, out=outer[:, :hidden_units])
            seen.addcmul_(squares, asked[:, :, None])
            delta.mul_(passed_on[step]).addcmul_(through_reset, reset[step]).addmm_(outer, asking)
        grad_keys = (to_energies.sum(0)[:, :, None] - seen) * energy
        grad_values = torch.bmm(shares.permute(1, 2, 0), whole_contexts.transpose(0, 1))
        flat = arguments.flatten(0, 1)
        return (
            arguments[:, :, hidden_units:],
            delta,
            grad_keys,
            grad_values,
            flat[:, :split].t() @ before.flatten(0, 1),
            flat[:, split:].t() @ reset_states.flatten(0, 1),
            flat[:, hidden_units:].t() @ contexts.flatten(0, 1),
            grad_energy,
            None,
            None,
        )


def swept_with_attention(
    cell: GruBeforeCell, score: Additive, embedded: Float[Tensor, "R T E"], state: Float[Tensor, "R H"], source: Source
) -> tuple[Float[Tensor, "T R H"], Float[Tensor, "T R C"]]:
    """s₁ … s_T and c₁ … c_T for a target whose words are known (Bahdanau et al. 2015, A.1.1, A.1.2 and A.2.2).

    Each row runs to the end of the rectangle: what becomes of a state after the row's own last word is the caller's to
    leave out. Steps come first in what is returned. First derivatives only.
    """
    words_wide, split = embedded.shape[-1], 2 * cell.width
    outer, inner = cell.hidden_weight.split([split, cell.width])
    sight = Visibility(source.mask)
    states, contexts = _AttentiveSweep.apply(
        cell.drive(embedded.transpose(0, 1)).contiguous(),
        state,
        source.keys,
        source.values,
        torch.cat([score.query.weight, outer]),
        inner,
        cell.input_weight[:, words_wide:].contiguous(),
        score.energy.weight[0],
        sight.bias(embedded.dtype),
        sight.blank,
    )
    return states, contexts
