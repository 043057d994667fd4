"""The recurrent models against their formulas, written out a second time with NumPy or with PyTorch's own layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.config.strict import structure
from clearhead.models import Seq2Seq, build
from clearhead.models.config import MixedConfig
from clearhead.models.protocols import Memory
from clearhead.models.recurrent import MemoryShape, RecurrentEncoder, StateBridge, after_each_row
from clearhead.models.recurrent_config import RecurrentEncoderConfig
from clearhead.nn.padding import Padded

Array = NDArray[np.float64]
SOURCE, PREFIX = [5, 6, 7, 8, 3], [2, 6, 4, 7]


def model(encoder: dict[str, Any], decoder: dict[str, Any], **more: Any) -> Seq2Seq:
    table = {"vocab_size": 9, "encoder": encoder, "decoder": decoder} | more
    made = build(structure(MixedConfig, table), seed=3).double().eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.parameters():  # biases, too, away from zero
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return made


def weights(made: nn.Module) -> dict[str, Array]:
    return {name: tensor.detach().numpy() for name, tensor in made.state_dict().items()}


def logits(made: Seq2Seq) -> Array:
    with torch.no_grad():
        found: Array = made(Padded.from_lists([SOURCE]), Padded.from_lists([PREFIX])).numpy()
    return found


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gru_before(w: dict[str, Array], name: str, x: Array, h: Array, gates: tuple[str, ...]) -> Array:
    """Bahdanau et al. 2015, A.1.1."""
    size = len(h)
    part = {g: slice(i * size, (i + 1) * size) for i, g in enumerate(gates)}
    wide, deep, bias = (w[f"{name}.{kind}"] for kind in ("input_weight", "hidden_weight", "bias"))
    z, r = (sigmoid(wide[part[g]] @ x + deep[part[g]] @ h + bias[part[g]]) for g in ("update", "reset"))
    c = next(g for g in gates if g not in ("update", "reset"))
    new = np.tanh(wide[part[c]] @ x + deep[part[c]] @ (r * h) + bias[part[c]])
    return np.asarray((1 - z) * h + z * new)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


# -------------------------------------------------------------------------------------------------------- RNNsearch


def rnnsearch(made: Seq2Seq) -> Array:
    w, gates = weights(made), made.decoder.cell.gates  # type: ignore[attr-defined]
    m, n = 3, 4
    words = [w["encoder.input.embedding.weight"][i] * np.sqrt(m) for i in SOURCE]
    forth, back = [np.zeros(n)], [np.zeros(n)]
    for x in words:
        forth.append(gru_before(w, "encoder.stack.forwards.0", x, forth[-1], gates))
    for x in reversed(words):
        back.append(gru_before(w, "encoder.stack.backwards.0", x, back[-1], gates))
    h = [np.concatenate([f, b]) for f, b in zip(forth[1:], reversed(back[1:]))]
    first = back[-1]  # ←h_1: the backward state at the first word
    s = np.tanh(w["decoder.bridge.maps.0.weight"] @ first + w["decoder.bridge.maps.0.bias"])
    rows = []
    for y in PREFIX:
        score = "decoder.core.score"
        energies = [
            w[f"{score}.energy.weight"][0] @ np.tanh(w[f"{score}.query.weight"] @ s + w[f"{score}.key.weight"] @ each)
            for each in h
        ]
        c = softmax(np.array(energies)) @ np.array(h)
        word = w["decoder.input.embedding.weight"][y] * np.sqrt(m)
        read = "decoder.readout"
        deep = w[f"{read}.state.weight"] @ s + w[f"{read}.state.bias"]  # of s_{i−1}, as A.2.2 prints
        deep = deep + w[f"{read}.embedding.weight"] @ word + w[f"{read}.context.weight"] @ c
        rows.append(w["decoder.output.weight"] @ deep.reshape(-1, 2).max(1))
        s = gru_before(w, "decoder.cell", np.concatenate([word, c]), s, gates)
    return np.array(rows)


BIGRU = {"kind": "recurrent", "embedding": 3, "cell": "gru-before", "width": 4, "bidirectional": True}
SEARCH = {"kind": "bahdanau", "embedding": 3, "width": 4, "attention": 5, "readout": 6}


def test_rnnsearch_is_the_appendix() -> None:
    made = model(BIGRU, SEARCH)
    np.testing.assert_allclose(logits(made), rnnsearch(made), rtol=1e-11, atol=1e-11)


def test_a_start_from_the_forward_state_is_another_model() -> None:
    """→h_S and ←h_1 are both final; only the second is what A.2.2 starts from."""
    made = model(BIGRU, SEARCH)
    memory = made.encoder(Padded.from_lists([SOURCE]))
    assert torch.equal(memory.summary, memory.keys[:, 0, 4:])  # the backward half at the first word
    assert not torch.allclose(memory.summary, memory.keys[:, -1, :4])


def test_the_keys_are_multiplied_once_a_sentence() -> None:
    made = model(BIGRU, SEARCH)
    calls: list[int] = []
    made.decoder.core.score.key.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[attr-defined]
    logits(made)
    assert len(calls) == 1


# ------------------------------------------------------------------------------------------------------------- Luong


def luong(made: Seq2Seq, feeding: bool) -> Array:
    w, width, half = weights(made), 4, 2
    memory = made.encoder(Padded.from_lists([SOURCE]))
    keys = memory.keys[0].detach().numpy()
    state = [(layer[0, 0].detach().numpy(), layer[0, 1].detach().numpy()) for layer in memory.layers]
    fed, rows = np.zeros(width), []
    gates = made.decoder.stack.cells[0].gates  # type: ignore[attr-defined]
    for y in PREFIX:
        x = w["decoder.input.embedding.weight"][y] * np.sqrt(3)
        x = np.concatenate([x, fed]) if feeding else x
        for depth in range(2):
            h, c = state[depth]
            name = f"decoder.stack.cells.{depth}"
            total = w[f"{name}.input_weight"] @ x + w[f"{name}.hidden_weight"] @ h + w[f"{name}.bias"]
            part = dict(zip(gates, total.reshape(4, width)))
            cell = next(g for g in gates if g not in ("input", "forget", "output"))
            c = sigmoid(part["forget"]) * c + sigmoid(part["input"]) * np.tanh(part[cell])
            h = sigmoid(part["output"]) * np.tanh(c)
            state[depth] = h, c
            x = h
        scores = np.array([x @ w["decoder.core.score.map.weight"] @ key for key in keys])
        inner = np.tanh(w["decoder.core.hidden.weight"] @ x)
        centre = len(SOURCE) * sigmoid(w["decoder.core.position.weight"] @ inner)[0]
        near = [s for s in range(len(SOURCE)) if abs(s - centre) <= half]
        aligned = np.zeros(len(SOURCE))
        aligned[near] = softmax(scores[near])
        aligned *= np.exp(-((np.arange(len(SOURCE)) - centre) ** 2) / (2 * (half / 2) ** 2))  # σ = D/2
        fed = np.tanh(w["decoder.combine.weight"] @ np.concatenate([aligned @ keys, x]))
        rows.append(w["decoder.output.weight"] @ fed)
    return np.array(rows)


@pytest.mark.parametrize("feeding", [True, False])
def test_luong_is_its_equations(feeding: bool) -> None:
    made = model(
        {"kind": "recurrent", "embedding": 3, "layers": 2, "width": 4, "reverse": True},
        {
            "kind": "luong", "embedding": 3, "layers": 2, "width": 4,
            "window": "local-p", "half_width": 2, "input_feeding": feeding,
        },
    )  # fmt: skip
    np.testing.assert_allclose(logits(made), luong(made, feeding), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("feeding", [True, False])
def test_the_gradient_reaches_the_predicted_place(feeding: bool) -> None:
    """v_p and W_p learn through the Gaussian alone."""
    made = model(
        {"kind": "recurrent", "embedding": 3, "width": 4},
        {"kind": "luong", "embedding": 3, "width": 4, "window": "local-p", "input_feeding": feeding},
    )
    made(Padded.from_lists([SOURCE]), Padded.from_lists([PREFIX])).pow(2).sum().backward()
    core: Any = made.decoder.core  # type: ignore[attr-defined]
    assert all(float(each.weight.grad.abs().max()) > 1e-6 for each in (core.hidden, core.position))


# ------------------------------------------------------------------------------------------- Sutskever and Cho


def lstm_of(stack: Any, inputs: int, width: int) -> nn.LSTM:
    """PyTorch's layer with our weights; its gates are in the order i, f, g, o."""
    made = nn.LSTM(inputs, width, len(stack.cells), batch_first=True).double()
    order = [next(g for g in stack.cells[0].gates if g[0] == letter) for letter in ("i", "f")]
    rest = [g for g in stack.cells[0].gates if g not in order]
    order += [next(g for g in rest if g != "output"), "output"]
    with torch.no_grad():
        for depth, cell in enumerate(stack.cells):
            for name, ours in (
                ("weight_ih", cell.input_weight),
                ("weight_hh", cell.hidden_weight),
                ("bias_ih", cell.bias),
            ):
                getattr(made, f"{name}_l{depth}").copy_(torch.cat([cell.gate(ours, gate) for gate in order]))
            getattr(made, f"bias_hh_l{depth}").zero_()
    return made


def test_seq2seq_is_two_lstms_of_pytorch_joined_by_all_their_states() -> None:
    part = {"embedding": 3, "cell": "lstm", "layers": 3, "width": 4}
    made: Any = model({"kind": "recurrent", "reverse": True, **part}, {"kind": "seq2seq", **part})
    assert made.decoder.bridge.maps is None  # nothing learnt stands between them
    reader, writer = lstm_of(made.encoder.stack, 3, 4), lstm_of(made.decoder.stack, 3, 4)
    turned = torch.tensor([[8, 7, 6, 5, 3]])  # d c b a EOS
    with torch.no_grad():
        _, state = reader(made.encoder.input.embedding(turned))
        outputs, _ = writer(made.decoder.input.embedding(torch.tensor([PREFIX])), state)
        expected = outputs[0] @ made.decoder.output.weight.T
    np.testing.assert_allclose(logits(made), expected.numpy(), rtol=1e-11, atol=1e-11)


def test_the_vector_of_an_encdec_is_read_at_every_step() -> None:
    """Cho et al. 2014: c stands beside each word and in the readout; Sutskever's decoder sees none of it."""
    made: Any = model(
        {"kind": "recurrent", "embedding": 3, "cell": "gru-before", "width": 4},
        {"kind": "encdec", "embedding": 3, "width": 5, "readout": 6},
    )
    w, gates = weights(made), made.decoder.stack.cells[0].gates
    summary = made.encoder(Padded.from_lists([SOURCE])).summary[0].detach().numpy()
    c = np.tanh(w["decoder.context.weight"] @ summary + w["decoder.context.bias"])
    s = np.tanh(w["decoder.bridge.maps.0.weight"] @ c + w["decoder.bridge.maps.0.bias"])
    rows = []
    for y in PREFIX:
        word = w["decoder.input.embedding.weight"][y] * np.sqrt(3)
        s = gru_before(w, "decoder.stack.cells.0", np.concatenate([word, c]), s, gates)
        deep = w["decoder.readout.state.weight"] @ s + w["decoder.readout.state.bias"]
        deep = deep + w["decoder.readout.embedding.weight"] @ word + w["decoder.readout.context.weight"] @ c
        rows.append(w["decoder.output.weight"] @ deep.reshape(-1, 2).max(1))
    np.testing.assert_allclose(logits(made), np.array(rows), rtol=1e-11, atol=1e-11)


# ------------------------------------------------------------------------------------------------ encoder and bridge


def encoder(**figures: Any) -> RecurrentEncoder:
    config = RecurrentEncoderConfig(embedding=3, width=4, **figures)
    made = RecurrentEncoder(config, 9).double().eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return made


def test_reversal_is_reading_the_turned_text_with_eos_last() -> None:
    """a b c EOS is read as c b a EOS, within the length of each; the memory stands in the order of the source."""
    turned, plain = encoder(reverse=True), encoder(reverse=False)
    ours = turned(Padded.from_lists([[5, 6, 7, 3], [8, 3]]))
    theirs = plain(Padded.from_lists([[7, 6, 5, 3], [8, 3]]))
    assert torch.equal(ours.summary, theirs.summary)
    assert torch.equal(ours.layers[0], theirs.layers[0])
    assert torch.equal(ours.keys[0], theirs.keys[0, [2, 1, 0, 3]])
    assert torch.equal(ours.keys[1], theirs.keys[1])


@pytest.mark.parametrize("cell", ["lstm", "gru-after", "elman"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_are_the_final_states_of_every_layer(cell: Any, bidirectional: bool) -> None:
    made = encoder(cell=cell, layers=2, bidirectional=bidirectional)
    memory = made(Padded.from_lists([SOURCE, [8, 3]]))
    parts = 2 if cell == "lstm" else 1
    assert made.shape == MemoryShape(memory.keys.shape[-1], 4, ((parts, memory.keys.shape[-1]),) * 2)
    assert [layer.shape for layer in memory.layers] == [(2, parts, memory.keys.shape[-1])] * 2
    top = memory.layers[-1][:, 0]
    last = torch.stack([memory.keys[0, 4], memory.keys[1, 1]])  # the last real token of each
    assert torch.equal(top[:, :4], last[:, :4])
    if bidirectional:
        assert torch.equal(top[:, 4:], memory.keys[:, 0, 4:])


def memory_of(summary: Tensor, *layers: Tensor) -> Memory:
    keys = summary[:, None]
    return Memory(keys, keys, torch.ones(keys.shape[:2], dtype=torch.bool), summary, layers)


def test_a_bridge_copies_what_fits_and_learns_what_does_not() -> None:
    layer = torch.arange(12.0).view(2, 2, 3)
    shape = MemoryShape(5, 5, ((2, 3), (2, 3)))
    copies = StateBridge(shape, 2, 3, 2)
    assert not list(copies.parameters())
    first, second = copies(memory_of(torch.zeros(2, 5), layer, -layer))
    assert torch.equal(first[0], layer[:, 0]) and torch.equal(first[1], layer[:, 1])
    assert torch.equal(second[1], -layer[:, 1])
    for parts, width, layers in ((1, 3, 2), (2, 4, 2), (2, 3, 1)):
        learns = StateBridge(shape, parts, width, layers)
        assert [each.weight.shape for each in learns.maps] == [(parts * width, 5)] * layers  # type: ignore[union-attr]


def test_after_each_row_takes_every_row_at_its_own_end() -> None:
    steps = [torch.full((3, 2), float(t)) for t in range(5)]
    assert after_each_row(steps, torch.tensor([4, 0, 2])).tolist() == [[4, 4], [0, 0], [2, 2]]


def test_each_decoder_says_which_road_it_takes() -> None:
    lstm, gru = {"kind": "recurrent", "width": 4}, {"kind": "recurrent", "cell": "gru-before", "width": 4}

    def roads(one: dict[str, Any], other: dict[str, Any]) -> tuple[str, str]:
        made: Any = build(structure(MixedConfig, {"vocab_size": 9, "encoder": one, "decoder": other}), device="meta")
        return made.encoder.path, made.decoder.path

    assert roads(lstm, {"kind": "seq2seq"}) == ("fused", "fused")
    assert roads(gru, {"kind": "encdec"}) == ("swept", "swept")  # no kernel of PyTorch's resets before the product
    assert roads(lstm, {"kind": "bahdanau"}) == ("fused", "swept")  # its cell is the papers' GRU
    assert roads(lstm, {"kind": "bahdanau", "cell": "lstm"}) == ("fused", "loop")
    assert roads(lstm, {"kind": "luong"}) == ("fused", "loop")
    assert roads(lstm, {"kind": "luong", "input_feeding": False}) == ("fused", "fused")


@pytest.mark.parametrize("precision", ["autocast", "bfloat16"])
@pytest.mark.parametrize("decoder", ["seq2seq", "encdec", "bahdanau", "luong", "transformer"])
@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_eight_bits_train(kind: str, decoder: str, precision: str) -> None:
    made = build(
        structure(MixedConfig, {"vocab_size": 9, "encoder": {"kind": kind}, "decoder": {"kind": decoder}}), seed=1
    )
    if precision == "bfloat16":
        made = made.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        found = made(Padded.from_lists([SOURCE, [5, 3]]), Padded.from_lists([PREFIX, [2]]))
    found.float().logsumexp(-1).sum().backward()
    assert all(bool(torch.isfinite(each.grad).all()) for each in made.parameters() if each.grad is not None)


def test_twin_records_recurrent_attention() -> None:
    """One record a core for the whole target, though the core is called once a step."""
    from clearhead.inspection.recorders import recording_twin

    made = model(BIGRU, SEARCH)
    copied, recording = recording_twin(made)
    pair = Padded.from_lists([SOURCE]), Padded.from_lists([PREFIX])
    with torch.no_grad():
        assert torch.equal(copied(*pair), made(*pair))
    record = recording.attention["decoder.core"]
    assert record.weights.shape == (1, 1, len(PREFIX), len(SOURCE))
    torch.testing.assert_close(record.weights @ record.value, record.mixed, rtol=1e-12, atol=1e-12)
