"""A search out of the options that were given by name."""

from __future__ import annotations

from clearhead.config.strict import structure, unstructure
from clearhead.decoding.config import DecodingConfig

__all__ = ["decoding_config"]


def decoding_config(config: DecodingConfig | None = None, **options: object) -> DecodingConfig:
    """`config` (the default one if none) with these options in place of its own; None changes nothing.

    Raises ConfigError naming the wrong one.
    """
    given = {name: value for name, value in options.items() if value is not None}
    changed: DecodingConfig = structure(
        DecodingConfig, {**unstructure(config or DecodingConfig()), **given}, where="decoding options"
    )
    return changed
