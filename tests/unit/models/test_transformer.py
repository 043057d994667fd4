"""What the laws do not say: ends of tables, stacks, dropout's places, precision, memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.base.errors import InputError
from clearhead.models import Seq2Seq, build, presets
from clearhead.models.protocols import Memory
from clearhead.nn.dropout import Dropout
from clearhead.nn.padding import Padded
from tests.laws.model_laws import PREFIXES, SOURCES, transformer

LEARNED = {"kind": "learned", "max_positions": 4}


def run(model: Seq2Seq, source: Padded, prefix: Padded) -> torch.Tensor:
    return model(source, prefix)


def test_text_beyond_the_learnt_positions_is_refused_and_padding_is_not_text() -> None:
    model = transformer(positions=LEARNED)
    short, long = [5, 6, 7, 3], [5, 6, 7, 8, 3]
    with pytest.raises(InputError, match="learnt 4 positions"):
        run(model, Padded.from_lists([long]), Padded.from_lists([[2]]))
    with pytest.raises(InputError, match="learnt 4 positions"):
        run(model, Padded.from_lists([short]), Padded.from_lists([[2, 5, 6, 7, 8]]))
    wide = Padded(torch.tensor([[*short, 0, 0, 0]]), torch.tensor([4]))
    padded = Padded(torch.tensor([[2, 5, 6, 7, 0, 0]]), torch.tensor([4]))
    plain = run(model, Padded.from_lists([short]), Padded.from_lists([[2, 5, 6, 7]]))
    torch.testing.assert_close(run(model, wide, padded), plain, rtol=1e-12, atol=1e-12)


def test_without_positions_a_source_is_a_bag_of_words_and_with_them_it_is_not() -> None:
    one, other = Padded.from_lists([[5, 6, 7, 3]]), Padded.from_lists([[7, 5, 6, 3]])
    turned = [2, 0, 1, 3]
    for kind, same in (("none", True), ("sinusoidal", False)):
        encoder = transformer(positions={"kind": kind}).encoder
        agree = torch.allclose(encoder(one).keys[:, turned], encoder(other).keys, rtol=0, atol=1e-12)
        assert agree is same, kind


def test_a_row_at_the_end_of_the_table_may_wait_beside_one_that_reads_on() -> None:
    model = transformer(positions=LEARNED)
    state = model.decoder.start(model.encoder(Padded.from_lists([[5, 3], [6, 3]])))
    _, state = model.decoder.advance(Padded.from_lists([[2, 5, 6, 7], [2]]), state)
    _, state = model.decoder.advance(Padded.from_lists([[], [5, 6]]), state)
    assert state.positions.tolist() == [4, 3]


def test_a_pre_norm_stack_ends_on_a_norm_and_a_post_norm_stack_does_not() -> None:
    post, pre = (build(presets.tiny(50, norm=norm), seed=0) for norm in ("post", "pre"))
    assert isinstance(post.encoder.norm, nn.Identity)
    assert isinstance(post.decoder.norm, nn.Identity)
    hidden, _ = pre.eval().decoder.advance(
        Padded.from_lists([[2, 5]]), pre.decoder.start(pre.encoder(Padded.from_lists([[5, 3]])))
    )
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(1, 2), rtol=0, atol=1e-5)
    torch.testing.assert_close(hidden.var(-1, correction=0), torch.ones(1, 2), rtol=0, atol=1e-3)


def test_dropout_stands_at_the_inputs_and_on_every_sublayer() -> None:
    """§5.4: two sums of embedding and position, 2 sub-layers an encoder layer, 3 a decoder layer; none on weights."""
    model = build(presets.tiny(50), seed=0)
    rates = [module.rate for module in model.modules() if isinstance(module, Dropout)]
    assert sorted(rates) == [0.0] * (3 + 2 * 3) + [0.1] * (2 + 3 * 2 + 3 * 3)
    calls: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, Dropout) and module.rate:
            module.register_forward_hook(lambda m, i, o, name=name: calls.append(name))
    run(model, Padded.from_lists([[5, 3]]), Padded.from_lists([[2]]))
    assert len(calls) == len(set(calls)) == 2 + 3 * 2 + 3 * 3


def test_training_is_random_by_the_seed_and_evaluation_is_not() -> None:
    model = build(presets.tiny(50), seed=0)
    source, prefix = Padded.from_lists([[5, 3]]), Padded.from_lists([[2, 6]])

    def seeded(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return run(model, source, prefix).detach()

    assert torch.equal(seeded(1), seeded(1))
    assert not torch.equal(seeded(1), seeded(2))
    model.eval()
    assert torch.equal(seeded(1), seeded(2))


def test_the_decoder_reads_the_encoders_last_layer_in_every_layer() -> None:
    model = transformer()
    memory = model.encoder(Padded.from_lists(SOURCES))
    state = model.decoder.start(memory)
    for layer, kept in zip(model.decoder.layers, state.sources):
        keys = (memory.keys @ layer.cross_attention.key.weight.t()).view(*memory.keys.shape[:2], 4, 4).transpose(1, 2)
        torch.testing.assert_close(kept.keys, keys, rtol=1e-12, atol=1e-12)


def test_the_summary_is_the_mean_over_real_positions() -> None:
    memory = transformer().encoder(Padded.from_lists(SOURCES))
    for row, source in enumerate(SOURCES):
        mean = memory.keys[row, : len(source)].mean(0)
        torch.testing.assert_close(memory.summary[row], mean, rtol=1e-12, atol=1e-12)


def test_rows_of_a_memory() -> None:
    keys = torch.arange(6.0).view(3, 2, 1)
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    index = torch.tensor([2, 0])
    memory = Memory(keys, keys, mask, keys[:, 0], (keys[:, 1],)).rows(index)
    assert memory.values is memory.keys
    assert memory.keys.flatten().tolist() == [4, 5, 0, 1]
    assert memory.mask.tolist() == [[True, True], [True, True]]
    assert (memory.summary.flatten().tolist(), memory.layers[0].flatten().tolist()) == ([4, 0], [5, 1])
    apart = Memory(keys, -keys, mask, keys[:, 0]).rows(index)
    assert apart.values.flatten().tolist() == [-4, -5, 0, -1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_with_a_blank_source_stays_finite(dtype: torch.dtype) -> None:
    model = build(presets.tiny(50), seed=0).to(dtype).train()
    logits = run(model, Padded.from_lists([[5, 6, 3], []]), Padded.from_lists([[2, 5], [2]]))
    assert logits.dtype is dtype
    logits.float().pow(2).mean().backward()
    assert bool(torch.isfinite(logits).all())
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())


def test_logits_come_row_by_row_without_padding() -> None:
    model = transformer()
    logits = run(model, Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES))
    assert logits.shape == (sum(map(len, PREFIXES)), 13)


def test_a_model_that_translated_can_train() -> None:
    model = transformer()
    with torch.inference_mode():
        run(model, Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES))
    run(model, Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_autocast_trains() -> None:
    model = build(presets.tiny(50), seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = run(model, Padded.from_lists([[5, 6, 3]]), Padded.from_lists([[2, 5]]))
    logits.float().pow(2).mean().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())
