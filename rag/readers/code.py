"""Source code and configuration: blocks of lines, one for each definition at the left margin. It parses no language.

The document's text is the file itself, so that lines are the file's own.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..documents import Block, Document, first_line
from .base import Reader
from .decoding import looks_like_text, read_text

_SUFFIXES = """
.py .pyi .pyx .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp .cxx .hh .hpp .hxx .cu .m .mm
.cs .fs .vb .go .rs .swift .rb .php .pl .pm .lua .r .jl .dart .ex .exs .erl .hrl .hs .ml .mli .clj .cljs .lisp .el .scm
.sh .bash .zsh .fish .ps1 .bat .cmd .sql .proto .thrift .graphql .css .scss .sass .less .vue .svelte .toml .yaml .yml
.ini .cfg .conf .properties .env .cmake .gradle .mk .tf .hcl .nix .zig .nim .v .sv .vhd .vhdl .asm .s .f .f90 .f95 .pas
.d .ada .adb .ads .tcl .awk .sed .diff .patch .xml .xsd .xsl
"""
_DEFINITION = re.compile(
    r"^(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)\n]*\))?|unsafe|"
    r"extern|inline|constexpr|virtual|override|sealed|data|open|partial|declare|local)[ \t]+)*"
    r"(?:def|class|func|fn|function|struct|impl|interface|trait|enum|union|type|module|mod|namespace|object|record|"
    r"protocol|macro_rules!|defmodule|defp?|sub|procedure|create[ \t]+table|package)\b[ \t*&]*"
    r"(?:\([^)\n]*\)[ \t]*)?(?P<name>[\w.:$!?-]+)",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING = re.compile(r"[)\]}]|end\b|else\b|elif\b|except\b|finally\b|catch\b|fi\b|done\b|esac\b|#(?:else|endif)")


class CodeReader(Reader):
    """Reads source code as text, cut by its definitions."""

    name = "source code"
    media_types = ("text/x-source",)
    suffixes = tuple(_SUFFIXES.split())

    def sniff(self, head: bytes, path: Path) -> float:
        if not looks_like_text(head):
            return 0.0
        return 0.4 if head.startswith(b"#!") else 0.2

    def read(self, path: Path) -> Document:
        text = read_text(path)
        return Document(first_line(text), text, self.media_types[0], code_blocks(text))


def code_blocks(text: str) -> list[Block]:
    """Runs of lines that begin at the left margin after a blank line, named by the definition in them."""
    blocks: list[Block] = []
    start = position = 0
    previous_blank = True
    for line in text.split("\n"):
        blank = not line or line.isspace()
        if not blank and previous_blank and not line[0].isspace() and not _CLOSING.match(line):
            _add(blocks, text, start, position)
            start = position
        previous_blank = blank
        position += len(line) + 1
    _add(blocks, text, start, len(text))
    return blocks


def _add(blocks: list[Block], text: str, start: int, end: int) -> None:
    source = text[start:end]
    stripped = source.rstrip()
    if stripped.strip():
        lead = len(source) - len(source.lstrip("\n"))
        definition = _DEFINITION.search(stripped)
        name = definition.group("name").rstrip(":") if definition else ""
        blocks.append(Block("code", start + lead, start + len(stripped), 0, name))
