"""Training of heads over frozen states: examples in, weights and held-out measures out. It knows no form of file."""
