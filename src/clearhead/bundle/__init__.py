"""Saved models: a directory with weights, configuration and tokenizer, and its manifest."""
