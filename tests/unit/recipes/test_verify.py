"""The comparison of the two roads: what counts as equal, what is reported, and that nothing crashes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from clearhead.base.errors import ClearheadError, InputError
from clearhead.recipes import verify as module
from clearhead.recipes.handbook.chapters import all_recipes
from clearhead.recipes.handbook.registry import ARITHMETIC, Recipe
from clearhead.recipes.verify import Report, compare, read_lock, render, selected, verify

Patch = pytest.MonkeyPatch


def only(patch: Patch, lock: dict[str, Any], **functions: Callable[[], Any]) -> Report:
    """The report on recipes for `chapter.name`, one for each of `functions`, against `lock`."""
    recipes = {f"chapter.{name}": Recipe((f"chapter.{name}",), ("nn.x",), run) for name, run in functions.items()}
    patch.setattr(module, "all_recipes", lambda: recipes)
    patch.setattr(module, "read_lock", lambda: lock)
    return verify()


@pytest.mark.parametrize(
    ("expected", "got", "difference", "words"),
    [
        (1.0, 1.0 + 5e-10, 5e-10, ""),
        (1.0, 1.0 + 5e-9, 5e-9, "expected 1 got 1.000000005"),
        (1e9, 1e9 + 0.5, 5e-10, ""),
        (1e9, 1e9 + 5, 5e-9, "expected 1000000000 got 1000000005"),
        (1e-12, 0.0, 1e-12, ""),
        ([[0.0, -math.inf]], [[0, -math.inf]], 0.0, ""),
        ([[0.0, -math.inf]], [[0, -1e30]], math.inf, "expected -inf got -1e+30 in cell 0.1"),
        ([0.0, 1.0], [0.0, math.inf], math.inf, "expected 1 got inf in cell 1"),
        ([3, 2], [3, 2, 1], math.nan, "expected a list of 2, got a list of 3"),
        ([[1], [2]], [[1], 2], math.nan, "expected a list of 1, got a number in cell 1"),
        ([1.0], [math.nan], math.nan, "expected 1 got nan in cell 0"),
        (1, 1.0, 0.0, ""),
        ([], [], 0.0, ""),
    ],
)
def test_compare(expected: Any, got: Any, difference: float, words: str) -> None:
    found, problem = compare(expected, got)
    assert problem == words
    assert math.isnan(found) if math.isnan(difference) else found == pytest.approx(difference, rel=1e-6)


def test_the_worst_cell_is_named() -> None:
    assert compare([1.0, 2.0, 3.0], [1.1, 2.9, 3.2]) == (pytest.approx(0.45), "expected 2 got 2.9 in cell 1")


def test_what_goes_wrong_in_one_recipe_leaves_the_others_alone(monkeypatch: Patch) -> None:
    def broken() -> float:
        raise RuntimeError("the matrix\nwould not turn")

    lock = {f"chapter.{name}": 1.0 for name in ("good", "wrong", "lost", "broken", "word", "many", "nothing")}
    report = only(
        monkeypatch,
        lock,
        good=lambda: 1.0,
        wrong=lambda: 2.0,
        broken=broken,
        word=lambda: "one",
        many=lambda: (1.0, 2.0),
        nothing=lambda: None,
        new=lambda: 1.0,
    )
    problems = {check.fact.removeprefix("chapter."): check.problem for check in report.failures}
    assert problems.keys() == {"wrong", "lost", "broken", "word", "many", "nothing", "new"}
    assert problems["wrong"] == "expected 1 got 2"
    assert "no recipe" in problems["lost"]
    assert problems["broken"] == "RuntimeError: the matrix would not turn"
    assert "'one' is no number" in problems["word"]
    assert problems["many"] == "expected a number, got a list of 2"
    assert "None is no number" in problems["nothing"]
    assert "--write-lock" in problems["new"]


def test_a_recipe_that_breaks_fails_each_of_its_facts(monkeypatch: Patch) -> None:
    ids = ("chapter.one", "chapter.two")
    monkeypatch.setattr(module, "all_recipes", lambda: dict.fromkeys(ids, Recipe(ids, ("nn.x",), lambda: (1.0,))))
    monkeypatch.setattr(module, "read_lock", lambda: dict.fromkeys(ids, 1.0))
    report = verify()
    assert [check.fact for check in report.failures] == list(ids)
    assert all("1 values for 2 ids" in check.problem for check in report.failures)


def test_the_report_has_a_row_a_chapter_and_a_line_a_failure(monkeypatch: Patch) -> None:
    report = only(monkeypatch, {"chapter.good": 1.0, "chapter.wrong": [1.0, 4.0]}, good=lambda: 1, wrong=lambda: [1, 5])
    assert render(report).splitlines() == [
        "chapter  facts  by modules  passed  largest difference",
        "chapter      2           2       1             2.5e-01",
        "",
        "FAILED chapter.wrong: expected 4 got 5 in cell 1 difference 2.5e-01 (nn.x)",
        "",
        "2 facts: 1 failed",
    ]
    assert "ok chapter.good = 1 difference 0 (nn.x)" in render(report, each=True)


def test_the_table_is_json_whatever_the_numbers(monkeypatch: Patch) -> None:
    report = only(monkeypatch, {"chapter.a": [-math.inf], "chapter.b": 1.0}, a=lambda: [-math.inf], b=lambda: math.nan)
    table = json.loads(json.dumps(report.table(), allow_nan=False))
    assert table["facts"]["chapter.a"]["got"] == ["-inf"]
    assert table["facts"]["chapter.b"] == {
        "expected": 1.0,
        "got": "nan",
        "difference": "nan",
        "modules": ["nn.x"],
        "problem": "expected 1 got nan",
    }
    assert table["agree"] is False
    assert table["chapters"] == {"chapter": {"facts": 2, "passed": 1, "largest": 0.0}}


def test_both_roads_know_the_same_facts() -> None:
    assert set(read_lock()) == set(all_recipes())


def test_the_lock_is_read_with_minus_infinity() -> None:
    mask = read_lock()["causal.mask"]
    assert mask == [[0, -math.inf, -math.inf], [0, 0, -math.inf], [0, 0, 0]]


def test_a_damaged_lock_is_told(monkeypatch: Patch) -> None:
    monkeypatch.setattr(module, "LOCK", "nowhere.json")
    with pytest.raises(ClearheadError, match=r"nowhere\.json is missing or damaged .* --write-lock"):
        read_lock()


def test_facts_are_named_by_id_or_by_cell() -> None:
    assert selected(["attn.weights.0.2", "rep.x", "Attn.Weights"]) == ["rep.x", "attn.weights"]
    assert selected()[0].startswith("rep.")  # the handbook's order, not the alphabet's
    with pytest.raises(
        InputError, match=r"attn\.weight: there is no such fact or chapter \(did you mean 'attn\.weights'\?\)"
    ):
        selected(["attn.weight"])


@pytest.mark.parametrize("cell", ["attn.weights.3", "attn.weights.0.3", "attn.weights.0.0.0", "rep.sqrt_d.0"])
def test_a_cell_that_is_not_there_is_a_users_mistake(cell: str) -> None:
    with pytest.raises(InputError, match=r"has no such cell \(they count from 0\)"):
        selected([cell])


def test_a_chapter_stands_for_its_facts() -> None:
    chapter = [fact for fact in selected() if fact.startswith("cross.")]
    assert selected(["cross"]) == selected(["Cross", "cross.weights"]) == chapter != []
    with pytest.raises(InputError, match=r"caus: there is no such fact or chapter \(did you mean 'causal'\?\)"):
        selected(["caus"])


def test_what_no_module_made_is_told(monkeypatch: Patch) -> None:
    recipes = {
        "chapter.made": Recipe(("chapter.made",), ("nn.x",), lambda: 1.0),
        "chapter.given": Recipe(("chapter.given",), (ARITHMETIC,), lambda: 2.0),
    }
    monkeypatch.setattr(module, "all_recipes", lambda: recipes)
    monkeypatch.setattr(module, "read_lock", lambda: {"chapter.made": 1.0, "chapter.given": 2.0, "chapter.lost": 3.0})
    report = verify(["chapter.made", "chapter.given"])
    assert render(report).splitlines()[-1] == (
        "2 facts: both roads agree to 1e-09 "
        "(1 recomputed by the modules that train, search and score, 1 by separate arithmetic)"
    )
    assert report.table()["recomputed"] == {"modules": 1, "arithmetic": 1}
    lost = verify()  # what nothing made is counted nowhere
    assert lost.table()["recomputed"] == {"modules": 1, "arithmetic": 1}
    assert render(lost).splitlines()[-1] == "3 facts: 1 failed"


def test_an_input_of_a_chapter_is_no_work_of_its_modules() -> None:
    given = {"rep.exercise_row", "attn.exercise_query", "pos.embedding", "block.x", "heads.split_input"}
    given |= {"heads.split_wrong", "cross.queries", "cross.memory", "learn.probabilities"}
    recipes = all_recipes()
    assert {recipes[fact].modules for fact in given} == {(ARITHMETIC,)}
    assert recipes["attn.exercise_weights"].modules == ("nn.cores.ScaledDotProduct",)


def test_only_what_is_asked_for_is_computed(monkeypatch: Patch) -> None:
    ran: list[str] = []
    lock = {"chapter.one": 1.0, "chapter.two": 1.0}
    only(monkeypatch, lock, one=lambda: ran.append("one") or 1.0, two=lambda: ran.append("two") or 1.0)
    ran.clear()
    told: list[int] = []
    assert [check.fact for check in verify(["chapter.two"], progress=told.append).checks] == ["chapter.two"]
    assert (ran, told) == (["two"], [1])
