"""Strict configuration models and their passage to and from TOML; knows no configuration of its own."""
