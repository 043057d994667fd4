"""An encoder and a decoder under one door."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.protocols import Decoder, Encoder
from clearhead.nn.padding import Padded

__all__ = ["Seq2Seq"]


class Seq2Seq(nn.Module):
    """A model of p(target | source). The trainer calls `forward`; a search calls the parts.

    `max_positions` is the longest text that the model can read, in tokens with the specials, or None.
    """

    encoder: Encoder
    decoder: Decoder

    def __init__(self, encoder: Encoder, decoder: Decoder, max_positions: int | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.max_positions = max_positions

    def forward(self, source: Padded, prefix: Padded) -> Float[Tensor, "N V"]:
        """Logits after each of the N real positions of `prefix`, row by row.

        Teacher forcing (Williams and Zipser 1989): `prefix` is BOS and the true target, all positions at once.
        Padding is never projected.
        """
        state = self.decoder.start(self.encoder(source))
        hidden, _ = self.decoder.advance(prefix, state)
        return self.decoder.project(hidden[prefix.mask])
