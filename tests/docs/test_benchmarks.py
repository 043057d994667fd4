"""Every benchmark explains itself, and the sums by which it judges are right."""

from __future__ import annotations

import doctest
import importlib
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from clearhead.explorer.inspect_page import write_report
from clearhead.inspection.records import AttentionLayer, AttentionRecord
from tests.unit.explorer.inspect_records import attention_record

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text("utf-8"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Import a module of benchmarks/ as its neighbours do."""

    def load(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module(name)

    return load


def test_all_ten_are_there() -> None:
    assert SCRIPTS == [
        "calibration.py",
        "demo_floor.py",
        "faults.py",
        "heads.py",
        "inspection.py",
        "multi30k.py",
        "recurrent.py",
        "startup.py",
        "train_speed.py",
        "translate_speed.py",
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script: str) -> None:
    # With no package but the standard library: help must not wait for torch or for a peer.
    code = (
        "import runpy, sys; sys.modules |= dict.fromkeys(('torch', 'clearhead', 'transformers', 'joeynmt')); "
        f"sys.path.insert(0, {str(BENCHMARKS)!r}); sys.argv = [{script!r}, '--help']; "
        f"runpy.run_path({str(BENCHMARKS / script)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for option in ("--quick", "--record", "--threads", "--seed"):
        assert option in done.stdout
    first = (BENCHMARKS / script).read_text("utf-8").splitlines()[0].removeprefix('"""')
    assert " ".join(done.stdout.split()).count(first[:40]) == 1


def test_readme_names_every_script() -> None:
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    assert [script for script in SCRIPTS if f"`{script}`" not in text] == []


def test_readme_shows_how_to_run_every_script() -> None:
    runs = (BENCHMARKS / "README.md").read_text("utf-8").split("## Runs")[1].split("\n## ")[0]
    assert [script for script in SCRIPTS if f"benchmarks/{script} " not in runs] == []


def test_multi30k_says_that_its_corpus_is_absent(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "multi30k.py"), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert str(tmp_path) in done.stdout
    assert "not here" in done.stdout


def test_harness_examples(load) -> None:
    assert doctest.testmod(load("harness")).failed == 0


def test_a_ratio_is_of_rounds_and_counts_work(load) -> None:
    harness = load("harness")
    # A does 10 units in 1, 1, 4 s; B does 20 units in 4, 10, 4 s. Round by round A is 2, 5 and 0.5 times as fast.
    a = harness.Side("a", lambda: 0.0, work=10, seconds=[1.0, 1.0, 4.0])
    b = harness.Side("b", lambda: 0.0, work=20, seconds=[4.0, 10.0, 4.0])
    assert harness.ratios(a, b) == {"median": 2.0, "low": 0.5, "high": 5.0}
    assert harness.ratios(b, a) == {"median": 0.5, "low": 0.2, "high": 2.0}
    assert a.rate == 10.0
    with pytest.raises(ValueError, match="not alternated"):
        harness.ratios(a, harness.Side("c", lambda: 0.0, seconds=[1.0]))


def test_runs_alternate_and_the_warm_up_is_dropped(load) -> None:
    harness = load("harness")
    calls: list[str] = []

    def side(name: str, seconds: list[float]):
        def run() -> float:
            calls.append(name)
            return seconds[calls.count(name) - 1]

        return harness.Side(name, run)

    sides = [side("a", [9.0, 1.0, 2.0]), side("b", [8.0, 3.0, 4.0])]
    harness.alternate(sides, rounds=2, warmup=1, report=False)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert [each.seconds for each in sides] == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("seed", [1, 2])
def test_length_buckets_are_like_text(load, seed: int) -> None:
    harness = load("harness")
    buckets = harness.length_buckets(6, 1024, seed)
    assert buckets == harness.length_buckets(6, 1024, seed)
    assert len(buckets) == 6
    for bucket in buckets:
        padded = len(bucket) * max(max(pair) for pair in bucket)
        assert 700 <= padded <= 1024
        real = sum(map(sum, bucket)) / (2 * padded)
        assert real > 0.8  # sorted by length: little padding
    longest = [max(max(pair) for pair in bucket) for bucket in buckets]
    assert longest == sorted(longest)
    assert longest[0] < 20
    assert longest[-1] > 50
    many = [pair for bucket in harness.length_buckets(200, 1024, seed) for pair in bucket]
    assert 22 < statistics.mean(source for source, _ in many) < 28


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [
        ("AuthenticAMD", "25", "17", "zen4"),
        ("AuthenticAMD", "25", "1", "zen3"),
        ("AuthenticAMD", "26", "2", "zen5"),
        ("GenuineIntel", "6", "143", "intel-6-143"),
        ("", "", "", "cpu"),
    ],
)
def test_processor_names(load, vendor: str, family: str, model: str, expected: str) -> None:
    assert load("harness").cpu_family({"vendor": vendor, "family": family, "model": model}) == expected


def test_a_record_never_overwrites_another(load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness = load("harness")
    facts = harness.header(2)
    first = harness.record("trial", facts, {"ratio": 1.5}, "| a |", tmp_path)
    second = harness.record("trial", facts, {"ratio": 1.6}, "| b |", tmp_path)
    assert first != second
    assert json.loads(first.read_text("utf-8"))["result"] == {"ratio": 1.5}
    assert json.loads(second.read_text("utf-8"))["result"] == {"ratio": 1.6}
    assert "| b |" in second.with_suffix(".md").read_text("utf-8")
    assert first.name.startswith(f"trial_{facts['cpu_family']}_{facts['date'][:10]}")
    assert str(second) in capsys.readouterr().out


def test_decoder_steps_are_counted_for_every_sentence_of_a_batch(load) -> None:
    """Batches of 2 and 6 sentences of 10 and 20 forced tokens: each reads BOS and every token that it wrote."""
    pytest.importorskip("torch")
    speed = load("translate_speed")
    batches = [[[9] * 10, [9] * 3], [[9] * 20] * 6]
    size = {"vocab": 50, "d_model": 16, "d_ff": 16, "heads": 2, "layers": 1}
    steps = speed.Steps()
    run = speed.clearhead_side(size, batches, 3, 1, steps)
    assert steps.mean is None
    for _ in range(2):
        assert run() > 0
        assert steps.mean == (2 * (1 + 10) + 6 * (1 + 20)) / 8


def test_joeynmt_gets_as_many_real_tokens(load) -> None:
    peer = load("joeynmt_peer")
    rng = random.Random(3)
    lengths = [(rng.randint(5, 30), rng.randint(5, 30)) for _ in range(4000)]
    budget = peer.equal_budget(lengths, target_tokens=900)
    # joeynmt's sampler, told independently: sentences in random order, closed when rows × longest reaches the budget.
    order = lengths[:]
    random.Random(99).shuffle(order)
    batches: list[list[tuple[int, int]]] = [[]]
    for pair in order:
        batches[-1].append(pair)
        if len(batches[-1]) * max(max(each) + 1 for each in batches[-1]) >= budget:
            batches.append([])
    means = statistics.mean(sum(target + 1 for _, target in batch) for batch in batches[:-1])
    assert means == pytest.approx(900, rel=0.05)
    assert budget > 900  # the difference is padding


def test_the_rival_is_the_size_it_says(load) -> None:
    pytest.importorskip("torch")
    peer = load("torch_peer")
    vocab, width, inner, layers = 50, 16, 32, 2
    model = peer.TorchTransformer(vocab, width, inner, 4, layers)
    attention = 4 * width * width + 4 * width
    feed_forward = 2 * width * inner + width + inner
    norm = 2 * width
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    # nn.Transformer ends each stack with one more norm; embedding and projection are one matrix.
    expected = layers * (encoder + decoder) + 2 * norm + vocab * width
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_the_rival_learns_and_its_search_stops(load) -> None:
    torch = pytest.importorskip("torch")
    peer = load("torch_peer")
    torch.manual_seed(0)
    model = peer.TorchTransformer(12, 32, 64, 4, 1, dropout=0.0)
    sources = [[4, 5, 6, peer.EOS], [7, 8, peer.EOS], [9, peer.EOS]]
    targets = [row[:-1][::-1] for row in sources]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(60):
        peer.step(
            model,
            optimizer,
            peer.pad(sources),
            peer.pad([[peer.BOS, *row] for row in targets]),
            peer.pad([[*row, peer.EOS] for row in targets]),
            bf16=False,
        )
    assert peer.greedy(model, sources) == targets
    assert peer.greedy(model, sources, batch=1) == targets


def test_the_rival_cannot_see_padding_or_the_future(load) -> None:
    torch = pytest.importorskip("torch")
    peer = load("torch_peer")
    torch.manual_seed(0)
    model = peer.TorchTransformer(20, 16, 32, 4, 2, dropout=0.0).train()
    source, prefix = torch.tensor([[4, 5, 6]]), torch.tensor([[2, 7, 8, 9]])
    whole = model(source, prefix)
    torch.testing.assert_close(model(source, prefix[:, :2]), whole[:, :2], atol=1e-5, rtol=1e-4)
    wider = torch.tensor([[4, 5, 6, peer.PAD, peer.PAD]])
    torch.testing.assert_close(model(wider, prefix), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("digits", [None, 4])
def test_the_naive_page_holds_every_weight_of_the_record(load, tmp_path: Path, digits: int | None) -> None:
    report = load("inspection_report")
    record = attention_record(rank=1)
    report.write_naive(tmp_path / "a.html", record, digits)
    text = (tmp_path / "a.html").read_text("utf-8")
    maps = json.loads(text.split('id="maps">')[1].split("</script>")[0])
    assert len(maps) == len(record.layers)
    for layer, held in zip(record.layers, maps, strict=True):
        for head, rows in enumerate(held):
            for row, weights in enumerate(rows):
                kept = layer.weights[head, row].tolist()
                assert weights == (kept if digits is None else [round(each, digits) for each in kept])


def test_the_inspected_pair_has_as_many_tokens_as_it_says(load) -> None:
    report = load("inspection_report")
    assert doctest.testmod(report).failed == 0
    size = report.QUICK["quick"]
    assert len({report.made_up(number) for number in range(37000)}) == 37000
    translator = report.a_translator(size, seed=1)
    pair = report.a_pair(translator, size, seed=1)
    assert translator.tokenizers.source.vocab_size == size["vocab"]
    for text, ids in ((pair.source_text, pair.source), (pair.target_text, pair.target)):
        assert len(ids) == len(text.split()) == size["tokens"] - 1
        assert tuple(translator.tokenizers.source.encode(text)) == ids


def test_an_opened_report_is_timed_and_held_to_its_record(load, browser: Browser, tmp_path: Path) -> None:
    report = load("inspection_report")
    record = attention_record(rank=1)
    page = report.Opened("report", write_report(tmp_path / "a.html", record), browser)
    assert page() == page.seen[0]["unpacked"] / 1000
    marks = [page.seen[0][name] for name in ("script", "unpacked", "ready", "drawn")]
    assert marks[0] > 0 and marks == sorted(marks)
    assert page.seen[0]["processor"] > 0
    assert browser.contexts == []
    assert report.apart(browser, page.file, record) < 2e-5  # 16 bits of √w
    bent = [vars(layer) | {"weights": layer.weights.roll(1, -1)} for layer in record.layers]
    other = AttentionRecord(**{**vars(record), "layers": tuple(AttentionLayer(**each) for each in bent)})
    assert report.apart(browser, page.file, other) > 0.01
    fewer = AttentionRecord(**{**vars(record), "layers": record.layers[1:]})
    with pytest.raises(RuntimeError, match="heads"):
        report.apart(browser, page.file, fewer)


def test_medians_leave_the_warm_up_out(load) -> None:
    report = load("inspection_report")
    page = report.Opened("report", Path("a.html"), None, [{"ready": each} for each in (90.0, 3.0, 1.0, 2.0)])
    assert page.medians(3) == {"ready": 2.0}


def test_a_record_names_no_folder_of_the_machine(load) -> None:
    cleaned = load("harness")._without_places('run.py --data /srv/x/corpus.en --out /tmp/runs, tokens/s, en/de, "/a/b"')
    assert cleaned == 'run.py --data corpus.en --out runs, tokens/s, en/de, "b"'
