"""Tensors to and from safetensors files: tied parameters once, everything compared before it is believed.

A file is compared with what the model expects by its header alone, before one tensor is allocated; then every
value must be finite. Files are read into memory of our own: a mapped file would die with its owner (SIGBUS when it is
truncated), it would count twice, and results can depend on how a tensor is aligned.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from clearhead.base.errors import BundleError
from clearhead.bundle.regular import open_regular

__all__ = [
    "Signature",
    "TensorFile",
    "check_header",
    "expected",
    "read_header",
    "read_tensors",
    "state_tensors",
    "write_tensors",
]

Signature = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""Shape and type of each tensor by name."""

LARGEST_HEADER = 8 * 1024 * 1024  # bytes
MOST_TENSORS = 100_000
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def state_tensors(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The model's persistent tensors, each once, and `{other name: first name}` for the tied ones."""
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in first:
            tied[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
            tensors[name] = tensor.detach()
    return tensors, tied


def expected(tensors: Mapping[str, Tensor]) -> Signature:
    """The signature of tensors in memory (of a model on the meta device, say)."""
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write one safetensors file; the caller's directory is atomic and has the manifest. Raises OSError."""
    path.touch()
    mode = path.stat().st_mode  # as the umask has it; safetensors would leave the file to its owner alone
    try:
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        # It tells what the system refused in words only; as an OSError it is told and treated like any other.
        if (found := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None
    path.chmod(mode)


def read_header(path: Path) -> Signature:
    """The names, shapes and types that `path` declares, without reading a tensor.

    Raises `BundleError` if the header is too large, malformed, or does not account for the file's every byte.
    """
    return {name: (shape, dtype) for name, (shape, dtype, _) in _header(path).items()}


def _header(path: Path) -> dict[str, tuple[tuple[int, ...], torch.dtype, int]]:
    """Shape, type and place in the file, in bytes from its beginning, of each tensor."""
    try:
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise BundleError(f"{path}: damaged (a header of {length} bytes; at most {LARGEST_HEADER} are allowed)")
            header = json.loads(file.read(length))
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise BundleError(f"{path}: missing") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{path}: damaged (not a safetensors file)") from None
    try:
        header.pop("__metadata__", None)
        if len(header) > MOST_TENSORS:
            raise BundleError(f"{path}: {len(header)} tensors; at most {MOST_TENSORS} are allowed")
        end = 0
        found: dict[str, tuple[tuple[int, ...], torch.dtype, int]] = {}
        for name, entry in header.items():
            shape = tuple(int(n) for n in entry["shape"])
            found[name] = (shape, DTYPES[entry["dtype"]], 8 + length + int(entry["data_offsets"][0]))
            end = max(end, int(entry["data_offsets"][1]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise BundleError(f"{path}: damaged (a malformed safetensors header)") from None
    if size != 8 + length + end:
        raise BundleError(f"{path}: damaged ({size} bytes where its header declares {8 + length + end})")
    return found


def check_header(path: Path, wanted: Signature) -> None:
    """Refuse a file whose tensors are not exactly the `wanted` ones, before allocating any."""
    found = read_header(path)
    for name, (shape, dtype) in wanted.items():
        if name not in found:
            raise BundleError(f"{path}: lacks {name!r}, which the configuration calls for")
        if found[name] != (shape, dtype):
            raise BundleError(
                f"{path}: {name!r} is {_described(found[name])} but the configuration calls for "
                f"{_described((shape, dtype))}"
            )
    if surplus := sorted(found.keys() - wanted.keys()):
        raise BundleError(f"{path}: holds {surplus[0]!r}, which the configuration does not know")


class TensorFile:
    """The tensors of a file, each read when it is asked for. Each must be finite."""

    def __init__(self, path: Path, wanted: Signature | None = None) -> None:
        """With `wanted` the header must be of exactly these. Raises `BundleError`."""
        if wanted is not None:
            check_header(path, wanted)
        self._path, self._found = path, _header(path)
        try:
            with safe_open(path, framework="pt"):  # refuses what is not seen above, such as tensors that overlap
                pass
        except (SafetensorError, OSError) as error:
            raise BundleError(f"{path}: damaged ({error})") from None
        except (RuntimeError, MemoryError) as error:  # it maps the file, which may be more than a process may have
            raise BundleError(f"{path}: cannot be read ({error})") from None

    def read(
        self, names: Iterable[str] | None = None, *, device: torch.device | str | None = None
    ) -> dict[str, Tensor]:
        """The tensors of these names, all if none are given. Raises `BundleError`."""
        tensors: dict[str, Tensor] = {}
        try:
            with self._path.open("rb", buffering=0) as file:
                for name in self._found if names is None else names:
                    shape, dtype, place = self._found[name]
                    tensor = self._room_for(name, shape, dtype)
                    file.seek(place)
                    _fill(tensor, file)
                    if tensor.is_floating_point() and not _all_finite(tensor):
                        raise BundleError(f"{self._path}: {name!r} holds a value that is not finite")
                    tensors[name] = tensor if device is None else tensor.to(device)
        except OSError as error:
            raise BundleError(f"{self._path}: damaged ({error})") from None
        return tensors

    def _room_for(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        try:
            return torch.empty(shape, dtype=dtype)
        except RuntimeError:  # of the allocator
            size = math.prod(shape) * dtype.itemsize
            raise BundleError(f"{self._path}: no memory for {name!r}, {size:,} bytes") from None


def read_tensors(
    path: Path, wanted: Signature | None = None, *, device: torch.device | str | None = None
) -> dict[str, Tensor]:
    """Read every tensor; each must be finite. With `wanted`, the header is compared first.

    Raises `BundleError`.
    """
    return TensorFile(path, wanted).read(device=device)


def _fill(tensor: Tensor, file: FileIO) -> None:
    """Read the tensor's bytes into it. They are not mapped, so that a file is never twice in memory."""
    room = tensor.reshape(-1).view(torch.uint8).numpy().data
    while room:
        count = file.readinto(room)
        if not count:
            raise OSError("it ends too early")
        room = room[count:]


def _all_finite(tensor: Tensor) -> bool:
    """Whether every value is finite: by the least and the greatest, which a NaN makes NaN, without a copy of it."""
    return not tensor.numel() or all(math.isfinite(float(end)) for end in tensor.aminmax())


def _described(signature: tuple[tuple[int, ...], torch.dtype]) -> str:
    shape, dtype = signature
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
