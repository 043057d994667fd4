"""Text and its pieces: tokenizers, languages, placeholders. Imports no torch."""

__all__: list[str] = []
