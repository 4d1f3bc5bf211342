"""The encoders glot, ilse and pooled: untrained they are mean pooling, trained they are their checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from slotrag import UsageError
from slotrag.encoders import registry
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.conformance import PLAIN_TEXTS, EncoderConformance
from slotrag.encoders.headed import HeadedEncoder
from slotrag.encoders.heads import checkpoint as checkpoints
from slotrag.encoders.heads.checkpoint import (
    HeadCheckpoint,
    HeadMismatch,
    HeadMissing,
    save_head,
    weights_of,
    write_head,
)
from slotrag.encoders.heads.heads import build_head
from slotrag.encoders.heads.inputs import config_for
from slotrag.encoders.spec import EncoderSpec

SEEN = [*PLAIN_TEXTS, "", "wing " * 300]


def trained(
    store: ModelStore, backbone: str, method: str, *, seed: int = 0, prefixes: tuple[str, str] = ("", ""), **parameters
) -> HeadCheckpoint:
    """A checkpoint of random weights, as far from the start as training may lead."""
    config = config_for(FrozenLM.load(store.resolve(backbone), device="cpu"), method, **parameters)
    head = build_head(config, seed=seed)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            parameter.add_(0.05 if name.endswith("gate") else 0.1 * noise)
    return HeadCheckpoint(
        config=config,
        weights=weights_of(head),
        backbone_weights=store.weights_sha256(backbone),
        tokenizer=store.tokenizer_sha256(backbone),
        query_prefix=prefixes[0],
        passage_prefix=prefixes[1],
        max_length=64,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    return ModelStore(tmp_path_factory.mktemp("models"), offline=True)


@pytest.fixture(scope="module")
def bert(tiny_model) -> str:
    return str(tiny_model("bert"))


ROWS = [
    ("bert", "glot", "glot", {"tau": 0.2}),
    ("llama", "ilse", "ilse", {"over": "glot", "tau": 0.2, "graph": "set"}),
    pytest.param(("qwen2", "glot", "glot", {"layer": 1, "start": "authors"}), marks=pytest.mark.slow),
    pytest.param(("bert", "ilse", "ilse", {}), marks=pytest.mark.slow),
    pytest.param(("llama", "ilse", "ilse", {"graph": "fc", "gnn": "gcn"}), marks=pytest.mark.slow),
    pytest.param(("bert", "pooled", "attention", {}), marks=pytest.mark.slow),
    pytest.param(("bert", "pooled", "mlp", {}), marks=pytest.mark.slow),
    pytest.param(("llama", "pooled", "dwatt", {}), marks=pytest.mark.slow),
]


class TestTrained(EncoderConformance):
    @pytest.fixture(autouse=True, scope="class", params=ROWS, ids=str)
    @classmethod
    def _row(cls, request, store, tiny_model):
        kind, name, method, parameters = request.param
        backbone = str(tiny_model(kind))
        heads = [trained(store, backbone, method, seed=seed, prefixes=("ask: ", ""), **parameters) for seed in range(2)]
        for head in heads:
            save_head(head, store)
        first, second = (f"{name}@({backbone}):head={head.hash}" for head in heads)
        request.cls.models = store
        request.cls.spec = first
        request.cls.different = [second, f"{name}@({backbone}):head=none", f"{first},query_prefix=(other: )"]


UNTRAINED = [
    "glot", "ilse", "ilse:graph=fc", "ilse:graph=set", "ilse:over=glot",
    "pooled", "pooled:pooling=mean", "pooled:pooling=mlp", "pooled:pooling=dwatt",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("spec", UNTRAINED)
def test_untrained_is_mean_pooling_in_every_cosine(spec: str, kind: str, dtype: str, tiny_model, store) -> None:
    name, _, parameters = spec.partition(":")
    tail = f"@({tiny_model(kind)}):dtype={dtype},query_prefix=(ask: ),max_length=40"
    encoder = registry.create(f"{name}{tail}" + (f",{parameters}" if parameters else ""), store)
    mean = registry.create(f"mean{tail}", store)
    assert encoder.max_tokens == mean.max_tokens
    found, wanted = ((one.encode_documents(SEEN), one.encode_queries(SEEN)) for one in (encoder, mean))
    np.testing.assert_allclose(found[0] @ found[0].T, wanted[0] @ wanted[0].T, atol=1e-5)
    np.testing.assert_allclose(found[1] @ found[0].T, wanted[1] @ wanted[0].T, atol=1e-5)


@pytest.mark.parametrize("spec", ["glot", "ilse"])
def test_untrained_over_the_default_backbone(spec: str, models: ModelStore) -> None:
    encoder, mean = registry.create(f"{spec}:head=none", models), registry.create("mean", models)
    assert encoder.spec == f"{spec}@minilm-l6:head=none" and encoder.dimension == 640
    found, wanted = encoder.encode_documents(PLAIN_TEXTS), mean.encode_documents(PLAIN_TEXTS)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-5)


@pytest.mark.parametrize(("kind", "method"), [("max", "max"), ("first", "first"), ("last", "last")])
def test_poolings_without_parameters(kind: str, method: str, bert: str, store: ModelStore) -> None:
    from slotrag.encoders.pooling import pool, unit_rows

    encoder = registry.create(f"pooled@({bert}):pooling={kind},layer=2", store)
    model = FrozenLM.load(bert, device="cpu")
    tokens = [model.tokenizer(text)["input_ids"] for text in PLAIN_TEXTS]
    wanted = unit_rows(pool(*model.states_at(tokens, 2), method).numpy())
    np.testing.assert_allclose(encoder.encode_documents(PLAIN_TEXTS), wanted, atol=1e-5)


def test_trained_vectors_are_the_head_on_the_states(bert: str, store: ModelStore) -> None:
    head = trained(store, bert, "glot", tau=0.2)
    save_head(head, store)
    encoder = registry.create(f"glot@({bert}):head={head.hash}", store)
    assert isinstance(encoder, HeadedEncoder)
    model = FrozenLM.load(bert, device="cpu")
    tokens = [model.tokenizer(text, truncation=True, max_length=64)["input_ids"] for text in PLAIN_TEXTS]
    module = checkpoints.load_module(head)
    with torch.no_grad():
        wanted = torch.nn.functional.normalize(module(*model.states_at(tokens, model.layers))).numpy()
    np.testing.assert_allclose(encoder.encode_documents(PLAIN_TEXTS), wanted, atol=1e-5)
    mean = registry.create(f"mean@({bert}):max_length=64", store).encode_documents(PLAIN_TEXTS)
    found = encoder.encode_documents(PLAIN_TEXTS)
    assert np.abs(found @ found.T - mean @ mean.T).max() > 1e-3
    assert encoder.head_seconds > 0 and encoder.forward_seconds > 0
    assert encoder.config == head.config


@pytest.mark.parametrize("name", ["glot", "ilse", "pooled"])
def test_text_of_one_token(name: str, tiny_model, store: ModelStore) -> None:
    backbone = str(tiny_model("qwen2"))  # it adds no special token
    encoder = registry.create(f"{name}@({backbone})", store)
    assert len(encoder.token_offsets("a")) == 1
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_documents(["a"])), 1.0, atol=1e-5)


def test_checkpoint_brings_its_prefixes_and_length(bert: str, store: ModelStore) -> None:
    head = trained(store, bert, "glot", prefixes=("ask: ", "text: "))
    save_head(head, store)
    own = registry.create(f"glot@({bert}):head={head.hash}", store)
    same = registry.create(
        f"glot@({bert}):head={head.hash},query_prefix=(ask: ),passage_prefix=(text: ),max_length=64", store
    )
    assert same.fingerprint == own.fingerprint and own.max_tokens < 64
    other = registry.create(f"glot@({bert}):head={head.hash},query_prefix=()", store)
    assert other.fingerprint != own.fingerprint


def test_what_a_head_was_measured_with_does_not_change_its_fingerprint(bert: str, store: ModelStore) -> None:
    from dataclasses import replace

    head = trained(store, bert, "glot")
    again = replace(head, measured={"ndcg@10": 0.5})
    for one in (head, again):
        save_head(one, store)
    first, second = (registry.create(f"glot@({bert}):head={one.hash}", store) for one in (head, again))
    assert first.spec != second.spec and first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("glot@({bert}):head={glot},tau=0.3", "trained with tau=0.6, not 0.3"),
        ("glot@({bert}):head={glot},layer=1", "trained with layer=3, not 1"),
        ("glot@({bert}):head={glot},layer=9", "reads no layer 9"),
        ("ilse@({bert}):head={ilse},graph=fc", "trained with graph=cayley, not fc"),
        ("glot@({bert}):head={glot},sink=false", "trained with sink=True, not False"),
        ("ilse@({bert}):head={ilse},over=glot", "trained with over=mean, not glot"),
        ("ilse@({bert}):head={glot}", "of the method 'glot', not of 'ilse'"),
        ("pooled@({bert}):head={glot}", "of the method 'glot', not of 'attention'"),
        ("pooled@({bert}):head={mlp},pooling=mix", "of the method 'mlp', not of 'mix'"),
        ("pooled@({bert}):head={mlp},layer=1", "reads no layer 1"),
        ("glot@({llama}):head={glot}", "made for another backbone .weights"),
    ],
)
def test_mismatches_are_refused(spec: str, words: str, bert: str, tiny_model, store: ModelStore) -> None:
    names = {}
    for method in ("glot", "ilse", "mlp"):
        head = trained(store, bert, method)
        save_head(head, store)
        names[method] = head.hash
    spec = spec.format(bert=bert, llama=tiny_model("llama"), **names)
    with pytest.raises(UsageError, match=words):
        registry.create(spec, store)


def test_same_layer_counted_from_the_end_is_no_mismatch(bert: str, store: ModelStore) -> None:
    head = trained(store, bert, "glot")
    save_head(head, store)
    plain = registry.create(f"glot@({bert}):head={head.hash}", store)
    assert registry.create(f"glot@({bert}):head={head.hash},layer=-1,tau=0.6", store).fingerprint == plain.fingerprint


def test_pooled_takes_whatever_a_named_head_is(bert: str, store: ModelStore) -> None:
    head = trained(store, bert, "mlp")
    save_head(head, store)
    encoder = registry.create(f"pooled@({bert}):head={head.hash}", store)
    assert isinstance(encoder, HeadedEncoder) and encoder.config.method == "mlp"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("glot@({bert}):tau=2", "at most 1"),
        ("glot@({bert}):tau=near", "is a number"),
        ("glot@({bert}):graph=fc", "no parameter 'graph'"),
        ("ilse@({bert}):graph=ring", "one of cayley, fc, set"),
        ("pooled@({bert}):pooling=median", "one of mean, max"),
        ("pooled@({bert}):pooling=mix,layer=1", "no parameter 'layer'"),
        ("glot@({bert}):layer=9", "between -4 and 3"),
        ("glot@({bert}):max_length=9999", "at most 128"),
    ],
)
def test_wrong_parameters(spec: str, words: str, bert: str, store: ModelStore) -> None:
    with pytest.raises(UsageError, match=words):
        registry.create(spec.format(bert=bert), store)


def test_missing_head(bert: str, store: ModelStore) -> None:
    with pytest.raises(HeadMissing, match="not on this machine"):
        registry.create(f"glot@({bert}):head={'0' * 16}", store)


def test_the_head_that_ships_is_the_default_and_stands_in_the_spec(
    bert: str, store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = trained(store, bert, "ilse", graph="set")
    write_head(head, tmp_path)
    monkeypatch.setattr(checkpoints, "_SHIPPED", tmp_path)
    checkpoints._shipped.cache_clear()
    try:
        encoder = registry.create(f"ilse@({bert}):graph=set", store)
        assert EncoderSpec.parse(encoder.spec).parameters == (("graph", "set"), ("head", head.hash))
        plain = EncoderSpec.parse(registry.create(f"ilse@({bert})", store).spec)
        assert plain.parameters == (("head", "none"),)
        with pytest.raises(HeadMismatch, match="over=mean, not glot"):
            registry.create(f"ilse@({bert}):graph=set,over=glot", store)
    finally:
        checkpoints._shipped.cache_clear()
