"""Records in a folder: `attention.json`, `evidence.json` and `sample.json`, each with its arrays in an `.npz`.

The JSON is small and readable and says its format and version; the arrays are NumPy's, without anything that could be
executed. A folder is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from clearhead.base.errors import DataError, InputError
from clearhead.base.files import atomic_directory, file_error
from clearhead.inspection.record_json import decode, encode
from clearhead.inspection.records import VERSION, AttentionRecord, EvidenceRecord

__all__ = ["Records", "check_folder", "load_records", "save_records"]

_ATTENTION, _EVIDENCE, _SAMPLE = "attention", "evidence", "sample"
_FORMATS = {
    _ATTENTION: "clearhead attention record",
    _EVIDENCE: "clearhead evidence record",
    _SAMPLE: "clearhead evidence record",
}
_FILES = frozenset(f"{name}.{ending}" for name in _FORMATS for ending in ("json", "npz"))
_DAMAGED = (zipfile.BadZipFile, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, SyntaxError)
"""What zipfile, zlib and NumPy raise for archives that are not what they should be."""

R = TypeVar("R", AttentionRecord, EvidenceRecord)


@dataclass(frozen=True)
class Records:
    """What a folder holds: the maps of one pair, the evidence about that pair, and evidence over a sample of many."""

    attention: AttentionRecord | None = None
    evidence: EvidenceRecord | None = None
    sample: EvidenceRecord | None = None


def save_records(
    path: str | Path,
    attention: AttentionRecord | None = None,
    evidence: EvidenceRecord | None = None,
    sample: EvidenceRecord | None = None,
) -> None:
    """Write the records that are given into the folder `path`, which takes the place of an earlier one of records.

    Raises InputError if none is given, if `path` is there and is not such a folder, or if it cannot be written, and
    DataError for arrays that do not fit their tokens.
    """
    given: dict[str, AttentionRecord | EvidenceRecord | None] = {
        _ATTENTION: attention,
        _EVIDENCE: evidence,
        _SAMPLE: sample,
    }
    written = {name: record for name, record in given.items() if record is not None}
    if not written:
        raise InputError(f"{path}: no record to write; give an attention or an evidence record")
    target = Path(path)
    check_folder(target)
    with atomic_directory(target, replace=target.is_dir()) as folder:
        for name, record in written.items():
            _check_shapes(record, f"{target / name}.json")
            text, arrays = _as_files(name, record)
            (folder / f"{name}.json").write_bytes(text)
            (folder / f"{name}.npz").write_bytes(arrays)


def load_records(path: str | Path) -> Records:
    """What `save_records` wrote. Raises DataError, naming file and key, for what is damaged, missing or of later make.

    InputError if there is no such folder.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder of records (inspect writes one, with attention.json in it)")
    found = Records(
        _read(folder, _ATTENTION, AttentionRecord),
        _read(folder, _EVIDENCE, EvidenceRecord),
        _read(folder, _SAMPLE, EvidenceRecord),
    )
    if found == Records():
        raise DataError(f"{folder}: holds no record (attention.json, evidence.json or sample.json)")
    return found


def check_folder(path: str | Path) -> None:
    """Raises InputError unless `save_records` may write to `path`: it is new, or holds nothing but records."""
    folder = Path(path)
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"{folder}: exists already and is no folder; choose a new folder for the records")
    try:
        names = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise file_error(folder, "read", error) from None
    if others := sorted(names - _FILES):
        raise InputError(f"{folder}: holds other files ({others[0]}); choose a new folder for the records")


def _as_files(name: str, record: AttentionRecord | EvidenceRecord) -> tuple[bytes, bytes]:
    arrays: dict[str, Tensor] = {}
    tree = encode(type(record), record, arrays)
    packed = io.BytesIO()
    named: dict[str, Any] = {key: each.cpu().numpy() for key, each in arrays.items()}
    np.savez_compressed(packed, **named)
    head = {
        "format": _FORMATS[name],
        "version": VERSION,
        "arrays_sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
        "record": tree,
    }
    text = json.dumps(head, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return f"{text}\n".encode(), packed.getvalue()


def _read(folder: Path, name: str, kind: type[R]) -> R | None:
    file = folder / f"{name}.json"
    if not file.is_file():
        return None
    try:
        head = json.loads(file.read_bytes())
    except OSError as error:
        raise file_error(file, "read", error) from None
    except (ValueError, RecursionError):
        raise DataError(f"{file}: damaged (not JSON); write the records anew") from None
    if not isinstance(head, dict) or head.get("format") != _FORMATS[name]:
        raise DataError(f"{file}: not a {_FORMATS[name]} (its key 'format' says otherwise)")
    version = head.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"{file}: version: expected a whole number from 1, got {version!r:.40}")
    if version > VERSION:
        raise DataError(
            f"{file}: version {version}, and this clearhead reads up to version {VERSION}: update clearhead"
        )
    arrays = folder / f"{name}.npz"
    content = _content(arrays, head.get("arrays_sha256"))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            record: R = decode(kind, head.get("record"), partial(_array, archive, arrays))
    except DataError as error:
        said = str(error)
        raise DataError(said if said.startswith(str(folder)) else f"{file}: {said}") from None
    except zipfile.BadZipFile:
        raise DataError(f"{arrays}: damaged (no archive of arrays); write the records anew") from None
    except RecursionError:
        raise DataError(f"{file}: damaged (nested too deeply); write the records anew") from None
    _check_shapes(record, str(file))
    return record


def _content(file: Path, digest: Any) -> bytes:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{file}: missing; write the records anew") from None
    except OSError as error:
        raise file_error(file, "read", error) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(f"{file}: damaged (not the arrays that the .json beside it was written with)")
    return content


def _array(archive: zipfile.ZipFile, file: Path, name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """The array `name`; its head is compared before anything is allocated."""
    try:
        with archive.open(f"{name}.npy") as stream:
            form = np.lib.format
            reader = form.read_array_header_1_0 if form.read_magic(stream) == (1, 0) else form.read_array_header_2_0
            found, _, kind = reader(stream)
            if (found, str(kind)) != (shape, dtype):
                raise DataError(f"{file}: {name}: {kind} {list(found)} where {dtype} {list(shape)} is expected")
        with archive.open(f"{name}.npy") as stream:
            return torch.from_numpy(np.lib.format.read_array(stream, allow_pickle=False))
    except KeyError:
        raise DataError(f"{file}: {name}: missing; write the records anew") from None
    except _DAMAGED as error:
        raise DataError(f"{file}: {name}: damaged ({str(error)[:100]}); write the records anew") from None


# --------------------------------------------------------------------------------------------------------------- shapes


def _check_shapes(record: AttentionRecord | EvidenceRecord, where: str) -> None:
    """Raises DataError where arrays do not fit the tokens, or one another."""
    if isinstance(record, AttentionRecord):
        _check_attention(record, where)
        return
    for number, scores in enumerate(record.scores, 1):
        given = [side for side in (scores.source, scores.prefix) if side is not None]
        rows = {len(side) for side in given if side.dim() == 2} | {len(each) for each in scores.series.values()}
        square = scores.prefix is None or scores.prefix.shape == (len(scores.prefix), len(scores.prefix))
        if any(side.dim() != 2 for side in given) or len(rows) > 1 or not square:
            raise DataError(
                f"{where}: scores.{number}: source must be [T, S], prefix [T, T] and each series of T numbers; "
                f"got {[list(side.shape) for side in given]}"
            )
    for number, curve in enumerate(record.curves, 1):
        for name, values in curve.series.items():
            if len(values) != len(curve.x):
                raise DataError(f"{where}: curves.{number}.series.{name}: {len(values)} values for {len(curve.x)} of x")


def _check_attention(record: AttentionRecord, where: str) -> None:
    source, target = len(record.source), len(record.gold)
    if len(record.prefix) != target or record.log_probs.shape != (target,):
        raise DataError(
            f"{where}: gold has {target} tokens, prefix {len(record.prefix)} and log_probs "
            f"{list(record.log_probs.shape)}: they must be as many"
        )
    for number, layer in enumerate(record.layers, 1):
        expected = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}[layer.stack]
        shapes = tuple(layer.weights.shape[1:]), tuple(layer.visible.shape)
        types = layer.weights.dtype is torch.float32 and layer.visible.dtype is torch.bool
        if layer.weights.dim() != 3 or shapes != (expected, expected) or not types:
            raise DataError(
                f"{where}: layers.{number}: the {layer.stack} stack needs weights float32 [H, {expected[0]}, "
                f"{expected[1]}] and visible bool {list(expected)}; got {layer.weights.dtype} "
                f"{list(layer.weights.shape)} and {layer.visible.dtype} {list(layer.visible.shape)}"
            )
