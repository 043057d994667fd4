"""Search over any model that can start, advance and project: beam, greedy, sampling, forced scoring."""

from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.penalties import formula
from clearhead.decoding.search import Hypothesis, force, search

__all__ = ["DecodingConfig", "Hypothesis", "Sampling", "force", "formula", "search"]
