"""What the parameter counts printed in the paper say about its vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from clearhead.analysis.parameters import implied_vocabulary, parameters
from clearhead.models.config import TransformerConfig
from clearhead.models.presets import TRANSFORMERS

__all__ = ["PRINTED", "Printed", "common_vocabularies", "printed"]

PRINTED = {"base": 65_000_000, "big": 213_000_000}
"""Vaswani et al. 2017, Table 3, last column (in millions), for the presets that reproduce its rows."""

HALF_A_UNIT = 500_000
"""The counts are printed in whole millions."""


@dataclass(frozen=True)
class Printed:
    """A printed count beside the exact one.

    `implied` is the vocabulary that gives the printed count to the last parameter; `between` the smallest and the
    largest vocabulary whose exact count rounds to it.
    """

    printed: int
    exact: int
    implied: Fraction
    between: tuple[int, int]


def printed(name: str, config: TransformerConfig) -> Printed:
    """The count that the paper prints for the preset `name`, one of `PRINTED`, seen from `config`.

    >>> found = printed("base", TRANSFORMERS["base"](vocab_size=37000))
    >>> found.exact, float(found.implied)
    (63045632, 40817.125)
    """
    count = PRINTED[name]
    lowest, highest = (implied_vocabulary(config, count + side * HALF_A_UNIT) for side in (-1, 1))
    between = (math.ceil(lowest), math.ceil(highest) - 1)
    return Printed(count, parameters(config)["total"], implied_vocabulary(config, count), between)


def common_vocabularies() -> tuple[int, int] | None:
    """The smallest and largest vocabulary that would explain every printed count; None if no vocabulary does."""
    ranges = [printed(name, TRANSFORMERS[name](vocab_size=37000)).between for name in PRINTED]
    lowest, highest = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (lowest, highest) if lowest <= highest else None
