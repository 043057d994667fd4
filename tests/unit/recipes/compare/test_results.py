"""What is written is what is read, and a file that holds something else is named."""

from pathlib import Path

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.recipes.compare.results import (
    AlignmentError,
    AlignmentMatrix,
    Alignments,
    CurvePoint,
    Interval,
    LengthScore,
    ModelResult,
    read_alignments,
    read_models,
    read_result,
    write_result,
)

RESULT = ModelResult(
    name="luong",
    label="Luong",
    family="attention",
    parameters=7,
    planned_updates=30,
    updates=20,
    stopped_by="1 minute is over",
    peak_rate=3e-3,
    train_seconds=60.5,
    train_tokens_per_second=1000.0,
    translate_tokens_per_second=10.0,
    dev_nll=2.5,
    bleu=Interval(20.0, 18.5, 21.0),
    chrf=Interval(40.0, 39.0, 41.0),
    bleu_p=0.03,
    chrf_p=None,
    by_length=[LengthScore(1, 8, 60, Interval(1.0, 0.5, 1.5), 9.0)],
    long_by_length=[LengthScore(49, None, 5, Interval(0.0, 0.0, 0.0), 0.0, available=False)],
    curve=[CurvePoint(10, 3.5, 4.0)],
    path="swept",
    beam=4,
    signature="nrefs:1",
    fingerprint="f",
)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path / "results" / "luong.json", RESULT)
    write_result(tmp_path / "results" / "layers.json", {"times": []})  # no model
    assert read_models(tmp_path / "results") == {"luong": RESULT}


def test_alignments_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_alignments(tmp_path) is None
    matrix = AlignmentMatrix("rnnsearch", "its attention", ["a"], ["b", "<b>"], [[1.0], [0.25]])
    both = Alignments([matrix], [AlignmentError("HMM", "both", 1.0, 0.5, 0.25, 3)])
    write_result(tmp_path / "alignments.json", both)
    assert read_alignments(tmp_path) == both


def test_what_is_no_result_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "luong.json"
    with pytest.raises(InputError, match=r"luong\.json: cannot be read"):
        read_result(path)
    path.write_text('{"name": "luong"}')
    with pytest.raises(DataError, match=r"luong\.json: label: .*remove it"):
        read_result(path)
    path.write_text("{")
    with pytest.raises(DataError, match=r"luong\.json: "):
        read_result(path)
