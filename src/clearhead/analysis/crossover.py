"""From which length on the quadratic part of attention costs more than what grows with the length."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clearhead.analysis.flops import attention_flops, feedforward_flops
from clearhead.models.config import TransformerConfig

__all__ = ["LayerCost", "layer_cost"]


@dataclass(frozen=True)
class LayerCost:
    """One layer over n tokens: (`projections` + `feedforward`)·n + `attention`·n² operations.

    `attention` is scores and mixing. In a decoder layer source and target are both n long.
    """

    projections: int
    feedforward: int
    attention: int

    def at(self, length: int) -> dict[str, int]:
        """The operations over `length` tokens: the three terms and `layer`, their sum."""
        terms = {
            "projections": self.projections * length,
            "feed-forward": self.feedforward * length,
            "attention": self.attention * length * length,
        }
        return {**terms, "layer": sum(terms.values())}

    def crossovers(self) -> dict[str, Fraction]:
        """The length at which scores and mixing cost as much as each of the linear terms, exactly.

        For an encoder layer with d_ff = 4·d and heads as wide as the model together: 2·d, 4·d and 6·d. The last line
        is another question: where the whole of attention, projections included, costs as much as the feed-forward
        layer (2·d there); 0 or less if it always does.
        """
        return {
            "attention = its own projections": Fraction(self.projections, self.attention),
            "attention = feed-forward": Fraction(self.feedforward, self.attention),
            "attention = all linear terms": Fraction(self.projections + self.feedforward, self.attention),
            "attention + projections = feed-forward": Fraction(self.feedforward - self.projections, self.attention),
        }


def layer_cost(config: TransformerConfig, stack: str = "encoder") -> LayerCost:
    """The cost of one layer of the "encoder" or the "decoder", whose two attentions are counted together.

    >>> from clearhead.models import presets
    >>> [int(length) for length in layer_cost(presets.base(vocab_size=37000)).crossovers().values()]
    [1024, 2048, 3072, 1024]
    """
    one = attention_flops(config, queries=1, keys=1, pairs=1)
    attentions = 1 if stack == "encoder" else 2
    return LayerCost(
        projections=attentions * one["projections"],
        feedforward=feedforward_flops(config, 1),
        attention=attentions * (one["scores"] + one["mixing"]),
    )
