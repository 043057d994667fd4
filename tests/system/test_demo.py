"""`make demo` on a corpus of a few lines: the same steps, the same files, the same report."""

import json
import re
from pathlib import Path

import pytest

from clearhead.data import corpora
from clearhead.recipes import demo
from clearhead.recipes.run_config import RunConfig
from clearhead.text.languages import parse_pair
from tests.system.program import disjoint, read, write

pytestmark = pytest.mark.timeout(600)  # nothing here is about time; the machine may be shared

PAIRS, DEV, TEST = 300, 20, 30


def small(config: RunConfig) -> RunConfig:
    """The demo's own configuration with a smaller model and a few updates."""
    model = {**config.model, "d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
    training = config.training.model_copy(
        update={"updates": 6, "validate_every": 3, "score_every": 6, "save_every": 3, "threads": 1}
    )
    tokenizer = config.tokenizer.model_copy(update={"vocab_size": 300})
    decoding = config.decoding.model_copy(update={"max_length": 8})
    return config.model_copy(
        update={"model": model, "training": training, "tokenizer": tokenizer, "decoding": decoding}
    )


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """In an empty directory, with a corpus that comes from no network; the list says what was fetched."""
    calls: list[tuple[str, str]] = []

    def get(name: str, pair: str, out: Path, *, package: str | None = None) -> None:
        assert name in corpora.CORPORA
        calls.append((name, pair))
        (lines,) = disjoint(3, (PAIRS,), (5, 8))
        for code in parse_pair(pair):
            write(out / f"corpus.{code}", lines)
        write(out / "provenance.json", ["{}"])

    recipe = demo.recipe
    monkeypatch.setattr(demo, "recipe", lambda *arguments: small(recipe(*arguments)))
    monkeypatch.setattr(demo, "get_corpus", get)
    monkeypatch.setattr(demo, "DEV_PAIRS", DEV)
    monkeypatch.setattr(demo, "TEST_PAIRS", TEST)
    monkeypatch.chdir(tmp_path)
    return calls


def changes(*roots: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for root in roots for path in root.rglob("*") if path.is_file()}


def test_the_demo_reports_and_is_not_done_twice(
    fetched: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main([]) == 0
    out = capsys.readouterr().out
    run, data = Path("runs/demo-en-de"), Path("data/home-assistant/en-de")
    assert fetched == [("home-assistant", "en-de")]
    scores = re.findall(r"^(BLEU|chrF2) (\d+\.\d)   (nrefs:1\|case:mixed\|\S+)$", out, re.MULTILINE)
    assert [name for name, _, _ in scores] == ["BLEU", "chrF2"]
    assert "tok:13a" in scores[0][2]
    table = json.loads((run / "demo.json").read_text())
    assert [f"{table[name]['value']:.1f}" for name in ("bleu", "chrf")] == [value for _, value, _ in scores]
    assert table["lines"] == TEST == len(read(run / "test.de"))
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "runs/demo-en-de/curve.png" in out
    shown = [line for line in read(data / "strict" / "test.en") if f"│ {line} " in out]
    assert len(shown) >= 10  # a dozen, but for what a narrow column breaks in two
    assert re.search(
        r"^  echo 'Turn off the lights in the kitchen' \| \S*clearhead translate runs/demo-en-de$", out, re.M
    )

    kept = changes(data, run / "checkpoints", run / "cache")
    log = (run / "train.log").read_text()
    assert demo.main([]) == 0
    again = capsys.readouterr()
    assert "is finished" in again.err
    assert len(fetched) == 1
    assert changes(data, run / "checkpoints", run / "cache") == kept
    assert (run / "train.log").read_text() == log
    assert json.loads((run / "demo.json").read_text()) == table
    assert [line for line in again.out.splitlines() if "a second" not in line] == [
        line for line in out.splitlines() if "a second" not in line
    ]


def test_pairs_and_splits_have_runs_of_their_own(fetched: list[tuple[str, str]]) -> None:
    assert demo.main(["--pair", "en-zh", "--split", "exact"]) == 0
    assert fetched == [("home-assistant", "en-zh")]
    assert "tok:zh" in json.loads(Path("runs/demo-en-zh-exact/demo.json").read_text())["bleu"]["signature"]


def test_a_wrong_pair_is_told_without_a_traceback(
    fetched: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["--pair", "german"]) == 2
    assert "error: 'german' is no language pair" in capsys.readouterr().err
    assert fetched == []
    assert list(Path().iterdir()) == []
