"""Parts that models are made of; they know no architecture."""

__all__: list[str] = []
