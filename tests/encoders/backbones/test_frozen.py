"""FrozenLM over tiny random models: shared tensors, separate trees, batches that do not change a row."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading

import pytest
import torch
from slotrag import UsageError
from slotrag.encoders.backbones import frozen
from slotrag.encoders.backbones.errors import ModelDamaged, UnusableModel
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.hardware import cores, measure_tokens_per_second, memory_bytes

CAUSAL = ["llama", "qwen2", "gpt2", "opt", "gpt-neox", "mistral", "gemma2"]
KINDS = ["bert", *CAUSAL]
BATCH = [[5, 6, 7], [9], [4, 8, 15, 16, 23, 42, 10, 11], [12, 13]]


@pytest.fixture(autouse=True)
def _fresh():
    frozen.forget()
    yield
    frozen.forget()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_batch(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind))
    states, mask = model.token_states(BATCH)
    assert states.shape == (4, 8, model.hidden_size) and states.dtype == torch.float32
    assert mask.sum(1).tolist() == [3, 1, 8, 2]
    assert (states[~mask] == 0).all() and torch.isfinite(states).all()
    for row, ids in enumerate(BATCH):
        alone, _ = model.token_states([ids])
        torch.testing.assert_close(states[row, : len(ids)], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_all_states_hold_embeddings_layers_and_the_final_state(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind))
    layers, mask = model.all_states(BATCH)
    states, _ = model.token_states(BATCH)
    assert layers.shape == (model.layers + 1, 4, 8, model.hidden_size)
    torch.testing.assert_close(layers[-1], states)
    assert (layers[:, ~mask] == 0).all()
    assert not torch.allclose(layers[0], layers[1])


@pytest.mark.parametrize("kind", KINDS)
def test_states_equal_plain_transformers(tiny_model, kind):
    from transformers import AutoModel

    reference = AutoModel.from_pretrained(tiny_model(kind)).eval()
    with torch.no_grad():
        expected = reference(input_ids=torch.tensor([BATCH[2]])).last_hidden_state
    states, _ = FrozenLM.load(tiny_model(kind)).token_states([BATCH[2]])
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_share_tensors_but_no_modules(tiny_model, kind):
    model = FrozenLM.load(tiny_model(kind), causal=kind != "bert")
    first, second = model.module(), model.module()
    assert not {id(m) for m in first.modules()} & {id(m) for m in second.modules()}
    pairs = list(zip(first.named_parameters(), second.named_parameters(), strict=True))
    assert pairs
    for (name, one), (other_name, other) in pairs:
        assert name == other_name and one is not other and one.data_ptr() == other.data_ptr()
        assert not one.requires_grad
    assert first.config is not second.config
    assert not first.training


def test_a_hook_and_a_changed_tree_are_not_seen_by_others(tiny_model):
    model = FrozenLM.load(tiny_model("llama"), causal=True)
    before, _ = model.token_states(BATCH)
    tree = model.module()
    calls = []
    tree.model.layers[0].register_forward_hook(lambda *a: calls.append(1))
    tree.requires_grad_(True)
    tree.to(torch.bfloat16)
    tree.model.layers = tree.model.layers[:1]
    after, _ = FrozenLM.load(tiny_model("llama")).token_states(BATCH)
    assert calls == []
    torch.testing.assert_close(before, after, atol=0, rtol=0)
    assert all(not p.requires_grad and p.dtype == torch.float32 for p in model.module().parameters())


def test_tied_embeddings_stay_tied(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("llama"), tmp_path / "m")
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, tie_word_embeddings=True)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(folder)
    tree = FrozenLM.load(folder, causal=True).module()
    assert tree.lm_head.weight is tree.model.embed_tokens.weight


def test_causal_and_plain_users_share_one_set_of_tensors(tiny_model):
    decoder = FrozenLM.load(tiny_model("qwen2"), causal=True)
    encoder = FrozenLM.load(tiny_model("qwen2"))
    assert hasattr(decoder.module(), "lm_head") and not hasattr(encoder.module(), "lm_head")
    shared = {p.data_ptr() for p in decoder.module().parameters()}
    assert {p.data_ptr() for p in encoder.module().parameters()} <= shared
    assert decoder.tokenizer is encoder.tokenizer


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_module_generates_as_plain_transformers_does(tiny_model, kind):
    from transformers import AutoModelForCausalLM

    ids = torch.tensor([BATCH[2]])
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    expected = AutoModelForCausalLM.from_pretrained(tiny_model(kind)).generate(ids, **options)
    tree = FrozenLM.load(tiny_model(kind), causal=True).module()
    assert torch.equal(tree.generate(ids, **options), expected)


def test_threads_loading_at_once_get_the_same_tensors(tiny_model):
    folder = tiny_model("bert")
    found: list[int] = []
    barrier = threading.Barrier(4)

    def load() -> None:
        barrier.wait()
        found.append(next(FrozenLM.load(folder).module().parameters()).data_ptr())

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_threads_at_work_get_the_results_of_one_after_the_other(tiny_model):
    model = FrozenLM.load(tiny_model("llama"))
    expected, expected_layers = model.token_states(BATCH)[0], model.all_states(BATCH)[0]
    wrong: list[str] = []

    def work(everything: bool) -> None:
        for _ in range(15):
            got = model.all_states(BATCH)[0] if everything else model.token_states(BATCH)[0]
            if not torch.equal(got, expected_layers if everything else expected):
                wrong.append("all" if everything else "last")

    threads = [threading.Thread(target=work, args=(number % 2 == 0,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_forward_seconds_counts_this_objects_own_work(tiny_model):
    first, second = FrozenLM.load(tiny_model("bert")), FrozenLM.load(tiny_model("bert"))
    assert first.forward_seconds == 0
    first.token_states(BATCH)
    once = first.forward_seconds
    assert once > 0 and second.forward_seconds == 0
    with first.timed():
        pass
    assert first.forward_seconds > once


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_dtypes_are_sets_of_their_own_and_give_float32(tiny_model, dtype):
    model = FrozenLM.load(tiny_model("llama"), dtype=dtype)
    states, _ = model.token_states(BATCH)
    exact, _ = FrozenLM.load(tiny_model("llama")).token_states(BATCH)
    assert model.dtype == getattr(torch, dtype) and states.dtype == torch.float32
    assert 0 < (states - exact).abs().max() < 0.5


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_eager_attention_agrees(tiny_model, kind):
    eager, _ = FrozenLM.load(tiny_model(kind), attention="eager").token_states(BATCH)
    plain, _ = FrozenLM.load(tiny_model(kind)).token_states(BATCH)
    torch.testing.assert_close(eager, plain, atol=1e-5, rtol=1e-5)


def test_states_can_feed_training(tiny_model):
    states, _ = FrozenLM.load(tiny_model("bert")).token_states(BATCH)
    head = torch.nn.Linear(states.shape[-1], 1)
    head(states).sum().backward()
    assert head.weight.grad is not None


def test_sizes_are_the_models_own(tiny_model):
    model = FrozenLM.load(tiny_model("qwen2"))
    assert (model.hidden_size, model.layers, model.window) == (32, 3, 128)
    assert model.parameters == sum(
        p.numel() for p in FrozenLM.load(tiny_model("qwen2"), causal=True).module().parameters()
    )


@pytest.mark.parametrize("ids", [[], [[]], [[1], []], [[1] * 129]])
def test_empty_and_too_long_inputs_are_refused(tiny_model, ids):
    with pytest.raises(ValueError):
        FrozenLM.load(tiny_model("bert")).token_states(ids)


def test_roberta_counts_its_positions_itself(tmp_path, tiny_model):
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=66, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_model("bert") / name, tmp_path / name)
    model = FrozenLM.load(tmp_path)
    assert model.window == 64
    states, _ = model.token_states(BATCH)
    alone, _ = model.token_states(BATCH[:1])
    torch.testing.assert_close(states[0, :3], alone[0], atol=1e-5, rtol=1e-5)
    assert model.token_states([[5] * 64])[0].shape == (1, 64, 32)


def test_an_encoder_cannot_be_asked_to_generate(tiny_model):
    with pytest.raises(UnusableModel, match="cannot generate"):
        FrozenLM.load(tiny_model("bert"), causal=True)


@pytest.mark.parametrize("options", [{"dtype": "float8"}, {"device": "toaster"}])
def test_unknown_dtypes_and_devices_are_usage_errors(tiny_model, options):
    with pytest.raises(UsageError):
        FrozenLM.load(tiny_model("bert"), **options)


def changed_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def test_a_model_with_missing_parameters_is_refused(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    changed_config(folder, num_hidden_layers=5)
    with pytest.raises(ModelDamaged, match="lack"):
        FrozenLM.load(folder)


def test_an_unknown_architecture_and_cut_weights_are_one_sentence(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:1000])
    with pytest.raises(ModelDamaged, match="fetch the model again"):
        FrozenLM.load(folder)
    (folder / "model.safetensors").write_bytes(data)
    changed_config(folder, model_type="no_such_kind")
    with pytest.raises(UnusableModel) as caught:
        FrozenLM.load(folder)
    assert "\n" not in str(caught.value)


def test_code_beside_a_model_is_never_run(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    (folder / "modeling_x.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')\nclass X: pass\n")
    changed_config(folder, auto_map={"AutoModel": "modeling_x.X", "AutoConfig": "modeling_x.X"}, model_type="x")
    with pytest.raises(UnusableModel):
        FrozenLM.load(folder)
    assert not (tmp_path / "RAN").exists()


def test_a_replaced_model_is_read_again(tiny_model, tmp_path):
    import tiny_models

    folder = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    before, _ = FrozenLM.load(folder).token_states(BATCH)
    shutil.rmtree(folder)
    tiny_models.write("bert", folder, seed=7)
    after, _ = FrozenLM.load(folder).token_states(BATCH)
    assert not torch.allclose(before, after)


def test_truncation_in_a_tokenizer_file_does_not_cut(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert len(FrozenLM.load(folder).tokenizer("a b c d e f g h").input_ids) > 8


def test_loading_prints_nothing(tiny_model):
    program = (
        "import sys; from slotrag.encoders.backbones.frozen import FrozenLM\n"
        "FrozenLM.load(sys.argv[1]).token_states([[1, 2]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tiny_model("bert"))], capture_output=True, text=True, check=True
    )
    assert done.stdout == "" and done.stderr == ""


def test_importing_is_light():
    program = (
        "import sys; import slotrag.encoders.backbones.frozen, slotrag.encoders.backbones.hardware;"
        "bad = {'torch', 'transformers', 'numpy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_hardware_is_measured(tiny_model):
    assert memory_bytes() > 1 << 28 and cores() >= 1
    assert measure_tokens_per_second(FrozenLM.load(tiny_model("llama"), causal=True), 4) > 1
