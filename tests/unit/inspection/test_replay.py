"""A replay is one pair read by teacher forcing: its logits are the model's, its rows have the right names."""

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.inspection.replay import replay
from clearhead.models import build, presets
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD
from tests.laws.model_laws import ARCHITECTURES

SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]


@pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_the_logits_are_those_of_the_model(make) -> None:
    model = make()
    found = replay(model, SOURCE, TARGET)
    with torch.no_grad():
        truth = model(Padded.from_lists([[*SOURCE, EOS]]), Padded.from_lists([[BOS, *TARGET]]))
    torch.testing.assert_close(found.logits, truth, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.log_probs.exp().sum(-1), torch.ones(len(TARGET) + 1, dtype=torch.float64))
    assert (found.source, found.prefix, found.gold) == ((*SOURCE, EOS), (BOS, *TARGET), (*TARGET, EOS))


def test_what_is_recorded_has_the_paths_of_the_model() -> None:
    model = ARCHITECTURES["transformer"]()
    recording = replay(model, SOURCE, TARGET).recording
    names = dict(model.named_modules())
    assert set(recording.attention) | set(recording.outputs) <= set(names)
    assert {path for path in names if path.endswith(".core")} == set(recording.attention)
    cross = recording.attention["decoder.layers.1.cross_attention.core"]
    assert cross.weights.shape == (1, 4, len(TARGET) + 1, len(SOURCE) + 1)
    # The residual stream: what one layer's last norm gives is what the next layer's queries are made of.
    left = recording.left("encoder.layers.0.feedforward_residual.norm")
    assert torch.equal(left, recording.entered("encoder.layers.1.attention.query"))


@pytest.mark.parametrize("reserved", [PAD, BOS, EOS])
def test_a_target_with_specials_is_refused(reserved: int) -> None:
    with pytest.raises(InputError, match=f"reserved token {reserved}"):
        replay(ARCHITECTURES["transformer"](), SOURCE, [5, reserved])


def test_a_model_that_is_being_trained_is_read_as_in_evaluation_and_goes_on_as_it_was() -> None:
    model = build(presets.tiny(vocab_size=20, dropout=0.5), seed=1).double()
    truth = replay(model.eval(), SOURCE, TARGET).logits
    model.train()
    before = torch.random.get_rng_state()
    assert torch.equal(replay(model, SOURCE, TARGET).logits, truth)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(module.training for module in model.modules())
