"""Which of the calibrated families a model belongs to, so that the scores beside a method are those of its like."""

from __future__ import annotations

from clearhead.inspection.calibrated import Family, Measure, calibration, calibration_table
from clearhead.models.convolutional_decoders import ByteNetDecoder, ConvS2SDecoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder

__all__ = ["calibration_for", "calibration_measures", "family_of_model"]


def family_of_model(model: Seq2Seq) -> Family:
    """By the decoder, whose reading of the source is what is calibrated."""
    if isinstance(model.decoder, TransformerDecoder):
        return "transformer"
    return "convolution" if isinstance(model.decoder, ConvS2SDecoder | ByteNetDecoder) else "recurrent"


def calibration_for(model: Seq2Seq) -> dict[str, dict[str, float]]:
    """Method → task → recorded score, over models of this family."""
    return calibration_table(family_of_model(model))


def calibration_measures() -> dict[str, Measure]:
    """Method → what its recorded scores are of, the same for every family; without the methods that only describe."""
    return dict(calibration().measures)
