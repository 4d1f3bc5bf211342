"""Every encoder against the conformance suite; a new one adds a row."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import tiny_models
from slotrag.encoders.conformance import EncoderConformance
from slotrag.encoders.spec import EncoderSpec


class Row(NamedTuple):
    """A spec, in which {kind} stands for the folder of a tiny model, and specs that must differ from it."""

    spec: str
    different: tuple[str, ...] = ()


ROWS = [
    Row("hashing", ("hashing:seed=1", "hashing:dimension=32", "hashing:max_tokens=20")),
    Row("mean@minilm-l6", ("mean:layer=3", "mean:max_length=64", "mean:query_prefix=(query: )", "mean:dtype=bfloat16")),
    # Slow: test_mean.py has what is particular to e5 in every run.
    pytest.param(
        Row("mean@e5-small", ("mean@e5-small:query_prefix=()", "mean@e5-small:passage_prefix=()")),
        marks=pytest.mark.slow,
    ),
    Row("mean@({bert})", ("mean@({bert}):passage_prefix=(a longer passage prefix: )",)),
    Row("mean@({bert}):query_prefix=(ask: ),passage_prefix=(the longer prefix of a passage: )"),
    Row("mean@({bert}):layer=1,max_length=20", ("mean@({bert}):layer=0,max_length=20",)),
    Row("mean@({llama})", ("mean@({llama}):layer=-2", "mean@({llama}):sink=true", "mean@({qwen2})")),
    Row("mean@({qwen2})"),
    Row("mean@({gpt2})"),
    Row("mean@({opt})"),
    Row("mean@({qwen2}):layer=1", ("mean@({qwen2}):layer=0",)),
    Row(
        "prompteol@({llama})",
        ("prompteol@({llama}):layer=-1", "prompteol@({llama}):prompt=cot", "prompteol@({llama}):demonstration=puppy"),
    ),
    Row("prompteol@({mistral}):prompt=cot,layer=-1"),
    Row("prompteol@({gpt2}):demonstration=moons,layer=1"),
    Row(
        "tp@({llama})",
        ("prompteol@({llama})", "tp@({llama}):exit=1", "tp@({llama}):placeholder=mean", "tp@({llama}):dtype=bfloat16"),
    ),
    Row("tp@({qwen2}):prompt=cot,placeholder=mean"),
    Row("tp@({gemma2}):layer=-1", ("tp@({gemma2}):layer=-1,start=2",)),
    Row("tp@({opt}):exit=2"),
    Row("tp@({gpt-neox}):max_length=60,layer=-1"),
    Row("echo@({llama})", ("echo@({llama}):layer=-2", "echo@({llama}):prompt=plain", "mean@({llama})")),
    Row("echo@({gemma2}):prompt=plain,layer=1"),
    Row(
        "geneol:m=2,generator=({generator}),encoder=hashing,max_length=20,temperature=1",
        tuple(
            f"geneol:generator=({{generator}}),encoder=hashing,max_length=20,{rest}"
            for rest in ("m=3,temperature=1", "m=2", "m=2,temperature=1,seed=1", "m=2,temperature=1,strategy=sentences")
        ),
    ),
    Row(
        "geneol:m=1,query_m=1,kinds=T4,least=-1,generator=({generator}),encoder=(mean@({bert})),max_length=16,lookup=3"
    ),
    # Untrained heads; test_headed.py has trained ones.
    Row("glot@({bert})", ("glot@({bert}):layer=1", "glot@({bert}):tau=0.1", "mean@({bert})")),
    Row("ilse@({bert})", ("ilse@({bert}):graph=fc", "ilse@({bert}):graph=set", "ilse@({bert}):over=glot")),
    Row(
        "pooled@({bert})",
        tuple(f"pooled@({{bert}}):pooling={kind}" for kind in ("mean", "max", "first", "layer", "mix", "dwatt", "mlp")),
    ),
    pytest.param(
        Row(
            "pooled@({qwen2}):pooling=mix", ("pooled@({qwen2}):pooling=last", "pooled@({qwen2}):pooling=layer,layer=2")
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param(Row("glot@({llama}):query_prefix=(ask: ),max_length=40"), marks=pytest.mark.slow),
    Row("st@minilm-l6", ("st@minilm-l6:query_prompt=(query: )", "st@minilm-l6:max_length=64", "mean@minilm-l6")),
    Row("st@minilm-l6:query_prompt=(ask: ),document_prompt=(the longer prompt of a document: ),max_length=40"),
]


class TestConformance(EncoderConformance):
    @pytest.fixture(autouse=True, scope="class", params=ROWS, ids=lambda row: row.spec)
    @classmethod
    def _row(cls, request, models, hashing_encoder, tiny_model, generator):
        def fill(spec: str) -> str:
            spec = spec.replace("{generator}", str(generator))
            for kind in tiny_models.KINDS:
                if "{" + kind + "}" in spec:
                    spec = spec.replace("{" + kind + "}", str(tiny_model(kind)))
            return str(EncoderSpec.parse(spec))

        request.cls.spec = fill(request.param.spec)
        request.cls.different = [fill(spec) for spec in request.param.different]
        request.cls.models = models
