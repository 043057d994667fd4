"""Which engine runs a model: the plain modules that were trained, or the fast engine, and what the header says of it.

The fast engine is the model with its weights packed anew (`weights`). Where the native library is there, whole searches
run in it; else, and for what it does not search (samples, forced phrases, ensembles), the layers run in PyTorch
(`fused`) under the searches of `decoding`. It knows whole Transformers; any other model stays plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from clearhead.base.errors import ConfigError
from clearhead.bundle.bundle import WeightReader
from clearhead.decoding.hypotheses import Model
from clearhead.engine.fused import FusedModel
from clearhead.engine.library import absence, library
from clearhead.engine.native import NativeModel
from clearhead.engine.products import NativeProduct, Precision
from clearhead.engine.weights import Weights, fits, fuse
from clearhead.models.build import count_parameters
from clearhead.models.ensemble import EnsembleEncoder, ensemble
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Engine", "EngineName", "choose_engine", "plain_engine"]

EngineName = Literal["auto", "plain", "fast"]

PRECISIONS: dict[str, str] = {
    "fp32": "fp32",
    "bf16": "bf16 (operands rounded, sums in fp32)",
    "int8": "int8 (weights scaled by output channel, activations by row)",
}
TRANSFORMS = (
    "one product for queries, keys and values, keys and values of the source once a sentence, "
    "those of the target never moved"
)
"""What is done to every model of the fast engine, in the words of the header."""


@dataclass(frozen=True)
class Engine:
    """A model and what runs it. Nothing in it changes, so threads may share one.

    Attributes:
        name: "plain" or "fast".
        precision: of the products; "fp32" for the plain engine.
        model: for the searches of `decoding`.
        native: for whole searches in the native library, else None.
        description: what the header of a run says.
        plain: the modules as they were trained; None once their weights were packed and let go.
        device: where the weights are.
        parameters: how many distinct numbers the model learnt.
        max_positions: the longest text that it can read, in tokens with the specials, or None.
    """

    name: Literal["plain", "fast"]
    precision: Precision
    model: Model
    native: NativeModel | None
    description: str
    plain: Seq2Seq | None
    device: torch.device
    parameters: int
    max_positions: int | None


def plain_engine(model: Seq2Seq, why: str | None = None) -> Engine:
    """The model as it is; `why`, in words, it is not the fast engine that runs it."""
    device, parameters = next(model.parameters()).device, count_parameters(model)
    description = "plain engine" + (f" ({why})" if why else "")
    return Engine("plain", "fp32", model, None, description, model, device, parameters, model.max_positions)


def choose_engine(
    model: Seq2Seq,
    engine: EngineName,
    precision: Precision,
    *,
    consume: bool = False,
    reader: WeightReader | None = None,
) -> Engine:
    """What runs `model`, which is put into evaluation mode; an ensemble is run by fast members.

    "auto" is the fast engine where it can run the model and is worth it: on a CPU with the native library, or for a
    precision that the plain engine has not; elsewhere the plain one, whose description says why. With `consume` the
    weights of `model` are let go as they are packed, and it is of no use afterwards. `reader` reads them if they are
    still in their file.

    Raises ConfigError for an engine or a precision that there is not, or not for this model or device.
    """
    if engine not in get_args(EngineName):
        raise ConfigError(f"engine {engine!r}: choose auto, plain or fast")
    if precision not in ("fp32", "bf16", "int8"):
        raise ConfigError(f"precision {precision!r}: choose fp32, bf16 or int8")
    model.eval()
    members = _members(model)
    parameter = next(model.parameters())
    device = parameter.device if reader is None else reader.device
    obstacle = None if engine == "plain" else _obstacle(members, precision, device, parameter.dtype)
    if engine == "plain" and precision != "fp32":
        raise ConfigError(f"precision {precision} needs the fast engine: leave out the engine plain, or the precision")
    if obstacle is not None and (engine == "fast" or precision != "fp32"):
        asked = "engine fast" if engine == "fast" else f"precision {precision}"
        raise ConfigError(f"{asked}: {obstacle}; choose the engine plain in precision fp32")
    why = obstacle
    if engine == "auto" and precision == "fp32":
        why = obstacle or _not_worth_it(device, parameter.dtype)
    if engine == "plain" or why is not None:
        if reader is not None:
            reader(model)
        return plain_engine(model, why)
    parameters = count_parameters(model)
    packed = [fuse(member, precision, consume=consume, fill=reader) for member in members]
    return _fast_engine(model, packed, precision, None if consume else model, device, parameters)


def _members(model: Seq2Seq) -> list[Seq2Seq]:
    encoder = model.encoder
    models = list(encoder.models) if isinstance(encoder, EnsembleEncoder) else [model]
    return [each for each in models if isinstance(each, Seq2Seq)]


def _obstacle(members: Sequence[Seq2Seq], precision: Precision, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the fast engine cannot run the models in this precision, in words; None if it can."""
    for member in members:
        if (reason := fits(member)) is not None:
            return reason
    if precision != "fp32" and dtype != torch.float32:
        return f"the weights are {str(dtype).removeprefix('torch.')}, and {precision} is made of float32"
    if precision == "int8" and device.type != "cpu":
        return f"int8 works on a CPU, not on {device.type}"
    if device.type not in ("cpu", "cuda"):
        return f"it works on a CPU or with CUDA, not on {device.type}"
    return None


def _not_worth_it(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why a model that fits stays plain unless the fast engine is asked for."""
    if device.type != "cpu":
        return f"on {device.type} the fast engine is run if asked for"
    if dtype != torch.float32:
        return f"the weights are {str(dtype).removeprefix('torch.')}"
    reason = absence()
    return None if reason is None else f"no native library: {reason}"


def _fast_engine(
    model: Seq2Seq,
    packed: Sequence[Weights],
    precision: Precision,
    plain: Seq2Seq | None,
    device: torch.device,
    parameters: int,
) -> Engine:
    fused = [FusedModel(weights) for weights in packed]
    native, how = _native(packed, device)
    return Engine(
        "fast",
        precision,
        fused[0] if len(fused) == 1 else ensemble(fused),
        native,
        f"fast engine in {PRECISIONS[precision]}: {packed[0].projection.description}, {TRANSFORMS}, {how}",
        plain,
        device,
        parameters,
        model.max_positions,
    )


def _native(packed: Sequence[Weights], device: torch.device) -> tuple[NativeModel | None, str]:
    """The models for whole searches in the native library, and how they are searched in words."""
    if len(packed) > 1:
        return None, "an ensemble searched in PyTorch"
    found = library() if device.type == "cpu" else None
    if found is None or not isinstance(packed[0].projection, NativeProduct):
        why = f" (no native library: {absence()})" if device.type == "cpu" and found is None else ""
        return None, f"searched in PyTorch{why}"
    return NativeModel(packed[0], found), "searched by the native library, sentences joining in order of length"
