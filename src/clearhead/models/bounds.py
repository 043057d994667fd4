"""How large a configuration may be: far above any real model.

A configuration out of a bundle must not be able to fill the memory before it is checked.
"""

__all__ = ["MOST_LAYERS", "MOST_TOKENS", "MOST_WIDE"]

MOST_TOKENS = 1 << 24
MOST_WIDE = 1 << 16
MOST_LAYERS = 1 << 10
