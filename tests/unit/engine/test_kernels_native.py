"""The native kernels of rows, attention and choice, each held to plain loops in long double by `check_kernels.cpp`.

The C++ file also hands each check a wrong kernel, which it must find out; a line of its output says so.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import clearhead.engine
from clearhead.engine.library import library

CHECKS = Path(__file__).parent / "native" / "check_kernels.cpp"
HEADERS = Path(clearhead.engine.__file__).parent / "native"
COMPILER = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)
FLAGS = {
    "portable": ("-DCLEARHEAD_BYTES=16",),
    "avx2": ("-DCLEARHEAD_BYTES=32", "-mavx2", "-mfma"),
    "avx512": (
        "-DCLEARHEAD_BYTES=64", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma",
    ),
}  # fmt: skip
OPTIMIZED = ("-O1",)
WATCHED = ("-O0", "-fsanitize=address")
# Optimised code is where products are fused with sums, and so where bits could differ; watched code cannot read or
# write beside an array. Not each with each: compiling is all that these tests take their time for.
BUILDS = (("portable", WATCHED), ("avx2", OPTIMIZED), ("avx512", OPTIMIZED), ("avx512", WATCHED))
PARTS = ("rows", "attention", "scan")

pytestmark = pytest.mark.xdist_group("native_kernels")


@dataclass(frozen=True)
class Build:
    """One instruction set, compiled in one way."""

    level: str
    flags: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.level}{self.flags[0]}"


def builds() -> list[Build]:
    """Those that this processor can run."""
    native = library()
    levels = native.levels() if native else ("portable",)
    return [Build(level, flags) for level, flags in BUILDS if level in levels]


@pytest.fixture(scope="module", params=builds(), ids=str)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checks, compiled; without what watches memory where the compiler lacks it."""
    if COMPILER is None:
        pytest.skip("no C++ compiler on this machine: apt-get install g++")
    build: Build = request.param
    target = tmp_path_factory.mktemp("kernels") / "check_kernels"
    common = ["-std=c++17", "-Wall", "-Wextra", "-fno-math-errno", "-ffp-contract=fast", f"-I{HEADERS}"]
    command = [COMPILER, *common, *FLAGS[build.level], str(CHECKS), "-o", str(target)]
    done = subprocess.run([*command, *build.flags], capture_output=True, text=True)
    if done.returncode and build.flags is WATCHED:
        done = subprocess.run([*command, *OPTIMIZED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # not a warning
    return target


@pytest.mark.parametrize("part", PARTS)
def test_kernels_agree_with_plain_loops_in_long_double(program: Path, part: str) -> None:
    done = subprocess.run([program, part], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line.startswith("holds ") for line in lines)
    assert sum(line.endswith("is found out") for line in lines) >= 2


def test_the_checks_refuse_a_part_that_they_do_not_know(program: Path) -> None:
    assert subprocess.run([program, "row"], capture_output=True).returncode == 2
