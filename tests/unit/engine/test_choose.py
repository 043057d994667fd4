"""Which engine runs which model, and what is said of it."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from clearhead.base.errors import ConfigError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import force, search
from clearhead.engine import library as native
from clearhead.engine.choose import Engine, choose_engine, plain_engine
from clearhead.models import Seq2Seq, build, presets
from clearhead.models.ensemble import ensemble
from clearhead.nn.padding import Padded
from tests.laws.model_laws import ARCHITECTURES, PAIRS

SOURCES = [[5, 6, 7, 3], [8, 3], [9, 10, 5, 6, 7, 11, 3]]


def transformer(seed: int = 1) -> Seq2Seq:
    config = presets.tiny(13, d_model=16, d_ff=24, encoder_layers=1, decoder_layers=1, attention={"heads": 2})
    model = build(config, seed=seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(native.VARIABLE, "0")
    native._load_once.cache_clear()
    yield
    monkeypatch.undo()
    native._load_once.cache_clear()


def best(engine: Engine) -> list[tuple[tuple[int, ...], float]]:
    config = DecodingConfig(beam=3, max_length=8)
    found = search(engine.model, Padded.from_lists(SOURCES), config)
    return [(each[0].tokens, each[0].score) for each in found]


@pytest.mark.usefixtures("without_library")
def test_auto_is_the_plain_engine_without_the_library_and_says_so() -> None:
    model = transformer()
    engine = choose_engine(model, "auto", "fp32")
    assert (engine.name, engine.model, engine.plain, engine.native) == ("plain", model, model, None)
    assert engine.description == f"plain engine (no native library: turned off by {native.VARIABLE}=0)"
    assert engine.parameters == sum(each.numel() for each in model.parameters())


@pytest.mark.skipif(native.library() is None, reason="no native library")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_absence_of_the_library_changes_speed_alone(precision: str, request: pytest.FixtureRequest) -> None:
    with_library = choose_engine(transformer(), "fast", precision)  # type: ignore[arg-type]
    request.getfixturevalue("without_library")
    without = choose_engine(transformer(), "auto" if precision == "int8" else "fast", precision)  # type: ignore[arg-type]
    assert (without.name, without.precision, without.native) == ("fast", precision, None)
    assert f"fast engine, {precision}, PyTorch (no native library: " in without.description
    figures = [
        [each.log_prob for each in force(model, Padded.from_lists(SOURCES), [[5, 6], [7], [8, 9, 10]])]
        for model in (with_library.model, without.model, transformer())
    ]
    # One road rounds what the other rounds, but for a last bit that may tip an activation; bf16 and int8 themselves
    # are 0.3 and more away from the plain model here.
    assert figures[0] == pytest.approx(figures[1], abs=1e-4 if precision == "fp32" else 0.05)
    assert (figures[0] == pytest.approx(figures[2], abs=0.1)) is (precision == "fp32")


@pytest.mark.skipif(native.library() is None, reason="no native library")
def test_auto_is_the_fast_engine_where_the_library_is() -> None:
    model = transformer()
    engine = choose_engine(model, "auto", "fp32")
    assert (engine.name, engine.plain) == ("fast", model)
    assert engine.native is not None
    level = native.library().level  # type: ignore[union-attr]
    assert engine.description.startswith(f"fast engine, fp32, native library ({level}); fused products, ")
    config = DecodingConfig(beam=3, max_length=8)
    found = engine.native.search(SOURCES, config, batch_tokens=4096, threads=1)
    expected = best(plain_engine(model))
    assert [each[0].tokens for each in found if each] == [tokens for tokens, _ in expected]
    assert [each[0].score for each in found if each] == pytest.approx([score for _, score in expected], abs=1e-4)
    assert [tokens for tokens, _ in best(engine)] == [tokens for tokens, _ in expected]


def test_double_precision_stays_plain_unless_asked_for() -> None:
    model = ARCHITECTURES["transformer"]()
    assert choose_engine(model, "auto", "fp32").description == "plain engine (the weights are float64)"
    fast = choose_engine(model, "fast", "fp32")
    for ours, theirs in zip(best(fast), best(plain_engine(model))):
        assert ours[0] == theirs[0]
        assert ours[1] == pytest.approx(theirs[1], abs=1e-12)
    with pytest.raises(ConfigError, match="precision int8: the weights are float64"):
        choose_engine(model, "auto", "int8")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_the_numbers_that_it_is(dtype: torch.dtype) -> None:
    half = transformer().to(dtype)
    same = transformer().to(dtype).float()
    assert choose_engine(half, "auto", "fp32").name == "plain"
    ours, theirs = choose_engine(half, "fast", "fp32"), choose_engine(same, "fast", "fp32")
    assert best(ours) == best(theirs)
    if ours.native is not None and theirs.native is not None:
        config = DecodingConfig(beam=3, max_length=8)
        found = [each.native.search(SOURCES, config, batch_tokens=99, threads=1) for each in (ours, theirs)]  # type: ignore[union-attr]
        assert found[0] == found[1]


def test_types_that_it_does_not_know_are_refused() -> None:
    model = transformer().to(torch.float8_e4m3fn)
    with pytest.raises(ConfigError, match="engine fast: the weights are float8_e4m3fn, which it does not know"):
        choose_engine(model, "fast", "fp32")


@pytest.mark.parametrize("make", [*PAIRS.values()][:2])
def test_what_is_no_whole_transformer_is_run_plain_or_refused(make: Callable[[], Seq2Seq]) -> None:
    model = make().float()
    engine = choose_engine(model, "auto", "fp32")
    assert engine.name == "plain"
    assert "no whole Transformer" in engine.description
    with pytest.raises(ConfigError, match="engine fast: .*no whole Transformer.*engine plain"):
        choose_engine(model, "fast", "fp32")
    for precision in ("bf16", "int8"):
        with pytest.raises(ConfigError, match=f"precision {precision}: .*no whole Transformer"):
            choose_engine(model, "auto", precision)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("engine", "precision", "told"),
    [
        ("quick", "fp32", "engine 'quick': choose auto, plain or fast"),
        ("auto", "int4", "precision 'int4': choose fp32, bf16 or int8"),
        ("plain", "int8", "precision int8 needs the fast engine"),
    ],
)
def test_engines_and_precisions_that_there_are_not(engine: str, precision: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        choose_engine(transformer(), engine, precision)  # type: ignore[arg-type]


def test_the_plain_model_is_read_again_when_it_is_asked_for() -> None:
    calls: list[int] = []

    def reread() -> Seq2Seq:
        calls.append(1)
        return transformer()

    engine = choose_engine(transformer(), "fast", "fp32", consume=True, reread=reread)
    assert (engine.plain, engine.has_plain, calls) == (None, True, [])
    assert best(plain_engine(engine.as_trained())) == best(plain_engine(transformer()))  # type: ignore[arg-type]
    without = choose_engine(transformer(), "fast", "fp32", consume=True)
    assert (without.has_plain, without.as_trained()) == (False, None)
    model = transformer()
    kept = choose_engine(model, "fast", "fp32")
    assert kept.has_plain and kept.as_trained() is model


def test_consumed_weights_are_gone_and_what_they_said_stays() -> None:
    model = transformer()
    kept = choose_engine(transformer(), "fast", "int8")
    engine = choose_engine(model, "fast", "int8", consume=True)
    assert engine.plain is None
    assert engine.parameters == kept.parameters > 0
    assert max(each.numel() for each in model.parameters()) <= 24  # norms and biases at most
    assert best(engine) == best(kept)


def test_the_members_of_an_ensemble_are_fast() -> None:
    models: Sequence[Seq2Seq] = [transformer(1), transformer(2)]
    both = ensemble(models)
    engine = choose_engine(both, "fast", "fp32")
    assert engine.native is None
    assert engine.description.startswith("fast engine, fp32, an ensemble in PyTorch, fp32 products by ")
    for ours, theirs in zip(best(engine), best(plain_engine(both))):
        assert ours[0] == theirs[0]
        assert ours[1] == pytest.approx(theirs[1], abs=1e-4)
    # A vote of one member twice would differ.
    assert best(engine) != best(choose_engine(ensemble([models[0]] * 2), "fast", "fp32"))


def test_one_member_that_does_not_fit_keeps_the_whole_ensemble_plain() -> None:
    other = next(iter(PAIRS.values()))().float()
    engine = choose_engine(ensemble([transformer(), other]), "auto", "fp32")
    assert engine.name == "plain"
    assert "no whole Transformer" in engine.description
