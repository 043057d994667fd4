"""The scores that methods are given on known answers: by hand, on a model that learns in seconds, and as recorded.

A scorer that let a shifted map pass would make every method look good, so a shift by one place is the mutant.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from clearhead.base.errors import DataError, InputError
from clearhead.data.synthetic import LinkedPair
from clearhead.inspection.calibrated import (
    CalibratedModel,
    Calibration,
    Measure,
    Score,
    calibration,
    calibration_table,
    score_of,
)
from clearhead.inspection.sites import Head
from clearhead.recipes.inspect import calibration_methods
from clearhead.recipes.inspect.calibration import DESCRIPTIVE, MEASURES, NEEDED, calibrate
from clearhead.recipes.inspect.calibration_methods import (
    HEAD_METHODS,
    TOKEN_METHODS,
    Effort,
    Example,
    Subject,
    head_scores,
)
from clearhead.recipes.inspect.calibration_planted import PLANTED, planted_record, planted_scores
from clearhead.recipes.inspect.calibration_scores import (
    Hits,
    area_under_curve,
    baselines,
    hits,
    precision_recall,
    rank_correlation,
)
from clearhead.recipes.inspect.calibration_tasks import (
    MODELS,
    TASKS,
    CalibrationModel,
    CalibrationTask,
    draw,
    gold_links,
)
from tests.laws.model_laws import ARCHITECTURES

METHODS = {
    "statistics", "role", "importance", "ablation-zero", "ablation-mean", "permutation", "uniform", "adversarial",
    "agreement", "seed-null", "attention", "value-norms", "rollout", "gradient-input", "gradient-norm",
    "integrated-gradients", "occlusion", "lens", "temperature", "pruning", "probes",
}  # fmt: skip
"""Every method that a report may show."""


# ------------------------------------------------------------ the scorer by hand


def perfect(links: frozenset[tuple[int, int]], words: int, written: int) -> torch.Tensor:
    scores = torch.full((written + 1, words + 1), 0.01)
    for source, target in links:
        scores[target, source] = 0.9
    scores[written, words] = 0.9
    return scores


REVERSED = frozenset({(3, 0), (2, 1), (1, 2), (0, 3)})


def test_a_perfect_map_scores_one_and_the_same_shifted_by_a_place_scores_none() -> None:
    scores = perfect(REVERSED, 4, 4)
    assert hits(scores, REVERSED) == Hits(4, 4)
    assert hits(scores.roll(1, dims=1), REVERSED) == Hits(0, 4)  # keys shifted
    assert hits(scores.roll(1, dims=0), REVERSED) == Hits(0, 4)  # row t taken for the token that it reads


def test_signs_do_not_count_and_the_end_of_the_sentence_only_where_it_is_asked_for() -> None:
    scores = perfect(REVERSED, 4, 4)
    assert hits(-scores, REVERSED) == Hits(4, 4)
    scores[0, 4] = -1.0
    assert hits(scores, REVERSED) == Hits(4, 4)
    assert hits(scores, REVERSED, end=True) == Hits(3, 4)


def test_rows_without_a_link_are_not_asked_and_rows_of_zeros_are_wrong() -> None:
    links = frozenset({(0, 0), (1, 0)})
    assert hits(torch.tensor([[0.2, 0.7, 0.1], [0.9, 0.0, 0.1], [0.0, 0.0, 1.0]]), links) == Hits(1, 1)
    assert hits(torch.zeros(3, 3), links) == Hits(0, 1)


def test_the_first_of_equals_is_taken() -> None:
    even = torch.full((3, 3), 1 / 3)
    assert hits(even, frozenset({(0, 0)})) == Hits(1, 1)
    assert hits(even, frozenset({(1, 0)})) == Hits(0, 1)


def test_what_is_no_map_of_the_links_is_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        hits(torch.tensor([[math.nan, 0.0], [0.0, 0.0]]), frozenset({(0, 0)}))
    for link in ((1, 0), (0, 1)):  # EOS of either side
        with pytest.raises(InputError, match="outside"):
            hits(torch.ones(2, 2), frozenset({link}))


def test_baselines_by_hand() -> None:
    found = baselines(4, 4, REVERSED)
    assert (found["diagonal"].right, found["uniform"].right) == (0, 1)
    assert found["random"].right == pytest.approx(4 / 4)
    straight = frozenset((place, place) for place in range(4))
    assert baselines(4, 4, straight)["diagonal"] == Hits(4, 4)
    assert baselines(3, 5, frozenset({(0, 0), (1, 2), (2, 4)}))["diagonal"] == Hits(3, 3)
    assert baselines(2, 1, frozenset({(0, 0)}))["diagonal"] == Hits(1, 1)


def test_rank_correlation_area_precision_and_recall_by_hand() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4 about 2.5: 1.5² + 0 + 0 + 1.5² over √(4.5 · 5).
    assert rank_correlation([0, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(22.5))
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
    assert area_under_curve([0.9, 0.1, 0.5, 0.5], [True, False, True, False]) == pytest.approx(3.5 / 4)
    assert area_under_curve([0.9, 0.1], [True, True]) is None
    assert precision_recall([], ["a"]) == (None, 0.0)
    assert precision_recall(["a", "b"], ["a"]) == (0.5, 1.0)


# ------------------------------------------------------------ the tasks


def test_no_sentence_is_in_two_parts_and_links_join_equal_words() -> None:
    for task in (replace(each, train=300, held_out=50) for each in TASKS):
        drawn = draw(task)
        assert (len(drawn.train), len(drawn.dev), len(drawn.test)) == (300, 50, 50)
        sources = [pair.source for pair in (*drawn.train, *drawn.dev, *drawn.test)]
        assert len(set(sources)) == len(sources)
        for pair in drawn.test:
            links = gold_links(task, pair)
            assert {target for _, target in links} == set(range(len(pair.target)))
            if task.exact:
                assert all(pair.source[source] == pair.target[target] for source, target in links)


def test_of_equal_words_that_are_sorted_each_is_right_and_only_then() -> None:
    order = ("b", "a", "b"), ("a", "b", "b")
    pair = LinkedPair(*order, frozenset({(1, 0), (0, 1), (2, 2)}), frozenset())
    assert gold_links(CalibrationTask("sort"), pair) == {(1, 0), (0, 1), (2, 1), (0, 2), (2, 2)}
    assert gold_links(CalibrationTask("copy"), pair) == pair.sure


def test_too_few_sentences_are_said_to_be_too_few() -> None:
    with pytest.raises(InputError, match=r"copy: 2 different sentences of 12"):
        draw(CalibrationTask("copy", train=10, held_out=1, words=2, lengths=(1, 1)))


# ------------------------------------------------------------ planted heads


def test_planted_heads_get_their_names_and_a_sign_that_is_swapped_shows() -> None:
    named = {each.part: each.value for each in planted_scores(records=6)}
    assert (named["noise 0"], named["noise 0.2"]) == (1.0, 1.0)
    assert (named["noise 0.4"] or 0) > 0.9  # a head that gives 0.6 of its weight to EOS is near the threshold for it
    record, _ = planted_record(9, 0.0, seed=1)
    encoder = record.layer("encoder", 1)
    previous, following = (encoder.weights[PLANTED["encoder"].index(role)] for role in ("previous", "next"))
    rows = torch.arange(1, 9)
    assert bool((previous[rows, rows - 1] == 1).all()) and bool((following[rows, rows - 1] == 0).all())


# ------------------------------------------------------------ through the real trainer

TINY_TASK = CalibrationTask("reverse", train=1500, held_out=40, words=8, lengths=(4, 6))
TINY_MODEL = CalibrationModel(
    "rnnsearch", "rnnsearch", 2e-2, updates=160, width=32, d_ff=32, layers=1, dropout=0.0, batch_tokens=256
)
LITTLE = Effort(maps=12, integrated=1, untrained=6, heads=2, shuffled=1, shuffles=3, searched=1, starts=1, steps=3)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """What a model of 160 updates, which reverses without a mistake by then, gives."""
    return calibrate(tmp_path_factory.mktemp("calibration"), tasks=[TINY_TASK], models=[TINY_MODEL], effort=LITTLE)


def test_a_model_that_learnt_to_reverse_attends_where_it_must(learnt: Calibration) -> None:
    assert [each.solved for each in learnt.models] == [True]
    lines = {each.name: each.value for each in learnt.baselines}
    trained = learnt.score_of("attention", "recurrent")
    assert trained is not None and trained["reverse"] > max(lines.values()) + 0.4
    fresh = [each.value for each in learnt.scores if (each.method, each.measure) == ("attention", "links-untrained")]
    assert fresh[0] is not None and fresh[0] < trained["reverse"] - 0.4
    assert learnt.score_of("attention", "transformer") == {}
    scored = {each.method for each in learnt.scores if each.measure == "links"}
    assert scored == set(TOKEN_METHODS) - {"rollout"}  # which is for Transformers


def test_a_model_that_did_not_learn_gives_no_scores(tmp_path: Path) -> None:
    told: list[str] = []
    model = replace(TINY_MODEL, updates=2)
    found = calibrate(tmp_path, tasks=[TINY_TASK], models=[model], effort=LITTLE, progress=told.append)
    assert [each.solved for each in found.models] == [False]
    assert {each.task for each in found.scores} == {"planted"}
    assert "no scores" in told[-1]


def test_every_method_of_heads_is_scored() -> None:
    model = ARCHITECTURES["transformer"]()
    words = ("a", "b", "c", "d")
    examples = tuple(
        Example(ids, ids[::-1], (words, words[::-1]), REVERSED) for ids in ((5, 6, 7, 8), (9, 8, 10, 6), (11, 5, 9, 7))
    )
    found = head_scores(Subject("reverse", "tiny", "transformer", model, model, examples, examples), LITTLE)
    assert {each.method for each in found} == set(HEAD_METHODS)
    assert {each.count for each in found} == {8}
    assert all(each.value is None or -1 <= each.value <= 1 for each in found)


@pytest.mark.parametrize(("last", "ranked"), [(0.2, 1.0), (0.96, None)])
def test_heads_that_are_all_as_well_aligned_are_not_ranked(
    last: float, ranked: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers(_s: object, _r: object, heads: list[Head], _e: object) -> dict[str, dict[Head, float]]:
        return {"importance": {head: -float(place) for place, head in enumerate(heads)}}

    def shares(_r: object, _e: object, heads: list[Head]) -> dict[Head, float]:
        return {head: 1 - (1 - last) * place / (len(heads) - 1) for place, head in enumerate(heads)}

    model = ARCHITECTURES["transformer"]()
    subject = Subject("reverse", "tiny", "transformer", model, model, (), ())
    monkeypatch.setattr(calibration_methods, "_numbers", numbers)
    monkeypatch.setattr(calibration_methods, "_alignment", shares)
    found = {each.measure: each.value for each in head_scores(subject, LITTLE) if each.method == "importance"}
    assert found["rank-correlation"] == (None if ranked is None else pytest.approx(ranked))


# ------------------------------------------------------------ what is recorded


def test_every_method_has_an_entry_that_was_made_with_models_that_solved_their_task() -> None:
    recorded = calibration()
    assert set(recorded.methods) == METHODS == set(MEASURES) | set(DESCRIPTIVE)
    assert (recorded.measures, recorded.descriptive) == (MEASURES, DESCRIPTIVE)
    solved = {(each.task, each.model): each for each in recorded.models if each.solved}
    for task in TASKS:
        found = [each for (name, _), each in solved.items() if name == task.name]
        assert found and all(each.needed == NEEDED[task.exact] for each in found)
    assert {(each.task, each.model) for each in recorded.scores} - {("planted", "by hand")} == set(solved)
    for method, measure in MEASURES.items():
        assert {score.measure for score in recorded.scores if score.method == method} <= set(get_args(Measure))
        scores = score_of(method)
        assert scores is not None and {"reverse", "language"} <= set(scores), (method, measure)
    for method in DESCRIPTIVE:
        assert score_of(method) is None
    assert {each.model for each in recorded.models} <= {each.name for each in MODELS}


def test_the_attention_of_models_that_solved_the_reversal_beats_every_baseline() -> None:
    lines = [each.value for each in calibration().baselines if each.task == "reverse"]
    assert (score_of("attention") or {})["reverse"] > max(lines) + 0.3


def test_a_method_that_was_not_calibrated_is_refused() -> None:
    with pytest.raises(InputError, match="'saliency'.*calibrate it first"):
        score_of("saliency")


def by_hand() -> Calibration:
    def model(name: str, family: str) -> CalibratedModel:
        return CalibratedModel("copy", name, family, 1.0, 0.99, 10, 100, 5, 1)  # type: ignore[arg-type]

    scores = [("a", "cross 1", 0.5), ("a", "cross 2", 1.0), ("b", "", 0.25), ("c", "", None)]
    return Calibration(
        "2026-11-30",
        {"torch": "2"},
        {},
        (model("a", "transformer"), model("b", "recurrent"), model("c", "recurrent")),
        (),
        tuple(Score("attention", "copy", name, part, "links", value, 10) for name, part, value in scores),
        {"attention": "links"},
        {"lens": "describes"},
    )


def test_a_score_is_the_mean_over_models_and_layers_of_the_family_asked_for() -> None:
    assert by_hand().score_of("attention") == {"copy": pytest.approx(1.75 / 3)}
    assert by_hand().score_of("attention", "transformer") == {"copy": 0.75}
    assert by_hand().score_of("attention", "recurrent") == {"copy": 0.25}
    assert by_hand().table("recurrent") == {"attention": {"copy": 0.25}, "lens": {}}
    assert by_hand().table("convolution") == {"lens": {}}
    assert calibration_table().keys() == METHODS


def test_a_calibration_comes_back_from_its_file_as_it_was() -> None:
    assert Calibration.from_json(by_hand().to_json()) == by_hand()
    assert Calibration.from_json(calibration().to_json()) == calibration()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", "other", "no calibration"),
        ("version", 2, '"version" is 2, this clearhead reads 1'),
        ("scores", [{"method": "attention"}], "scores: entry 1 must have the keys"),
        ("measures", {"attention": "beauty"}, "'beauty' is no measure"),
        ("descriptive", {"lens": 1}, "descriptive: not a table of texts"),
        ("models", "none", "models: not a list"),
    ],
)
def test_a_damaged_or_later_file_is_refused(key: str, value: object, says: str) -> None:
    table = json.loads(by_hand().to_json()) | {key: value}
    with pytest.raises(DataError, match=says):
        Calibration.from_json(json.dumps(table))
    with pytest.raises(DataError, match="missing"):
        Calibration.from_json(json.dumps({name: each for name, each in table.items() if name != "scores"} | CLEAN))
    wrong = json.loads(by_hand().to_json())
    wrong["scores"][0]["value"] = "high"
    with pytest.raises(DataError, match="entry 1: value cannot be 'high'"):
        Calibration.from_json(json.dumps(wrong))


CLEAN = {"format": "clearhead calibration", "version": 1}
