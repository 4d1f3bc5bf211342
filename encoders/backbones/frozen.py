"""Frozen language models at work: token ids in, hidden states out. It trains nothing, fetches nothing, pools nothing.

A model's weights are read once per process; every user gets a module tree of its own over the same tensors, so a hook
or switch on one tree is never seen by another (an answering decoder, a second encoder).
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from .errors import UnusableModel
from .layers import accepted, run_to_stop, stop_before
from .loading import LoadedModel, chosen_device, module_tree, read_model
from .locations import require_usable, weight_files
from .threads import apply_threads

if TYPE_CHECKING:
    import numpy as np
    import torch

logger = logging.getLogger(__name__)

DTYPES = ("float32", "bfloat16", "float16")
# These count positions from behind the padding token's number, and want to do it themselves.
_OFFSET_POSITIONS = {
    "camembert", "data2vec-text", "esm", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip
_UNSET_LENGTH = 1 << 30

_load_lock = threading.RLock()
_loaded: dict[tuple[object, ...], LoadedModel] = {}


def forget(folder: Path | None = None) -> None:
    """Let go of the tensors of the model in `folder` (None: of all); users that still hold a tree keep theirs."""
    with _load_lock:
        for key in [key for key in _loaded if folder is None or key[0] == folder.resolve()]:
            del _loaded[key]


class FrozenLM:
    """A frozen language model with its tokenizer.

    Made by `load`. Objects over the same folder, dtype and device share their tensors and their tokenizer, and nothing
    else. All methods may be called from several threads.

    Attributes
    ----------
    folder : Path
    config : transformers.PretrainedConfig
        Not to be changed.
    tokenizer : transformers.PreTrainedTokenizerBase
        Shared: call it without truncation and padding options, which would change it under another thread.
    hidden_size, layers : int
    window : int
        Most tokens of one input.
    causal : bool
        Whether `module` has the language-model head.
    decoder : bool
        Whether the checkpoint is a causal language model: its layers can be stopped at and it has an unembedding.
    pad_id : int
        The token that fills rows up; whatever it is, it is masked.
    device, dtype : torch.device, torch.dtype
    """

    def __init__(self, loaded: LoadedModel, folder: Path, *, causal: bool, attention: str) -> None:
        self._loaded = loaded
        self.folder = folder
        self.causal = causal
        self.decoder: bool = loaded.causal
        self.attention = attention
        self.tokenizer = loaded.tokenizer
        self.config = loaded.module.config
        text_config = self.config.get_text_config()
        self.hidden_size = int(text_config.hidden_size)
        self.layers = int(text_config.num_hidden_layers)
        self.window = _window(text_config, self.tokenizer)
        parameter = next(loaded.module.parameters())
        self.device: torch.device = parameter.device
        self.dtype: torch.dtype = parameter.dtype
        self.pad_id = _first_number(text_config.pad_token_id, self.tokenizer.pad_token_id, 0)
        self._seconds = 0.0
        self._lock = threading.Lock()
        self._states_lock = threading.Lock()
        self._runner: Any = None
        self._states_runner: Any = None
        self._stopping: dict[int, Any] = {}

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        causal: bool = False,
        device: str = "auto",
        dtype: str = "float32",
        attention: str = "auto",
    ) -> FrozenLM:
        """Load the model in `folder`, or take the tensors that this process has loaded before.

        Parameters
        ----------
        folder : Path
            A transformers folder with safetensors weights (`ModelStore.resolve`).
        causal : bool
            With the language-model head; `module` then gives logits.
        device : str
            ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        dtype : str
            ``float32``, ``bfloat16`` or ``float16``.
        attention : str
            ``sdpa``, ``eager``, or ``auto``: sdpa where the architecture has it (Gemma 2 has not), else eager.

        Raises
        ------
        UnusableModel
            No safetensors, an unknown architecture, or no language-model head where one is asked for.
        ModelDamaged
            The weights lack parameters or cannot be read.
        UsageError
            An unknown dtype or device.
        """
        folder = require_usable(Path(folder).expanduser()).resolve()
        if dtype not in DTYPES:
            raise UsageError(f"Unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}.")
        place = chosen_device(device)
        apply_threads()
        stamps = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in weight_files(folder))
        key = (folder, dtype, str(place), stamps)
        with _load_lock:
            if key not in _loaded:
                started = time.perf_counter()
                _loaded[key] = read_model(folder, place, dtype)
                logger.debug("loaded %s in %.2f s", folder, time.perf_counter() - started)
            loaded = _loaded[key]
        if causal and not loaded.causal:
            raise UnusableModel(f"The model in {folder} cannot generate text; choose a causal language model.")
        return cls(loaded, folder, causal=causal, attention=attention)

    @property
    def forward_seconds(self) -> float:
        """Time spent in forward passes of `token_states`, `states_at`, `all_states` and within `timed`, in seconds."""
        return self._seconds

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self._loaded.module.parameters())

    def module(self) -> torch.nn.Module:
        """A new module tree over the shared tensors, in eval mode, its parameters without gradients."""
        return module_tree(self._loaded, causal=self.causal, attention=self.attention)

    def token_states(self, input_ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """The last layer's states of a batch, after the final norm.

        Parameters
        ----------
        input_ids : sequence of sequences of int
            At least one token each and at most `window`, special tokens included.

        Returns
        -------
        states : float32, shape (batch, longest, hidden_size), on the model's device
            Zero where `mask` is False; a row does not depend on the rows beside it.
        mask : bool, shape (batch, longest)
        """
        with self._lock:
            if self._runner is None:
                self._runner = module_tree(self._loaded, causal=False, attention=self.attention)
        inputs, mask = self._batch(input_ids)
        output = self._run(self._runner, inputs)
        return output.last_hidden_state.float().masked_fill(~mask[:, :, None], 0.0), mask

    def all_states(self, input_ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of every layer.

        Returns
        -------
        states : float32, shape (layers + 1, batch, longest, hidden_size)
            Index 0 holds the embeddings, index k the states after k layers; the last one is after the final norm
            where the architecture has one. Zero where `mask` is False.
        mask : bool, shape (batch, longest)
        """
        import torch

        inputs, mask = self._batch(input_ids)
        # transformers collects the layers' states in ways that are not safe for two threads on one tree.
        with self._states_lock:
            if self._states_runner is None:
                self._states_runner = module_tree(self._loaded, causal=False, attention=self.attention)
            output = self._run(self._states_runner, {**inputs, "output_hidden_states": True})
        states = torch.stack([layer.float() for layer in output.hidden_states])
        return states.masked_fill(~mask[None, :, :, None], 0.0), mask

    def states_at(self, input_ids: Sequence[Sequence[int]], layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of one layer; a causal model does not run the layers above it.

        Parameters
        ----------
        input_ids : sequence of sequences of int
            As for `token_states`.
        layer : int
            0 for the embeddings, k for the states after k layers, `layers` for the last after the final norm: the
            index into transformers' ``hidden_states``.

        Returns
        -------
        states : float32, shape (batch, longest, `width`), on the model's device
            Zero where `mask` is False.
        mask : bool, shape (batch, longest)

        Raises
        ------
        UnusableModel
            A causal model whose layers cannot be found.
        """
        if not 0 <= layer <= self.layers:
            raise ValueError(f"layer is between 0 and {self.layers}, not {layer}")
        if layer == self.layers:
            return self.token_states(input_ids)
        if not self.decoder:
            states, mask = self.all_states(input_ids)
            return states[layer], mask
        import torch

        with self._lock:
            if layer not in self._stopping:
                self._stopping[layer] = self.tree_to(layer)
        inputs, mask = self._batch(input_ids)
        with self.timed(), torch.no_grad():
            reached = run_to_stop(self._stopping[layer], {**inputs, "use_cache": False})
        return reached.float().masked_fill(~mask[:, :, None], 0.0), mask

    def tree_to(self, layer: int) -> torch.nn.Module:
        """A new tree without head that ends with the states of `layer`, for `layers.run_to_stop`.

        With `layer` equal to `layers` it is a whole one, to be run as usual.
        """
        tree = module_tree(self._loaded, causal=False, attention=self.attention)
        if layer < self.layers:
            stop_before(tree, layer)
        return tree

    def width(self, layer: int) -> int:
        """Length of the states of `layer`; in a few models (small OPT) the last layer's are projected to another."""
        projected = getattr(self.config.get_text_config(), "word_embed_proj_dim", None)
        return int(projected) if layer == self.layers and projected else self.hidden_size

    def unembedding(self) -> np.ndarray:
        """The matrix that turns final states into logits: float32, shape (vocabulary, width of the last layer).

        Raises
        ------
        UsageError
            The model has none: it is not a causal language model.
        """
        head = self._loaded.module.get_output_embeddings() if self.decoder else None
        if head is None:
            raise UsageError(
                f"The model in {self.folder} has no unembedding matrix; choose a causal language model, or a "
                "post-processing without embedfilter."
            )
        return head.weight.detach().float().cpu().numpy()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time within as `forward_seconds`: for callers that run a tree of `module` themselves."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._synchronise()
            with self._lock:
                self._seconds += time.perf_counter() - started

    def _batch(self, input_ids: Sequence[Sequence[int]]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        import torch

        lengths = [len(ids) for ids in input_ids]
        if not lengths or min(lengths) < 1:
            raise ValueError("every input needs at least one token")
        if max(lengths) > self.window:
            raise ValueError(f"an input of {max(lengths)} tokens is longer than the model's window of {self.window}")
        ids = torch.full((len(lengths), max(lengths)), self.pad_id, dtype=torch.long)
        for row, row_ids in enumerate(input_ids):
            ids[row, : len(row_ids)] = torch.as_tensor(row_ids, dtype=torch.long)
        ids = ids.to(self.device)
        columns = torch.arange(ids.shape[1], device=self.device)
        mask = columns[None, :] < torch.tensor(lengths, device=self.device)[:, None]
        inputs = {"input_ids": ids, "attention_mask": mask.long()}
        if self._loaded.causal:
            # Padding stands at the right, so the others' default positions are these too.
            inputs["position_ids"] = columns[None, :].expand_as(ids)
        return inputs, mask

    def _run(self, tree: Any, inputs: dict[str, Any]) -> Any:
        import torch

        if "use_cache" in inspect.signature(tree.forward).parameters:
            inputs = {**inputs, "use_cache": False}
        with self.timed(), torch.no_grad():
            return tree(**accepted(tree, inputs))

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)


def _window(config: Any, tokenizer: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None) or _UNSET_LENGTH
    if config.model_type in _OFFSET_POSITIONS and positions < _UNSET_LENGTH:
        positions -= int(config.pad_token_id or 0) + 1
    longest = tokenizer.model_max_length or _UNSET_LENGTH
    if positions >= _UNSET_LENGTH:
        return int(longest) if longest < _UNSET_LENGTH else 2048
    return int(positions)


def _first_number(*candidates: Any) -> int:
    for candidate in candidates:
        if isinstance(candidate, int) and candidate >= 0:
            return candidate
    return 0
