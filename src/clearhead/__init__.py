"""clearhead: train a translator on your own parallel text, translate with it, look inside it.

>>> import clearhead
>>> clearhead.load("runs/demo-en-de").translate(["Turn off the lights"])[0].text  # doctest: +SKIP
'Schalte die Lichter aus'
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.base.errors import ClearheadError
    from clearhead.explorer.inspection import inspect
    from clearhead.recipes.translate import load
    from clearhead.recipes.translation import Translation
    from clearhead.recipes.translator import Translator

    __version__: str

__all__ = ["ClearheadError", "Translation", "Translator", "__version__", "inspect", "load"]

# Looked up on first use (PEP 562), so that `import clearhead` costs nothing and `clearhead --help` loads no torch.
_HOMES = {
    "ClearheadError": "clearhead.base.errors",
    "Translation": "clearhead.recipes.translation",
    "Translator": "clearhead.recipes.translator",
    "inspect": "clearhead.explorer.inspection",
    "load": "clearhead.recipes.translate",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("clearhead")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'clearhead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
