"""Texts to vectors: the encoder interface, its registry, the frozen backbones and one file for each method."""
