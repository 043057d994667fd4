"""The native engine is held to the plain model and the plain search: in float64 to 1e-9, in company to the last bit.

The library computes in double just as it does in float (native/level_portable.cpp), so that a difference of more than
rounding is an error of the algorithm: ancestry, masks, ties, stopping, admission, threads.
"""

import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis
from clearhead.decoding.search import force, search
from clearhead.engine.library import library
from clearhead.engine.native import NativeModel
from clearhead.engine.products import NativeProduct, Product
from clearhead.engine.weights import Weights, fuse
from clearhead.models import build, presets
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
    how = {"batch_tokens": draw.choice([1, 60, 5000]), "threads": draw.randrange(1, 4), "team": draw.randrange(4)}
    same(translate(native(model), texts, config, **how), search(model, Padded.from_lists(texts), config))


# ---------------------------------------------------------------------------------------- the laws see a wrong model


def rows_of(product: Product) -> torch.Tensor:
    return product.rows(torch.arange(product.outputs))


def packed(product: Product, weight: torch.Tensor) -> NativeProduct:
    """`product` with other numbers, and its bias."""
    assert isinstance(product, NativeProduct)
    bias = None if product.bias is None else product.bias[: product.outputs]
    return NativeProduct.pack(product.library, product.kind, weight, bias)


def other_layer(weights: Weights, change: Callable[[Any], Any]) -> Weights:
    """With its last decoder layer changed."""
    return replace(weights, decoder=(*weights.decoder[:-1], change(weights.decoder[-1])))


def heads_out_of_order(weights: Weights) -> Weights:
    def change(layer: Any) -> Any:
        rows = rows_of(layer.attention.qkv)
        queries = weights.heads * weights.head_width
        swapped = torch.cat([rows[:queries].roll(weights.head_width, 0), rows[queries:]])
        return replace(layer, attention=replace(layer.attention, qkv=packed(layer.attention.qkv, swapped)))

    return other_layer(weights, change)


def keys_for_values(weights: Weights) -> Weights:
    def change(layer: Any) -> Any:
        rows = rows_of(layer.cross.keys_values)
        swapped = packed(layer.cross.keys_values, rows.roll(len(rows) // 2, 0))
        return replace(layer, cross=replace(layer.cross, keys_values=swapped))

    return other_layer(weights, change)


MUTANTS: dict[str, Callable[[Weights], Weights]] = {
    "scale of the scores": lambda weights: replace(weights, head_dim=weights.head_dim + 1),
    "heads out of order": heads_out_of_order,
    "keys for values": keys_for_values,
    "factor of the source": lambda weights: replace(weights, source=replace(weights.source, factor=3.9)),
    "factor of the target": lambda weights: replace(weights, target=replace(weights.target, factor=3.9)),
    "norms before": lambda weights: replace(
        weights,
        norm="pre",
        encoder_norm=weights.encoder[-1].feedforward_norm,
        decoder_norm=weights.decoder[-1].feedforward_norm,
    ),
    "activation": lambda weights: replace(weights, activation="gelu"),
    "layers out of order": lambda weights: replace(weights, decoder=weights.decoder[::-1]),
    "an encoder layer too few": lambda weights: replace(weights, encoder=weights.encoder[:-1]),
    "epsilon": lambda weights: other_layer(
        weights, lambda layer: replace(layer, cross_norm=replace(layer.cross_norm, epsilon=1e-3))
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_model_is_seen(mutant: str) -> None:
    found, model, texts = library(), transformer(), sources(9, 6)
    assert found is not None
    targets = [text[:-1][:7] for text in sources(9, 7, seed=3)]
    weights, config = fuse(model, "fp32", native=True), DecodingConfig(max_length=0)
    truth = search(model, Padded.from_lists(texts), config, prefixes=targets)
    same(translate(NativeModel(weights, found), texts, config, prefixes=targets), truth)
    with pytest.raises(AssertionError):
        same(translate(NativeModel(MUTANTS[mutant](weights), found), texts, config, prefixes=targets), truth)


# ------------------------------------------------------------------------------------------ sizes nearer to real ones


WORDS, HALF = 2500, 1250


@pytest.fixture(scope="module", params=[(8, 32), (5, 64)], ids=str)
def large(request: pytest.FixtureRequest) -> Seq2Seq:
    """Of many chunks of the vocabulary, whose upper half is as likely as the lower, word by word."""
    heads, width = request.param
    shape = {"heads": heads, "kv_heads": heads, "head_dim": width}
    config = presets.tiny(
        WORDS,
        d_model=64,
        d_ff=96,
        encoder_layers=1,
        decoder_layers=2,
        attention=shape,
        embeddings="separate",
        source_vocab_size=WORDS,
    )
    model = build(config, seed=heads).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        table = model.decoder.output.weight
        table[HALF + 4 :] = table[4 : WORDS - HALF]
    return model


def test_a_large_vocabulary_with_ties_and_wide_heads(large: Seq2Seq) -> None:
    draw = random.Random(5)
    texts = [[draw.randrange(4, WORDS) for _ in range(draw.randrange(12))] + [3] for _ in range(12)]
    config = DecodingConfig(beam=3, n_best=3, max_length=8)
    truth = search(large, Padded.from_lists(texts), config)
    written = {token for best in truth for each in best for token in each.tokens}
    assert any(token + HALF in written for token in written), "no tie was met"
    double = native(large)
    for threads in (1, 3):
        same(translate(double, texts, config, threads=threads), truth)
    for number, text in enumerate(texts[:3]):  # one sentence, worked on by a team
        teams = [translate(double, [text], config, threads=team, team=team)[0] for team in (1, 2, 5)]
        same(teams, [truth[number]] * 3)


def test_ids_that_are_no_integers_are_refused() -> None:
    model, config = native(transformer()), DecodingConfig()
    for odd in (5.5, True, "5", torch.tensor(5)):
        with pytest.raises(DecodingError, match=f"sentence 1 holds an id that is no int but a {type(odd).__name__}"):
            model.search([[5, 3], [odd, 3]], config, batch_tokens=99, threads=1)  # type: ignore[list-item]
        with pytest.raises(DecodingError, match="sentence 0 holds an id that is no int"):
            model.search([[5, 3]], config, prefixes=[[odd]], batch_tokens=99, threads=1)  # type: ignore[list-item]
    with pytest.raises(DecodingError, match="sentence 0 is empty"):
        model.search([[]], config, batch_tokens=99, threads=1)
    texts = sources(3, 5)
    same(translate(model, texts, config, threads=10**6), translate(model, texts, config))


@pytest.mark.parametrize("seed", range(6))
def test_a_sentence_that_breaks_late_breaks_alone(seed: int) -> None:
    """One target word has numbers that overflow: who reads it is lost, as it would be alone, and nobody else."""
    found, draw = library(), random.Random(seed)
    assert found is not None
    lost = kept = 0
    for number in range(1, 7):
        model = transformer(6 * seed + number, embeddings="separate", source_vocab_size=VOCABULARY).float()
        with torch.no_grad():
            model.decoder.input.embedding.weight[draw.randrange(4, VOCABULARY)] = 3e38
        broken = NativeModel(fuse(model, "fp32"), found)
        texts = [[draw.randrange(4, VOCABULARY) for _ in range(draw.randrange(1, 7))] + [3] for _ in range(6)]
        config, how = DecodingConfig(beam=2, n_best=2, max_length_extra=3), {"batch_tokens": 10**4, "threads": 1}
        together = broken.search(texts, config, **how)
        assert together == [broken.search([text], config, **how)[0] for text in texts]
        lost += together.count(None)
        kept += len(together) - together.count(None)
    assert lost and kept


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
    assert [translate(single, [text], config, threads=2, team=2)[0] for text in texts[:5]] == alone[:5]


def test_every_instruction_set_reads_the_same(single: NativeModel) -> None:
    """Of given targets, since two searches may part where two continuations are as good as equal."""
    texts, targets = sources(20, 20), [text[:-1] for text in sources(20, 15, seed=4)]
    best, found = single.library.level, {}
    if platform.machine() in ("x86_64", "AMD64"):  # every one of them since 2013 has AVX2
        assert len(single.library.levels()) >= 2
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
