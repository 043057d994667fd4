"""The one exception tree: every failure that a user can cause or must act on.

A message names the file, line, key or value that is wrong and says what to do. `exit_code` is what the
command line returns: 1 for a failure at run time, 2 for usage or bad input. Anything that is not a
`ClearheadError` is a bug of ours and keeps its traceback.
"""

__all__ = [
    "BundleError",
    "ClearheadError",
    "ConfigError",
    "DataError",
    "DecodingError",
    "InputError",
    "TrainingError",
]


class ClearheadError(Exception):
    """Root of the tree; catch it to catch everything clearhead raises on purpose."""

    exit_code = 1


class InputError(ClearheadError):
    """The user's input is wrong: an argument, a file, a value."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration key or value is unknown, missing or out of range."""


class DataError(InputError):
    """A text file breaks the line contract or cannot be used as it is."""


class BundleError(InputError):
    """A saved model is missing, damaged or does not fit the request."""


class TrainingError(ClearheadError):
    """Training cannot go on (a loss that is not finite, a checkpoint that cannot be written)."""


class DecodingError(ClearheadError):
    """A search cannot produce what was asked of it."""
