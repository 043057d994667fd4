"""The lengths that an account is made for, and the widths that a configuration implies."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.base.errors import InputError
from clearhead.models.config import LearnedConfig, TransformerConfig

__all__ = ["Lengths", "attention_widths", "check_lengths", "inner_maps"]


@dataclass(frozen=True)
class Lengths:
    """How much text an account is made for: `batch` sentence pairs, all of the same lengths.

    `source` counts the tokens that the encoder reads, EOS included; `target` the positions that the decoder reads when
    the target is known (BOS and the target), which are as many as it predicts (the target and EOS).
    Raises InputError for a number below one.
    """

    source: int
    target: int
    batch: int = 1

    def __post_init__(self) -> None:
        for name in ("source", "target", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}: an account needs at least 1")


def check_lengths(config: TransformerConfig, *lengths: int) -> None:
    """Raises InputError if the model has learnt fewer positions than one of `lengths`."""
    if isinstance(config.positions, LearnedConfig) and max(lengths) > config.positions.max_positions:
        raise InputError(
            f"length {max(lengths)}: the model learns {config.positions.max_positions} positions and cannot read more; "
            "ask for shorter text or set model.positions.max_positions"
        )


def attention_widths(config: TransformerConfig) -> tuple[int, int]:
    """(H·E, G·E): how wide all queries of a position are, and all its keys; its values are as wide as its keys.

    Vaswani et al. 2017, §3.2.2 has H·E = G·E = d_model; shared heads (Shazeer 2019) have fewer keys.
    """
    heads, kv_heads, head_dim = config.attention.widths(config.d_model)
    return heads * head_dim, kv_heads * head_dim


def inner_maps(config: TransformerConfig) -> int:
    """Matrices between d_model and d_ff in one feed-forward layer: 2, or 3 with the gate of swiglu."""
    return 3 if config.activation == "swiglu" else 2
