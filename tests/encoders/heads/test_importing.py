"""The authors' weights: what is imported computes what their code computes; what does not fit is refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.heads.checkpoint import find_head, load_module, save_head
from slotrag.encoders.heads.importing import import_glot, import_head, import_ilse
from slotrag.encoders.heads.inputs import head_inputs
from slotrag.encoders.heads.weight_files import ImportRefused
from torch import nn
from torch_geometric.nn import GATConv
from torch_geometric.utils import dense_to_sparse

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ilge

WIDTH, STATES, HIDDEN = 32, 4, 8
TOKENS = [[5, 6, 7, 8, 11, 12], [9], [5, 9]]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models", offline=True)


@pytest.fixture
def backbone(tiny_model) -> str:
    return str(tiny_model("bert"))


class AuthorsGlot(nn.Module):
    """Modules with the names and sizes that their state dict has, and what they compute for one text."""

    def __init__(self, width: int = WIDTH, layers: int = 2) -> None:
        super().__init__()
        sizes = [width] + [HIDDEN] * layers
        self.convs = nn.ModuleList(GATConv(sizes[at], HIDDEN, edge_dim=1) for at in range(layers))
        whole = sum(sizes)
        inner = max(128, whole // 2)
        self.score_layer = nn.Sequential(nn.Linear(whole, inner), nn.Tanh(), nn.Linear(inner, 1))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3)

    def forward(self, x: torch.Tensor, tau: float) -> torch.Tensor:
        cosines = torch.nn.functional.cosine_similarity(x[:, None], x[None], dim=-1)
        edges, attributes = dense_to_sparse((cosines > tau).float())
        outputs = [x]
        for convolution in self.convs:
            outputs.append(convolution(outputs[-1], edges, edge_attr=attributes).relu())
        every = torch.cat(outputs, dim=-1)
        return (self.score_layer(every).softmax(dim=0) * every).sum(dim=0)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize("layers", [2, 4])
def test_glot(ending: str, layers: int, tmp_path: Path, store: ModelStore, backbone: str) -> None:
    torch.manual_seed(layers)
    theirs = AuthorsGlot(layers=layers)
    path = tmp_path / f"glot.{ending}"
    (save_file if ending == "safetensors" else torch.save)(theirs.state_dict(), path)
    checkpoint = import_glot(path, store, backbone, tau=0.3, max_length="100")
    assert checkpoint.config.parameters["edge_scalar"] is True and checkpoint.max_length == 100
    save_head(checkpoint, store)
    head = load_module(find_head(checkpoint.hash, store))
    states, mask = head_inputs(FrozenLM.load(backbone, device="cpu"), TOKENS, checkpoint.config)
    with torch.no_grad():
        wanted = torch.stack([theirs(row[kept], 0.3) for row, kept in zip(states, mask, strict=True)])
        torch.testing.assert_close(head(states, mask), wanted, atol=1e-5, rtol=1e-5)


def test_attention_pooling_of_the_same_script(tmp_path: Path, store: ModelStore, backbone: str) -> None:
    scorer = nn.Sequential(nn.Linear(WIDTH, 256), nn.Tanh(), nn.Linear(256, 1))
    torch.save({f"score_layer.{name}": value for name, value in scorer.state_dict().items()}, tmp_path / "ada.pth")
    checkpoint = import_glot(tmp_path, store, backbone, tau=0.3)
    assert checkpoint.config.method == "attention" and checkpoint.config.parameters["hidden"] == 256
    states, mask = head_inputs(FrozenLM.load(backbone, device="cpu"), TOKENS, checkpoint.config)
    with torch.no_grad():
        wanted = (scorer(states[0]).softmax(dim=0) * states[0]).sum(dim=0)
        torch.testing.assert_close(load_module(checkpoint)(states, mask)[0], wanted, atol=1e-5, rtol=1e-5)


def other_gnn() -> dict[str, torch.Tensor]:
    state = AuthorsGlot().state_dict()
    return {name: value for name, value in state.items() if "att_" not in name and "lin_edge" not in name}


def without(name: str) -> dict[str, torch.Tensor]:
    return {other: value for other, value in AuthorsGlot().state_dict().items() if other != name}


def max_jumping_knowledge() -> dict[str, torch.Tensor]:
    state = AuthorsGlot().state_dict()
    return {**state, "score_layer.0.weight": torch.zeros(128, HIDDEN)}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (lambda: AuthorsGlot(width=16).state_dict(), "states of length 16; those of .* have 32"),
        (lambda: without("convs.1.att_dst"), r"glot\.pt lacks convs\.1\.att_dst"),
        (lambda: without("score_layer.2.weight"), r"scorer\.2\.weight is missing"),
        (
            lambda: {**AuthorsGlot().state_dict(), "convs.1.bias": torch.zeros(3)},
            r"layers\.1\.bias is \(3,\), not \(8,\)",
        ),
        (other_gnn, "other graph layers than GAT"),
        (max_jumping_knowledge, "only jk_mode=cat"),
        (lambda: {"classifier.weight": torch.zeros(2)}, "no score_layer.0.weight; it has classifier.weight"),
        (lambda: {"epoch": 3, "score_layer.0.weight": torch.zeros(2, 2)}, "no state dict"),
        (lambda: [1, 2], "holds a list"),
    ],
)
def test_glot_refusals(state, words: str, tmp_path: Path, store: ModelStore, backbone: str) -> None:
    torch.save(state(), tmp_path / "glot.pt")
    with pytest.raises(ImportRefused, match=words):
        import_glot(tmp_path / "glot.pt", store, backbone, tau=0.3)


def classifier(config, *, states: int = STATES, width: int = WIDTH, **options) -> ilge.ILGEClassifier:
    made = ilge.ILGEClassifier("some/model", config, num_classes=3, device="cpu", **options)
    made._num_layers, made._hidden_dim = states, width
    made._build_encoder()
    for parameter in made._encoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


CONFIGS = [
    ilge.CayleyConfig(hidden_dim=HIDDEN),
    ilge.CayleyConfig(hidden_dim=HIDDEN, conv_type="gcn", gnn_layers=2, pooling="sum"),
    ilge.FCConfig(hidden_dim=HIDDEN, gin_mlp_layers=2),
    ilge.DeepSetConfig(hidden_dim=HIDDEN),
    ilge.DeepSetConfig(hidden_dim=HIDDEN, pre_pooling_layers=2, post_pooling_layers=0, pooling="mean"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_ilge_classifier_in_a_folder(config, tmp_path: Path, store: ModelStore, backbone: str) -> None:
    made = classifier(config)
    (tmp_path / "saved").mkdir()
    made.save(str(tmp_path / "saved" / "classifier.pt"))
    checkpoint = import_ilse(tmp_path / "saved", store, backbone)
    aggregator = ilge.build_aggregator(config, num_layers=STATES, hidden_in=WIDTH).eval()
    aggregator._encoder.load_state_dict(made._encoder.state_dict())
    states, _ = head_inputs(FrozenLM.load(backbone, device="cpu"), TOKENS, checkpoint.config)
    with torch.no_grad():
        torch.testing.assert_close(load_module(checkpoint)(states, None), aggregator(states), atol=1e-5, rtol=1e-5)


def test_aggregator_state_dict_says_no_graph(tmp_path: Path, store: ModelStore, backbone: str) -> None:
    aggregator = ilge.build_aggregator(ilge.FCConfig(hidden_dim=HIDDEN), num_layers=STATES, hidden_in=WIDTH).eval()
    save_file(aggregator.state_dict(), tmp_path / "aggregator.safetensors")
    with pytest.raises(ImportRefused, match="give graph=cayley or graph=fc"):
        import_ilse(tmp_path / "aggregator.safetensors", store, backbone)
    with pytest.raises(ImportRefused, match="not hold the encoder of graph=set"):
        import_ilse(tmp_path / "aggregator.safetensors", store, backbone, graph="set")
    checkpoint = import_ilse(tmp_path / "aggregator.safetensors", store, backbone, graph="fc")
    means = torch.randn(3, STATES, WIDTH)
    with torch.no_grad():
        torch.testing.assert_close(load_module(checkpoint)(means, None), aggregator(means), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: classifier(CONFIGS[0], states=7), "trained on 7 layers, embeddings included; .* has 4"),
        (lambda: classifier(CONFIGS[3], width=20), "states of length 20"),
        (lambda: classifier(CONFIGS[0], token_pooling="last"), "pools tokens by 'last'"),
        (lambda: classifier(ilge.CayleyConfig(conv_type="gat", hidden_dim=HIDDEN)), "GAT layers"),
    ],
)
def test_ilge_refusals(made, words: str, tmp_path: Path, store: ModelStore, backbone: str) -> None:
    made().save(str(tmp_path / "classifier.pt"))
    with pytest.raises(ImportRefused, match=words):
        import_ilse(tmp_path / "classifier.pt", store, backbone)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_nothing_in_a_file_is_run(tmp_path: Path, store: ModelStore, backbone: str) -> None:
    torch.save({"encoder_state": Trap(tmp_path / "sprung")}, tmp_path / "trap.pt")
    with pytest.raises(ImportRefused, match="read safely"):
        import_ilse(tmp_path / "trap.pt", store, backbone)
    with pytest.raises(ImportRefused, match="read safely"):
        import_glot(tmp_path / "trap.pt", store, backbone, tau=0.3)
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_none(tmp_path: Path, store: ModelStore, backbone: str) -> None:
    with pytest.raises(ImportRefused, match=r"0 files of weights \(none\)"):
        import_glot(tmp_path, store, backbone, tau=0.3)
    with pytest.raises(ImportRefused, match="cannot be read"):
        import_glot(tmp_path / "missing.pt", store, backbone, tau=0.3)
    for name in ("noise.pt", "noise.safetensors"):
        (tmp_path / name).write_bytes(b"no weights at all")
        with pytest.raises(ImportRefused, match="read safely"):
            import_glot(tmp_path / name, store, backbone, tau=0.3)


def test_which_of_the_two_it_is_the_file_tells(tmp_path: Path, store: ModelStore, backbone: str) -> None:
    torch.save({f"module.{name}": value for name, value in AuthorsGlot().state_dict().items()}, tmp_path / "glot.pth")
    classifier(CONFIGS[0]).save(str(tmp_path / "classifier.pt"))
    found = import_head(tmp_path / "glot.pth", store, backbone, tau=0.3)
    assert found.hash == import_glot(tmp_path / "glot.pth", store, backbone, tau=0.3).hash
    found = import_head(tmp_path / "classifier.pt", store, backbone)
    assert found.hash == import_ilse(tmp_path / "classifier.pt", store, backbone).hash
    for name, options, words in (
        ("glot.pth", {}, "does not say with which tau"),
        ("glot.pth", {"tau": 0.3, "graph": "fc"}, "GLOT's weights, which have neither"),
        ("classifier.pt", {"tau": 0.3}, "none of GLOT's weights"),
    ):
        with pytest.raises(ImportRefused, match=words):
            import_head(tmp_path / name, store, backbone, **options)
