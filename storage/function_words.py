"""English words that say nothing about what a text is about. Questions are searched for without them."""

from __future__ import annotations

_WORDS = """
a an the this that these those
i me my we our you your he him his she her it its they them their who whom whose what which
am is are was were be been being have has had having do does did doing
can could may might must shall should will would
and but or nor if because as until while than so
of at by for with about against between into through during before after above below to from up down in out on off
over under again further then once here there when where why how
all any both each few more most other some such no not only own same too very just also now
"""
FUNCTION_WORDS = frozenset(_WORDS.split())
