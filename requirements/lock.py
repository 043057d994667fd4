"""Write requirements/*.txt: every package that clearhead needs but torch, pinned and with the hashes of all its files.

Run by `make lock`. The ranges are pyproject.toml's. torch itself is left out, since which build fits (CPU, CUDA, ROCm)
depends on the machine; what torch needs beside its own GPU libraries is locked here, so that installing torch
afterwards brings nothing unpinned into a CPU environment.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
TORCH_NEEDS = ("filelock", "fsspec", "jinja2", "networkx", "setuptools>=77.0.3", "sympy>=1.13.3", "typing-extensions")
LOCKS = {
    "runtime": ("plots", "tensorboard", "formats", "parquet"),
    "dev": ("plots", "tensorboard", "formats", "parquet", "docs", "exchange", "dev"),
}
HEADER = "# Made by `make lock`; do not edit. torch is installed in a step of its own (see the Makefile).\n"


def requirements(extras: tuple[str, ...]) -> list[str]:
    """The ranges of pyproject.toml for the runtime and `extras`, without torch, and what torch needs."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runtime = [line for line in project["dependencies"] if not line.startswith("torch")]
    return [*runtime, *(line for extra in extras for line in project["optional-dependencies"][extra]), *TORCH_NEEDS]


def lock(name: str, extras: tuple[str, ...], constraint: Path | None) -> Path:
    """Resolve for every platform and Python from 3.11 on, and write requirements/`name`.txt."""
    target = HERE / f"{name}.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--upgrade", "--universal"]
    command += ["--python-version", "3.11", "--fork-strategy", "fewest", "--generate-hashes"]
    command += ["--no-emit-index-url", "--no-annotate", "--no-header", "-"]
    if constraint is not None:
        command += ["--constraint", str(constraint)]
    ranges = "\n".join(requirements(extras))
    resolved = subprocess.run(command, input=ranges, check=True, stdout=subprocess.PIPE, text=True)
    unwanted = [line for line in resolved.stdout.splitlines() if line.startswith(("torch==", "nvidia-", "triton"))]
    if unwanted:
        raise SystemExit(f"the lock must not hold torch or its GPU libraries, but it holds {unwanted}")
    target.write_text(HEADER + resolved.stdout, encoding="utf-8")
    return target


if __name__ == "__main__":
    runtime_lock = lock("runtime", LOCKS["runtime"], None)
    lock("dev", LOCKS["dev"], runtime_lock)
