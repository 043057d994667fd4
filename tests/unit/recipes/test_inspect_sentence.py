"""What an inspection says of itself while it works: stages and steps, names, seeds; and what it reads of a sample."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from clearhead.base.errors import DataError, InputError
from clearhead.base.seeds import mix
from clearhead.bundle.bundle import read_info
from clearhead.explorer.inspection import inspect
from clearhead.inspection.adversarial import AdversarySearch, adversarial_passes, adversaries
from clearhead.inspection.capture import capture
from clearhead.inspection.integrated import integrated_gradients, most_points
from clearhead.inspection.perturbation import permutation, uniform
from clearhead.inspection.probe_labels import Labels
from clearhead.inspection.probes import ProbeSettings, probe, probe_steps
from clearhead.inspection.pruning import pruning_curve, pruning_steps
from clearhead.inspection.records import Provenance, Token, Unit
from clearhead.inspection.teaching import Pairs
from clearhead.models import Seq2Seq
from clearhead.models.build import build
from clearhead.recipes.inspect import sample as sample_module
from clearhead.recipes.inspect.bundles import model_name, seed_beside, untrained_model
from clearhead.recipes.inspect.pair import InspectedPair
from clearhead.recipes.inspect.sample import SampleSize, inspect_sample
from clearhead.recipes.inspect.sample_pairs import read_sample, take_sample
from clearhead.recipes.inspect.stages import Progress
from clearhead.recipes.inspect.token_methods import token_scores
from clearhead.recipes.translate import load
from clearhead.recipes.translator import Translator
from tests.laws.model_laws import PAIRS, transformer
from tests.system.program import write

MODEL = Path(__file__).parents[3] / "docs" / "transformer" / "site" / "model"
SENTENCE, TRANSLATION = "他 爱 猫", "he loves cats"
SOURCE, TARGET = [5, 6, 7], [8, 4, 7]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(MODEL, device="cpu")


class Watch:
    """Notes every stage: its name, its steps, and what was said to be done."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None, list[int]]] = []

    def __call__(self, name: str, steps: int | None) -> Progress:
        self.stages.append((name, steps, []))
        return self.stages[-1][2].append

    def check(self) -> list[str]:
        """Where steps are known they are done one after the other, none twice, up to the last."""
        for name, steps, done in self.stages:
            if steps is not None:
                assert done and done == sorted(set(done)) and done[-1] == steps, (name, steps, done)
        return [name for name, _, _ in self.stages]


# ---------------------------------------------------------------------------------------------- progress


def test_the_stages_of_a_sentence_end_where_they_said(translator: Translator) -> None:
    watch = Watch()
    other = load(MODEL, device="cpu")
    with torch.no_grad():
        next(other.model.parameters()).add_(0.1)  # what another seed would have made of it
    shown = inspect(translator, SENTENCE, target=TRANSLATION, others=[other, other], progress=watch, tests="quick")
    assert shown.evidence is not None
    told = watch.check()
    steps = {name.partition(":")[0]: count for name, count, _ in watch.stages}
    assert len(told) == len(set(told)) and steps["integrated gradients"] == 4
    assert steps["models of other seeds"] == 2
    assert steps["permuted and equal weights"] == 2 * (6 + 3 + 3)  # heads, layers and stacks of a 1 + 1 layer model
    assert steps["logit lens"] is None and steps["temperature"] is None


def test_the_stages_of_a_sample_end_where_they_said(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*arguments: object, progress: Progress, **_: object) -> list[object]:
        units = arguments[3]
        assert isinstance(units, list) and len(units) == 2
        for done in (1, adversarial_passes(units)):
            progress(done)
        return []

    monkeypatch.setattr(sample_module, "adversarial", searched)
    monkeypatch.setattr(sample_module, "ProbeSettings", partial(ProbeSettings, kinds=("linear",), steps=3))
    taken = take_sample(translator, [(SENTENCE, TRANSLATION), ("我 爱 小 猫", "I love small cats")] * 20, 40)
    watch = Watch()
    size = SampleSize(40, translated=0, shuffled=2, shuffles=2, attacked=3)
    found = inspect_sample(translator, taken, name="m", size=size, untrained=translator.model, stage=watch)
    told = watch.check()
    adversaries_told = next(name for name in told if name.startswith("adversarial"))
    assert f": {3 * 2 * 6 * 300} passes" in adversaries_told
    assert found.probes and all(each.untrained == each.accuracy for each in found.probes)  # the same model beside
    assert told[-1] == "probes"


def test_nobody_need_listen(translator: Translator) -> None:
    """A stage that gives nothing back, as `print` does, is not told of steps."""
    names: list[str] = []
    inspect(translator, SENTENCE, target="", tests="none", progress=lambda name, steps: names.append(name))
    assert names == ["attention weights", "logit lens"]


def test_predictions_done_with_are_counted() -> None:
    model, close = transformer(), 1e-4
    done: list[int] = []
    found = integrated_gradients(
        model, SOURCE, TARGET, tolerance=close, first_steps=2, most_steps=16, progress=done.append
    )
    ended = found.series["steps"]
    rounds = [sum(each <= steps and each < 16 for each in ended) for steps in (2, 4, 8)]
    assert done[:-1] == rounds[: len(done) - 1] and done[-1] == 4
    assert most_points(2, 16) == 2 + 4 + 8 + 16 and most_points(3, 10) == 3 + 6 + 10 and most_points(5, 5) == 5


def test_units_and_passes_are_counted_also_where_two_are_the_same() -> None:
    """A layer of one head is that head: it is not worked out again, and counts as done."""
    model = PAIRS["two-way-gru-bahdanau"]()
    units = [Unit("cross", 1, 1), Unit("cross", 1), Unit("cross")]
    for method in (permutation, uniform):
        done: list[int] = []
        method(model, SOURCE, TARGET, units, progress=done.append)
        assert done == [1, 2, 3]
    search = AdversarySearch(starts=1, steps=3)
    passes: list[int] = []
    adversaries(model, SOURCE, TARGET, units, search, progress=passes.append)
    assert passes == [2, 4, 6, 12, 18] and passes[-1] == adversarial_passes(units, search)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_pruning_and_probes_do_what_they_count(share: float) -> None:
    model, pairs = transformer(), Pairs.of([SOURCE, [8, 5]], [TARGET, [6]])
    done: list[int] = []
    pruning_curve(model, pairs, share=share, progress=done.append)
    assert done == list(range(1, pruning_steps(model, share=share) + 1))
    assert pruning_steps(PAIRS["reversed-lstm-seq2seq"]()) == 0
    if share == 1.0:
        sources = [[5, 6, 7], [8, 5], [6, 7], [9, 5, 6], [7, 8]]
        values = tuple(tuple(token % 2 for token in line) for line in sources)
        labels = [Labels("odd", ("even", "odd"), values), Labels("again", ("even", "odd"), values)]
        settings = ProbeSettings(steps=2, kinds=("linear",))
        steps: list[int] = []
        probe(model, sources, sources, labels, labels[:1], settings=settings, progress=steps.append)
        assert len(steps) == 3 * 2 + 3 * 1  # states before the first of two layers and after each
        assert steps[-1] == probe_steps(model, sources[0], sources[0], labels, labels[:1]) == len(steps)


# ---------------------------------------------------------------------------------------------- local-p's jumps


def scores_of(model: Seq2Seq) -> tuple[dict[str, float], list[float], str]:
    tokens = [Token("x", each) for each in (*SOURCE, 3)]
    record = capture(
        model, SOURCE, TARGET, source_tokens=tokens, prefix_tokens=tokens, gold_tokens=tokens,
        provenance=Provenance("m", "", "", ""),
    )  # fmt: skip
    watch = Watch()
    pair = InspectedPair("x", "x", tuple(SOURCE), tuple(TARGET), 0, "given")
    scores = token_scores(model, pair, record, gradients=True, stage=watch)
    (found,) = (each for each in scores if each.method == "integrated-gradients")
    (told,) = (name for name in watch.check() if name.startswith("integrated"))
    return found.settings, list(found.series["steps"]), told


def test_where_no_sum_can_close_it_is_not_tried_for_long() -> None:
    settings, steps, told = scores_of(PAIRS["reversed-lstm-luong-local-p"]())
    assert settings["most_steps"] == 128 and max(steps) == 128  # it does not close, and stops there
    assert told == "integrated gradients: 32 to 224 gradients for each of 4 predictions"
    settings, _, told = scores_of(PAIRS["reversed-lstm-luong-local-m-unfed"]())
    assert settings["most_steps"] == 1024 and "32 to 2016 gradients for each of 4 predictions" in told


# ---------------------------------------------------------------------------------------------- the bundle's path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/x", "x"),
        ("runs/x/", "x"),
        ("runs/x/average", "x/average"),
        ("runs/x/checkpoints/step-00001000", "x/step-00001000"),
        ("runs/x/average/../y", "y"),
        ("/average", "average"),
        ("runs/checkpoints", "checkpoints"),
        ("average/x", "x"),
    ],
)
def test_the_name_of_a_model_tells_its_run(path: str, name: str) -> None:
    assert model_name(path) == name


def test_a_name_is_told_from_within_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x" / "average").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "x" / "average")
    assert model_name(".") == "x/average"


def test_an_untrained_model_is_a_start_of_the_same_configuration(tmp_path: Path) -> None:
    trained = load(MODEL, device="cpu").model
    found = untrained_model(MODEL, seed=2, device=torch.device("cpu"))
    again = build(read_info(MODEL).config, seed=mix(2, 1))  # as training begins, recipes/train.py
    assert not found.training
    for (name, ours), theirs, learnt in zip(
        found.named_parameters(), again.parameters(), trained.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs) and ours.shape == learnt.shape
        assert ours.dim() < 2 or not torch.equal(ours, learnt), name
    other = untrained_model(MODEL, seed=3, device=torch.device("cpu"))
    assert any(not torch.equal(a, b) for a, b in zip(found.parameters(), other.parameters(), strict=True))
    assert seed_beside(MODEL) == 2  # it tells no seed
    described = (MODEL / "bundle.toml").read_text("utf-8").replace("[training]\n", "[training]\nseed = 7\n")
    write(tmp_path / "bundle.toml", described.splitlines())
    assert seed_beside(tmp_path) == 8


# ---------------------------------------------------------------------------------------------- the sample


def files(folder: Path, lines: int = 40) -> tuple[Path, Path]:
    """Aligned files whose last source line is not UTF-8."""
    source = write(folder / "s", [SENTENCE] * (lines - 1))
    source.write_bytes(source.read_bytes() + b"\xff\n")
    return source, write(folder / "t", [TRANSLATION] * lines)


def test_a_sample_is_read_no_further_than_it_is_wanted(tmp_path: Path, translator: Translator) -> None:
    source, target = map(str, files(tmp_path))
    assert len(read_sample(translator, source, target, 5).chosen) == 5
    with pytest.raises(DataError, match="not UTF-8"):
        read_sample(translator, source, target, 40)
    endless: Iterator[tuple[str, str]] = itertools.cycle([(SENTENCE, TRANSLATION)])
    assert len(take_sample(translator, endless, 3).chosen) == 3
    read = iter([(SENTENCE, TRANSLATION)] * 9)
    take_sample(translator, read, 4)
    assert len(list(read)) == 5
    with pytest.raises(InputError, match="at least 1"):
        take_sample(translator, endless, 0)


def test_files_that_do_not_belong_together_are_refused_however_few_are_wanted(
    tmp_path: Path, translator: Translator
) -> None:
    source, target = map(str, files(tmp_path))
    short = str(write(tmp_path / "short", [TRANSLATION] * 39))
    with pytest.raises(DataError, match=r"s has 40 lines but .*short has 39"):
        read_sample(translator, source, short, 5)
    links = str(write(tmp_path / "links", ["0-0"] * 41))
    with pytest.raises(DataError, match=r"links has 41 lines but .*s has 40"):
        read_sample(translator, source, target, 5, links)
    links = str(write(tmp_path / "links", ["0-0", "", "1-1", *["no link"] * 37]))
    taken = read_sample(translator, source, target, 3, links)
    assert taken.links == (frozenset({(0, 0)}), frozenset(), frozenset({(1, 1)}))
    with pytest.raises(DataError, match=r"links, line 4: 'no' is no link"):
        read_sample(translator, source, target, 4, links)
    links = str(write(tmp_path / "links", ["0-0", "9-1", *["0-0"] * 38]))
    with pytest.raises(DataError, match=r"links: pair 2: the link 9-1 is to a word that is not there"):
        read_sample(translator, source, target, 5, links)


def test_links_stay_with_their_pairs_where_one_is_left_out(translator: Translator) -> None:
    pairs = [(SENTENCE, TRANSLATION), ("", ""), (SENTENCE, TRANSLATION)]
    taken = take_sample(translator, pairs, 2, [frozenset({(0, 0)}), frozenset({(9, 9)}), frozenset({(2, 2)})])
    assert taken.links == (frozenset({(0, 0)}), frozenset({(2, 2)}))


def test_a_stream_is_read_once_and_links_that_end_early_are_told(tmp_path: Path, translator: Translator) -> None:
    _, target = files(tmp_path)
    source, links = (tmp_path / name for name in ("s.pipe", "l.pipe"))
    for pipe in (source, links):
        os.mkfifo(pipe)
    writers = [
        threading.Thread(target=pipe.write_text, args=(text * 40 if pipe == source else text, "utf-8"))
        for pipe, text in ((source, f"{SENTENCE}\n"), (links, "0-0\n1-1\n"))
    ]
    for each in writers:
        each.start()
    with pytest.raises(DataError, match=r"l.pipe has 2 lines, and the sample more"):
        read_sample(translator, str(source), str(target), 5, str(links))
    for each in writers:
        each.join(5)
    assert not any(each.is_alive() for each in writers)
