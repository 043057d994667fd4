"""Scores of files of pairs."""

import json
import math
from pathlib import Path

import pytest

from clearhead.base.errors import DataError
from clearhead.decoding.config import DecodingConfig
from clearhead.recipes.score import as_json, score_files
from clearhead.recipes.translation import Scored
from tests.unit.recipes.tiny import tiny_translator


def test_one_line_a_pair_and_the_perplexity_of_all(tmp_path: Path) -> None:
    sources, targets = ["the cat", "", "mat"], ["die Katze", "Matte", ""]
    for name, lines in (("s", sources), ("t", targets)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    translator = tiny_translator()
    totals = score_files(translator, DecodingConfig(), tmp_path / "s", tmp_path / "t", tmp_path / "o")
    expected = translator.score(sources, targets)
    lines = [line.split("\t") for line in (tmp_path / "o").read_text().split("\n")[:-1]]
    assert [float(line[0]) for line in lines] == pytest.approx([each.log_prob for each in expected], abs=1e-4)
    assert [float(line[1]) for line in lines] == pytest.approx([each.perplexity for each in expected], rel=1e-4)
    tokens = sum(len(each.tokens) + 1 for each in expected)
    assert totals.tokens == tokens
    assert totals.perplexity == pytest.approx(math.exp(-sum(each.log_prob for each in expected) / tokens))
    score_files(translator, DecodingConfig(), tmp_path / "s", tmp_path / "t", tmp_path / "o", json_lines=True)
    table = json.loads((tmp_path / "o").read_text().split("\n")[0])
    assert table["tokens"] == list(expected[0].tokens)
    assert table["token_log_probs"] == pytest.approx(list(expected[0].token_log_probs), abs=1e-4)


def test_a_failed_pair_is_null_in_json() -> None:
    table = json.loads(as_json(Scored(math.nan, math.nan, flags=("failed",))))
    assert (table["log_prob"], table["score"], table["perplexity"], table["flags"]) == (None, None, None, ["failed"])


def test_unequal_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a\nb\n")
    (tmp_path / "t").write_text("a\n")
    with pytest.raises(DataError, match="2 lines but .* has 1"):
        score_files(tiny_translator(), DecodingConfig(), tmp_path / "s", tmp_path / "t", tmp_path / "o")
    assert not (tmp_path / "o").exists()
