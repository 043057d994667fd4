"""Exact accounts of a model: parameters, operations, bytes, path lengths."""
