"""How much memory this process has, and had at most, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["peak", "reset_peak", "resident"]


def resident() -> int:
    """Bytes in memory now."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes in memory since `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise OSError(f"/proc/self/status does not tell {name}")
