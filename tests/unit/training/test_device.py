from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from clearhead.base.errors import ConfigError
from clearhead.training import device as devices
from clearhead.training.allocator import tune_allocator
from clearhead.training.device import choose_compute, choose_device, has_bf16

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16 sse", True),
        ("flags\t\t: fpu amx_bf16 amx_tile", True),
        ("Features\t: fp asimd bf16 i8mm", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("model name\t: avx512_bf16", False),
    ],
)
def test_bf16_is_automatic_only_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch, line: str, expected: bool
) -> None:
    monkeypatch.setattr(devices, "_cpuinfo", lambda: ("processor\t: 0", line))
    assert has_bf16(CPU) is expected
    assert choose_compute("cpu", "auto", 0).precision == ("bf16" if expected else "fp32")
    assert choose_compute("cpu", "fp32", 0).precision == "fp32"
    assert choose_compute("cpu", "bf16", 0).precision == "bf16"


def test_the_flags_agree_with_torch() -> None:
    """Where torch says AVX512-BF16 is there, so do we."""
    if torch.cpu._is_avx512_bf16_supported():
        assert has_bf16(CPU)


def test_autocast_is_a_region_of_its_precision() -> None:
    a = torch.ones(4, 4)
    with choose_compute("cpu", "bf16", 0).autocast():
        assert (a @ a).dtype is torch.bfloat16
    with choose_compute("cpu", "fp32", 0).autocast():
        assert (a @ a).dtype is torch.float32


@pytest.mark.parametrize("name", ["gpu7", "cuda:99", ""])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match="use auto"):
        choose_device(name)


def test_threads_are_set_and_reported() -> None:
    before = torch.get_num_threads()
    try:
        assert choose_compute("cpu", "fp32", 1).threads == 1 == torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


CODE = "from clearhead.training.allocator import tune_allocator; print(tune_allocator())"


@pytest.mark.parametrize(
    ("environment", "tuned"),
    [({}, True), ({"MALLOC_ARENA_MAX": "2"}, False), ({"GLIBC_TUNABLES": "glibc.malloc.check=1"}, False)],
)
def test_the_allocator_is_tuned_unless_the_user_did(environment: dict[str, str], tuned: bool) -> None:
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    glibc = hasattr(__import__("ctypes").CDLL(None), "gnu_get_libc_version")
    assert (done.stdout.strip() != "None") == (tuned and glibc)


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert tune_allocator() is None


@pytest.mark.parametrize("device", ["meta", "xpu"])
def test_a_device_that_cannot_compute_here_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match="use auto, cpu, cuda"):
        choose_device(device)
