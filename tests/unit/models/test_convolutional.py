"""The convolutional models against their formulas, written out a second time with NumPy, sentence by sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.base.errors import ConfigError, InputError
from clearhead.config.strict import structure, unstructure
from clearhead.models import build, count_parameters, presets
from clearhead.models.config import MixedConfig, ModelConfig
from clearhead.models.convolutional_config import (
    Block,
    ByteNetConfig,
    ConvolutionalEncoderConfig,
    ConvS2SConfig,
    DilatedEncoderConfig,
)
from clearhead.nn.dropout import Dropout
from clearhead.nn.padding import Padded

Array = NDArray[np.float64]
SOURCE, PREFIX = [5, 6, 7, 8, 3], [2, 6, 4, 7]
HALF = np.sqrt(0.5)

GATES = {"kind": "convolutional", "embedding": 4, "blocks": [{"width": 3, "kernel": 3}, {"width": 5, "kernel": 1}]}
ASKING = {"kind": "convs2s", "embedding": 4, "blocks": [{"width": 3, "kernel": 3}, {"width": 5, "kernel": 2}]}
DILATED = {"kind": "dilated", "width": 2, "dilations": [1, 2]}
BYTENET = {"kind": "bytenet", "width": 3, "dilations": [1, 2], "kernel": 2}


def plain(encoder: dict[str, Any], decoder: dict[str, Any], vocab_size: int = 9) -> Any:
    table = {"vocab_size": vocab_size, "encoder": encoder, "decoder": decoder}
    return build(structure(MixedConfig, table), seed=3)


def model(encoder: dict[str, Any], decoder: dict[str, Any]) -> Any:
    made = plain(encoder, decoder).double().eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.parameters():  # biases, too, away from zero
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return made


def weights(made: nn.Module) -> dict[str, Array]:
    return {name: tensor.detach().numpy() for name, tensor in made.state_dict().items()}


def logits(made: Any, source: list[int] = SOURCE, prefix: list[int] = PREFIX) -> Array:
    with torch.no_grad():
        found: Array = made(Padded.from_lists([source]), Padded.from_lists([prefix])).numpy()
    return found


def affine(w: dict[str, Array], name: str, x: Array) -> Array:
    return np.asarray(w[f"{name}.weight"] @ x + w[f"{name}.bias"])


def taps(w: dict[str, Array], name: str, rows: list[Array], at: int, places: list[int]) -> Array:
    """b + Σ W_j·x over the taps at `places` from `at`; zero beyond the ends."""
    weight, total = w[f"{name}.weight"], w[f"{name}.bias"].copy()
    for tap, place in enumerate(places):
        if 0 <= at + place < len(rows):
            size = len(rows[0])
            total += weight[:, tap * size : (tap + 1) * size] @ rows[at + place]
    return np.asarray(total)


def gated(w: dict[str, Array], name: str, rows: list[Array], places: list[int]) -> list[Array]:
    """v(W·h + b) + h, times √½ (Gehring et al. 2017, §3.2, §3.4)."""
    found = []
    for at, x in enumerate(rows):
        a, b = np.split(taps(w, f"{name}.convolution", rows, at, places), 2)
        past = affine(w, f"{name}.past", x) if f"{name}.past.weight" in w else x
        found.append((a / (1 + np.exp(-b)) + past) * HALF)
    return found


def placed(w: dict[str, Array], name: str, ids: list[int]) -> list[Array]:
    """w + p (§3.1)."""
    words, places = w[f"{name}.embedding.weight"], w[f"{name}.positions.weight"]
    return [np.asarray(words[i] * 0.1 * np.sqrt(words.shape[1]) + places[at]) for at, i in enumerate(ids)]


# ---------------------------------------------------------------------------------------------------------- ConvS2S


def read(w: dict[str, Array], source: list[int]) -> tuple[list[Array], list[Array]]:
    """z and z + e."""
    e = placed(w, "encoder.input", source)
    rows = [affine(w, "encoder.enter", each) for each in e]
    rows = gated(w, "encoder.layers.0", rows, [-1, 0, 1])
    rows = gated(w, "encoder.layers.1", rows, [0])
    z = [affine(w, "encoder.leave", row) for row in rows]
    return z, [one + other for one, other in zip(z, e)]


def convs2s(w: dict[str, Array], z: list[Array], values: list[Array], prefix: list[int]) -> Array:
    g = placed(w, "decoder.input", prefix)
    rows = [affine(w, "decoder.enter", each) for each in g]
    for layer, places in enumerate(([-2, -1, 0], [-1, 0])):
        name = f"decoder.layers.{layer}"
        asked = []
        for h, word in zip(gated(w, f"{name}.block", rows, places), g):
            d = affine(w, f"{name}.query", h) + word  # equation 1
            scores = np.array([np.exp(d @ key) for key in z])
            c = sum(weight * value for weight, value in zip(scores / scores.sum(), values))  # equation 2
            asked.append((h + affine(w, f"{name}.context", c * np.sqrt(len(z)))) * HALF)
        rows = asked
    return np.array([w["decoder.output.weight"] @ affine(w, "decoder.leave", row) for row in rows])


def test_convs2s_is_the_paper() -> None:
    made = model(GATES, ASKING)
    w = weights(made)
    np.testing.assert_allclose(logits(made), convs2s(w, *read(w, SOURCE), PREFIX), rtol=1e-11, atol=1e-11)


def test_keys_are_not_values() -> None:
    """z + e for both, or z for both, is another model."""
    made = model(GATES, ASKING)
    w = weights(made)
    z, values = read(w, SOURCE)
    for keys, mixed in ((z, z), (values, values)):
        assert not np.allclose(logits(made), convs2s(w, keys, mixed, PREFIX), rtol=1e-3)


def test_the_scale_goes_by_the_true_length() -> None:
    """√m with m the words of each sentence: padding beside a longer one does not count."""
    made = model(GATES, ASKING)
    sources = [SOURCE, [8, 3]]
    with torch.no_grad():
        both = made(Padded.from_lists(sources), Padded.from_lists([PREFIX, PREFIX])).numpy()
    w = weights(made)
    truth = np.concatenate([convs2s(w, *read(w, source), PREFIX) for source in sources])
    np.testing.assert_allclose(both, truth, rtol=1e-11, atol=1e-11)


def test_an_encoder_of_another_width_is_mapped_and_its_keys_are_its_values() -> None:
    made = model({"kind": "recurrent", "embedding": 3, "width": 6}, ASKING)
    w = weights(made)
    states = made.encoder(Padded.from_lists([SOURCE])).keys[0].detach().numpy()
    z, values = ([affine(w, f"decoder.{name}", row) for row in states] for name in ("keys", "values"))
    np.testing.assert_allclose(logits(made), convs2s(w, z, values, PREFIX), rtol=1e-11, atol=1e-11)


def test_the_summary_is_the_mean_of_what_is_there() -> None:
    for encoder in (GATES, DILATED):
        memory = model(encoder, ASKING).encoder(Padded.from_lists([SOURCE, [8, 3]]))
        torch.testing.assert_close(memory.summary, torch.stack([memory.keys[0].mean(0), memory.keys[1, :2].mean(0)]))
        assert memory.layers == ()


# ---------------------------------------------------------------------------------------------------------- ByteNet


def norm(w: dict[str, Array], name: str, x: Array) -> Array:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + 1e-6) * w[f"{name}.weight"] + w[f"{name}.bias"])


def dilated(w: dict[str, Array], name: str, rows: list[Array], places: list[int]) -> list[Array]:
    """Kalchbrenner et al. 2016, figure 3, left."""
    inner = [affine(w, f"{name}.narrow", np.maximum(norm(w, f"{name}.narrow_norm", x), 0)) for x in rows]
    inner = [np.maximum(norm(w, f"{name}.norm", x), 0) for x in inner]
    made = [taps(w, f"{name}.convolution", inner, at, places) for at in range(len(rows))]
    wide = [affine(w, f"{name}.widen", np.maximum(norm(w, f"{name}.widen_norm", x), 0)) for x in made]
    return [x + y for x, y in zip(rows, wide)]


def word(w: dict[str, Array], half: str, token: int) -> Array:
    table = w[f"{half}.input.embedding.weight"]
    return np.asarray(table[token] * np.sqrt(table.shape[1]))


def columns(w: dict[str, Array], source: list[int]) -> list[Array]:
    rows = [word(w, "encoder", token) for token in source]
    for layer, dilation in enumerate((1, 2)):
        rows = dilated(w, f"encoder.layers.{layer}", rows, [-dilation, 0, dilation])
    return [norm(w, "encoder.norm", row) for row in rows]


def bytenet(w: dict[str, Array], source: list[int], prefix: list[int]) -> Array:
    stacked = columns(w, source)
    rows = [word(w, "decoder", token) for token in prefix]
    for at in range(min(len(stacked), len(rows))):  # beyond the source's end there is nothing to add
        rows[at] = rows[at] + w["decoder.column.weight"] @ stacked[at]
    for layer, dilation in enumerate((1, 2)):
        rows = dilated(w, f"decoder.layers.{layer}", rows, [-dilation, 0])
    return np.array([w["decoder.output.weight"] @ norm(w, "decoder.norm", row) for row in rows])


@pytest.mark.parametrize("source", [SOURCE, [8, 3], [3]], ids=len)
def test_bytenet_stacks_column_on_column(source: list[int]) -> None:
    """Also where the target is longer than the source."""
    made = model(DILATED, BYTENET)
    np.testing.assert_allclose(logits(made, source), bytenet(weights(made), source, PREFIX), rtol=1e-11, atol=1e-11)


def test_each_hypothesis_reads_the_columns_of_its_own_sentence() -> None:
    """Two a sentence, swapped and duplicated half way, beside a sentence of another length."""
    made = model(DILATED, BYTENET)
    sources = [[5, 6, 7, 8, 4, 3], [8, 3]]
    state = made.decoder.start(made.encoder(Padded.from_lists(sources))).rows(torch.tensor([[0, 0], [1, 1]]))
    first = [[2, 5], [2, 6, 7], [2], [2, 4]]
    _, state = made.decoder.advance(Padded.from_lists(first), state)
    move = [[1, 0], [3, 3]]
    state = state.rows(torch.tensor(move))
    history = [first[row] for line in move for row in line]
    hidden, _ = made.decoder.advance(Padded.from_lists([[4], [5], [6], [7]]), state)
    found = made.decoder.project(hidden)[:, 0].detach().numpy()
    w = weights(made)
    for row, (prefix, token) in enumerate(zip(history, [4, 5, 6, 7])):
        truth = bytenet(w, sources[row // 2], [*prefix, token])[-1]
        np.testing.assert_allclose(found[row], truth, rtol=1e-11, atol=1e-11)


def test_a_source_without_a_single_column() -> None:
    made = model(DILATED, BYTENET)
    np.testing.assert_allclose(logits(made, []), bytenet(weights(made), [], PREFIX), rtol=1e-11, atol=1e-11)


# ----------------------------------------------------------------------------------------------- dropout, positions


def test_dropout_stands_where_the_papers_or_the_docstrings_say() -> None:
    """Gehring et al. 2017, §4.2: word vectors, input of the convolutions, the decoder's output."""
    made = plain({**GATES, "dropout": 0.1}, {**ASKING, "dropout": 0.2})
    assert {name: m.rate for name, m in made.named_modules() if isinstance(m, Dropout)} == {
        "encoder.input.dropout": 0.1,
        "encoder.layers.0.dropout": 0.1,
        "encoder.layers.1.dropout": 0.1,
        "decoder.input.dropout": 0.2,
        "decoder.layers.0.block.dropout": 0.2,
        "decoder.layers.1.block.dropout": 0.2,
        "decoder.dropout": 0.2,
    }


class Blot(nn.Module):
    """Stands for a dropout and shows that it is passed: everything becomes zero."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def test_the_output_s_dropout_is_the_last_thing_before_the_projection() -> None:
    made = model(GATES, ASKING)
    made.decoder.dropout = Blot()
    assert not logits(made).any()


def test_first_vectors_have_the_paper_s_spread() -> None:
    """0.1 for all that is looked up (Gehring et al. 2017, §3.5), so an untrained attention is all but even."""
    part = {"embedding": 64, "blocks": [{"width": 64, "kernel": 3, "times": 2}]}
    words = torch.arange(500)[None]
    made = plain({"kind": "convolutional", **part}, {"kind": "convs2s", **part}, 500)
    for half in (made.encoder, made.decoder):
        assert half.input.embedding(words).std().item() == pytest.approx(0.1, rel=0.05)
        assert half.input.positions.weight.std().item() == pytest.approx(0.1, rel=0.05)
    assert made.decoder.output.weight.std().item() == pytest.approx(1 / 8, rel=0.05)
    stack = {"kind": "transformer", "d_model": 64, "positions": {"kind": "learned"}}
    other = plain({"kind": "convolutional", **part}, stack, 500).decoder.input  # whose first vectors are its own
    assert other.embedding(words).std().item() == pytest.approx(1.0, rel=0.05)
    assert other.positions.weight.std().item() == pytest.approx(1 / 8, rel=0.05)


def test_positions_end() -> None:
    for encoder, decoder, least in ((4, 1024, 4), (1024, 3, 3)):
        made = model({**GATES, "max_positions": encoder}, {**ASKING, "max_positions": decoder})
        assert made.max_positions == least
        with pytest.raises(InputError, match=r"position \d asked of a model that learnt \d positions"):
            logits(made)
    padded = model({**GATES, "max_positions": 5}, ASKING).encoder(Padded.from_lists([SOURCE, [3]]))
    assert padded.keys.shape == (2, 5, 4)


def test_the_limit_names_the_key_that_sets_it() -> None:
    stack = {"kind": "transformer", "d_model": 8, "layers": 1, "attention": {"heads": 1}}
    learnt = {**stack, "positions": {"kind": "learned", "max_positions": 7}}

    def limits(encoder: dict[str, Any], decoder: dict[str, Any]) -> dict[str, int]:
        return structure(MixedConfig, {"vocab_size": 9, "encoder": encoder, "decoder": decoder}).position_limits

    assert limits(GATES, BYTENET) == {"encoder.max_positions": 1024}
    assert limits({**GATES, "max_positions": 6}, learnt) == {
        "encoder.max_positions": 6,
        "decoder.positions.max_positions": 7,
    }
    assert limits(stack, ASKING) == {"decoder.max_positions": 1024}
    assert limits(DILATED, BYTENET) == {}


# ---------------------------------------------------------------------------------------------------------- presets

NAMES = ["convs2s", "bytenet", "convs2s-tiny", "bytenet-tiny"]


def counted(name: str, vocabulary: int, **more: Any) -> int:
    return count_parameters(build(presets.named(name, vocabulary, more), device="meta"))


def test_figures_of_gehring_2017() -> None:
    """§5.1: ten layers of 512 and three of 768 with kernel 3, two of 2048 with kernel 1; §4.2: vectors of 512."""
    config = presets.named("convs2s", 40_000)
    assert isinstance(config, MixedConfig)
    small, middle = Block(width=512, kernel=3, times=10), Block(width=768, kernel=3, times=3)
    blocks = (small, middle, Block(width=2048, kernel=1, times=2))
    part: dict[str, Any] = {"embedding": 512, "blocks": blocks, "dropout": 0.1}
    assert config.encoder == ConvolutionalEncoderConfig(**part)
    assert config.decoder == ConvS2SConfig(**part)
    widths = [512] * 10 + [768] * 3 + [2048] * 2
    kernels = [3] * 13 + [1] * 2
    words, ends = 2 * (40_000 + 1024) * 512 + 40_000 * 512, 2 * (512 * 512 + 512 + 2048 * 512 + 512)
    layers = 0
    for below, width, kernel in zip([512, *widths], widths, kernels):
        layers += 2 * (2 * width * kernel * below + 2 * width)
        layers += 2 * (below * width + width) if below != width else 0
        layers += (width * 512 + 512) + (512 * width + width)  # a query and a context in each layer of the decoder
    assert counted("convs2s", 40_000) == words + ends + layers


def test_figures_of_kalchbrenner_2016() -> None:
    """§6: 30 blocks a side in sets of dilations 1, 2, 4, 8, 16, d = 800, kernels of 3; §3.3: words of 2d."""
    config = presets.named("bytenet", 323, {"source_vocab_size": 296})
    assert isinstance(config, MixedConfig)
    part: dict[str, Any] = {"width": 800, "kernel": 3, "dilations": (1, 2, 4, 8, 16), "sets": 6}
    assert config.encoder == DilatedEncoderConfig(**part)
    assert config.decoder == ByteNetConfig(**part)
    d, wide = 800, 1600
    block = 2 * wide + (wide * d + d) + 2 * d + (3 * d * d + d) + 2 * d + (d * wide + wide)
    words = 296 * wide + 2 * 323 * wide
    assert counted("bytenet", 323, source_vocab_size=296) == words + 60 * block + wide * wide + 2 * 2 * wide


@pytest.mark.parametrize("name", ["convs2s-tiny", "bytenet-tiny"])
def test_a_tiny_one_is_small_and_otherwise_its_paper_s(name: str) -> None:
    small, whole = presets.named(name, 8000), presets.named(name.removesuffix("-tiny"), 8000)
    assert isinstance(small, MixedConfig) and isinstance(whole, MixedConfig)
    assert counted(name, 8000) < 5_000_000
    sizes = {"embedding", "blocks", "width", "dilations", "sets", "dropout"}
    for ours, theirs in ((small.encoder, whole.encoder), (small.decoder, whole.decoder)):
        assert {k: v for k, v in unstructure(ours).items() if k not in sizes} == {
            k: v for k, v in unstructure(theirs).items() if k not in sizes
        }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "overrides", [{}, {"source_vocab_size": 77}, {"decoder": {"dropout": 0.3}}, {"decoder": {"kind": "luong"}}], ids=str
)
def test_round_trip(name: str, overrides: dict[str, Any]) -> None:
    config = presets.named(name, 1000, overrides)
    assert structure(ModelConfig, unstructure(config)) == config
    build(config, device="meta")


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("convs2s", {"encoder": {"blocks": []}}, "blocks is empty: a convolutional stack needs at least one layer"),
        ("convs2s", {"encoder": {"blocks": [{"kernel": 4}]}}, "an encoder's kernel needs a middle.* not 4"),
        ("convs2s", {"encoder": {"blocks": [{"witdh": 4}]}}, r"blocks.*witdh: unknown key \(did you mean 'width'\?\)"),
        ("convs2s", {"decoder": {"embedding": 256}, "embeddings": "tied"}, "needs word vectors of one width"),
        ("bytenet", {"encoder": {"kernel": 2}}, "an encoder's kernel needs a middle.* not 2"),
        ("bytenet", {"decoder": {"dilations": []}}, "name at least one, each from 1 to 1024"),
        ("bytenet", {"decoder": {"dilations": [1, 0]}}, r"dilations \[1, 0\]: name at least one"),
        ("bytenet", {"decoder": {"layers": 3}}, "layers: unknown key"),
    ],
)
def test_mistakes_are_named(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        presets.named(name, 1000, overrides)
