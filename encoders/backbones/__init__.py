"""Frozen language models: the catalogue, where their files come from, and running them."""
