"""A capture tells what the model's own attention did: the fused kernel, a search, and a batch give the same."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.penalties import score
from clearhead.decoding.search import search
from clearhead.inspection.capture import capture, family_of, fingerprint, provenance_of
from clearhead.inspection.recorders import recording_twin
from clearhead.inspection.records import AttentionRecord, Token
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs, next_logits
from clearhead.models import Seq2Seq, build, presets
from clearhead.nn import cores
from clearhead.nn.cores import Core, spread
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD
from tests.laws.model_laws import ARCHITECTURES, PAIRS, mixed, transformer

SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]
LENGTHS = [1, 2, 8, 9, 12, 64]
FAMILIES: dict[str, Callable[[], Seq2Seq]] = {
    name: ARCHITECTURES[name] for name in ("transformer", "pre-norm", "grouped-heads", "one-kv-head", "no-positions")
} | {
    name: PAIRS[name]
    for name in (
        "two-way-gru-bahdanau",
        "reversed-lstm-luong-general",
        "two-way-lstm-1997-luong-concat-local-m",
        "two-way-gru-luong-local-p",
        "reversed-lstm-luong-location",
        "convolutional-convs2s",
        "transformer-convs2s-as-wide",
        "dilated-transformer",
        "transformer-bahdanau-lstm",
    )
}


def seen(model: Seq2Seq, source: list[int], target: list[int], **more: Any) -> AttentionRecord:
    def named(count: int) -> list[Token]:
        return [Token(f"token {place}", place) for place in range(count)]

    provenance = provenance_of(model, "small", "none")
    texts = {"source_tokens": named(len(source) + 1)} | {
        side: named(len(target) + 1) for side in ("prefix_tokens", "gold_tokens")
    }
    return capture(model, source, target, provenance=provenance, **texts, **more)


def ids(count: int, seed: int = 1) -> list[int]:
    return torch.randint(4, 13, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def check_rows(record: AttentionRecord) -> None:
    """Exact zeros where nothing may be read; rows sum to 1, or to 0 where a query may read nothing."""
    for layer in record.layers:
        assert layer.weights.dtype is torch.float32 and layer.visible.dtype is torch.bool
        assert bool((layer.weights >= 0).all())
        assert bool((layer.weights.masked_fill(layer.visible, 0.0) == 0.0).all())
        sums = layer.weights.sum(-1)
        if layer.normalised:
            torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-6, rtol=0)
        else:
            assert bool((sums <= 1 + 1e-6).all()) and bool((sums < 0.999).any())


# ------------------------------------------------------------------------------------ the model's own arithmetic


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["transformer", "grouped-heads"])
def test_weights_times_values_are_what_the_fused_kernel_mixed(
    name: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ARCHITECTURES[name]().float()
    source, target = (
        ids(max(0, length - 1)),
        ids(max(0, length // 2 - 1), 2),
    )  # EOS and BOS come to them
    record = seen(model, source, target)
    monkeypatch.setattr(cores, "_EXPLICIT_UP_TO", 0)
    calls, mixed_by = [], {}
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k))
    paths = {module: path for path, module in model.named_modules() if isinstance(module, Core)}

    def keep(core: Core, given: tuple[Any, ...], context: Tensor) -> None:
        mixed_by[paths[core]] = (given[2], context)

    hooks = [core.register_forward_hook(keep) for core in paths]
    with torch.no_grad():
        next_logits(model, Pairs.of([source], [target]))
    for hook in hooks:
        hook.remove()
    assert len(calls) == len(paths) == len(record.layers)
    assert record.layer("encoder", 1).weights.shape[1:] == (length, length)
    for layer in record.layers:
        value, context = mixed_by[layer.path]
        values = spread(value, len(layer.weights))[0]
        torch.testing.assert_close(layer.weights @ values, context[0], atol=1e-5, rtol=1e-5)
        if length >= 8:  # the same with rows that are one off: the check can fail
            assert not torch.allclose(layer.weights.roll(1, 1) @ values, context[0], atol=1e-3)


def test_a_model_that_is_being_trained_is_captured_before_dropout_and_goes_on_as_it_was() -> None:
    config = presets.tiny(vocab_size=20, dropout=0.5, attention={"heads": 4, "dropout": 0.5})
    model = build(config, seed=1)
    quiet = seen(model.eval(), SOURCE, TARGET)
    model.train()
    before = torch.random.get_rng_state()
    record = seen(model, SOURCE, TARGET)
    assert torch.equal(torch.random.get_rng_state(), before) and all(module.training for module in model.modules())
    check_rows(record)
    for ours, theirs in zip(record.layers, quiet.layers):
        assert torch.equal(ours.weights, theirs.weights)
    assert torch.equal(record.log_probs, quiet.log_probs)
    # What a capture after dropout would give is refused by the very check.
    dropped = record.layers[0].weights.clone()
    record.layers[0].weights.copy_(F.dropout(dropped, 0.5, training=True))
    with pytest.raises(AssertionError):
        check_rows(record)


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_a_search_that_reads_token_by_token_has_the_same_weights(make: Callable[[], Seq2Seq]) -> None:
    model = make()
    record = seen(model, SOURCE, TARGET)
    check_rows(record)
    stepping, recording = recording_twin(model, kinds=())
    with torch.no_grad():
        state = stepping.decoder.start(stepping.encoder(Padded.from_lists([[*SOURCE, EOS]])))
        for token in (BOS, *TARGET):
            _, state = stepping.decoder.advance(Padded.from_lists([[token]]), state)
    assert {layer.path for layer in record.layers} == set(recording.attention)
    for layer in record.layers:
        stepped = recording.attention[layer.path]
        # float32 of what agrees to 1e-10: at most the last bit differs
        torch.testing.assert_close(layer.weights, stepped.weights[0].float(), atol=1e-7, rtol=2e-7)
        assert torch.equal(layer.visible, stepped.visible[0, 0])
    decoder = [layer for layer in record.layers if layer.stack == "decoder"]
    for layer in decoder:
        assert torch.equal(layer.visible, torch.ones(5, 5).tril().bool())


@pytest.mark.parametrize("name", ["transformer", "two-way-gru-bahdanau", "convolutional-convs2s"])
def test_a_hypothesis_of_a_beam_that_is_read_again_has_the_score_of_the_search(name: str) -> None:
    model, config = FAMILIES[name](), DecodingConfig(beam=3, n_best=3, max_length_extra=4)
    found = search(model, Padded.from_lists([[*SOURCE, EOS]]), config)[0]
    assert len(found) == 3
    for rank, each in enumerate(found, 1):
        record = seen(model, SOURCE, list(each.tokens), origin="search", rank=rank, score=each.score)
        torch.testing.assert_close(
            record.log_probs, torch.tensor(each.token_log_probs, dtype=torch.float64), atol=1e-10, rtol=0
        )
        again = score(config, float(record.log_probs.sum()), len(record.log_probs))
        assert again == pytest.approx(each.score, abs=1e-10)
        assert (record.origin, record.rank, record.score) == ("search", rank, each.score)


@pytest.mark.parametrize("name", ["grouped-heads", "two-way-gru-luong-local-p", "convolutional-convs2s"])
def test_neighbours_and_padding_change_nothing(name: str) -> None:
    model = FAMILIES[name]()
    record = seen(model, SOURCE, TARGET)
    batched, recording = recording_twin(model, kinds=())
    pairs = Pairs.of([ids(9), SOURCE, []], [ids(8, 3), TARGET, ids(2)])
    with torch.no_grad():
        next_logits(batched.eval(), pairs)
    for layer in record.layers:
        rows, columns = layer.visible.shape
        inside = recording.attention[layer.path].weights[1, :, :rows]
        torch.testing.assert_close(layer.weights, inside[:, :, :columns].float(), atol=1e-7, rtol=2e-7)
        assert bool((inside[:, :, columns:] == 0).all())


def test_the_log_probabilities_are_those_of_the_gold_tokens() -> None:
    model = FAMILIES["two-way-gru-bahdanau"]()  # with gradients it takes another road, in one sweep
    logits = model(Padded.from_lists([[*SOURCE, EOS]]), Padded.from_lists([[BOS, *TARGET]]))
    chosen = logits.log_softmax(-1)[range(5), [*TARGET, EOS]]
    torch.testing.assert_close(seen(model, SOURCE, TARGET).log_probs, chosen.detach(), atol=1e-10, rtol=0)


def test_stacks_may_differ_in_depth_and_heads() -> None:
    model = mixed(
        {"kind": "transformer", "d_model": 8, "d_ff": 12, "layers": 3, "attention": {"heads": 2}},
        {"kind": "transformer", "d_model": 10, "d_ff": 12, "layers": 1, "attention": {"heads": 5}},
    )
    shapes = [(layer.stack, layer.layer, tuple(layer.weights.shape)) for layer in seen(model, SOURCE, TARGET).layers]
    encoder = [("encoder", number, (2, 4, 4)) for number in (1, 2, 3)]
    assert shapes == [*encoder, ("decoder", 1, (5, 5, 5)), ("cross", 1, (5, 5, 4))]
    assert family_of(model) == "Transformer; attention: encoder 3×2, decoder 1×5, cross 1×5"


@pytest.mark.parametrize("name", ["reversed-lstm-seq2seq", "dilated-bytenet", "two-way-gru-encdec"])
def test_a_model_without_attention_has_a_record_without_layers(name: str) -> None:
    model = PAIRS[name]()
    record = seen(model, SOURCE, TARGET)
    assert record.layers == () and record.log_probs.shape == (5,)
    assert family_of(model).endswith("no attention")


def test_only_local_p_is_not_normalised() -> None:
    told = {
        name: {layer.normalised for layer in seen(make(), SOURCE, TARGET).layers} for name, make in FAMILIES.items()
    }
    assert {name for name, found in told.items() if found != {True}} == {"two-way-gru-luong-local-p"}


def test_the_model_is_left_as_it_is() -> None:
    model = transformer()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    read = (Padded.from_lists([[*SOURCE, EOS]]), Padded.from_lists([[BOS, *TARGET]]))
    before, modules = model(*read), [id(module) for module in model.modules()]
    seen(model, SOURCE, TARGET)
    assert torch.equal(model(*read), before) and [id(module) for module in model.modules()] == modules
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("reserved", [PAD, BOS, EOS])
def test_a_target_with_a_reserved_token_is_refused(reserved: int) -> None:
    with pytest.raises(InputError, match=f"reserved token {reserved}"):
        seen(transformer(), SOURCE, [5, reserved])


def test_what_does_not_fit_is_refused() -> None:
    model = transformer()
    given: dict[str, Any] = {
        "source_tokens": [Token("a", 5)] * 4,
        "prefix_tokens": [Token("a", 5)] * 5,
        "gold_tokens": [Token("a", 5)] * 5,
        "provenance": provenance_of(model, "small", ""),
    }
    capture(model, SOURCE, TARGET, **given)
    for side in ("source_tokens", "prefix_tokens", "gold_tokens"):
        with pytest.raises(InputError, match=f"{side}: 3 tokens for"):
            capture(model, SOURCE, TARGET, **given | {side: [Token("a", 5)] * 3})
    with pytest.raises(InputError, match="no rank and no score"):
        capture(model, SOURCE, TARGET, **given, rank=1)
    with pytest.raises(InputError, match="has a rank, from 1"):
        capture(model, SOURCE, TARGET, **given, origin="search", rank=0, score=-1.0)
    with pytest.raises(InputError, match="each of its members"):
        capture(ARCHITECTURES["ensemble"](), SOURCE, TARGET, **given)


def test_a_text_beyond_the_learnt_positions_is_refused_by_name() -> None:
    model = ARCHITECTURES["learned-positions"]()
    seen(model, ids(8), ids(8))
    with pytest.raises(InputError, match="source_tokens: 10 tokens .* positions for 9"):
        seen(model, ids(9), ids(2))
    with pytest.raises(InputError, match="prefix_tokens: 10 tokens"):
        seen(model, ids(2), ids(9))


# -------------------------------------------------------------------------------------------------------- fingerprints


def test_the_fingerprint_is_that_of_names_types_shapes_and_bytes() -> None:
    model = transformer()
    digest = hashlib.sha256()
    for name in sorted(dict(model.named_parameters())):
        tensor = model.get_parameter(name).detach()
        shape = ", ".join(str(size) for size in tensor.shape)
        digest.update(f'["{name}", "float64", [{shape}]]\n'.encode() + tensor.numpy().tobytes())
    assert fingerprint(model) == digest.hexdigest()
    assert fingerprint(model.train()) == fingerprint(transformer()) == digest.hexdigest()
    with torch.no_grad():
        weight = next(model.parameters())
        weight.view(-1)[-1] = torch.nextafter(weight.view(-1)[-1], torch.tensor(9.0, dtype=torch.float64))
    assert fingerprint(model) != digest.hexdigest()
    assert fingerprint(transformer().to(torch.bfloat16)) != fingerprint(transformer().to(torch.float16))


def test_the_provenance_names_the_arithmetic() -> None:
    found = provenance_of(transformer().float(), "name", "tokens")
    assert (found.model, found.tokenizer, found.dtype, found.dropout) == ("name", "tokens", "float32", False)
    assert found.capture == "after the softmax, before dropout"
    assert set(found.versions) == {"clearhead", "torch", "python"}
    assert len(attention_sites(transformer())) == 6
