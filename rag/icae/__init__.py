"""ICAE: passages compressed into memory slots, which the frozen decoder reads in place of their text."""
