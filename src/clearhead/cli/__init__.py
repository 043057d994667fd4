"""The command line: it parses, calls a recipe and prints."""

__all__: list[str] = []
