"""Scaled dot-product attention against the handbook's numbers and a written-out loop, by both roads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clearhead.nn import cores
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.visibility import Visibility

X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
V = X * torch.tensor([2.0, 1.0], dtype=torch.float64)
ALL = Visibility(torch.ones(1, 1, 3, 3, dtype=torch.bool))
CAUSAL = Visibility(torch.ones(1, 1, 3, 3, dtype=torch.bool).tril())

# The handbook's §4 and §6 at full precision.
WEIGHTS = [
    [0.4011120926797859, 0.19777581464042818, 0.4011120926797859],
    [0.19777581464042818, 0.4011120926797859, 0.4011120926797859],
    [0.24825507825772308, 0.24825507825772308, 0.5034898434845538],
]
OUTPUT = [
    [1.6044483707191437, 0.5988879073202141],
    [1.1977758146404283, 0.8022241853595719],
    [1.5034898434845538, 0.7517449217422769],
]
CAUSAL_WEIGHTS = [
    [1.0, 0.0, 0.0],
    [0.33023845067334306, 0.6697615493266569, 0.0],
    [0.24825507825772308, 0.24825507825772308, 0.5034898434845538],
]


@pytest.fixture(params=["explicit", "fused"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(cores, "_EXPLICIT_UP_TO", 1 << 60 if request.param == "explicit" else -1)
    return str(request.param)


def written_out(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Equation 1 by loops over rows, heads and queries, reading only the visible keys."""
    rows, heads, length, width = query.shape
    group = heads // key.shape[1]
    mask = mask.expand(rows, heads, length, key.shape[2])
    context = torch.zeros(rows, heads, length, value.shape[-1], dtype=query.dtype)
    for r in range(rows):
        for h in range(heads):
            for t in range(length):
                chosen = [s for s in range(key.shape[2]) if mask[r, h, t, s]]
                scores = [float(query[r, h, t] @ key[r, h // group, s]) / math.sqrt(width) for s in chosen]
                total = sum(math.exp(score) for score in scores)
                for s, score in zip(chosen, scores):
                    context[r, h, t] += math.exp(score) / total * value[r, h // group, s]
    return context


def test_the_worked_example(road: str) -> None:
    core = ScaledDotProduct()
    weights = core.weights(X[None, None], X[None, None], ALL)[0, 0]
    torch.testing.assert_close(weights, torch.tensor(WEIGHTS, dtype=torch.float64), rtol=0, atol=1e-15)
    context = core(X[None, None], X[None, None], V[None, None], ALL)[0, 0]
    torch.testing.assert_close(context, torch.tensor(OUTPUT, dtype=torch.float64), rtol=0, atol=1e-15)


def test_the_worked_example_with_a_causal_mask(road: str) -> None:
    """Zeroing after the softmax would leave rows that sum to 0.401 and 0.599."""
    weights = ScaledDotProduct().weights(X[None, None], X[None, None], CAUSAL)[0, 0]
    torch.testing.assert_close(weights, torch.tensor(CAUSAL_WEIGHTS, dtype=torch.float64), rtol=0, atol=1e-15)
    context = ScaledDotProduct()(X[None, None], X[None, None], V[None, None], CAUSAL)[0, 0]
    torch.testing.assert_close(context, weights @ V, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (1, 4), (5, 3)])
def test_any_shape_against_the_formula_written_out(road: str, kv_heads: int, queries: int, keys: int) -> None:
    generator = torch.Generator().manual_seed(queries)

    def draw(heads: int, length: int) -> Tensor:
        return torch.randn(2, heads, length, 6, generator=generator, dtype=torch.float64)

    query, key, value = draw(4, queries), draw(kv_heads, keys), draw(kv_heads, keys)
    mask = torch.rand(2, 1, queries, keys, generator=generator) < 0.6
    mask[1, 0, 0] = False  # one query that may read nothing
    context = ScaledDotProduct()(query, key, value, Visibility(mask))
    torch.testing.assert_close(context, written_out(query, key, value, mask), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_query_that_may_read_nothing(road: str, dtype: torch.dtype) -> None:
    """Weights and context exactly zero, gradients finite and zero, and the row beside it as without it."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 2, 3, 8, generator=generator).to(dtype).requires_grad_() for _ in range(3))
    core, mask = ScaledDotProduct(), torch.tensor([[True, True, False], [False, False, False]])
    visibility = Visibility.of_keys(mask)
    assert torch.equal(core.weights(query, key, visibility)[1], torch.zeros(2, 3, 3, dtype=dtype))
    context = core(query, key, value, visibility)
    assert torch.equal(context[1], torch.zeros(2, 3, 8, dtype=dtype))
    alone = core(query[:1], key[:1], value[:1], Visibility.of_keys(mask[:1]))
    assert torch.equal(context[:1], alone)
    context.float().pow(2).sum().backward()
    for part in (query, key, value):
        assert part.grad is not None
        assert bool(torch.isfinite(part.grad).all())
        assert torch.equal(part.grad[1], torch.zeros_like(part.grad[1]))
        assert bool(part.grad[0].any())


def test_gradients_of_both_roads_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    parts = [torch.randn(2, h, 5, 4, generator=generator, dtype=torch.float64).requires_grad_() for h in (4, 2, 2)]
    visibility = Visibility(torch.tensor([[True] * 3 + [False] * 2, [False] * 5])[:, None, None])
    gradients = []
    for limit in (1 << 60, -1):
        monkeypatch.setattr(cores, "_EXPLICIT_UP_TO", limit)
        context = ScaledDotProduct()(*parts, visibility)
        gradients.append(torch.autograd.grad(context.pow(2).sum(), parts))
    for explicit, fused in zip(*gradients):
        torch.testing.assert_close(explicit, fused, rtol=1e-12, atol=1e-12)


def test_large_scores_do_not_overflow(road: str) -> None:
    """softmax([0, 10]) and its shift by 1000 (the handbook's §5)."""
    query = torch.tensor([[[[1.0]]]], dtype=torch.float64)
    key = torch.tensor([[[[1000.0], [1010.0]]]], dtype=torch.float64)
    visibility = Visibility(torch.ones(1, 1, 1, 2, dtype=torch.bool))
    weights = ScaledDotProduct().weights(query, key, visibility).flatten()
    truth = torch.tensor([4.5397868702434395e-05, 0.9999546021312976], dtype=torch.float64)
    torch.testing.assert_close(weights, truth, rtol=1e-12, atol=0)


def test_dropout_acts_on_the_weights_in_training_only(road: str) -> None:
    core, visibility = ScaledDotProduct(0.5), Visibility(torch.ones(1, 1, 40, 40, dtype=torch.bool))
    query = torch.zeros(1, 1, 40, 4)
    value = torch.eye(40)[None, None]  # the context shows the weights
    torch.manual_seed(0)
    seen = core.train()(query, query, value, visibility)
    kept = seen[seen > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 2 / 40))
    assert 0.4 < kept.numel() / seen.numel() < 0.6
    torch.testing.assert_close(core.eval()(query, query, value, visibility), torch.full((1, 1, 40, 40), 1 / 40))


def test_neighbouring_heads_share_a_group() -> None:
    shared = torch.tensor([1.0, 2.0])[None, :, None, None]
    assert cores.spread(shared, 4).flatten().tolist() == [1, 1, 2, 2]  # tiling would give 1, 2, 1, 2


def test_short_sequences_go_the_explicit_way_and_long_ones_the_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *a, **k: calls.append(a[0].shape[-2]) or fused(*a, **k),
    )
    for length in (128, 129):
        part = torch.zeros(1, 1, length, 2)
        ScaledDotProduct()(part, part, part, Visibility(torch.ones(1, 1, 1, length, dtype=torch.bool)))
    assert calls == [129]
