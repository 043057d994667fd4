"""Floating-point operations of the matrix products, part by part: two for a multiplication and its addition.

Counted is what PyTorch's `FlopCounterMode` counts, so that the two can be compared: the products. Softmax, norms,
activations, dropout and biases are left out; each touches a number once where a product touches it d_model times.
Scores that a mask hides are counted, since they are computed: a causal mask hides the answer, not the work.
"""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.analysis.sizes import Lengths, attention_widths, inner_maps
from clearhead.models.config import TransformerConfig

__all__ = ["DecoderWork", "attention_flops", "backward", "feedforward_flops", "forward", "greedy", "in_all", "step"]


def attention_flops(config: TransformerConfig, *, queries: int, keys: int, pairs: int) -> dict[str, int]:
    """One attention layer: `queries` rows ask, `keys` rows are made into keys and values, `pairs` of them are scored.

    projections: 2·d·(2·queries·H·E + 2·keys·G·E) for W_Q and W_O, W_K and W_V; scores q·kᵀ and mixing A·V: 2·pairs·H·E
    each. With queries = keys = n, pairs = n² and heads as wide as the model together that is 8·n·d² + 4·n²·d
    (Vaswani et al. 2017, §3.2, equation 1). In cross-attention queries and keys have different lengths; keys that a
    cache holds are scored but not made.
    """
    d, (wide, kept) = config.d_model, attention_widths(config)
    return {
        "projections": 2 * d * (2 * queries * wide + 2 * keys * kept),
        "scores": 2 * pairs * wide,
        "mixing": 2 * pairs * wide,
    }


def feedforward_flops(config: TransformerConfig, rows: int) -> int:
    """One feed-forward layer: 4·d·d_ff a row (Vaswani et al. 2017, §3.3, equation 2); 6·d·d_ff with swiglu's gate."""
    return 2 * rows * inner_maps(config) * config.d_model * config.d_ff


@dataclass(frozen=True)
class DecoderWork:
    """What a decoder does to one sentence, in rows of its products.

    `rows` positions go through every layer, with `pairs` scores a head among themselves and the past; `source_rows`
    positions of the source are made into keys and values, with `source_pairs` scores a head; `projected` positions
    are projected onto the vocabulary.
    """

    rows: int
    pairs: int
    source_rows: int
    source_pairs: int
    projected: int

    @classmethod
    def whole(cls, source: int, target: int) -> DecoderWork:
        """The target is known: all its positions at once (teacher forcing)."""
        return cls(target, target * target, source, target * source, target)

    @classmethod
    def step(cls, source: int, target: int, *, cache: bool) -> DecoderWork:
        """The `target`-th token of a translation, after `target` − 1 others and BOS have been written.

        Without a cache the decoder reads everything again, the source's keys included; the encoder's output is kept.
        """
        if cache:
            return cls(1, target, 0, source, 1)
        return cls(target, target * target, source, target * source, 1)

    @classmethod
    def greedy(cls, source: int, target: int, *, cache: bool) -> DecoderWork:
        """The sum of the steps 1 … `target`; with a cache, also the source's keys and values, made once."""
        total = target * (target + 1) // 2
        if cache:
            return cls(target, total, source, target * source, target)
        squares = total * (2 * target + 1) // 3
        return cls(total, squares, target * source, total * source, target)


def forward(config: TransformerConfig, lengths: Lengths) -> dict[str, int]:
    """The forward pass of a training step by part; its `sum` is the whole.

    >>> from clearhead.models import presets
    >>> parts = forward(presets.base(vocab_size=37000), Lengths(source=100, target=100))
    >>> parts["encoder self-attention scores"] == 6 * 2 * 100 * 100 * 512
    True
    """
    work = DecoderWork.whole(lengths.source, lengths.target)
    return _times(lengths.batch, {**_encoder(config, lengths.source), **_decoder(config, work)})


def backward(config: TransformerConfig, lengths: Lengths) -> dict[str, int]:
    """The backward pass of a training step by part: every product has two factors, and each needs a gradient.

    So it is twice the forward pass, exactly. A kernel that does not keep the scores (FlashAttention, Dao et al. 2022,
    algorithm 4) computes them once more: then add `forward`'s scores.
    """
    return _times(2, forward(config, lengths))


def step(config: TransformerConfig, lengths: Lengths, *, cache: bool) -> dict[str, int]:
    """Writing the `lengths.target`-th token of each translation, with or without a cache (see `DecoderWork.step`)."""
    work = DecoderWork.step(lengths.source, lengths.target, cache=cache)
    return _times(lengths.batch, _decoder(config, work))


def greedy(config: TransformerConfig, lengths: Lengths, *, cache: bool) -> dict[str, int]:
    """A whole greedy translation of `lengths.target` tokens, EOS included: the encoder once, then every step."""
    work = DecoderWork.greedy(lengths.source, lengths.target, cache=cache)
    return _times(lengths.batch, {**_encoder(config, lengths.source), **_decoder(config, work)})


def in_all(parts: dict[str, int]) -> int:
    """The sum of the parts."""
    return sum(parts.values())


def _encoder(config: TransformerConfig, source: int) -> dict[str, int]:
    layer = attention_flops(config, queries=source, keys=source, pairs=source * source)
    layers = config.encoder_layers
    return {
        **{f"encoder self-attention {part}": layers * count for part, count in layer.items()},
        "encoder feed-forward": layers * feedforward_flops(config, source),
    }


def _decoder(config: TransformerConfig, work: DecoderWork) -> dict[str, int]:
    own = attention_flops(config, queries=work.rows, keys=work.rows, pairs=work.pairs)
    cross = attention_flops(config, queries=work.rows, keys=work.source_rows, pairs=work.source_pairs)
    layers = config.decoder_layers
    return {
        **{f"decoder self-attention {part}": layers * count for part, count in own.items()},
        **{f"decoder cross-attention {part}": layers * count for part, count in cross.items()},
        "decoder feed-forward": layers * feedforward_flops(config, work.rows),
        "vocabulary": 2 * work.projected * config.d_model * config.vocab_size,
    }


def _times(factor: int, parts: dict[str, int]) -> dict[str, int]:
    return {part: factor * count for part, count in parts.items()}
