"""Weights that are left in their file are read part by part, and make the model that they would have made at once."""

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead.base.errors import BundleError
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.manifest import write_manifest
from clearhead.bundle.weights import TensorFile, read_tensors
from tests.unit.recipes.tiny import save_tiny

META = torch.device("meta")


@pytest.mark.parametrize(
    "options", [{}, {"norm": "pre", "embeddings": "separate", "positions": {"kind": "learned", "max_positions": 50}}]
)
def test_the_parts_make_the_whole(options: dict[str, Any], tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "tiny", **options)
    whole, parts = load_bundle(path), load_bundle(path, whole=False)
    model = parts.model
    assert whole.reader is None and parts.reader is not None
    assert {each.device for each in model.parameters()} == {META}
    layer = model.get_submodule("decoder.layers.0")
    parts.reader(layer)
    assert META not in {each.device for each in layer.parameters()}
    assert next(model.get_submodule("encoder.layers.0").parameters()).device == META
    parts.reader(layer)  # nothing is left to read there
    parts.reader(model.get_submodule("decoder.output"))
    tied = model.get_submodule("encoder.input.embedding").weight
    assert (tied is model.get_submodule("decoder.output").weight) == (not options)
    parts.reader(model)
    assert {each.device.type for each in model.parameters()} == {"cpu"}
    expected = whole.model.state_dict()
    assert [*model.state_dict()] == [*expected]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    assert sum(each.numel() for each in model.parameters()) == sum(each.numel() for each in whole.model.parameters())
    assert all(each.requires_grad for each in model.parameters())


def test_a_value_that_is_not_finite_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "tiny")
    tensors = load_file(path / "weights.safetensors")
    name = "decoder.layers.0.feedforward.outer.weight"
    for bad in (float("nan"), float("inf"), float("-inf")):
        tensors[name][3, 2] = bad
        save_file(tensors, path / "weights.safetensors")
        (path / "MANIFEST.json").unlink()
        write_manifest(path)
        bundle = load_bundle(path, whole=False)
        assert bundle.reader is not None
        bundle.reader(bundle.model.get_submodule("encoder"))
        with pytest.raises(BundleError, match=f"'{name}' holds a value that is not finite"):
            bundle.reader(bundle.model.get_submodule("decoder.layers.0"))
        with pytest.raises(BundleError, match="not finite"):
            load_bundle(path)


def test_every_type_is_read_as_another_library_reads_it(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(6, dtype=torch.float64).reshape(2, 3),
        "b": torch.tensor(1.5, dtype=torch.bfloat16),
        "c": torch.zeros(0, 3),
        "d": torch.tensor([True, False]),
        "e": torch.tensor([-(2**40)]),
        "f": torch.tensor([0.1, -0.0], dtype=torch.float16),
    }
    save_file(tensors, tmp_path / "all.safetensors")
    found = read_tensors(tmp_path / "all.safetensors")
    assert {name: tensor.dtype for name, tensor in found.items()} == {n: t.dtype for n, t in tensors.items()}
    assert all(torch.equal(found[name], load_file(tmp_path / "all.safetensors")[name]) for name in tensors)


def test_tensors_that_overlap_are_refused(tmp_path: Path) -> None:
    header = (
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
    )
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(12))
    with pytest.raises(BundleError, match="damaged"):
        TensorFile(tmp_path / "x.safetensors")


def test_a_file_that_was_cut_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.ones(100)}, tmp_path / "x.safetensors")
    opened = TensorFile(tmp_path / "x.safetensors")
    with (tmp_path / "x.safetensors").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(BundleError, match="damaged"):
        opened.read()


SCARCE = """
import re, resource, sys
from pathlib import Path
from clearhead.base.errors import BundleError
from clearhead.bundle.weights import TensorFile, read_tensors

def leave(mebibytes):
    used = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + mebibytes * 2**20, resource.RLIM_INFINITY))

opened = TensorFile(Path(sys.argv[1]))
leave(40)
for attempt in (lambda: read_tensors(Path(sys.argv[1])), opened.read):
    try:
        attempt()
    except BundleError as error:
        print(error)
"""


def test_a_file_for_which_there_is_no_memory_is_told(tmp_path: Path) -> None:
    """Whether it is too much to be opened, or to be read."""
    save_file({"a": torch.zeros(16_000_000)}, tmp_path / "x.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", SCARCE, str(tmp_path / "x.safetensors")], capture_output=True, text=True
    )
    opening, reading = done.stdout.splitlines()
    assert "x.safetensors: cannot be read (" in opening and "allocate" in opening, done.stderr
    assert reading.endswith("x.safetensors: no memory for 'a', 64,000,000 bytes"), done.stderr
