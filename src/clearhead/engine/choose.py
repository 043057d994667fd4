"""Which engine runs a model: the plain modules that were trained, or the fast engine, and what the header says of it.

The fast engine is the model with its weights packed anew (`weights`). Where the native library is there, whole searches
run in it; else, and for what it does not search (samples, forced phrases, ensembles), the layers run in PyTorch
(`fused`) under the searches of `decoding`. It knows whole Transformers; any other model stays plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch

from clearhead.base.errors import ConfigError
from clearhead.base.log import logger
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

TRANSFORMS = "fused products, source keys once a sentence, one K/V pool"
"""What is done to every model of the fast engine, in the words of the header."""
ROUNDING = {"fp32": "", "bf16": ", operands rounded to bf16", "int8": ", int8 rows × channels"}
"""What a precision does besides."""


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
        reread: reads the modules as they were trained from where they were saved; None where that cannot be.
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
    reread: Callable[[], Seq2Seq] | None = None

    @property
    def has_plain(self) -> bool:
        """Whether `as_trained` gives anything."""
        return self.plain is not None or self.reread is not None

    def as_trained(self) -> Seq2Seq | None:
        """The modules as they were trained, read again if they were let go; None if they cannot be had."""
        return self.reread() if self.plain is None and self.reread is not None else self.plain


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
    reread: Callable[[], Seq2Seq] | None = None,
) -> Engine:
    """What runs `model`, which is put into evaluation mode; an ensemble is run by fast members.

    "auto" is the fast engine where it can run the model and is worth it: on a CPU with the native library, or for a
    precision that the plain engine has not; elsewhere the plain one, whose description says why. With `consume` the
    weights of `model` are let go as they are packed, and it is of no use afterwards. `reader` reads them if they are
    still in their file, and `reread` reads the whole model once more for what needs it.

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
    if device.type == "cpu" and (reason := absence()) is not None:
        logger.warning(
            "no native library (%s): the fast engine runs in PyTorch, which saves memory in int8; small models are "
            "then quicker on the plain engine",
            reason,
        )
    found = _fast_engine(model, packed, precision, None if consume else model, device, parameters)
    return replace(found, reread=reread)


def _members(model: Seq2Seq) -> list[Seq2Seq]:
    encoder = model.encoder
    models = list(encoder.models) if isinstance(encoder, EnsembleEncoder) else [model]
    return [each for each in models if isinstance(each, Seq2Seq)]


def _obstacle(members: Sequence[Seq2Seq], precision: Precision, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the fast engine cannot run the models in this precision, in words; None if it can."""
    for member in members:
        if (reason := fits(member)) is not None:
            return reason
    if dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        return f"the weights are {str(dtype).removeprefix('torch.')}, which it does not know"
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
        f"fast engine, {precision}, {how}{ROUNDING[precision]}",
        plain,
        device,
        parameters,
        model.max_positions,
    )


def _native(packed: Sequence[Weights], device: torch.device) -> tuple[NativeModel | None, str]:
    """The model for whole searches in the native library, and in words who searches how."""
    found = library() if device.type == "cpu" else None
    products = packed[0].projection.description
    if len(packed) > 1:
        return None, f"an ensemble in PyTorch, {products}; {TRANSFORMS}"
    if found is None or not isinstance(packed[0].projection, NativeProduct):
        why = f" (no native library: {absence()})" if device.type == "cpu" and found is None else ""
        return None, f"PyTorch{why}, {products}; {TRANSFORMS}"
    return NativeModel(packed[0], found), f"native library ({found.level}); {TRANSFORMS}, sentences join by length"
