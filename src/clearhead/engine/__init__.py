"""The engine: a trained Transformer laid out anew for translating, in C++ or PyTorch, and held to the plain model."""
