"""A Transformer of clearhead as a model of Marian's kind in Hugging Face format (`transformers.MarianMTModel`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.export.extra import program, quietly
from clearhead.export.naming import in_halves, layer_pairs
from clearhead.models.config import SinusoidalConfig, TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.positions import sinusoidal_table
from clearhead.text.symbols import BOS, EOS, PAD, UNK

__all__ = ["MOST_POSITIONS", "check_marian", "marian_config", "marian_tensors", "to_marian"]

MOST_POSITIONS = 1024
"""For how many tokens of a text the other program makes positions, where the model itself sets no limit."""

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu"}


def check_marian(config: TransformerConfig) -> None:
    """InputError that names the first key of `config` for which Marian's models have no counterpart."""
    attention = config.attention
    heads, kv_heads, head_dim = attention.widths(config.d_model)
    refused = [
        ("model.norm", config.norm, config.norm == "post", "its layers are 'post'"),
        ("model.positions.kind", config.positions.kind, config.positions.kind == "sinusoidal", "its are 'sinusoidal'"),
        ("model.activation", config.activation, config.activation in ACTIVATIONS, "it has no gated layer"),
        ("model.attention.kv_heads", kv_heads, kv_heads == heads, f"it has as many as heads, {heads}"),
        ("model.attention.head_dim", head_dim, head_dim * heads == config.d_model, "its is d_model / heads"),
        ("model.d_model", config.d_model, config.d_model % 2 == 0, "it must be even"),
    ]
    for key, value, fits, why in refused:
        if not fits:
            raise InputError(f"{key} = {value!r} has no counterpart in a Marian model of transformers: {why}")


def marian_config(config: TransformerConfig) -> dict[str, Any]:
    """The figures of a `MarianConfig`. The ids are ours: PAD 0, UNK 1, BOS 2 (where the decoder starts), EOS 3.

    Raises InputError for what has no counterpart.
    """
    check_marian(config)
    source = config.source_vocab_size or config.vocab_size
    limit = config.positions.max_positions if isinstance(config.positions, SinusoidalConfig) else None
    heads = config.attention.heads
    return {
        "vocab_size": source,
        "decoder_vocab_size": config.vocab_size,
        "share_encoder_decoder_embeddings": config.embeddings == "tied",
        "tie_word_embeddings": config.embeddings != "separate",
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": ACTIVATIONS[config.activation],
        "dropout": config.dropout,
        "attention_dropout": config.attention.dropout,
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": limit or MOST_POSITIONS,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def marian_tensors(model: Seq2Seq, config: TransformerConfig) -> dict[str, Tensor]:
    """Every parameter under Marian's name and in its order; biases that the model has not are zeros."""
    check_marian(config)
    state = model.state_dict()
    tensors: dict[str, Tensor] = {}
    for pair in layer_pairs(config.encoder_layers, config.decoder_layers, bias=True):
        if pair.ours in state:
            tensors[pair.theirs] = in_halves(state[pair.ours], pair.axis)
        else:  # the paper's projections have no biases
            weight = state[pair.ours.removesuffix("bias") + "weight"]
            tensors[pair.theirs] = weight.new_zeros(weight.shape[0])
    source, target, output = (
        in_halves(state[name], 1)
        for name in ("encoder.input.embedding.weight", "decoder.input.embedding.weight", "decoder.output.weight")
    )
    if config.embeddings == "tied":
        tensors["model.shared.weight"] = target
    tensors |= {
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target,
        "lm_head.weight": output,
        "final_logits_bias": state.get("decoder.output.bias", output.new_zeros(config.vocab_size))[None],
    }
    return tensors


def to_marian(model: Seq2Seq, config: TransformerConfig) -> Any:
    """The same weights as a `transformers.MarianMTModel`, in evaluation mode, with our ids.

    Its norms have our epsilon as long as it is in memory: Marian's configuration cannot say it, so that a model loaded
    from a folder has 1e-5. Raises InputError for what has no counterpart, or if transformers is missing.
    """
    transformers = program("transformers")
    tensors = marian_tensors(model, config)
    with quietly():
        theirs = transformers.MarianMTModel(transformers.MarianConfig(**marian_config(config)))
    theirs.to(next(iter(tensors.values())).dtype)
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    lacking = [name for name in missing if not name.endswith("embed_positions.weight")]
    if lacking or unexpected:
        raise AssertionError(f"the parameters of MarianMTModel are other ones: {lacking}, {unexpected}")
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = config.layer_norm_epsilon
    _exact_positions(theirs)
    theirs.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bad_words_ids=[[PAD], [UNK], [BOS]],
        num_beams=4,
        max_length=min(512, theirs.config.max_position_embeddings),
    )
    return theirs.eval()


def _exact_positions(theirs: Any) -> None:
    """Our own sinusoids, rounded once: theirs are rounded to float32 even where the model is of float64."""
    for table in (theirs.model.encoder.embed_positions, theirs.model.decoder.embed_positions):
        with torch.no_grad():
            table.weight.copy_(in_halves(sinusoidal_table(*table.weight.shape), 1))
