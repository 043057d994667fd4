"""The native engine is held to the plain model and the plain search: in float64 to 1e-9, in company to the last bit.

The library computes in double just as it does in float (native/level_portable.cpp), so that a difference of more than
rounding is an error of the algorithm: ancestry, masks, ties, stopping, admission, threads.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis
from clearhead.decoding.search import force, search
from clearhead.engine.library import library
from clearhead.engine.native import NativeModel
from clearhead.engine.weights import fuse
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from tests.laws.model_laws import ARCHITECTURES, VOCABULARY, transformer

pytestmark = pytest.mark.skipif(library() is None, reason="no native library (no C++ compiler at install time)")

TRANSFORMERS = {name: make for name, make in ARCHITECTURES.items() if name != "ensemble"}
architectures = pytest.mark.parametrize("name", TRANSFORMERS)


def sources(count: int, longest: int, seed: int = 1) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(4, VOCABULARY) for _ in range(draw.randrange(longest + 1))] + [3] for _ in range(count)]


def native(model: Seq2Seq) -> NativeModel:
    found = library()
    assert found is not None
    return NativeModel(fuse(model, "fp32", native=True), found)


def translate(model: NativeModel, texts: Sequence[Sequence[int]], config: DecodingConfig, **how: Any) -> list[Any]:
    found = model.search(texts, config, **{"batch_tokens": 100, "threads": 1} | how)
    assert None not in found
    return found


def same(found: Sequence[Sequence[Hypothesis]], truth: Sequence[Sequence[Hypothesis]]) -> None:
    assert [[each.tokens for each in best] for best in found] == [[each.tokens for each in best] for best in truth]
    for ours, theirs in zip(sum(map(list, found), []), sum(map(list, truth), []), strict=True):
        assert ours.finished == theirs.finished
        assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-9)
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)


@architectures
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "n_best": 3},
        {"beam": 3, "penalty": "length", "alpha": 2.0, "n_best": 3},
        {"beam": 5, "penalty": "none", "min_length": 3},
        {"beam": 2, "alpha": -0.5, "max_length": 2, "n_best": 2},
        {"beam": 30, "n_best": 30, "max_length": 3},
    ],
    ids=str,
)
def test_search_is_the_plain_search(name: str, options: dict[str, Any]) -> None:
    model, texts = TRANSFORMERS[name](), sources(12, 6)
    config = DecodingConfig(**{"max_length_extra": 2} | options)
    same(translate(native(model), texts, config), search(model, Padded.from_lists(texts), config))


@architectures
def test_forced_beginnings_are_read_and_scored(name: str) -> None:
    model, texts = TRANSFORMERS[name](), sources(9, 6)
    prefixes = [text[: number % 4] for number, text in enumerate(sources(9, 8, seed=2))]
    prefixes = [[token for token in prefix if token != 3] for prefix in prefixes]
    config = DecodingConfig(beam=3, n_best=2, max_length_extra=1)
    same(
        translate(native(model), texts, config, prefixes=prefixes),
        search(model, Padded.from_lists(texts), config, prefixes=prefixes),
    )


@architectures
def test_stepping_is_teacher_forcing(name: str) -> None:
    """A target forced whole has the log-probabilities that the plain model reads in one pass."""
    model, texts = TRANSFORMERS[name](), sources(9, 6)
    targets = [text[:-1][:7] for text in sources(9, 7, seed=3)]
    found = translate(native(model), texts, DecodingConfig(max_length=0), prefixes=targets)
    truth = force(model, Padded.from_lists(texts), targets)
    for (ours,), theirs in zip(found, truth, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_many_random_models_beams_and_companies(seed: int) -> None:
    draw = random.Random(seed)
    model = transformer(
        seed,
        d_model=draw.choice([4, 12, 70]),
        d_ff=draw.choice([5, 130]),
        attention={"heads": 2, "kv_heads": draw.choice([1, 2]), "head_dim": draw.choice([3, 17])},
        norm=draw.choice(["pre", "post"]),
        activation=draw.choice(["relu", "gelu", "swiglu"]),
        decoder_layers=draw.choice([1, 3]),
    )
    texts = sources(draw.choice([3, 40]), draw.choice([3, 40]), seed)
    beam = draw.randrange(1, 7)
    config = DecodingConfig(beam=beam, n_best=draw.randrange(1, beam + 1), alpha=draw.random(), max_length_extra=4)
    how = {"batch_tokens": draw.choice([1, 60, 5000]), "threads": draw.randrange(1, 4)}
    same(translate(native(model), texts, config, **how), search(model, Padded.from_lists(texts), config))


@pytest.fixture(scope="module", params=["fp32", "bf16", "int8"])
def single(request: pytest.FixtureRequest) -> NativeModel:
    """In the type that is used in earnest."""
    found = library()
    assert found is not None
    return NativeModel(fuse(transformer(d_model=32, d_ff=80).float(), request.param), found)


def test_company_and_threads_change_no_bit(single: NativeModel) -> None:
    texts, config = sources(60, 20), DecodingConfig(beam=3, n_best=2)
    alone = [translate(single, [text], config)[0] for text in texts]
    assert translate(single, texts, config, batch_tokens=10**6) == alone
    assert translate(single, texts[::-1], config, threads=2) == alone[::-1]
    assert translate(single, texts, config, batch_tokens=1, threads=3) == alone
    assert [translate(single, [text], config, threads=2)[0] for text in texts[:5]] == alone[:5]


def test_every_instruction_set_reads_the_same(single: NativeModel) -> None:
    """Of given targets, since two searches may part where two continuations are as good as equal."""
    texts, targets = sources(20, 20), [text[:-1] for text in sources(20, 15, seed=4)]
    best, found = single.library.level, {}
    try:
        for level in single.library.levels():
            assert single.library.select(level)
            found[level] = translate(single, texts, DecodingConfig(max_length=0), prefixes=targets)
    finally:
        single.library.select(best)
    close = 1e-4 if single.weights.projection.description.startswith("fp32") else 2e-2  # an operand may round otherwise
    for each in found.values():
        for (ours,), (theirs,) in zip(each, found["portable"], strict=True):
            assert ours.log_prob == pytest.approx(theirs.log_prob, rel=close)
