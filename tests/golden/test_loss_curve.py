"""Twenty updates of a seeded model give the pinned losses: a change that moves them changes training for everyone.

After a wanted change, put the numbers that this prints below, and say so in the changelog:

    .venv/bin/python -m tests.golden.test_loss_curve
"""

from __future__ import annotations

import random

import pytest
import torch

from clearhead.data.collate import Batch, collate
from clearhead.models import build, presets
from clearhead.objectives import CrossEntropy

VOCABULARY = 64
SIZES = {"d_model": 64, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2, "norm": "post"}

PINNED = [
    4.9393583,
    4.4107381,
    4.2163509,
    3.9925810,
    4.1381387,
    4.0503556,
    4.0533151,
    3.9548063,
    3.9448341,
    3.9261452,
    3.8983982,
    3.9327302,
    3.8939813,
    3.9258566,
    3.8072149,
    3.9281244,
    3.9000989,
    3.8999667,
    3.7341827,
    3.8011850,
]


def batches(count: int) -> list[Batch]:
    """Sentences to be reversed."""
    rng = random.Random(11)
    made = []
    for _ in range(count):
        texts = [[rng.randrange(4, VOCABULARY) for _ in range(rng.randint(1, 9))] for _ in range(16)]
        made.append(collate([(text, text[::-1]) for text in texts]))
    return made


def curve(updates: int = 20) -> list[float]:
    """Loss a token before each update: label smoothing 0.1, dropout 0.1, Adam as in the paper at a constant rate."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(12)
        model = build(presets.tiny(VOCABULARY, **SIZES), seed=10)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
        objective, losses = CrossEntropy(0.1), []
        for batch in batches(updates):
            optimizer.zero_grad()
            loss = objective(model.train(), batch)
            (loss.sum / loss.count).backward()
            optimizer.step()
            losses.append(float(loss.sum.detach()) / loss.count)
        return losses
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


def test_the_curve_is_the_pinned_one() -> None:
    assert curve() == pytest.approx(PINNED, rel=1e-4)


def test_the_pinned_curve_descends() -> None:
    """It starts near the loss of ignorance, ln 64 = 4.16 and half a nat, and learns."""
    assert 4.0 < PINNED[0] < 5.2
    assert sum(PINNED[-5:]) / 5 < sum(PINNED[:5]) / 5 - 0.3


if __name__ == "__main__":
    print(",\n".join(f"{loss:.7f}" for loss in curve()))
