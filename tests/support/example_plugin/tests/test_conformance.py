"""The package's own tests: what slotrag asks of every encoder."""

from __future__ import annotations

from slotrag.encoders.conformance import EncoderConformance


class TestTrigrams(EncoderConformance):
    spec = "trigrams"
    different = ("trigrams:dimension=128", "trigrams:max_tokens=20")
