"""Two programs agree, or the difference is told: with peers that are wrong on purpose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import force, search
from clearhead.export.agreement import Agreement, check_agreement, drawn_sources
from clearhead.models import build, presets
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded

VOCABULARY = 14
SOURCES = drawn_sources(VOCABULARY)[:4]


def model(**overrides: Any) -> Seq2Seq:
    size = {"d_model": 12, "d_ff": 16, "attention": {"heads": 2}, "encoder_layers": 1, "decoder_layers": 1}
    made = build(presets.named("tiny", VOCABULARY, size | overrides), seed=3).double().eval()
    with torch.no_grad():
        made.decoder.input.embedding.weight.mul_(1.6)  # type: ignore[union-attr, operator]
    return made


@dataclass
class Twin:
    """The same model under another name; what it says can be spoilt."""

    inner: Seq2Seq
    error: float = 0.0
    dropped: int = 0
    name: str = "twin"
    renormalises: bool = False

    def score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        (found,) = force(self.inner, Padded.from_lists([list(source)]), [list(target)])
        return [value + self.error for value in found.token_log_probs]

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        config = DecodingConfig(beam=beam, penalty="none", max_length=longest, max_length_extra=longest)
        best = search(self.inner, Padded.from_lists([list(source)]), config)[0][0]
        return list(best.tokens)[self.dropped :], best.finished


def test_a_model_agrees_with_itself() -> None:
    found = check_agreement(model(), Twin(model()), SOURCES, VOCABULARY)
    assert isinstance(found, Agreement)
    assert found.largest == 0.0 and found.near_ties == 0
    assert len(SOURCES) <= found.searches <= 2 * len(SOURCES)
    assert "agrees" in str(found) and "near-ties" not in str(found)


def test_figures_within_rounding_agree() -> None:
    assert check_agreement(model(), Twin(model(), error=9e-5), SOURCES, VOCABULARY).largest == pytest.approx(9e-5)


@pytest.mark.parametrize("error", [2e-4, -2e-4, float("nan")])
def test_other_figures_are_told(error: float) -> None:
    with pytest.raises(DecodingError, match="computes something else: sentence 1"):
        check_agreement(model(), Twin(model(), error=error), SOURCES, VOCABULARY)


def test_other_outputs_are_told() -> None:
    with pytest.raises(DecodingError, match="translates otherwise with a beam of 1: sentence"):
        check_agreement(model(), Twin(model(), dropped=1), SOURCES, VOCABULARY)


@pytest.mark.parametrize(
    "overrides", [{"layer_norm_epsilon": 3e-3}, {"activation": "gelu"}, {"norm": "post"}, {"scale_embeddings": False}]
)
def test_every_figure_of_the_configuration_shows(overrides: dict[str, Any]) -> None:
    with pytest.raises(DecodingError):
        check_agreement(model(), Twin(model(**overrides)), SOURCES, VOCABULARY)


def test_a_near_tie_excuses_and_is_counted() -> None:
    """Two tokens with the same rows are as good as each other: a peer that takes the other one is not wrong.

    One that always takes the other one may be, since long searches nearly all have some choice that is close.
    """
    ours, theirs = model(), model()
    for each, first, second in ((ours, 6, 7), (theirs, 7, 6)):
        with torch.no_grad():
            rows = each.decoder.input.embedding.weight  # type: ignore[union-attr]
            rows[second] = rows[first] = rows[6]  # type: ignore[index]
            bias = torch.zeros(VOCABULARY, dtype=torch.float64)
            bias[6] = bias[7] = 8.0
            bias[first] += 1e-6
            each.decoder.output.bias = torch.nn.Parameter(bias)  # type: ignore[union-attr]
    found = check_agreement(ours, Sometimes(ours, other=theirs, turns=2), SOURCES, VOCABULARY)
    assert 0 < found.near_ties <= 2
    assert f"near-ties in {found.near_ties}" in str(found)
    with pytest.raises(DecodingError, match=r"twin translates otherwise in \d of \d searches, each at a near-tie"):
        check_agreement(ours, Twin(theirs), SOURCES, VOCABULARY)


@dataclass
class Sometimes(Twin):
    """Searches with another model for a few turns, then with its own."""

    other: Seq2Seq | None = None
    turns: int = 0

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        self.turns -= 1
        assert self.other is not None
        return Twin(self.other if self.turns >= 0 else self.inner).search(source, beam, longest)


@dataclass
class Renormalising(Twin):
    """Searches as CTranslate2 does: without PAD, UNK and BOS before the softmax; scores with them."""

    searcher: Seq2Seq | None = None

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        assert self.searcher is not None
        return Twin(self.searcher).search(source, beam, longest)


def test_a_peer_that_renormalises_is_compared_with_a_search_that_does() -> None:
    ours, searcher = (model(output_bias=True, embeddings="separate", source_vocab_size=VOCABULARY) for _ in range(2))
    with torch.no_grad():
        ours.decoder.output.weight[1].mul_(20.0)  # type: ignore[union-attr, index, operator]  # UNK, very uneven
    searcher.load_state_dict(ours.state_dict())
    with torch.no_grad():
        searcher.decoder.output.bias[:3] = -1e4  # type: ignore[union-attr, index]
    found = check_agreement(ours, Renormalising(ours, renormalises=True, searcher=searcher), SOURCES, VOCABULARY)
    assert found.near_ties == 0
    with pytest.raises(DecodingError, match="translates otherwise with a beam of 4"):
        check_agreement(ours, Renormalising(ours, renormalises=False, searcher=searcher), SOURCES, VOCABULARY)


def test_what_float32_rounds_itself_is_no_difference() -> None:
    """Weights so large that float32 is 1e-4 and more off float64; a peer in float64 is not wrong then."""
    ours, exact = model(), model()
    with torch.no_grad():
        for each in (ours, exact):
            for parameter in each.parameters():
                parameter.copy_((parameter * 20).float())
    found = check_agreement(ours.float(), Scoring(ours, exact=exact), SOURCES[:3], VOCABULARY)
    assert found.largest > 1e-4
    with pytest.raises(DecodingError, match="something else"):
        check_agreement(ours.float(), Scoring(ours, exact=exact, error=100 * found.largest), SOURCES[:3], VOCABULARY)


@dataclass
class Scoring(Twin):
    """Searches as ours does, and scores in float64."""

    exact: Seq2Seq | None = None

    def score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        assert self.exact is not None
        return Twin(self.exact, self.error).score(source, target)
