"""Where the trainer gets the inputs of texts from, and turning texts into vectors with a module over them.

It knows neither how the inputs are stored nor what is learned from the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..batching import batches

if TYPE_CHECKING:
    import numpy as np
    import torch

# Vectors (of tokens or layers) and texts of a batch that is only looked at: 48 MB of float32 with states of 768.
_VECTORS, _TEXTS = 16_384, 64

Report = Callable[[int, int], None]


class StateSource(Protocol):
    """The frozen inputs of a head by text; `StateCache` is the one on the disk."""

    query_prefix: str
    passage_prefix: str

    @property
    def key(self) -> str:
        """Hash of all that the inputs depend on but the text."""
        ...

    def ensure(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        report: Report | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Make the inputs of `texts`, where they are not there yet."""
        ...

    def batch(self, texts: Sequence[str], *, prefix: str = "") -> tuple[torch.Tensor, torch.Tensor | None]:
        """What the head's forward takes, on the CPU."""
        ...

    def lengths(self, texts: Sequence[str], *, prefix: str = "") -> list[int]:
        """Vectors that each text's inputs are made of."""
        ...


class TextVectors:
    """Unit vectors of texts under a module.

    Parameters
    ----------
    module : torch.nn.Module
        Takes what `source` gives.
    source : StateSource
    device : torch.device
        Of `module`.
    """

    def __init__(self, module: torch.nn.Module, source: StateSource, device: torch.device) -> None:
        self.module, self.source, self.device = module, source, device

    def __call__(self, texts: Sequence[str], prefix: str) -> torch.Tensor:
        """float32, shape (len(texts), dimension), on the device, with gradients where they are on."""
        from . import losses

        states, mask = self.source.batch(texts, prefix=prefix)
        return losses.unit(self.module(states.to(self.device), None if mask is None else mask.to(self.device)))

    def looked_at(self, texts: Sequence[str], prefix: str, check: Callable[[], None] = lambda: None) -> np.ndarray:
        """The same as an array, in evaluation mode, without gradients and with bounded memory."""
        import numpy as np
        import torch

        different = list(dict.fromkeys(texts))
        training = self.module.training
        self.module.eval()
        rows: np.ndarray | None = None
        try:
            with torch.no_grad():
                for places in batches(self.source.lengths(different, prefix=prefix), _VECTORS, _TEXTS):
                    check()
                    vectors = self([different[place] for place in places], prefix).cpu().numpy()
                    if rows is None:
                        rows = np.empty((len(different), vectors.shape[1]), dtype=np.float32)
                    rows[places] = vectors
        finally:
            self.module.train(training)
        if rows is None:
            raise ValueError("there are no texts to look at")
        where = {text: place for place, text in enumerate(different)}
        return rows if len(different) == len(texts) else rows[[where[text] for text in texts]]
