"""Rollout is worked out by hand for two tokens, and by one large matrix for more."""

import pytest
import torch
from torch import Tensor

from clearhead.inspection.rollout import rollout
from tests.laws.model_laws import ARCHITECTURES, PAIRS
from tests.planted import planted_record, record_of, token

A, B = token("▁a"), token("▁b")


def test_two_tokens_by_hand() -> None:
    encoder = torch.tensor([[0.5, 0.5], [1.0, 0.0]])  # ½A + ½I = [[.75, .25], [.5, .5]]
    decoder = torch.tensor([[1.0, 0.0], [0.4, 0.6]])  # [[1, 0], [.2, .8]]
    cross = torch.tensor([[0.2, 0.8], [1.0, 0.0]])
    layers = {("encoder", 1): [encoder], ("decoder", 1): [decoder], ("cross", 1): [cross]}
    found = rollout(planted_record(layers, [A], [B]))  # type: ignore[arg-type]
    assert found is not None and found.method == "rollout" and not found.signed
    torch.testing.assert_close(found.prefix, torch.tensor([[0.5, 0.0], [0.1, 0.4]]))
    # Row 1: half of .2·[.75, .25] + .8·[.5, .5]; row 2: half of [.75, .25].
    torch.testing.assert_close(found.source, torch.tensor([[0.275, 0.225], [0.375, 0.125]]))


def test_a_second_layer_by_hand() -> None:
    identity, swapped = torch.eye(2), torch.eye(2).flip(0)
    own = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # ½A + ½I = [[1, 0], [.5, .5]]
    layers = {
        ("encoder", 1): [identity],
        ("decoder", 1): [own],
        ("decoder", 2): [own],
        ("cross", 1): [identity],
        ("cross", 2): [swapped],
    }
    found = rollout(planted_record(layers, [A], [B]))  # type: ignore[arg-type]
    assert found is not None
    # After layer 1: prefix [[.5, 0], [.25, .25]], source [[.5, 0], [0, .5]].
    # Layer 2 mixes row 2 to ½ of both: prefix [.375, .125], source [.25, .25]; half of it stays, half is the swapped.
    torch.testing.assert_close(found.prefix, torch.tensor([[0.25, 0.0], [0.1875, 0.0625]]))
    torch.testing.assert_close(found.source, torch.tensor([[0.25, 0.5], [0.125 + 0.5, 0.125]]))


def maps(heads: int, rows: int, keys: int, seed: int, causal: bool = False) -> Tensor:
    scores = 2 * torch.randn(heads, rows, keys, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    hidden = torch.ones(rows, keys, dtype=torch.bool).triu(1) & causal
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def test_it_is_a_walk_over_all_nodes_of_both_sides() -> None:
    """The truth: one matrix over prefix and source nodes together, a step for every attention, multiplied up."""
    source, target = [A, B, A], [B, A, B, A]
    size, rows = 4, 5
    encoders = [maps(3, size, size, seed) for seed in (1, 2)]
    decoders = [maps(2, rows, rows, seed, causal=True) for seed in (3, 4, 5)]
    crosses = [maps(2, rows, size, seed) for seed in (6, 7, 8)]
    layers = {("encoder", place + 1): each for place, each in enumerate(encoders)}
    layers |= {("decoder", place + 1): each for place, each in enumerate(decoders)}
    layers |= {("cross", place + 1): each for place, each in enumerate(crosses)}
    found = rollout(planted_record(layers, source, target))  # type: ignore[arg-type]
    assert found is not None and found.source is not None and found.prefix is not None
    walk = torch.eye(rows + size, dtype=torch.float64)
    for each in encoders:
        step = torch.eye(rows + size, dtype=torch.float64)
        step[rows:, rows:] = (each.mean(0) + torch.eye(size)) / 2
        walk = step @ walk
    for own, other in zip(decoders, crosses, strict=True):
        step = torch.eye(rows + size, dtype=torch.float64)
        step[:rows, :rows] = (own.mean(0) + torch.eye(rows)) / 2
        walk = step @ walk
        step = torch.eye(rows + size, dtype=torch.float64)
        step[:rows, :rows] /= 2
        step[:rows, rows:] = other.mean(0) / 2
        walk = step @ walk
    torch.testing.assert_close(found.prefix.double(), walk[:rows, :rows], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.source.double(), walk[:rows, rows:], rtol=0, atol=1e-6)
    assert bool((found.prefix.triu(1) == 0).all())


@pytest.mark.parametrize("name", ["transformer", "pre-norm", "grouped-heads"])
def test_both_sides_sum_to_one_and_the_prefix_has_its_fixed_share(name: str) -> None:
    model = ARCHITECTURES[name]()
    record = record_of(model, [5, 6, 7, 8], [9, 10, 4])
    found = rollout(record)
    assert found is not None and found.source is not None and found.prefix is not None
    total = found.source.double().sum(-1) + found.prefix.double().sum(-1)
    torch.testing.assert_close(total, torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-6)
    layers = len([layer for layer in record.layers if layer.stack == "cross"])
    share = torch.full((4,), 0.5**layers)
    torch.testing.assert_close(found.prefix.sum(-1), share, rtol=0, atol=1e-6)


def test_without_all_three_stacks_there_is_no_rollout() -> None:
    for name in ("two-way-gru-bahdanau", "transformer-luong-general", "two-way-gru-transformer"):
        assert rollout(record_of(PAIRS[name](), [5, 6], [7])) is None
    assert rollout(planted_record({}, [A])) is None
