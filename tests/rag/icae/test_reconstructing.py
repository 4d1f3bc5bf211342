"""What slots remember: the decoder's repetition, its accuracy and the marked differences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from compressors import compressor
from hypothesis import given
from hypothesis import strategies as st
from slotrag import SlotragError
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.decoder import Decoder
from slotrag.rag.icae.checkpoint import CompressorCheckpoint, CompressorMismatch, CompressorMissing, save_compressor
from slotrag.rag.icae.compressor import TrainedCompressor
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.model import CompressorModule
from slotrag.rag.icae.reading import reading_form, reading_inputs
from slotrag.rag.icae.reconstructing import (
    GONE,
    NEW,
    SAME,
    compressor_for,
    differences,
    reconstruct,
    token_accuracy,
)
from tiny_models import CORPUS

WORDS = st.lists(st.sampled_from(["a", "b", "c d", "e\n", "."]), max_size=12).map(" ".join)


@pytest.fixture(params=[{"prompt": "chat-repeat"}, {"compressor": "memory-tokens", "prompt": "authors"}], ids=str)
def parts_of(request, generator):
    """A compressor, the decoder, and the prompt that asks for a text's slots."""
    model = FrozenLM.load(generator, causal=True)
    made = TrainedCompressor(model, compressor(generator, **request.param), "h")
    decoder = Decoder(model, "tiny")
    form = reading_form(made.config.prompt, decoder.template, None, made.module.special_row)
    return made, decoder, lambda text: form.autoencoding(made.compress([text])[0])


def test_the_repetition_is_what_the_decoder_finds_likeliest(parts_of):
    made, decoder, asked = parts_of
    text = CORPUS[1]
    found = reconstruct(text, made, decoder)
    parts, ids = asked(text), made.token_ids(text)
    written: list[int] = []
    table = decoder.module.get_input_embeddings()
    while len(written) < len(ids) + 16:
        inputs = reading_inputs(table, [[*parts, written]], positions=made.config.positions)
        with torch.no_grad():
            token = int(decoder.module(**inputs._asdict(), use_cache=False).logits[0, -1].argmax())
        if token in decoder.stop_ids:
            break
        written.append(token)
    assert decoder.text_of(written).startswith(found.repeated[: len(found.repeated) // 2]) and found.repeated
    if found.stop_reason != "loop":
        assert found.repeated == decoder.text_of(written)
    assert (found.text, found.compressor, found.rate) == (text, "h", 4.0)
    assert (found.tokens, found.slots) == (len(ids), -(-len(ids) // 4))
    # What it writes itself is what it finds likeliest; anything else is right by chance only.
    assert token_accuracy(decoder, parts, written, positions=made.config.positions) == 1.0
    changed = [(token + 1) % 300 if at % 2 else token for at, token in enumerate(written)]
    assert token_accuracy(decoder, parts, changed, positions=made.config.positions) < 1.0
    assert found.token_accuracy == token_accuracy(decoder, parts, ids, positions=made.config.positions)
    assert token_accuracy(decoder, parts, [], positions=made.config.positions) == 1.0


def test_a_text_too_long_for_the_window_is_refused(generator, tiny_model):
    made = TrainedCompressor(FrozenLM.load(generator, causal=True), compressor(generator), "h")
    decoder = Decoder(FrozenLM.load(tiny_model("llama"), causal=True), "tiny")
    with pytest.raises(SlotragError, match="window of tiny has room for"):
        reconstruct(" ".join(CORPUS * 20), made, decoder)


@given(WORDS, WORDS)
def test_differences_hold_the_words_of_both_texts(text, repeated):
    found = differences(text, repeated)

    def words(*kinds):
        return " ".join(part.text for part in found if part.kind in kinds).split()

    assert words(SAME, GONE) == text.split() and words(SAME, NEW) == repeated.split()
    assert (words(GONE, NEW) == []) == (text.split() == repeated.split())


def test_differences_keep_the_space_of_the_text():
    assert differences("one  two\nthree", "one two four") == [(SAME, "one  two\n"), (GONE, "three"), (NEW, "four")]
    assert differences("", "") == [] and differences("a", "") == [(GONE, "a")]


def test_the_compressor_is_the_named_one_or_the_one_that_ships(generator, tiny_model, tmp_path, monkeypatch):
    store = ModelStore(tmp_path / "models", offline=True)
    base = str(generator)
    module = compressor(generator)
    digests = {"base_weights": store.weights_sha256(base), "tokenizer": store.tokenizer_sha256(base)}
    checkpoint = CompressorCheckpoint(config=module.config, weights=module.weights(), **digests)
    save_compressor(checkpoint, store)
    with pytest.raises(CompressorMissing, match=r"slotrag train icae --base .* --data") as refused:
        compressor_for(base, store)
    assert base in str(refused.value) and "--compressor" in str(refused.value)
    named = compressor_for(base, store, hash=checkpoint.hash, rate=2)
    assert (named.hash, named.rate) == (checkpoint.hash, 2)
    monkeypatch.setattr(
        "slotrag.rag.icae.reconstructing.shipped_compressor", {digests["base_weights"]: checkpoint.hash}.get
    )
    assert compressor_for(base, store).hash == checkpoint.hash
    with pytest.raises(CompressorMismatch, match="another model"):
        compressor_for(str(tiny_model("qwen2")), store, hash=checkpoint.hash)


@pytest.mark.slow
def test_an_untrained_compressor_at_rate_1_is_the_text(tmp_path: Path):
    """The start of training: slots are the tokens' own embeddings, which the decoder repeats when asked to."""
    store = ModelStore(offline=True)
    model = FrozenLM.load(store.resolve("smollm2-135m"), causal=True, device="cpu")
    module = CompressorModule(model, CompressorConfig.for_model(model, rate=1, rank=4, read_out=2))
    text = "The bridge over the river was opened in 1844, after a delay of two years. It carries trains and people."
    decoder = Decoder(model, "smollm2-135m")
    found = reconstruct(text, TrainedCompressor(model, module, "h"), decoder)
    assert found.slots == found.tokens and found.token_accuracy > 0.85
    assert "opened in 1844, after a delay of two years" in found.repeated
    fewer = reconstruct(text, TrainedCompressor(model, module, "h", rate=4), decoder)
    assert fewer.token_accuracy < found.token_accuracy and fewer.slots < found.slots
