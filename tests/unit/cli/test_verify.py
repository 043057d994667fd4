"""`clearhead verify` from outside."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from clearhead.cli.main import app
from clearhead.nn.cores import ScaledDotProduct
from clearhead.recipes.verify import read_lock


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_both_roads_agree_chapter_by_chapter() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["chapter", "facts", "by", "modules", "passed", "largest", "difference"]
    assert lines[1].split()[0] == "rep"
    assert {line.split()[0] for line in lines[1:-2]} == {fact.split(".")[0] for fact in read_lock()}
    by_modules = sum(int(line.split()[2]) for line in lines[1:-2])
    assert 200 < by_modules < len(read_lock())
    assert lines[-1] == (
        f"{len(read_lock())} facts: both roads agree to 1e-09 ({by_modules} recomputed by the modules that train, "
        f"search and score, {len(read_lock()) - by_modules} by separate arithmetic)"
    )


def test_one_fact_shows_its_value_and_its_makers() -> None:
    result = run("--fact", "causal.pairs", "--fact", "attn.weights.0.2")
    assert result.exit_code == 0
    assert "ok causal.pairs = [15, 25] difference 0 (nn.visibility.Visibility)" in result.stdout
    assert "ok attn.weights = [[0.4011120926797859" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("2 facts: both roads agree to 1e-09 (2 recomputed by the modules")


def test_a_chapter_of_the_table_can_be_asked_for() -> None:
    result = run("--fact", "rnn")
    assert result.exit_code == 0, result.output
    facts = {line.split()[1] for line in result.stdout.splitlines() if line.startswith("ok ")}
    assert facts == {fact for fact in read_lock() if fact.startswith("rnn.")}


def test_the_report_as_json() -> None:
    table = json.loads(run("--json", "--fact", "causal.mask").stdout)
    assert table["agree"] is True
    assert table["facts"]["causal.mask"]["got"] == [[0, "-inf", "-inf"], [0, 0, "-inf"], [0, 0, 0]]
    assert table["facts"]["causal.mask"]["modules"] == ["nn.visibility.Visibility"]


def test_a_difference_is_exit_code_1_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ScaledDotProduct.weights
    monkeypatch.setattr(ScaledDotProduct, "weights", lambda self, *inputs: right(self, *inputs) * (1 + 1e-8))
    result = run("--fact", "attn.row_sums", "--fact", "causal.mask")
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
    assert line.startswith("FAILED attn.row_sums: expected 1 got 1.00000001 in cell ")
    assert line.endswith("difference 1.0e-08 (nn.cores.ScaledDotProduct)")
    assert json.loads(run("--json", "--fact", "attn.row_sums").stdout)["agree"] is False


def test_an_unknown_fact_is_a_users_mistake() -> None:
    result = run("--fact", "attn.wieghts")
    assert result.exit_code == 2
    assert (
        "error: --fact attn.wieghts: there is no such fact or chapter (did you mean 'attn.weights'?)" in result.stderr
    )
    assert "Traceback" not in result.stderr
