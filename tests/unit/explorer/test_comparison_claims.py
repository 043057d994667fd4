"""Verdicts follow the numbers: results that say the opposite turn each claim round, and none crashes on none."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from clearhead.analysis.gradients import GradientCurve
from clearhead.base.errors import DataError, InputError
from clearhead.explorer.comparison_claims import claims
from clearhead.explorer.comparison_findings import Findings, difference, read_findings
from clearhead.explorer.comparison_verdicts import Claim, Verdict
from clearhead.recipes.compare.cited import CITED, cited
from clearhead.recipes.compare.results import Alignments, Interval, LengthScore, ModelResult
from tests.unit.explorer.comparison_results import SETTING, curves, interval, layer_times, model, write_results

CITED_ELSEWHERE = {
    "encdec-30": "bahdanau.encdec_30",
    "encdec-50": "bahdanau.encdec_50",
    "search-30": "bahdanau.search_30",
    "search-50": "bahdanau.search_50",
    "search-50-longer": "bahdanau.search_50_long",
    "ensemble": "sutskever.ensemble",
    "forward": "sutskever.forward_text",
    "reversed": "sutskever.reversed_text",
    "forward-ppl": "sutskever.ppl_forward",
    "reversed-ppl": "sutskever.ppl_reversed",
    "luong-dropout": "luong.reverse_dropout",
    "luong-global": "luong.global_location",
    "luong-feeding": "luong.global_location_feeding",
    "luong-local-p": "luong.local_p_general",
    "luong-dot": "luong.global_dot",
    "luong-general": "luong.global_general",
    "base": "vaswani.bleu_base_en_de",
    "heads-1": "vaswani.dev_heads_1",
    "heads-4": "vaswani.dev_heads_4",
    "heads-8": "vaswani.dev_base",
    "heads-16": "vaswani.dev_heads_16",
    "heads-32": "vaswani.dev_heads_32",
    "learned": "vaswani.dev_learned_positions",
    "sinusoidal": "vaswani.dev_base",
}
"""Our names of the papers' figures, and those of the handbook, which were checked on their own."""


def findings(*models: ModelResult, gradients: tuple[GradientCurve, ...] = ()) -> Findings:
    return Findings(SETTING, {each.name: each for each in models}, gradients, (), None)


def the(found: Findings, words: str) -> Claim:
    return next(each for each in claims(found) if words in each.words.en)


def test_figures_of_papers_are_those_that_the_handbook_cites() -> None:
    handbook = json.loads(Path("docs/transformer/cited.json").read_text(encoding="utf-8"))
    for ours, theirs in CITED_ELSEWHERE.items():
        assert cited(ours).value == handbook[theirs]["value"], ours
    assert len({each.name for each in CITED}) == len(CITED)


def test_what_a_paper_adds_is_what_luong_print() -> None:
    """Table 1 prints each row's gain beside its BLEU."""
    rows = ("luong-base", "luong-reverse", "luong-dropout", "luong-global", "luong-feeding", "luong-local-p")
    gains = [round(cited(after).value - cited(before).value, 1) for before, after in zip(rows, rows[1:], strict=False)]
    assert gains == [1.3, 1.4, 2.8, 1.3, 0.9]


def test_interval_of_a_difference_covers_as_often_as_it_should() -> None:
    """Against simulated scores: two independent normal ones, whose difference lies in it 95 times of 100."""
    generator, inside, sigma = random.Random(5), 0, (1.0, 2.0)
    for _ in range(4000):
        one, other = generator.gauss(30, sigma[0]), generator.gauss(27, sigma[1])
        gap = difference(
            Interval(one, one - 1.96 * sigma[0], one + 1.96 * sigma[0]),
            Interval(other, other - 1.96 * sigma[1], other + 1.96 * sigma[1]),
        )
        inside += gap.low <= 3 <= gap.high
    assert 0.935 < inside / 4000 < 0.965


@pytest.mark.parametrize(
    ("reversed_bleu", "verdict", "words"),
    [(20.6, "holds", "scores more than"), (17.5, "undecided", "covers zero"), (14.0, "fails", "scores less than")],
)
def test_reversal_is_judged_by_its_interval(reversed_bleu: float, verdict: Verdict, words: str) -> None:
    found = findings(model("seq2seq"), model("seq2seq-reversed", bleu=interval(reversed_bleu)))
    claim = the(found, "Reversing the source")
    assert claim.verdict == verdict
    assert words in claim.reading.en
    assert f"{reversed_bleu - 17.4:+.1f}".replace("-", "−") in claim.reading.zh


@pytest.mark.parametrize(("p", "bleu", "verdict"), [(0.01, 25, "holds"), (0.2, 25, "undecided"), (0.01, 36, "fails")])
def test_paired_test_decides_where_it_was_made(p: float, bleu: float, verdict: Verdict) -> None:
    """The intervals alone would have called all three decided."""
    found = findings(model("transformer"), model("rnnsearch", bleu=interval(bleu), bleu_p=p))
    claim = the(found, "more than RNNsearch")
    assert claim.verdict == verdict and f"p = {p:g}" in claim.reading.en


@pytest.mark.parametrize(
    ("learned", "half", "verdict"), [(31.2, 0.3, "holds"), (31.2, 2, "undecided"), (35, 0.3, "fails")]
)
def test_equality_needs_an_interval_that_is_narrow(learned: float, half: float, verdict: Verdict) -> None:
    found = findings(
        model("transformer", bleu=interval(31.2, half)), model("transformer-learned", bleu=interval(learned, half))
    )
    assert the(found, "Learned positions").verdict == verdict


def buckets(*scores: float, half: float = 0.5) -> list[LengthScore]:
    return [LengthScore(10 * n, 10 * n + 9, 90, interval(score, half), score) for n, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("search", "encdec", "verdict"),
    [((30, 29), (25, 10), "holds"), ((30, 20), (25, 15), "undecided"), ((30, 12), (20, 10), "fails")],
)
def test_lead_in_long_sentences(search: tuple[float, ...], encdec: tuple[float, ...], verdict: Verdict) -> None:
    found = findings(
        model("rnnsearch", long_by_length=buckets(*search)), model("encdec", long_by_length=buckets(*encdec))
    )
    assert the(found, "fixed vector grows").verdict == verdict


@pytest.mark.parametrize(
    ("scores", "half", "verdict"), [((20, 20.5), 0.5, "holds"), ((20, 15), 0.5, "fails"), ((20, 19), 2, "undecided")]
)
def test_reversed_lstm_up_to_35_words(scores: tuple[float, ...], half: float, verdict: Verdict) -> None:
    longer = dataclasses.replace(buckets(1)[0], low=36, high=None)  # beyond what the paper's sentence is about
    found = findings(model("seq2seq-reversed", by_length=[*buckets(*scores, half=half), longer]))
    assert the(found, "does not lose").verdict == verdict


def test_a_length_that_a_model_cannot_read_is_not_compared() -> None:
    """A score of zero where it could not be read would look like a collapse."""
    out = dataclasses.replace(buckets(0, 0)[1], available=False)
    found = findings(
        model("rnnsearch", long_by_length=buckets(30, 29, 28)),
        model("encdec", long_by_length=[*buckets(25)[:1], out], by_length=[]),
    )
    assert the(found, "fixed vector grows").verdict == "missing"


def test_longer_reach_of_the_lstm() -> None:
    def curve(name: str, rate: float) -> GradientCurve:
        return GradientCurve.of(name, "h", [[rate**step for step in range(201)]], trained=True)

    words = "reaches farther back"
    assert the(findings(gradients=(curve("elman", 0.7), curve("lstm", 0.95))), words).verdict == "holds"
    assert the(findings(gradients=(curve("elman", 0.7), curve("lstm", 1.0))), words).verdict == "holds"
    assert the(findings(gradients=(curve("elman", 0.95), curve("lstm", 0.7))), words).verdict == "fails"
    assert the(findings(gradients=(curve("elman", 1.0), curve("lstm", 0.7))), words).verdict == "fails"
    assert the(findings(gradients=(curve("elman", 1.0), curve("lstm", 1.0))), words).verdict == "undecided"


def test_radius_claims_read_the_linear_cell() -> None:
    found = findings(gradients=tuple(curves()))
    assert the(found, "radius below 1").verdict == "holds" and the(found, "radius above 1").verdict == "holds"
    swapped = tuple(
        dataclasses.replace(each, radius={0.9: 1.1, 1.1: 0.9}.get(each.radius or 0, each.radius)) for each in curves()
    )
    found = findings(gradients=swapped)
    assert the(found, "radius below 1").verdict == "fails" and the(found, "radius above 1").verdict == "fails"


def test_layers_are_judged_by_the_clock() -> None:
    times = tuple(layer_times())
    found = dataclasses.replace(findings(), layers=times)
    assert the(found, "faster than a recurrent").verdict == "holds"
    crossed = the(found, "Above some n")
    assert crossed.verdict == "holds" and "n = 1,200" in crossed.reading.en  # 6e-6·n = 5e-9·n² at n = 1,200
    names = {"lstm": "self-attention", "self-attention": "lstm"}
    turned = tuple(dataclasses.replace(each, layer=names.get(each.layer, each.layer)) for each in times)  # type: ignore[arg-type]
    found = dataclasses.replace(findings(), layers=turned)
    assert the(found, "faster than a recurrent").verdict == "fails" and the(found, "Above some n").verdict == "fails"


def test_aligner_against_attention(tmp_path: Path) -> None:
    found = read_findings(write_results(tmp_path))
    assert the(found, "statistical aligner").verdict == "holds"
    assert found.alignments is not None
    worse = [
        dataclasses.replace(each, error_rate=0.5) if each.model == "HMM" else each for each in found.alignments.errors
    ]
    found = dataclasses.replace(found, alignments=Alignments([], worse))
    assert the(found, "statistical aligner").verdict == "fails"


def test_without_results_everything_is_missing_and_says_what() -> None:
    judged = claims(findings())
    assert {each.verdict for each in judged} == {"missing"}
    assert "`seq2seq-reversed`, `seq2seq`" in the(findings(), "Reversing the source").reading.en
    assert {each.section for each in judged} == {"scores", "lengths", "choices", "gradients", "layers", "alignments"}


def test_files_of_something_else_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"setting\.json"):
        read_findings(tmp_path)
    write_results(tmp_path)
    (tmp_path / "gradients.json").write_text('{"curves": [{"what": 1}]}', encoding="utf-8")
    with pytest.raises(DataError, match=r"gradients\.json.*run it again"):
        read_findings(tmp_path)
    (tmp_path / "gradients.json").unlink()
    (tmp_path / "layers.json").write_text("[[", encoding="utf-8")
    with pytest.raises(DataError, match=r"layers\.json"):
        read_findings(tmp_path)
