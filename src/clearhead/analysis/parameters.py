"""How many numbers a model learns, part by part, by formula; the tests hold it to the tensors of real models."""

from __future__ import annotations

from fractions import Fraction

from clearhead.analysis.sizes import attention_widths, inner_maps
from clearhead.models.config import LearnedConfig, TransformerConfig

__all__ = ["attention_parameters", "feedforward_parameters", "implied_vocabulary", "norm_parameters", "parameters"]


def attention_parameters(config: TransformerConfig) -> int:
    """One attention layer: W_Q [d, H·E], W_K and W_V [d, G·E], W_O [H·E, d], and their biases if it has any.

    4·d² when H·E = G·E = d (Vaswani et al. 2017, §3.2.2, whose formulas have no bias).
    """
    d, (wide, kept) = config.d_model, attention_widths(config)
    biases = wide + 2 * kept + d if config.attention.bias else 0
    return 2 * d * wide + 2 * d * kept + biases


def feedforward_parameters(config: TransformerConfig) -> int:
    """One feed-forward layer with its biases: 2·d·d_ff + d_ff + d (Vaswani et al. 2017, §3.3, equation 2).

    swiglu has a second matrix and bias of the first kind.
    """
    d, maps = config.d_model, inner_maps(config)
    return maps * d * config.d_ff + (maps - 1) * config.d_ff + d


def norm_parameters(config: TransformerConfig) -> int:
    """One layer norm: a gain and a bias for each of the d components (Ba et al. 2016, equation 4).

    An encoder layer has two of them, a decoder layer three; the residual connections around them learn nothing.
    """
    return 2 * config.d_model


def parameters(config: TransformerConfig) -> dict[str, int]:
    """Distinct parameters of each part, and `total`. A matrix that is used in several places counts once.

    >>> from clearhead.models import presets
    >>> counts = parameters(presets.base(vocab_size=37000))
    >>> counts["embeddings"], counts["decoder cross-attention"], counts["total"]
    (18944000, 6291456, 63045632)
    """
    d, encoders, decoders = config.d_model, config.encoder_layers, config.decoder_layers
    source_vocabulary = config.source_vocab_size or config.vocab_size
    tables = config.vocab_size + (0 if config.embeddings == "tied" else source_vocabulary)
    learnt = config.positions.max_positions if isinstance(config.positions, LearnedConfig) else 0
    last = 1 if config.norm == "pre" else 0  # a stack of pre-norm layers ends on a norm of its own
    counts = {
        "embeddings": tables * d,
        "positions": 2 * learnt * d,  # encoder and decoder learn their own
        "encoder self-attention": encoders * attention_parameters(config),
        "encoder feed-forward": encoders * feedforward_parameters(config),
        "encoder norms": (2 * encoders + last) * norm_parameters(config),
        "decoder self-attention": decoders * attention_parameters(config),
        "decoder cross-attention": decoders * attention_parameters(config),
        "decoder feed-forward": decoders * feedforward_parameters(config),
        "decoder norms": (3 * decoders + last) * norm_parameters(config),
        "output projection": config.vocab_size * ((d if config.embeddings == "separate" else 0) + config.output_bias),
    }
    return {**counts, "total": sum(counts.values())}


def implied_vocabulary(config: TransformerConfig, total: int) -> Fraction:
    """The size of the vocabulary with which a model of these figures has `total` parameters; rarely a whole number.

    With a `source_vocab_size` of its own the source's vocabulary stays as it is.
    """
    tables = {"tied": 1, "output": 2, "separate": 3}[config.embeddings]  # matrices of V rows, source's included
    if config.embeddings != "tied" and config.source_vocab_size is not None:
        tables -= 1
    each = tables * config.d_model + config.output_bias
    return config.vocab_size + Fraction(total - parameters(config)["total"], each)
