"""The machinery of `benchmarks/faults/`: that it injects what it says, and sees what goes wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults import crafted, fuzz, separators
from benchmarks.faults.flips import damage, flipped
from benchmarks.faults.mutate import SEEDS, draw_input, mutated
from clearhead.base.errors import DataError


@pytest.mark.parametrize("name", [name for name in fuzz.READERS if name in SEEDS])
def test_the_files_that_are_mutated_are_sound(name: str, tmp_path: Path) -> None:
    """Or all mutants would be refused at the same place, and most of the reader never be reached."""
    for data in SEEDS[name]:
        path = tmp_path / f"a{fuzz.READERS[name].suffix}"
        path.write_bytes(data)
        if name != "pairs":  # whose second file is another one
            assert fuzz.READERS[name].read(path, data) == ""


def test_mutants_differ_and_can_be_drawn_again() -> None:
    drawn = [[draw_input(SEEDS["po"], random.Random(seed)) for seed in range(200)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 190
    assert sum(mutated(SEEDS["po"][0], random.Random(seed)) == SEEDS["po"][0] for seed in range(200)) < 10


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda path, data: fuzz._count(len(data.decode("utf-8", "replace").splitlines()), data), "records of"),
        (lambda path, data: data.decode("utf-8") and "", "UnicodeDecodeError"),
        (lambda path, data: (_ for _ in ()).throw(DataError("something is wrong")), "does not name the file"),
        (lambda path, data: (_ for _ in ()).throw(DataError(f"{path}: is wrong")), "does not name a line"),
    ],
)
def test_faulty_readers_are_seen(read, told: str, tmp_path: Path) -> None:
    reader = fuzz.Reader(".txt", read, DataError, lambda path: None)
    failures: list[str] = []
    signal_before = signal.getsignal(signal.SIGALRM)
    fuzz._fuzz("lines", reader, 40, random.Random(1), tmp_path, failures)
    signal.signal(signal.SIGALRM, signal_before)
    assert any(told in failure for failure in failures)


def test_damage_is_one_bit_or_a_cut() -> None:
    whole, draw = bytes(range(256)), random.Random(1)
    for _ in range(100):
        other = flipped(whole, draw)
        assert sum((a ^ b).bit_count() for a, b in zip(whole, other, strict=True)) == 1
    kinds = dict(damage(whole, draw) for _ in range(50))
    assert set(kinds) == {"flip", "truncation"}
    assert whole.startswith(kinds["truncation"]) and len(kinds["truncation"]) < len(whole)


def test_what_takes_the_square_of_the_length_is_seen() -> None:
    def quadratic(text: str) -> None:
        for _ in range(len(text) // 100):
            text.count("b")

    ratio, _ = crafted._ratio(quadratic, "a" * 400_000)
    assert ratio > crafted.MOST
    ratio, _ = crafted._ratio(lambda text: [hash(c) for c in text], "a" * 2_000_000)
    assert ratio < crafted.MOST


def test_generated_corpora_hold_every_odd_separator() -> None:
    draw = random.Random(1)
    text = "".join(source + target for _ in range(20) for source, target in separators.corpus(draw))
    assert [character for character in separators.ODD if character not in text] == []
    assert "\n" not in text


def test_a_fork_reports_and_is_killed() -> None:
    """In a process of its own, since pytest has threads."""
    code = (
        "import time\nfrom benchmarks.faults.processes import fork\n"
        "def work(report):\n    report('one')\n    report('two')\n    time.sleep(60)\n"
        "child = fork(work)\nassert child.line() == b'one'\nassert child.line() == b'two'\n"
        "child.kill()\nassert child.rest() == []\nassert child.wait() == -9\n"
        "child = fork(lambda report: 1 / 0)\nassert child.rest() == []\nassert child.wait() == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stderr
