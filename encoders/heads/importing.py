"""Weights of the papers' authors as heads: a GLOT state dict, and what their package ``ilge`` saves.

What a file does not say (GLOT's tau, say) the caller gives; what does not fit is refused. An imported head computes
what the authors' code computes on the same states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backbones.frozen import FrozenLM
from ..bare_text import TextSettings
from ..spec import EncoderSpec
from .checkpoint import HeadCheckpoint, misfit
from .configuration import HeadConfig
from .inputs import config_for
from .weight_files import LAYER_GRAPHS, ImportRefused, one_file, read_weights, some_names, tensors

if TYPE_CHECKING:
    import torch

    from ..backbones.store import ModelStore

_GLOT = "score_layer.0.weight"
"""What every state dict of GLOT's script has."""


def import_head(
    path: Path,
    models: ModelStore,
    backbone: str,
    *,
    tau: float | None = None,
    layer: int | None = None,
    graph: str | None = None,
    aggregation: str | None = None,
    **settings: str,
) -> HeadCheckpoint:
    """A head from weights of either kind, told by what is in the file; the parameters of `import_glot` and
    `import_ilse`.

    Raises
    ------
    ImportRefused
        As these two; also where a parameter is of the other kind.
    """
    path = one_file(path)
    if _GLOT in _bare_names(read_weights(path)):
        if graph is not None or aggregation is not None:
            raise ImportRefused(f"{path} holds GLOT's weights, which have neither a graph of layers nor an aggregation")
        return import_glot(path, models, backbone, tau=tau, layer=-1 if layer is None else layer, **settings)
    if tau is not None or layer is not None:
        raise ImportRefused(f"{path} holds none of GLOT's weights, which alone have a tau and a layer")
    return import_ilse(path, models, backbone, graph=graph, aggregation=aggregation, **settings)


def spec_of(checkpoint: HeadCheckpoint, backbone: str) -> str:
    """The spec of the encoder with that head; it is to be saved."""
    name = checkpoint.config.method if checkpoint.config.method in ("glot", "ilse") else "pooled"
    return str(EncoderSpec(name, backbone, (("head", checkpoint.hash),)))


def import_glot(
    path: Path, models: ModelStore, backbone: str, *, tau: float | None, layer: int = -1, **settings: str
) -> HeadCheckpoint:
    """A head from the state dict that GLOT's training script saves (its GAT variant, or AdaPool).

    Parameters
    ----------
    path : Path
        ``.pt`` or ``.pth`` (read as weights only) or safetensors; or a folder that holds one such file.
    backbone : str
        The model that it was trained on.
    tau : float or None
        The threshold it was trained with, which the file does not hold; their script's default is 0.3. AdaPool has
        none.
    layer : int
        Whose states it was trained on; theirs is the last.
    **settings
        ``query_prefix``, ``passage_prefix`` and ``max_length`` as in a spec; their script cuts at 128 tokens.

    Raises
    ------
    ImportRefused
        It is no such state dict, another kind of graph layer, or of another width than the backbone.
    """
    path = one_file(path)
    state = _bare_names(tensors(read_weights(path)))
    if _GLOT not in state:
        raise ImportRefused(f"{path} is no GLOT state dict: it has no {_GLOT}; it has {some_names(state)}")
    inner, whole = (int(size) for size in state[_GLOT].shape)
    depth = len({name.split(".")[1] for name in state if name.startswith("convs.")})
    weights = {
        name.replace("score_layer.", "scorer."): value
        for name, value in state.items()
        if name.startswith("score_layer.")
    }
    language_model = _model(models, backbone)
    if not depth:
        config = config_for(language_model, "attention", layer=layer, sink=True, hidden=inner, start="authors")
        _require_width(path, whole, config.width, backbone)
        return _checkpoint(path, config, weights, models, backbone, language_model, settings)
    if "convs.0.att_edge" not in state or "convs.0.lin.weight" not in state:
        raise ImportRefused(
            f"{path} has other graph layers than GAT, which are not supported: it has {some_names(state)}"
        )
    if tau is None:
        raise ImportRefused(f"{path} does not say with which tau it was trained: give it (their script's own is 0.3)")
    hidden, width = (int(size) for size in state["convs.0.lin.weight"].shape)
    config = config_for(
        language_model,
        "glot",
        layer=layer,
        sink=True,
        tau=float(tau),
        gat_layers=depth,
        hidden=hidden,
        start="authors",
        edge_scalar=True,
    )
    _require_width(path, width, config.width, backbone)
    if whole != config.dimension:
        raise ImportRefused(
            f"{path} scores tokens by {whole} values where concatenating input and layers gives {config.dimension}: "
            "only jk_mode=cat is supported"
        )
    for place in range(depth):
        theirs, ours = f"convs.{place}.", f"layers.{place}."
        for name in ("lin.weight", "bias"):
            weights[ours + name] = _named(path, state, theirs + name)
        for name in ("att_src", "att_dst"):
            weights[ours + name] = _named(path, state, theirs + name)[None]
        # All their edge attributes are 1, and so the attributes' part of each logit is this.
        attributes = _named(path, state, theirs + "lin_edge.weight").flatten()
        edge = (attributes * _named(path, state, theirs + "att_edge").flatten()).sum()
        weights[ours + "edge_scalar"] = edge
    return _checkpoint(path, config, weights, models, backbone, language_model, settings)


def import_ilse(
    path: Path,
    models: ModelStore,
    backbone: str,
    *,
    graph: str | None = None,
    aggregation: str | None = None,
    **settings: str,
) -> HeadCheckpoint:
    """A head from what the package ``ilge`` saves: a classifier's file, or an aggregator's state dict.

    A classifier's linear layer is left behind. Its nodes are means over tokens, as ours are.

    Parameters
    ----------
    path : Path
        The file, or a folder that holds one.
    backbone : str
        The model that it was trained on.
    graph : str or None
        ``cayley``, ``fc`` or ``set``, where a state dict does not say it.
    aggregation : str or None
        ``mean`` or ``sum``, where a state dict does not say it; by default ``mean``.
    **settings
        ``query_prefix``, ``passage_prefix`` and ``max_length`` as in a spec.

    Raises
    ------
    ImportRefused
        It is no such file, of GAT layers, pooled over tokens otherwise, or of other sizes than the backbone.
    """
    path = one_file(path)
    content = read_weights(path)
    if "encoder_state" in content:
        pooling = content.get("token_pooling", "mean")
        if pooling != "mean":
            raise ImportRefused(f"{path} pools tokens by {pooling!r}; only 'mean' is supported")
        saved = content["config"]
        graph, aggregation = LAYER_GRAPHS[type(saved).__name__], saved.pooling
        state = tensors(content["encoder_state"])
        settings = {"max_length": str(content.get("max_length", 0)), **settings}
    else:
        state = tensors(content)
    state = {name.removeprefix("_encoder."): value for name, value in state.items()}
    language_model = _model(models, backbone)
    parameters, weights, width = _layer_set(path, state) if _is_set(state) else _layer_graph(path, state, graph)
    if graph is not None and (graph == "set") != _is_set(state):
        raise ImportRefused(f"{path} does not hold the encoder of graph={graph}: it has {some_names(state)}")
    config = config_for(
        language_model,
        "ilse",
        graph=graph or "set",
        aggregation=aggregation or "mean",
        double_edges=True,
        sink=True,
        start="authors",
        **parameters,
    )
    _require_width(path, width, config.width, backbone)
    states = content.get("num_layers", config.layers + 1)
    if states != config.layers + 1:
        raise ImportRefused(
            f"{path} was trained on {states} layers, embeddings included; {backbone} has {config.layers + 1}"
        )
    # What the model reads at most is known only now; theirs is a general limit.
    longest = int(settings.get("max_length", "0"))
    if longest > language_model.window:
        settings["max_length"] = "0"
    return _checkpoint(path, config, weights, models, backbone, language_model, settings)


def _bare_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a module that trains on several devices puts before them."""
    return {name.removeprefix("module."): value for name, value in state.items()}


def _named(path: Path, state: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in state:
        raise ImportRefused(f"{path} lacks {name}, which a head of its kind has")
    return state[name]


def _is_set(state: Mapping[str, torch.Tensor]) -> bool:
    return any(name.startswith(("phi.", "rho.")) for name in state)


def _layer_set(path: Path, state: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, torch.Tensor], int]:
    weights = {name.replace("phi.", "before.").replace("rho.", "after."): value for name, value in state.items()}
    matrices = {part: _matrices(state, part) for part in ("phi.", "rho.")}
    first = next(iter(matrices["phi."] or matrices["rho."]))
    hidden, width = (int(size) for size in first.shape)
    parameters = {"hidden": hidden, "depth": len(matrices["phi."]), "mlp_layers": len(matrices["rho."])}
    return parameters, weights, width


def _layer_graph(
    path: Path, state: Mapping[str, torch.Tensor], graph: str | None
) -> tuple[dict[str, Any], dict[str, torch.Tensor], int]:
    if "proj_in.weight" not in state:
        raise ImportRefused(f"{path} is nothing that ilge saves: it has {some_names(state)}")
    if graph is None:
        raise ImportRefused(f"{path} does not say on which graph it was trained: give graph=cayley or graph=fc")
    if any(name.endswith("att_src") for name in state):
        raise ImportRefused(f"{path} has GAT layers, which are not supported; gin and gcn are")
    hidden, width = (int(size) for size in state["proj_in.weight"].shape)
    depth = len({name.split(".")[1] for name in state if name.startswith("norms.")})
    gcn = "convs.0.lin.weight" in state
    parameters = {
        "gnn": "gcn" if gcn else "gin",
        "hidden": hidden,
        "depth": depth,
        "mlp_layers": len(_matrices(state, "convs.0.nn.")),
    }
    names = {"proj_in.": "projection.", "convs.": "convolutions.", "norms.": "norms."}
    weights = {}
    for name, value in state.items():
        theirs = next((part for part in names if name.startswith(part)), None)
        if theirs is None:
            raise ImportRefused(f"{path} holds {name}, which no encoder of ilge has")
        weights[names[theirs] + name[len(theirs) :]] = value
    return parameters, weights, width


def _matrices(state: Mapping[str, torch.Tensor], part: str) -> list[torch.Tensor]:
    return [value for name, value in sorted(state.items()) if name.startswith(part) and value.dim() == 2]


def _checkpoint(
    path: Path,
    config: HeadConfig,
    weights: Mapping[str, torch.Tensor],
    models: ModelStore,
    backbone: str,
    language_model: FrozenLM,
    settings: Mapping[str, str],
) -> HeadCheckpoint:
    reader = EncoderSpec("import", backbone, tuple((key, str(value)) for key, value in settings.items())).reader()
    text = TextSettings.read(reader, backbone)
    reader.finish()
    checkpoint = HeadCheckpoint(
        config=config,
        weights={name: value.detach().float().cpu().numpy() for name, value in weights.items()},
        backbone_weights=models.weights_sha256(backbone),
        tokenizer=models.tokenizer_sha256(backbone),
        query_prefix=text.query_prefix,
        passage_prefix=text.passage_prefix,
        max_length=text.length(language_model),
        training={"imported": {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}, "data": []},
    )
    if reason := misfit(config, checkpoint.weights):
        raise ImportRefused(f"{path} does not hold all the weights of one head in its sizes: {reason}")
    return checkpoint


def _require_width(path: Path, width: int, own: int, backbone: str) -> None:
    if width != own:
        raise ImportRefused(f"{path} was trained on states of length {width}; those of {backbone} have {own}")


def _model(models: ModelStore, backbone: str) -> FrozenLM:
    return FrozenLM.load(models.resolve(backbone), device="cpu")
