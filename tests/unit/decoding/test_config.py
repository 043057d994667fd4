"""What a search may be asked for."""

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.decoding.config import DecodingConfig, Sampling


def test_the_defaults_are_the_papers() -> None:
    config = DecodingConfig()
    assert (config.beam, config.alpha, config.penalty) == (4, 0.6, "gnmt")
    assert (config.max_length_ratio, config.max_length_extra, config.max_length) == (1.0, 50, None)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"beam": 0}, "beam: must be at least 1"),
        ({"beam": 2, "n_best": 3}, "n_best 3 is more than beam 2"),
        ({"min_length": 9, "max_length": 4}, "min_length 9 is more than max_length 4"),
        ({"sampling": {"temperature": 0.0}}, "sampling.temperature: must be greater than 0"),
        ({"sampling": {"top_p": 1.5}}, "sampling.top_p: must be at most 1"),
        ({"penalty": "gnmd"}, "did you mean 'gnmt'?"),
        ({"beem": 4}, "did you mean 'beam'?"),
    ],
)
def test_a_wrong_option_is_named(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=None) as caught:
        structure(DecodingConfig, table)
    assert complaint in str(caught.value)


def test_more_samples_than_beam_are_allowed() -> None:
    config = DecodingConfig(beam=1, n_best=5, sampling=Sampling())
    assert structure(DecodingConfig, unstructure(config)) == config
