"""How many processors this process may use: more threads than that wait for each other."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["usable_processors"]

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of processor time in each period, or "max", and the period (cgroup v2: the limit of a container)."""


def usable_processors() -> int:
    """Those that the system lets it run on, and no more than its container has time for, rounded up; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        time, period = _QUOTA.read_text(encoding="ascii").split()
        return max(1, min(allowed, math.ceil(int(time) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):  # another system, or no limit
        return allowed
