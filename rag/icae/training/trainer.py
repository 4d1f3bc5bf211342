"""Trains a compressor from files to a checkpoint: prepares the data, runs the loop in its folder, tells what came out.

It knows no terminal. A `RunFolder` keeps where a run is; the same request goes on with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .... import UsageError
from ....encoders.training.run_folder import RunFolder
from ...evaluation.running import Run
from ..configuration import CompressorConfig
from . import curriculum
from .data import made_before, made_of, prepare
from .drawing import INSTRUCT, Drawer, Plan
from .requests import Outcome, Request
from .token_store import TokenStore

if TYPE_CHECKING:
    import numpy as np

    from ....encoders.backbones.frozen import FrozenLM
    from ....encoders.backbones.store import ModelStore
    from .loop import Loop

_SCHEMA = 1
_SAVE_SECONDS = 30.0
"""A kill loses what came since the last time, and the step that it came into."""


def train_compressor(request: Request, models: ModelStore, work: Run) -> Outcome:
    """Train until the last step or until the time is over, and save the best weights as a checkpoint.

    Raises
    ------
    slotrag.UsageError
        The request asks for what cannot be, or its run's folder holds another run.
    slotrag.SlotragError
        The base or the start is missing, there is no room, or the loss is not finite any more.
    slotrag.rag.events.Cancelled
        `work` was cancelled; the same request goes on.
    """
    return _Training(request, models, work).carried_out()


class _Training:
    """One call of `train_compressor`."""

    def __init__(self, request: Request, models: ModelStore, work: Run) -> None:
        settings = request.settings
        if request.minutes is not None and not request.minutes > 0:
            raise UsageError(f"--minutes is above 0, not {request.minutes}.")
        self._request, self._models, self._work = request, models, work
        self._started = time.monotonic()
        self._plan = Plan(
            settings.mix, curriculum.rates(settings.rates), curriculum.lengths(settings.lengths),
            settings.batch_tokens, settings.passages, settings.seed,
        )  # fmt: skip
        self._notices: list[str] = []

    def carried_out(self) -> Outcome:
        from ....encoders.backbones.frozen import FrozenLM

        request = self._request
        folder = self._models.resolve(request.base)
        digests = {
            "weights": self._models.weights_sha256(request.base),
            "tokenizer": self._models.tokenizer_sha256(request.base),
        }
        self._work.report(0, 1, "models", "load", request.base)
        language_model = FrozenLM.load(folder, causal=True, device=request.device, dtype=request.dtype)
        config, weights, origin = self._config(language_model, digests)
        of = self._made_of(digests)
        run = RunFolder(request.run)
        with run.held():
            run.begin(self._configuration(config, of, origin))
            store = self._store(language_model, of)
            self._write_replies(store, language_model)
            loop = self._loop(language_model, config, weights, store)
            seconds = self._trained(loop, run)
            outcome = self._outcome(loop, config, of, digests, origin, seconds)
            run.finish(outcome.to_json())
            return outcome

    def _made_of(self, digests: Mapping[str, str]) -> dict[str, Any]:
        request = self._request
        if request.data:
            return made_of(request.data, request.exclude, digests, request.preparation)
        return made_before(request.store, digests)

    def _config(
        self, language_model: FrozenLM, digests: Mapping[str, str]
    ) -> tuple[CompressorConfig, dict[str, np.ndarray] | None, dict[str, Any] | None]:
        """The configuration, the first weights, and where these are from."""
        request, rates = self._request, self._plan.rates
        options = {"rate": max(rates.last), **request.compressor}
        if request.start is None:
            longest = int(options.get("segment_tokens", 512))
            if options.get("compressor") == "memory-tokens" and options.get("slots_per_segment") is None:
                lowest = min(rate for stage in rates.stages for rate in stage.values)
                options.setdefault("memory_rows", -(-longest // int(lowest)))
            return CompressorConfig.for_model(language_model, **options), None, None
        from ..checkpoint import find_compressor

        found = find_compressor(request.start, self._models)
        found.require_for(**_as_base(digests))
        other = {name: value for name, value in options.items() if name not in ("rate", "positions")}
        if other:
            raise UsageError(
                f"The compressor {request.start} is what it is: leave out {', '.join(sorted(other))}, or train another "
                "from the beginning."
            )
        return found.config.with_(**options), dict(found.weights), {"hash": request.start, **found.training}

    def _configuration(
        self, config: CompressorConfig, of: Mapping[str, Any], origin: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """All that decides what comes out."""
        return {
            "schema": _SCHEMA,
            "compressor": config.to_json(),
            "settings": asdict(self._request.settings),
            "made_of": of,
            "replies": self._request.replies,
            "dtype": self._request.dtype,
            "start": None if origin is None else origin["hash"],
        }

    def _store(self, language_model: FrozenLM, of: Mapping[str, Any]) -> TokenStore:
        request = self._request
        prepared = prepare(
            request.data,
            language_model.tokenizer,
            request.store,
            made_of=of,
            preparation=request.preparation,
            exclude=request.exclude,
            report=lambda texts, source: self._work.report(texts, None, "texts", "prepare", source),
        )
        self._notices += prepared.notices
        return prepared.store

    def _write_replies(self, store: TokenStore, language_model: FrozenLM) -> None:
        if not self._request.replies or not self._plan.mix.get(INSTRUCT):
            return
        from ...decoder import Decoder
        from .replies import write_replies

        write_replies(
            store,
            Decoder(language_model, self._request.base),
            self._request.replies,
            report=lambda done, total: self._work.report(done, total, "replies", "replies"),
            check=self._work.check,
        )

    def _loop(
        self,
        language_model: FrozenLM,
        config: CompressorConfig,
        weights: Mapping[str, np.ndarray] | None,
        store: TokenStore,
    ) -> Loop:
        from .checking import Checker
        from .loop import Loop
        from .objectives import make_reader

        settings = self._request.settings
        reader, decoder = make_reader(language_model, config, weights, seed=settings.seed)
        drawer = Drawer(store, self._plan)
        checker = Checker(
            reader,
            drawer,
            rates=self._plan.rates.last,
            lengths=sorted({longest for _, longest in self._plan.lengths.last}),
            rows=settings.check_rows,
            written_rows=settings.write_rows if settings.write_every else 0,
            stop_ids=decoder.stop_ids,
            tokenizer=language_model.tokenizer,
        )
        return Loop(reader, drawer, checker, settings)

    def _trained(self, loop: Loop, run: RunFolder) -> float:
        """Run the loop; the seconds spent so far."""
        stored = run.state()
        clock: dict[str, Any] = {}
        if stored is not None:
            tensors, numbers, clock = stored
            loop.restore(tensors, numbers)
        begun, before = time.monotonic(), float(clock.get("seconds", 0.0))
        saved = time.monotonic()

        def save() -> None:
            nonlocal saved
            tensors, numbers = loop.state()
            run.save_state(tensors, numbers, {"seconds": round(before + time.monotonic() - begun, 1)})
            run.save_metrics(loop.position.curve)
            saved = time.monotonic()

        def put_down() -> None:
            if time.monotonic() - saved >= _SAVE_SECONDS:
                save()

        def checked() -> None:
            save()
            self._tell(loop)

        try:
            loop.run(
                check=self._work.check,
                stepped=lambda losses: self._tell(loop, losses),
                checked=checked,
                put_down=put_down,
                out_of_time=self._out_of_time,
            )
        except BaseException:
            if loop.whole:
                save()
            raise
        save()
        return before + time.monotonic() - begun

    def _out_of_time(self) -> bool:
        minutes = self._request.minutes
        return minutes is not None and time.monotonic() - self._started >= 60 * minutes

    def _tell(self, loop: Loop, losses: Mapping[str, float] | None = None) -> None:
        position = loop.position
        line = ""
        if losses is None:
            line = f"step {position.step:,}, {position.tokens:,} tokens: {_shown(position.checks[-1])}"
        self._work.report(position.step, self._request.settings.steps, "steps", "train", line)

    def _outcome(
        self,
        loop: Loop,
        config: CompressorConfig,
        of: Mapping[str, Any],
        digests: Mapping[str, str],
        origin: Mapping[str, Any] | None,
        seconds: float,
    ) -> Outcome:
        from ..checkpoint import RECOVERY, CompressorCheckpoint, save_compressor

        position, settings = loop.position, self._request.settings
        assert position.stopped is not None
        best, weights = loop.outcome(self._work.check)
        before = [] if origin is None else [*origin.get("before", []), _without_history(origin)]
        checkpoint = CompressorCheckpoint(
            config=config,
            weights=weights,
            **_as_base(digests),
            training={
                "data": of["data"],
                "settings": asdict(settings),
                "replies": self._request.replies,
                "dtype": self._request.dtype,
                "steps": best["step"],
                "tokens": best["tokens"],
                "before": before,
            },
            measured={RECOVERY: _recovery(best), "held out": best},
        )
        file = save_compressor(checkpoint, self._models)
        return Outcome(
            hash=checkpoint.hash,
            file=file,
            config=config,
            best=best,
            first=position.checks[0],
            steps=position.step,
            tokens=position.tokens,
            seconds=round(seconds, 1),
            stopped=position.stopped,
            run=self._request.run,
            notices=list(dict.fromkeys(self._notices)),
        )


def _as_base(digests: Mapping[str, str]) -> dict[str, str]:
    return {"base_weights": digests["weights"], "tokenizer": digests["tokenizer"]}


def _without_history(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in origin.items() if name != "before"}


def _recovery(check: Mapping[str, Any]) -> float:
    """The mean recovery of a check; 0 where none could be told."""
    found = [measures["recovery"] for measures in check["measures"].values() if "recovery" in measures]
    return sum(found) / len(found) if found else 0.0


def _shown(check: Mapping[str, Any]) -> str:
    """A check's losses and recoveries on one line."""
    parts = []
    for name, measures in check["measures"].items():
        if "loss" in measures:
            short = name.removeprefix("loss ").replace(" slots", "")
            recovered = f" ({measures['recovery']:.2f})" if "recovery" in measures else ""
            parts.append(f"{short} {measures['loss']:.3f}{recovered}")
        elif "bleu" in measures:
            parts.append(f"BLEU {measures['bleu']:.2f}")
        elif "f1" in measures:
            parts.append(f"F1 {measures['f1']:.2f}")
    return ", ".join(parts)
