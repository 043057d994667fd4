"""Bundles made to run code, to fill the memory or to lead elsewhere: refused with a message, and nothing is executed.

Whoever can write a bundle can write its manifest as well, so each has one that fits. An audit hook watches for code
that is compiled, run or imported, for processes, and for files opened for writing, and each pickle would leave a file
behind if it ran. The controls load the same files as programs commonly do.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.faults.machinery import make_trainer, saver
from benchmarks.faults.rows import Result, note
from clearhead.base.errors import BundleError, TrainingError
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.manifest import MANIFEST, write_manifest
from clearhead.training.checkpoint import checkpoint_path, read_state, restore_trainer
from clearhead.training.progress import Update
from tests.unit.recipes.tiny import tiny_bundle

SLOWEST = 2.0  # seconds of processor time
EXECUTING = ("exec", "compile", "import", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.")
Spoil = Callable[[Path], None]


class Command:
    """What runs a command when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    canary = folder / "executed"
    bundle = tiny_bundle()
    trainer = make_trainer(bundle, updates=5)
    trainer.step()
    saver(folder, bundle, trainer).updated(trainer, Update(1, 1e-4, 1.0, {}, 1.0, 1, 1, 1, 0.0))
    sound = checkpoint_path(folder, 1)
    cases = _cases(sound, canary, folder)
    shown = dict(list(cases.items())[:count])
    seen: list[str] = []
    watching = _watch(seen)

    def use(place: Path) -> None:
        load_bundle(place)
        restore_trainer(place, trainer, read_state(place))

    use(sound)  # whatever is imported late is imported now, and the sound one is accepted
    failures, slowest = [], 0.0
    for name, spoil in shown.items():
        place = folder / "bundle"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(sound, place)
        spoil(place)
        seen.clear()
        watching(True)
        begun = time.process_time()
        try:
            use(place)
            problem = "was accepted"
        except (BundleError, TrainingError) as error:
            named = str(place) in str(error) or "the checkpoint" in str(error)
            problem = "" if named else f"the message names no file: {error}"
        except BaseException as error:  # of whatever kind: not the one promised
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        seconds = time.process_time() - begun
        watching(False)
        slowest = max(slowest, seconds)
        if canary.exists() or seen:
            problem = f"executed: {seen[:5]}, {canary.exists()}"
            canary.unlink(missing_ok=True)
        if problem or seconds > SLOWEST:
            failures.append(f"{name}: {problem or f'{seconds:.1f} s'}")
    note(f"{len(shown)} bundles, slowest refusal {slowest:.2f} s")
    executed, tried = _control(cases, sound, canary, folder)
    return Result(
        len(shown),
        f"0 executions, {len(shown) - len(failures)} refused; slowest {slowest:.2f} s"
        if not failures
        else f"{len(failures)} problems",
        f"pickle.load, torch.load, numpy.load executed {executed} of {tried}",
        executed == tried,
        failures,
        {"names": list(shown)},
    )


def _watch(seen: list[str]) -> Callable[[bool], None]:
    on = [False]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not on[0]:
            return
        writing = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if writing or event.startswith(EXECUTING):
            seen.append(f"{event} {str(arguments[:1])[:80]}")

    sys.addaudithook(hook)
    return lambda value: on.__setitem__(0, value)


def _pickled(canary: Path) -> bytes:
    return pickle.dumps(Command(canary))


def _zipped(canary: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"weight": Command(canary)}, stream)
    return stream.getvalue()


def _legacy(canary: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"weight": Command(canary)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def _array(canary: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Command(canary)], dtype=object), allow_pickle=True)
    return stream.getvalue()


def _header(entries: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def _field(number: int, content: bytes) -> bytes:
    """A length-prefixed field of a protobuf message."""
    length, prefix = len(content), bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *prefix, length]) + content


def _cases(sound: Path, canary: Path, folder: Path) -> dict[str, Spoil]:
    """Attacks by name; each changes a copy of the sound checkpoint and signs it."""

    def put(name: str, data: bytes) -> Spoil:
        def spoil(place: Path) -> None:
            (place / name).write_bytes(data)
            write_manifest(place)

        return spoil

    def change(name: str, old: str, new: str) -> Spoil:
        text = (sound / name).read_text("utf-8")
        assert old in text, (name, old)
        return put(name, text.replace(old, new, 1).encode())

    def only_manifest(text: str) -> Spoil:
        return lambda place: (place / MANIFEST).write_text(text) and None  # type: ignore[func-returns-value]

    weights, toml = "weights.safetensors", "bundle.toml"
    raw = (sound / weights).read_bytes()
    model = (sound / "tokenizer/joint.model").read_bytes()
    tall = {"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
    other = {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    twice = {n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in ("a", "b")}
    description = (sound / toml).read_text("utf-8")
    pickles = {
        f"{kind} as {name}": put(name, make(canary))
        for kind, make in PICKLES.items()
        for name in (weights, "training/optimizer.safetensors", "tokenizer/joint.model")
    }
    return pickles | {
        "pickle as training/state.json": put("training/state.json", _pickled(canary)),
        "pickle as bundle.toml": put(toml, _pickled(canary)),
        "pickle as MANIFEST.json": lambda place: (place / MANIFEST).write_bytes(_pickled(canary)) and None,
        "pickled random state": change("training/state.json", '"torch": "', '"torch": "gASV" , "x": "'),
        "python tag of YAML": put(toml, b"!!python/object/apply:os.system ['touch " + str(canary).encode() + b"']\n"),
        "_target_ in the model": change(toml, "[model]", '[model]\n_target_ = "os.system"'),
        "another kind of model": change(toml, 'kind = "transformer"', 'kind = "os.system"'),
        "a model of 2^60 tokens": change(toml, "vocab_size = 360", f"vocab_size = {1 << 60}"),
        "a model 2^40 wide": change(toml, "d_model = 16", f"d_model = {1 << 40}"),
        "the widest model allowed": change(toml, "d_model = 16", "d_model = 65536"),
        "a thousand million layers": change(toml, "encoder_layers = 1", "encoder_layers = 1000000000"),
        "a model of text": change(toml, "d_model = 16", "d_model = \"__import__('os')\""),
        "a table of 100,000 levels": put(toml, b"[" + b"a." * 100_000 + b"a]\n"),
        "a description of 20 MB": put(toml, description.encode() + b"#" * (20 << 20)),
        "a header of 2^63 bytes": put(weights, struct.pack("<Q", 1 << 63) + raw[8:]),
        "a header nested 100,000 deep": put(weights, struct.pack("<Q", 100_000) + b"[" * 100_000),
        "a tensor of 4 TiB": put(weights, _header(tall)),
        "tensors that overlap": put(weights, _header(twice, bytes(8))),
        "weights that are no numbers": put(weights, raw[:-4] + struct.pack("<f", float("nan"))),
        "weights of another model": put(weights, _header(other, bytes(4))),
        "a piece of 200 kB": put("tokenizer/joint.model", model + _field(1, _field(1, b"a" * 200_000))),
        "a tokenizer that rewrites text": put("tokenizer/joint.model", model + _field(3, _field(2, b"\1\2\3\4"))),
        "a tokenizer of zeros": put("tokenizer/joint.model", bytes(1000)),
        "another tokenizer": change("tokenizer/tokenizer.toml", "vocab_size = 360", "vocab_size = 361"),
        "a manifest that leads out": only_manifest(
            json.dumps({"files": {"../../../etc/passwd": {"size": 1, "sha256": "0"}}})
        ),
        "a manifest nested 100,000 deep": only_manifest("[" * 100_000),
        "a pipe for weights": _pipe,
        "a link out for weights": _link(folder / "elsewhere"),
    }


PICKLES = {"pickle": _pickled, "torch.save": _zipped, "old torch.save": _legacy, "object array": _array}


def _pipe(place: Path) -> None:
    (place / "weights.safetensors").unlink()
    os.mkfifo(place / "weights.safetensors")


def _link(outside: Path) -> Spoil:
    def spoil(place: Path) -> None:
        outside.write_bytes(b"not a model")
        (place / "weights.safetensors").unlink()
        (place / "weights.safetensors").symlink_to(outside)
        write_manifest(place)

    return spoil


def _control(cases: dict[str, Spoil], sound: Path, canary: Path, folder: Path) -> tuple[int, int]:
    """How many of the pickles run where they are read in the usual way."""
    naive: dict[str, Callable[[Path], object]] = {
        "pickle": lambda path: pickle.loads(path.read_bytes()),
        "torch.save": lambda path: torch.load(path, weights_only=False),
        "old torch.save": lambda path: torch.load(path, weights_only=False),
        "object array": lambda path: np.load(path, allow_pickle=True),
    }
    executed = 0
    for kind, load in naive.items():
        place = folder / "naive"
        shutil.copytree(sound, place)
        cases[f"{kind} as weights.safetensors"](place)
        load((place / "weights.safetensors").rename(place / "weights.bin"))  # torch.load goes by the suffix, too
        executed += canary.exists()
        canary.unlink(missing_ok=True)
        shutil.rmtree(place)
    return executed, len(naive)
