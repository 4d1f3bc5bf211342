"""Writes an encoder as a folder that sentence-transformers loads, where its method is one that it has.

That is mean pooling over the last layer, with its prefixes as prompts. It writes files and loads neither library.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .. import SlotragError, UsageError
from . import registry
from .backbones.locations import weight_files
from .mean import MeanEncoder, MeanRecipe
from .spec import EncoderSpec

if TYPE_CHECKING:
    from .backbones.store import ModelStore

_REASONS = {
    "prompteol": "the vector is the state of a prompt's last token, read before the last layer",
    "tp": "states are copied to a placeholder between the layers",
    "echo": "only the tokens of the text's second time are averaged",
    "geneol": "the variants of each text are written by a language model",
    "st": "it is a sentence-transformers model already: copy its folder",
}
_LIBRARY = "sentence_transformers.models"
_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt",
    "tokenizer.model", "sentencepiece.bpe.model", "spiece.model", "added_tokens.json",
)  # fmt: skip


class NotExportable(UsageError):
    """sentence-transformers has no module for what an encoder does; the message says what that is."""


def export(spec: str | EncoderSpec, folder: Path | str, models: ModelStore) -> Path:
    """Write the encoder of `spec` as a sentence-transformers folder; its vectors are the same within 1e-5 in float32.

    ``encode_query`` and ``encode_document`` of the loaded model put the encoder's prefixes before a text, ``encode``
    alone puts none. Of a query that is too long and has a shorter prefix than a passage, a few more tokens count there.

    Parameters
    ----------
    folder : Path or str
        A new folder, or an empty one.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    NotExportable
        The method has no counterpart there.
    slotrag.SlotragError
        The folder holds something already or cannot be written, or the model is missing.
    """
    parsed = EncoderSpec.parse(spec) if isinstance(spec, str) else spec
    if parsed.name in _REASONS:
        raise NotExportable(f"{parsed.name!r} cannot be exported to sentence-transformers: {_REASONS[parsed.name]}.")
    encoder = registry.create(parsed, models, device="cpu")
    if not isinstance(encoder, MeanEncoder):
        raise NotExportable(
            f"{parsed.name!r} cannot be exported to sentence-transformers: what it does to the states is its own; "
            "mean can be."
        )
    recipe = encoder.recipe
    if not recipe.last_layer:
        raise NotExportable(
            f"{encoder.spec} cannot be exported to sentence-transformers, which pools the last layer: leave layer out."
        )
    if not recipe.sink:
        raise NotExportable(
            f"{encoder.spec} cannot be exported to sentence-transformers, whose mean has the first token in it: give "
            "it sink=true."
        )
    place = Path(folder).expanduser()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise SlotragError(f"{place} holds something already; name a new folder.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=place.parent) as working:
            built = Path(working) / "model"
            _write(built, recipe)
            if place.exists():
                place.rmdir()
            built.rename(place)
    except OSError as error:
        raise SlotragError(f"The folder {place} cannot be written ({error.strerror or error}).") from error
    return place


def _write(folder: Path, recipe: MeanRecipe) -> None:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "2_Normalize").mkdir()
    for file in weight_files(recipe.folder):
        shutil.copyfile(file, folder / file.name)
    for index in recipe.folder.glob("*.safetensors.index.json"):
        shutil.copyfile(index, folder / index.name)
    for name in _TOKENIZER_FILES:
        if (recipe.folder / name).is_file():
            shutil.copyfile(recipe.folder / name, folder / name)
    configuration = _json(recipe.folder / "config.json")
    # It is loaded as what the file says, and its weights may be stored in another type.
    configuration.pop("torch_dtype", None)
    configuration["dtype"] = recipe.dtype
    _put(folder / "config.json", configuration)
    _put(folder / "tokenizer_config.json", _tokenizer_settings(folder))
    width = configuration.get("hidden_size") or configuration.get("n_embd") or configuration.get("d_model")
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    _put(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"{_LIBRARY}.{kind}"}
            for number, (path, kind) in enumerate(modules)
        ],
    )
    _put(folder / "sentence_bert_config.json", {"max_seq_length": recipe.max_length, "do_lower_case": False})
    _put(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "pooling_mode_weightedmean_tokens": False,
            "pooling_mode_lasttoken": False,
            "include_prompt": True,
        },
    )
    prompts = {"query": recipe.query_prefix, "document": recipe.passage_prefix}
    _put(
        folder / "config_sentence_transformers.json",
        {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )


def _tokenizer_settings(folder: Path) -> dict[str, object]:
    """The tokenizer's settings, padding on the right by whatever token there is: it is masked."""
    file = folder / "tokenizer_config.json"
    settings = _json(file) if file.is_file() else {}
    settings["padding_side"] = settings["truncation_side"] = "right"
    if not settings.get("pad_token"):
        settings["pad_token"] = settings.get("eos_token") or settings.get("unk_token")
    return settings


def _json(file: Path) -> dict[str, object]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _put(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
