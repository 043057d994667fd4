"""What a user sees of a wrong configuration, and the law that a configuration survives being written."""

import datetime
import tomllib
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from clearhead.base.errors import ConfigError
from clearhead.config.strict import Config, structure, suggestion, unstructure
from clearhead.config.toml import dump_toml


class Noam(Config):
    kind: Literal["noam"] = "noam"
    warmup: int = Field(4000, ge=1)


class Constant(Config):
    kind: Literal["constant"] = "constant"
    value: float = Field(1e-3, gt=0, lt=1)


Schedule = Annotated[Noam | Constant, Field(discriminator="kind")]


class Sampling(Config):
    temperature: float = Field(1.0, gt=0)


class Model(Config):
    kind: Literal["transformer"] = "transformer"
    heads: int = Field(8, ge=1)
    d_model: int = 512
    sizes: tuple[int, ...] = Field((), max_length=3)

    @model_validator(mode="after")
    def _divisible(self) -> "Model":
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by heads {self.heads}; choose another number")
        return self


class Training(Config):
    dropout: float = Field(0.1, ge=0, lt=1)
    bias: bool = False
    precision: Literal["fp32", "bf16", "auto"] = "auto"
    schedule: Schedule = Noam()
    stages: tuple[Schedule, ...] = ()
    sampling: Sampling | None = None
    name: str = Field("run", min_length=1)
    weights: dict[str, float] = {}


class Run(Config):
    model: Model = Model()
    training: Training = Training()


class Needs(Config):
    vocab_size: int


def refusal(table: dict[str, object], cls: object = Run) -> str:
    with pytest.raises(ConfigError) as caught:
        structure(cls, table)
    assert caught.value.exit_code == 2
    assert caught.value.__suppress_context__
    return str(caught.value)


def test_an_unknown_key_is_named_with_its_path_its_likely_meaning_and_all_known_keys() -> None:
    assert refusal({"model": {"heds": 3}}) == (
        "config: model.heds: unknown key (did you mean 'heads'?); known keys: kind, heads, d_model, sizes"
    )
    assert refusal({"zzz": 1}) == "config: zzz: unknown key; known keys: model, training"


def test_an_unknown_key_in_a_tagged_union_is_told_of_the_keys_of_its_kind_only() -> None:
    message = refusal({"training": {"schedule": {"kind": "constant", "vlaue": 0.1}}})
    assert message == ("config: training.schedule.vlaue: unknown key (did you mean 'value'?); known keys: kind, value")
    message = refusal({"training": {"stages": [{"kind": "noam"}, {"kind": "noam", "warmpu": 3}]}})
    assert message.startswith("config: training.stages[1].warmpu: unknown key (did you mean 'warmup'?)")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"training": {"dropout": "0.1"}}, "training.dropout: expected a number, got the string '0.1'"),
        ({"training": {"dropout": True}}, "training.dropout: expected a number, got the truth value true"),
        ({"training": {"dropout": 1}}, "training.dropout: must be less than 1.0, got 1"),
        ({"training": {"dropout": -0.5}}, "training.dropout: must be at least 0.0, got -0.5"),
        ({"training": {"dropout": float("nan")}}, "training.dropout: expected a finite number, got nan"),
        ({"training": {"bias": 1}}, "training.bias: expected true or false, got 1"),
        ({"training": {"name": 3}}, "training.name: expected a string, got 3"),
        ({"training": {"name": ""}}, "training.name: must have at least 1 characters, got the string ''"),
        ({"training": {"weights": {"a": "b"}}}, "training.weights.a: expected a number, got the string 'b'"),
        (
            {"training": {"precision": "bf61"}},
            "training.precision: expected 'fp32', 'bf16' or 'auto' (did you mean 'bf16'?), got the string 'bf61'",
        ),
        ({"model": {"heads": True}}, "model.heads: expected a whole number, got the truth value true"),
        ({"model": {"heads": 2.0}}, "model.heads: expected a whole number, got 2.0"),
        ({"model": {"heads": 0}}, "model.heads: must be at least 1, got 0"),
        ({"model": {"sizes": 3}}, "model.sizes: expected a list, got 3"),
        ({"model": {"sizes": [1, "a"]}}, "model.sizes[1]: expected a whole number, got the string 'a'"),
        ({"model": {"sizes": [1, 2, 3, 4]}}, "model.sizes: must have at most 3 elements, got the list [1, 2, 3, 4]"),
        ({"model": 3}, "model: expected a table, got 3"),
        ({"model": {"heads": 7}}, "model: d_model 512 is not divisible by heads 7; choose another number"),
        (
            {"training": {"schedule": {"kind": "noma"}}},
            "training.schedule.kind: unknown kind 'noma' (did you mean 'noam'?); known kinds: noam, constant",
        ),
        (
            {"training": {"stages": [{"warmup": 3}]}},
            "training.stages[0].kind: missing; known kinds: noam, constant",
        ),
        (
            {"training": {"sampling": {"temperature": 0}}},
            "training.sampling.temperature: must be greater than 0.0, got 0",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_path_what_was_expected_and_what_was_given(
    table: dict[str, object], message: str
) -> None:
    assert refusal(table) == f"config: {message}"


def test_a_missing_key_is_named() -> None:
    assert refusal({}, Needs) == "config: vocab_size: missing"


def test_a_union_at_the_top_names_its_kind() -> None:
    assert structure(Schedule, {"kind": "constant", "value": 0.5}) == Constant(value=0.5)
    assert refusal({"kind": "cosine"}, Schedule).startswith("config: kind: unknown kind 'cosine'")


def test_all_wrong_keys_come_in_one_message_that_opens_with_where() -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Run, {"model": {"heds": 1, "heads": "x"}, "training": {"bias": "no"}}, where="run.toml")
    first, *rest = str(caught.value).splitlines()
    assert first == "run.toml: 3 problems"
    assert [line.split(":")[0].strip() for line in rest] == ["model.heads", "model.heds", "training.bias"]


def test_what_is_no_configuration_value_is_refused_without_a_traceback() -> None:
    assert "a date (2020-01-01) is not a value" in refusal({"model": {"heads": datetime.date(2020, 1, 1)}})
    assert refusal({"training": {"name": "\ud800"}}).startswith("config: ")


def test_a_whole_number_becomes_a_float_and_nothing_else_is_converted() -> None:
    dropout = structure(Run, {"training": {"dropout": 0}}).training.dropout
    assert isinstance(dropout, float)
    assert dropout == 0


def test_a_table_without_kind_takes_the_kind_of_the_default_in_its_place() -> None:
    assert structure(Run, {"training": {"schedule": {"warmup": 7}}}).training.schedule == Noam(warmup=7)
    assert "known keys: kind, warmup" in refusal({"training": {"schedule": {"value": 0.1}}})


def test_a_configuration_object_may_stand_in_a_table() -> None:
    assert structure(Run, {"model": Model(heads=4)}).model.heads == 4


def test_configurations_are_frozen_and_strict_when_made_in_python() -> None:
    with pytest.raises(ValidationError):
        Model().heads = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Model(heads="4")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Model(heds=3)  # type: ignore[call-arg]


def test_a_class_whose_none_would_be_lost_in_toml_is_refused_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Lossy\.limit may be None, so its default must be None"):

        class Lossy(Config):
            limit: int | None = 3

    with pytest.raises(TypeError, match=r"Required\.limit may be None"):

        class Required(Config):
            limit: int | None

    with pytest.raises(TypeError, match=r"Inner\.limits: None inside a list"):

        class Inner(Config):
            limits: tuple[int | None, ...] = ()


models = st.sampled_from([1, 2, 4, 8]).flatmap(
    lambda heads: st.builds(
        Model,
        heads=st.just(heads),
        d_model=st.integers(1, 64).map(lambda n: n * heads),
        sizes=st.lists(st.integers(), max_size=3).map(tuple),
    )
)
schedules = st.one_of(
    st.builds(Noam, warmup=st.integers(1, 10**6)),
    st.builds(Constant, value=st.floats(0, 1, exclude_min=True, exclude_max=True)),
)
text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
trainings = st.builds(
    Training,
    dropout=st.floats(0, 1, exclude_max=True),
    bias=st.booleans(),
    schedule=schedules,
    stages=st.lists(schedules, max_size=3).map(tuple),
    sampling=st.none() | st.builds(Sampling, temperature=st.floats(1e-6, 1e6)),
    name=text,
    weights=st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)


@given(st.builds(Run, model=models, training=trainings))
def test_a_configuration_survives_its_table_and_its_toml(config: Run) -> None:
    table = unstructure(config)
    assert structure(Run, table) == config
    assert structure(Run, tomllib.loads(dump_toml(table))) == config


def test_suggestions_ignore_case_and_keep_silent_about_strangers() -> None:
    assert suggestion("HEADS", ["heads", "depth"]) == " (did you mean 'heads'?)"
    assert suggestion("zebra", ["heads", "depth"]) == ""


def test_a_key_looked_for_one_table_too_high_is_found_further_in():
    class Inner(Config):
        heads: int = 8

    class Outer(Config):
        width: int = 512
        attention: Inner = Inner()

    with pytest.raises(ConfigError, match=r"model\.heds: unknown key \(did you mean 'attention\.heads'\?\)"):
        structure(Outer, {"heds": 4}, under="model")
