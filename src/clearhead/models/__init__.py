"""Architectures: configurations of the parts in `nn`, behind one contract.

>>> from clearhead.models import build, presets
>>> model = build(presets.tiny(vocab_size=100))
"""

from clearhead.models import presets
from clearhead.models.build import build, count_parameters
from clearhead.models.config import ModelConfig, TransformerConfig
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["ModelConfig", "Seq2Seq", "TransformerConfig", "build", "count_parameters", "presets"]
