"""The exit codes that the command line promises."""

import pytest

from clearhead.base import errors


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ClearheadError", 1),
        ("InputError", 2),
        ("ConfigError", 2),
        ("DataError", 2),
        ("BundleError", 2),
        ("TrainingError", 1),
        ("DecodingError", 1),
    ],
)
def test_every_error_has_its_exit_code(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.ClearheadError)
    assert kind("message").exit_code == code
    assert name in errors.__all__
