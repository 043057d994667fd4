"""Start-up: a new process that translates one sentence, beside one that only imports torch.

The command line and the Python interface, each in a process of its own, alternated with `import torch` and with
`import clearhead`. Wall time and processor time (user + system) of the whole process. Without a bundle (no
`runs/demo-en-de` yet) a small one with random weights is made for the occasion.

Goal: one sentence in ≤ 3 s, most of it importing torch.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness import ROOT, children_seconds, common_arguments, header, print_header, record, table

PYTHON_TRANSLATE = "import sys, clearhead; print(clearhead.load(sys.argv[1]).translate([sys.argv[2]])[0].text)"


@dataclass
class Process:
    """A command, what it reads, and the seconds of its runs."""

    name: str
    command: list[str]
    stdin: str = ""
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, environment: dict[str, str], *, keep: bool) -> None:
        before, start = children_seconds(), time.perf_counter()
        done = subprocess.run(self.command, input=self.stdin, capture_output=True, text=True, env=environment)
        wall, after = time.perf_counter() - start, children_seconds()
        if done.returncode != 0:
            raise SystemExit(f"{self.name} failed ({done.returncode}):\n{done.stderr.strip()}")
        if keep:
            self.wall.append(wall)
            self.processor.append(after - before)


def random_bundle(path: Path) -> Path:
    """A bundle of the tiny preset with random weights, its tokenizer learnt from a few lines."""
    from clearhead.bundle.bundle import Bundle, save_bundle
    from clearhead.models import build, presets
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    lines = [
        f"Turn {state} the {thing} in the {room}."
        for state in ("on", "off")
        for thing in ("light", "heating", "fan")
        for room in ("kitchen", "bedroom", "hall")
    ]
    config = TokenizerConfig(vocab_size=330)
    tokenizers = Tokenizers.train(config, lambda: [(line, line) for line in lines])
    model_config = presets.tiny(vocab_size=tokenizers.target.vocab_size)
    save_bundle(path, Bundle(build(model_config, seed=1), tokenizers, ("en", "de"), model_config))
    return path


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--bundle", type=Path, default=ROOT / "runs" / "demo-en-de", help="a bundle or a run")
    parser.add_argument("--sentence", default="Turn off the lights in the kitchen.")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    facts = header(arguments.threads)
    print_header("Start-up: one sentence in a new process", facts)
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads)}
    with tempfile.TemporaryDirectory() as scratch:
        bundle = arguments.bundle
        if not bundle.exists():
            print(f"{bundle}: not there; a small bundle with random weights stands in")
            bundle = random_bundle(Path(scratch) / "bundle")
        python = sys.executable
        processes = [
            Process("python -c pass", [python, "-c", "pass"]),
            Process("import torch", [python, "-c", "import torch"]),
            Process("import clearhead", [python, "-c", "import clearhead"]),
            Process("clearhead --help", [python, "-m", "clearhead", "--help"]),
            Process(
                "clearhead translate", [python, "-m", "clearhead", "translate", str(bundle)], arguments.sentence + "\n"
            ),
            Process("clearhead.load().translate()", [python, "-c", PYTHON_TRANSLATE, str(bundle), arguments.sentence]),
        ]
        for turn in range(rounds + 1):  # the first round only fills the file cache
            for process in processes if turn % 2 == 0 else reversed(processes):
                process.run(environment, keep=turn > 0)
    torch_wall = statistics.median(processes[1].wall)
    rows = [
        [
            process.name,
            f"{statistics.median(process.wall):.2f}",
            f"{max(process.wall):.2f}",
            f"{statistics.median(process.processor):.2f}",
            f"{statistics.median(process.wall) / torch_wall:.2f}",
        ]
        for process in processes
    ]
    text = table(["process", "wall s (median)", "wall s (worst)", "processor s", "× import torch"], rows)
    print(text)
    if arguments.record:
        result = {
            "bundle": str(arguments.bundle),
            "processes": {
                process.name: {"wall": process.wall, "processor": process.processor} for process in processes
            },
        }
        record("startup", facts, result, text)


if __name__ == "__main__":
    main()
