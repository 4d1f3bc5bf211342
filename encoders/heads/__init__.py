"""Heads: the small trained parts that turn a frozen model's states into one vector a text."""
