"""The weights of a Marian model in Hugging Face format as a Transformer of clearhead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.base.errors import BundleError
from clearhead.bundle.weights import Signature, read_header, read_tensors
from clearhead.config.strict import structure
from clearhead.export.marian_folder import NEW, MarianFolder, Side
from clearhead.export.naming import by_turns, in_halves, layer_pairs
from clearhead.models.build import build
from clearhead.models.config import ModelConfig, TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.positions import sinusoidal_table
from clearhead.text.symbols import PAD

__all__ = ["NEVER", "from_marian", "transformer_config"]

NEVER = -10_000.0
"""The logit of a token that must have no probability: finite in every type, and e to its power is 0 in each."""

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
NORM_EPSILON = 1e-5  # that of every Marian model in transformers
OFF = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
SHARED, SOURCE, TARGET = "model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
ROUNDED = 4e-3  # bfloat16 has 8 bits for what is at most 1
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def from_marian(folder: MarianFolder) -> tuple[Seq2Seq, TransformerConfig]:
    """The model of a folder, in evaluation mode, and its configuration.

    Where their decoder starts from PAD, that row is our BOS, and our PAD is a row that has no probability. Raises
    BundleError for what is missing, damaged or without a counterpart.
    """
    _check_header(read_header(folder.weights), folder)
    tensors = {name: tensor.float() for name, tensor in read_tensors(folder.weights).items()}
    tables = _tables(tensors, folder)
    config = transformer_config(folder, _kind(tables, folder), bool(tensors.get(BIAS, torch.zeros(1)).any()))
    state = dict(_parameters(tensors, tables, folder, config))
    _check_positions(tensors, folder, config)
    model = build(config, device="meta")
    parameters: dict[int, nn.Parameter] = {}
    for name, tensor in state.items():  # what is tied stays one Parameter
        state[name] = parameters.setdefault(id(tensor), nn.Parameter(tensor.contiguous()))
    model.load_state_dict(state, strict=True, assign=True)
    return model.eval(), config


def transformer_config(folder: MarianFolder, embeddings: str, bias: bool) -> TransformerConfig:
    """The configuration that config.json means; `bias`: whether any logit has one.

    Raises BundleError that names the first key without a counterpart.
    """
    figures, where = folder.figures, folder.path / "config.json"
    for key in OFF:
        if folder.flag(key, False):
            raise BundleError(f"{where}: {key} = {figures[key]!r} has no counterpart; it must be false")
    if not folder.flag("is_encoder_decoder", True):
        raise BundleError(f"{where}: is_encoder_decoder = False has no counterpart; it must be true")
    if figures.get("quantization_config") is not None:
        raise BundleError(f"{where}: quantization_config = {figures['quantization_config']!r} has no counterpart")
    for one, other in (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim")):
        if folder.whole(one) != folder.whole(other):
            raise BundleError(f"{where}: {one} and {other} differ, {figures[one]} and {figures[other]}; they must not")
    activation = figures.get("activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        listed = ", ".join(ACTIVATIONS)
        raise BundleError(f"{where}: activation_function = {activation!r} has no counterpart; there are {listed}")
    if folder.whole("d_model") % 2:
        raise BundleError(f"{where}: d_model = {figures['d_model']} has no counterpart; it must be even")
    table: dict[str, Any] = {
        "vocab_size": len(folder.target.ids),
        "embeddings": embeddings,
        "d_model": figures["d_model"],
        "d_ff": figures["encoder_ffn_dim"],
        "encoder_layers": folder.whole("encoder_layers"),
        "decoder_layers": folder.whole("decoder_layers"),
        "attention": {"heads": figures["encoder_attention_heads"], "bias": True},
        "dropout": figures.get("dropout", 0.0),
        "norm": "post",
        "activation": ACTIVATIONS[activation],
        "positions": {"kind": "sinusoidal", "max_positions": folder.whole("max_position_embeddings")},
        "layer_norm_epsilon": NORM_EPSILON,
        "scale_embeddings": folder.flag("scale_embedding", False),
        "output_bias": bias or folder.target.ids[PAD] == NEW,
    }
    if embeddings != "tied":
        table["source_vocab_size"] = len(folder.source.ids)
    config = structure(ModelConfig, table | {"kind": "transformer"}, where=str(where))
    assert isinstance(config, TransformerConfig)
    return config


# ------------------------------------------------------------------------------------------------------------- inside


def _check_header(header: Signature, folder: MarianFolder) -> None:
    """Refuse a file whose tensors are not those that config.json calls for, by name, type and shape."""
    config = transformer_config(folder, "separate", bias=True)  # the largest: that two matrices are one shows later
    pairs = list(layer_pairs(config.encoder_layers, config.decoder_layers, bias=True))
    if lacking := next((pair.theirs for pair in pairs if pair.theirs not in header), None):
        raise BundleError(f"{folder.weights}: lacks {lacking!r}, which config.json calls for")
    shapes = {name: tuple(tensor.shape) for name, tensor in build(config, device="meta").state_dict().items()}
    wanted = {pair.theirs: shapes[pair.ours] for pair in pairs}
    source, target = (sum(place != NEW for place in side.ids) for side in (folder.source, folder.target))
    wanted |= {SOURCE: (source, config.d_model), TARGET: (target, config.d_model), OUTPUT: (target, config.d_model)}
    wanted |= {SHARED: (target, config.d_model), BIAS: (1, target)}
    if surplus := sorted(header.keys() - wanted.keys() - set(POSITIONS)):
        raise BundleError(f"{folder.weights}: holds {surplus[0]!r}, which has no counterpart")
    for name, (shape, dtype) in header.items():
        if not dtype.is_floating_point:
            said = str(dtype).removeprefix("torch.")
            raise BundleError(f"{folder.weights}: {name!r} is {said}, but weights are floating-point numbers")
        if shape != wanted.get(name, shape):
            raise BundleError(
                f"{folder.weights}: {name!r} should be {list(wanted[name])} and is {list(shape)}, by config.json"
            )


def _tables(tensors: dict[str, Tensor], folder: MarianFolder) -> tuple[Tensor, Tensor, Tensor]:
    """Source, target and output matrix: those of the file, or where it has none, the one that is shared."""
    shared = folder.flag("share_encoder_decoder_embeddings", True)
    tied = folder.flag("tie_word_embeddings", True)
    target = tensors.get(TARGET, tensors.get(SHARED))
    source = tensors.get(SOURCE, tensors.get(SHARED))
    output = tensors.get(OUTPUT)
    if target is None:
        target = output
    if source is None and shared:
        source = target
    if output is None and tied:
        output = target
    for name, found in ((SOURCE, source), (TARGET, target), (OUTPUT, output)):
        if found is None:
            raise BundleError(f"{folder.weights}: lacks {name!r}, which config.json calls for")
    assert source is not None and target is not None and output is not None
    for key, on, one, other in (
        ("share_encoder_decoder_embeddings", shared, source, target),
        ("tie_word_embeddings", tied, target, output),
    ):
        if on and not _same(one, other):
            raise BundleError(f"{folder.weights}: its matrices differ, although config.json says {key}")
    return source, target, output


def _kind(tables: tuple[Tensor, Tensor, Tensor], folder: MarianFolder) -> str:
    source, target, output = tables
    if not _same(target, output):
        return "separate"
    return "tied" if folder.shared and _same(source, target) else "output"


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and torch.equal(one, other))


def _parameters(
    tensors: dict[str, Tensor], tables: tuple[Tensor, Tensor, Tensor], folder: MarianFolder, config: TransformerConfig
) -> Iterator[tuple[str, Tensor]]:
    source, target, output = tables
    for pair in layer_pairs(config.encoder_layers, config.decoder_layers, bias=True):
        yield pair.ours, by_turns(tensors[pair.theirs], pair.axis)
    written = _rows(target, folder.target)
    yield "decoder.input.embedding.weight", written
    yield "decoder.output.weight", written if config.embeddings != "separate" else _rows(output, folder.target)
    yield "encoder.input.embedding.weight", written if config.embeddings == "tied" else _rows(source, folder.source)
    if config.output_bias:
        bias = tensors.get(BIAS, target.new_zeros(1, target.shape[0])).flatten()
        ids = torch.tensor(folder.target.ids)
        yield "decoder.output.bias", bias[ids.clamp(min=0)].masked_fill(ids == NEW, NEVER)


def _rows(matrix: Tensor, side: Side) -> Tensor:
    """The rows of an embedding in the order of our ids, a new one zero."""
    ids = torch.tensor(side.ids)
    return by_turns(matrix[ids.clamp(min=0)].masked_fill((ids == NEW)[:, None], 0.0), 1)


def _check_positions(tensors: dict[str, Tensor], folder: MarianFolder, config: TransformerConfig) -> None:
    """A table of positions may be there; it must be that of the sinusoids, which the model makes itself."""
    for name in POSITIONS:
        if name in tensors:
            found = tensors[name]
            expected = in_halves(sinusoidal_table(found.shape[0] if found.dim() else 0, config.d_model), 1).float()
            if found.shape != expected.shape or not torch.allclose(found, expected, rtol=0, atol=ROUNDED):
                raise BundleError(f"{folder.weights}: {name!r} is not the table of sinusoids; it has no counterpart")
