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
from tests.laws.model_laws import ARCHITECTURES
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


def test_all_eleven_are_there() -> None:
    assert SCRIPTS == [
        "calibration.py",
        "demo_floor.py",
        "faults.py",
        "heads.py",
        "inspection.py",
        "multi30k.py",
        "recurrent.py",
        "rounding.py",
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


@pytest.mark.parametrize("module", ["translate_corpus", "translate_goals"])
def test_translation_examples(load, module: str) -> None:
    found = doctest.testmod(load(module))
    assert found.attempted > 0 and found.failed == 0


def test_a_record_keeps_its_figures_when_its_text_fails(load, tmp_path: Path) -> None:
    harness = load("harness")
    facts = harness.header(1)
    with pytest.raises(ZeroDivisionError):
        harness.record("trial", facts, {"ratio": 1.5}, lambda: str(1 / 0), tmp_path)
    (path,) = tmp_path.glob("trial_*")
    assert json.loads(path.read_text("utf-8"))["result"] == {"ratio": 1.5}
    path = harness.record("late", facts, {}, lambda: "| b |", tmp_path)
    assert path.with_suffix(".md").read_text("utf-8").endswith("\n| b |\n")


TOY = {"vocab": 50, "d_model": 16, "d_ff": 16, "heads": 2, "layers": 1}


@pytest.mark.parametrize("kind", ["plain", "fast"])
@pytest.mark.parametrize("singly", [False, True])
def test_forced_runs_take_one_step_more_than_each_source_has_tokens(load, kind: str, singly: bool) -> None:
    pytest.importorskip("torch")
    ours, corpus = load("translate_ours"), load("translate_corpus")
    text = corpus.Corpus([[[9] * 10, [9] * 10], [[9] * 20] * 6])
    assert text.steps == 2 * 11 + 6 * 21
    side = ours.Ours(ours.engine(corpus.transformer(TOY), "fp32", 1, kind), threads=1)
    assert ours.forced_run(side, text, 3, singly=singly)() > 0
    assert side.steps == (21 if singly else text.steps / 8)  # of the last call


def test_steps_are_counted_although_sentences_leave_their_batch(load) -> None:
    """Lengths 2, 5 and 9 in one batch: each sentence is in the calls until its own end, and in no later one."""
    pytest.importorskip("torch")
    ours, corpus = load("translate_ours"), load("translate_corpus")
    side = ours.Ours(ours.engine(corpus.transformer(TOY), "fp32", 1, "plain"), threads=1)
    found = side.search([[9] * 9, [9] * 2, [9] * 5], ours.forced(4))
    assert [len(each.tokens) for each in found] == [9, 2, 5]
    assert side.steps == (10 + 3 + 6) / 3


def test_a_group_holds_sentences_of_one_length(load) -> None:
    corpus = load("translate_corpus")
    text = corpus.by_length(4, 512, 100, seed=3)
    assert [len({len(sentence) for sentence in group}) for group in text.groups] == [1, 1, 1, 1]
    assert text.steps == sum(len(group) * (len(group[0]) + 1) for group in text.groups)
    assert [len(group[0]) for group in text.longest_first] == sorted(len(each[0]) for each in text.groups)[::-1]
    singles = corpus.one_by_one(16, 100, seed=3).sources
    assert 20 < statistics.mean(map(len, singles)) < 30


def test_the_closest_choice_is_that_of_greedy_search_step_by_step(load) -> None:
    torch = pytest.importorskip("torch")
    from clearhead.decoding import DecodingConfig, search
    from clearhead.nn.padding import Padded

    ties, model = load("translate_ties"), ARCHITECTURES["transformer"]().eval()
    sources = [[5, 6, 7, 3], [9, 4, 3], [12, 11, 10, 9, 8, 3]]
    config = DecodingConfig(beam=1, max_length_extra=6)
    closest = ties.closest_choices(model, sources, config)
    for source, found in zip(sources, closest, strict=True):
        rows = Padded.from_lists([source])
        with torch.no_grad():
            best = search(model, rows, config)[0][0]
            logits = model(rows, Padded.from_lists([[2, *best.tokens]]))
        logits[:, [0, 1, 2]] = -torch.inf
        first, second = logits.log_softmax(-1).topk(2).values.T
        free = len(best.tokens) + best.finished  # where the length ends it there is nothing to choose
        assert found == pytest.approx(float((first - second)[:free].min()), rel=1e-9)


def test_only_near_ties_are_proved(load) -> None:
    pytest.importorskip("torch")
    from clearhead.decoding import DecodingConfig

    ties, model = load("translate_ties"), ARCHITECTURES["transformer"]().eval()
    source, config = [5, 6, 7, 3], DecodingConfig(beam=2)
    assert min(ties.closest_choices(model, [source], config)) > ties.BOUND
    worse = ties.near_ties(model, [source], [((4, 5), (9, 9, 9))], [source], config)
    assert (worse["differing"], worse["unproved"], worse["control"]) == (1, 1, 0)
    alike = ties.near_ties(model, [source], [((4, 5), (4, 5))], [source], config)
    assert (alike["scores apart"], alike["unproved"]) == ([0.0], 0)


def test_ctranslate2_writes_as_many_tokens_as_are_forced(load, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    from clearhead.models import build

    peers, corpus = load("translate_peers"), load("translate_corpus")
    config, text = corpus.transformer(TOY), corpus.Corpus([[[9] * 4, [8] * 4], [[9] * 7]])
    peer = peers.CTranslate2(build(config, seed=1).eval(), config, tmp_path / "model")
    found = peer.best("int8", text, beam=2, threads=1, sizes=(0, 1), keep=1)
    assert len(found) == 1 and found[0][0].workers == found[0][0].threads == 1
    translator, now = peer.translator("float32", 1, 1), load("translate_ours").clock(1)
    assert peer.singly(translator, text, 2, now)() > 0
    with pytest.raises(SystemExit, match="forced"):
        peer.forced(Shortened(translator), text, 2, 0, now)()


class Shortened:
    """A translator that forces one token less than it is asked for."""

    def __init__(self, translator: object) -> None:
        self.translator = translator

    def translate_batch(self, group: list[list[str]], **options: object) -> object:
        fewer = {name: options[name] - 1 for name in ("min_decoding_length", "max_decoding_length")}
        return self.translator.translate_batch(group, **options | fewer)


def test_transformers_writes_as_many_tokens_as_are_forced(load) -> None:
    pytest.importorskip("transformers")
    from clearhead.models import build

    peers, corpus = load("translate_peers"), load("translate_corpus")
    config, text = corpus.transformer(TOY), corpus.Corpus([[[9] * 4, [8] * 4], [[9] * 7]])
    model = peers.transformers_model(build(config, seed=1).eval(), config)
    assert peers.transformers_run(model, text, beam=2, threads=1)() > 0


def test_goals_are_met_missed_or_not_measured(load) -> None:
    goals = load("translate_goals")
    ratio = {"median": 1.15, "low": 1.1, "high": 1.2, "against": "ctranslate2 int8 2x1, batch 32"}
    at = {"batches": {"base": {"beam 4": {"int8": {"ratios": {"ctranslate2": ratio}}}}}}
    loading = {"loading": {"fast int8": {"median": {"seconds": 1.25, "after / file": 0.5}}}}
    rows = [line.strip("| ").split("|") for line in goals.goal_table(at | loading).splitlines()[2:]]
    table = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    assert len(table) == len(goals.GOALS)  # no row stands twice
    assert table["base, batches, beam 4, int8"] == ["≥ 1.1 (aim 1.3)", "1.15 (1.10–1.20)", "met"]
    assert table["loading int8 base, seconds"] == ["≤ 1", "1.25", "not met"]
    assert table["loading int8 base, after / fp32 file"] == ["≤ 0.6", "0.50", "met"]
    assert table["base, batches, beam 4, fp32"][1:] == ["not measured", "–"]


def test_every_goal_stands_where_the_tables_put_their_figures(load) -> None:
    speed, goals = load("translate_speed"), load("translate_goals")
    places = {goal.at[0] for goal in goals.GOALS}
    assert places == set(speed.TABLES)
    sizes = {goal.at[1] for goal in goals.GOALS if goal.at[0] in ("batches", "latency")}
    assert sizes == set(load("translate_corpus").SIZES)


def test_each_peer_is_compared_by_its_best_side(load) -> None:
    harness, tables, speed = load("harness"), load("translate_tables"), load("translate_speed")

    def side(name: str, seconds: float, work: float = 10.0):
        return harness.Side(name, lambda: seconds, work)

    peers = {"ctranslate2": [side("c 2x1", 4.0), side("c 1x2", 3.0)], "marian": [side("m", 4.0, 20.0)], "absent": []}
    found = tables.compare([side("ours", 2.0)], peers, rounds=2)
    ratios = {peer: (ratio["median"], ratio["against"]) for peer, ratio in found["ratios"].items()}
    assert ratios == {"ctranslate2": (1.5, "c 1x2"), "marian": (1.0, "m")}
    lines = speed.every_side({"batches": {"base": {"int8": found}}}).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    assert [row[1] for row in cells] == ["ours", "c 2x1", "c 1x2", "m"]
    assert [row[-1] for row in cells if row[1] in ("c 1x2", "m")] == ["1.50 (1.50–1.50)", "1.00 (1.00–1.00)"]


def test_marian_gets_a_model_of_the_same_size(load, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    from clearhead.models import build, count_parameters

    corpus = load("translate_corpus")
    with numpy.load(load("translate_marian").marian_file(tmp_path, TOY, seed=1)) as arrays:
        numbers = {name: arrays[name] for name in arrays.files if not name.startswith("special:")}
        options = arrays["special:model.yml"].tobytes().decode()
    biased = corpus.transformer(TOY).model_copy(update={"output_bias": True})
    attention = 3 * TOY["layers"] * 4 * TOY["d_model"]  # Marian's projections have biases
    second = TOY["vocab"] * TOY["d_model"]  # and its output a matrix of its own
    ours = count_parameters(build(biased, seed=1))
    assert sum(each.size for each in numbers.values()) == ours + attention + second
    assert numbers["decoder_ff_logit_out_b"].argmin() == 0  # </s> never ends a translation
    assert f"dim-emb: {TOY['d_model']}\n" in options and options.endswith("\0")
    assert len((tmp_path / "vocab.yml").read_text("utf-8").splitlines()) == TOY["vocab"]


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
