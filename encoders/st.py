"""Any sentence-transformers model as the encoder ``st@MODEL``, through the extra ``slotrag[st]``. It trains nothing.

A model is data here: no code from its repository is run and no pickle is opened.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import UsageError
from .backbones.digests import DigestMemory
from .backbones.frozen import DTYPES
from .backbones.loading import quiet
from .bare_text import known_entry
from .base import Encoder
from .batching import batch_limits, batches
from .errors import EncoderUnavailable, UnknownParameter
from .fingerprint import fingerprint
from .pooling import unit_rows
from .spec import EncoderSpec
from .tokens import TextTokens, readable, untouched_copy

if TYPE_CHECKING:
    import numpy as np

    from .backbones.store import ModelStore

_VERSION = 1
_FALLBACK_LENGTH = 512
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_OWN_MODULES = "sentence_transformers."
_HASHED = {".json", ".txt", ".model", ".safetensors"}
# They say where a model came from and how it is shown, generated or compared; the prompts are hashed as used.
_NOT_HASHED = {
    "slotrag-model.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    "chat_template.json",
    "data_config.json",
    "LICENSE.txt",
}
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}


class SentenceTransformersEncoder(Encoder):
    """A sentence-transformers model with all its modules; its vectors are scaled to unit length.

    Parameters of the spec:

    ``query_prompt``, ``document_prompt``
        Put before every text; by default the model's own prompts of those names, else what the catalogue says the
        model was trained with, else none.
    ``max_length``
        Tokens of one input, special tokens and prompt included; by default the model's own.
    ``dtype``
        ``float32`` (default), ``bfloat16`` or ``float16``.

    `forward_seconds` is the time spent in the model's modules so far.
    """

    def __init__(self, model: Any, *, spec: str, fingerprint: str, query_prompt: str, document_prompt: str) -> None:
        self.spec = spec
        self.fingerprint = fingerprint
        self.dimension = int(_dimension(model))
        self.forward_seconds = 0.0
        self._model = model
        self._query_prompt = query_prompt
        self._document_prompt = document_prompt
        own_tokenizer = untouched_copy(model.tokenizer)
        self._tokens = TextTokens(own_tokenizer, model.max_seq_length, document_prompt, query_prompt)
        self.max_tokens = self._tokens.max_tokens
        self._budget, self._most = batch_limits(model.device.type)
        # The library sets truncation and padding on the tokenizer for each call, which two threads must not do at once.
        self._lock = threading.Lock()
        self._watch_time()

    @classmethod
    def from_spec(cls, spec: EncoderSpec, models: ModelStore, *, device: str = "auto") -> SentenceTransformersEncoder:
        """Build ``st@MODEL``; see the class for its parameters.

        Raises
        ------
        EncoderUnavailable
            sentence-transformers is not installed, or the model needs its own code or pickles.
        """
        if spec.backbone is None:
            raise UsageError("name a sentence-transformers model after st, as in st@BAAI/bge-m3")
        reader = spec.reader()
        query_prompt = reader.optional_text("query_prompt")
        document_prompt = reader.optional_text("document_prompt")
        dtype = reader.choice("dtype", "float32", DTYPES)
        max_length = reader.integer("max_length", 0, least=0)
        reader.finish()

        library = _import_library()
        folder = _folder(spec.backbone, models)
        files = _files_that_matter(folder)
        model = _load(library, folder, device, dtype)
        _set_length(model, max_length)
        own_query, own_document = _own_prompts(model, spec.backbone)
        query_prompt = own_query if query_prompt is None else query_prompt
        document_prompt = own_document if document_prompt is None else document_prompt
        memory = DigestMemory(models.folder / ".digests")
        facts = {
            "method": "st",
            "version": _VERSION,
            "files": {file.relative_to(folder).as_posix(): memory.sha256(file) for file in files},
            "max_length": model.max_seq_length,
            "query_prompt": query_prompt,
            "document_prompt": document_prompt,
        }
        if dtype != "float32":
            facts["dtype"] = dtype
        return cls(
            model,
            spec=str(spec),
            fingerprint=fingerprint(facts),
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self._tokens.offsets(text, self._document_prompt)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(self._model.encode_document, texts, self._document_prompt)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(self._model.encode_query, texts, self._query_prompt)

    def _encode(self, encode: Any, texts: Sequence[str], prompt: str) -> np.ndarray:
        import numpy as np

        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        ready = [self._tokens.cut(self._tokens.never_empty(readable(text), prompt), prompt) for text in texts]
        lengths = [len(tokens) for tokens in self._tokens.ids(ready, prompt)]
        for positions in batches(lengths, self._budget, self._most):
            with self._lock:
                rows[positions] = encode(
                    [ready[position] for position in positions],
                    prompt=prompt,
                    batch_size=len(positions),
                    show_progress_bar=False,
                )
        return unit_rows(rows)

    def _watch_time(self) -> None:
        """Count the time within the model's modules; called under the lock, the hooks need none."""
        started = 0.0

        def before(*_: Any) -> None:
            nonlocal started
            started = time.perf_counter()

        def after(*_: Any) -> None:
            self.forward_seconds += time.perf_counter() - started

        for module in self._model.children():
            module.register_forward_pre_hook(before)
            module.register_forward_hook(after)


def _import_library() -> Any:
    try:
        import sentence_transformers
    except ImportError as error:
        raise EncoderUnavailable(
            "the encoder 'st' needs sentence-transformers: install it with  pip install 'slotrag[st]'"
        ) from error
    return sentence_transformers


def _folder(name: str, models: ModelStore) -> Path:
    """The model's folder, its `modules.json` checked: only sentence-transformers' own modules, only safetensors."""
    local = Path(name).expanduser()
    folder = local.resolve() if (local / "modules.json").is_file() else models.resolve(name)
    for path, kind in _modules(folder):
        if not kind.startswith(_OWN_MODULES):
            raise EncoderUnavailable(
                f"the model {name} needs code of its own ({kind}), which is never run: choose another model"
            )
        place = folder / path
        if not place.resolve().is_relative_to(folder.resolve()):
            raise EncoderUnavailable(f"the model {name} names a module outside its folder ({path}): choose another")
        files = [*place.iterdir()] if place.is_dir() else []
        pickled = any(file.suffix in _PICKLES for file in files)
        if pickled and not any(file.suffix == ".safetensors" for file in files):
            raise EncoderUnavailable(
                f"the model {name} keeps weights in pickles, which are never opened: convert {path or 'them'} to "
                "safetensors or choose another model"
            )
    return folder


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Path and class of each module."""
    listing = folder / "modules.json"
    if not listing.is_file():
        raise EncoderUnavailable(f"{folder} is no sentence-transformers model (no modules.json): use mean@MODEL for it")
    try:
        return [(str(module["path"]), str(module["type"])) for module in json.loads(listing.read_text("utf-8"))]
    except (ValueError, KeyError, TypeError) as error:
        raise EncoderUnavailable(f"{listing} cannot be read ({error}): fetch the model again") from error


def _files_that_matter(folder: Path) -> list[Path]:
    """modules.json and every file of a module that can change a vector, in a fixed order."""
    found = {folder / "modules.json"}
    for path, _ in _modules(folder):
        below = (folder / path).rglob("*") if path else folder.iterdir()
        found.update(file for file in below if file.suffix in _HASHED and file.name not in _NOT_HASHED)
    return sorted(file for file in found if file.is_file())


def _load(library: Any, folder: Path, device: str, dtype: str) -> Any:
    import torch
    from safetensors import SafetensorError

    try:
        with quiet():
            model = library.SentenceTransformer(
                str(folder),
                device=("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True, "dtype": getattr(torch, dtype)},
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise EncoderUnavailable(f"the model in {folder} cannot be loaded: {reason}") from error
    return model.eval()


def _set_length(model: Any, asked: int) -> None:
    """Make the most tokens of an input a definite number."""
    configuration = getattr(getattr(model[0], "auto_model", None), "config", None)
    window = getattr(configuration, "max_position_embeddings", None)
    if asked and window and asked > window:
        raise UnknownParameter(f"max_length is at most {window} for this model, not {asked}")
    model.max_seq_length = asked or model.max_seq_length or window or _FALLBACK_LENGTH


def _own_prompts(model: Any, name: str) -> tuple[str, str]:
    """The query's and the document's prompt where the spec gives none."""
    prompts = {key: text for key, text in (model.prompts or {}).items() if text}
    entry = known_entry(name)
    if prompts or entry is None:
        rest = prompts.get(model.default_prompt_name or "", "")
        query = next((prompts[key] for key in _QUERY_PROMPTS if key in prompts), rest)
        document = next((prompts[key] for key in _DOCUMENT_PROMPTS if key in prompts), rest)
        return query, document
    return entry.query_prefix, entry.passage_prefix


def _dimension(model: Any) -> int:
    get = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return get()
