"""What a user asks for (train, translate, evaluate, …), each wired from the floors below."""

__all__: list[str] = []
