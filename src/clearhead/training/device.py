"""Where and how precisely a run computes: device, bf16 only where the hardware has it, threads."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch

from clearhead.base.errors import ConfigError

__all__ = ["Compute", "choose_compute", "choose_device", "has_bf16"]


@dataclass(frozen=True)
class Compute:
    """The machine's part of a run: `precision` is "fp32" or "bf16" (autocast; the weights stay fp32)."""

    device: torch.device
    precision: Literal["fp32", "bf16"]
    threads: int

    def autocast(self) -> torch.autocast:
        """The region for forward pass and loss, and for nothing else."""
        enabled = self.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=enabled)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else processor()
        return f"{self.device} ({name}), {self.precision}, {self.threads} threads"


def choose_compute(device: str, precision: str, threads: int) -> Compute:
    """Resolve "auto" everywhere and set torch's thread count (0: leave torch's own).

    Raises `ConfigError` for a device that is not there, or for bf16 on hardware that only emulates it.
    """
    if threads:
        torch.set_num_threads(threads)
    chosen = choose_device(device)
    if precision == "auto":
        precision = "bf16" if has_bf16(chosen) else "fp32"
    if precision not in ("fp32", "bf16"):
        raise ConfigError(f"training.precision: expected auto, fp32 or bf16, got {precision!r}")
    return Compute(chosen, "bf16" if precision == "bf16" else "fp32", torch.get_num_threads())


def choose_device(device: str) -> torch.device:
    """ "auto" is the first CUDA device, else the CPU. Raises `ConfigError` naming what is missing."""
    if device == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device {device!r}: there is no such device; use auto, cpu, cuda or cuda:N") from None
    if chosen.type not in ("cpu", "cuda") and not (chosen.type == "mps" and torch.backends.mps.is_available()):
        raise ConfigError(f"device {device!r}: not on this machine; use auto, cpu, cuda or cuda:N")
    if chosen.type == "cuda" and (not torch.cuda.is_available() or (chosen.index or 0) >= torch.cuda.device_count()):
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        raise ConfigError(f"device {device!r}: not there (CUDA devices found: {found}); use auto or cpu")
    return chosen


def has_bf16(device: torch.device) -> bool:
    """Whether `device` multiplies bf16 in hardware (emulation would be slower than fp32)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool({"avx512_bf16", "amx_bf16", "bf16"} & _flags())


def processor() -> str:
    """The processor's name, as the system gives it."""
    for line in _cpuinfo():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def _cpuinfo() -> tuple[str, ...]:
    try:
        return tuple(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"))
    except OSError:
        return ()


def _flags() -> frozenset[str]:
    """Instruction sets of the first processor ("flags" on x86, "Features" on ARM; none where /proc is missing)."""
    for line in _cpuinfo():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
