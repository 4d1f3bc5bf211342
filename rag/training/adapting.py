"""Adapts a head to a collection without labels: pairs of its own passages, a held-out part, and no worse than before.

The new head is compared with the collection's encoder as it is, on documents that neither the training nor the choice
of its end has seen, and saved only where it is better. The collection itself is not changed: that takes a rebuild.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import UsageError
from ...encoders.spec import EncoderSpec
from ...encoders.training.run_folder import RunFolder
from ...encoders.training.settings import TrainingSettings
from ..encoder_shelf import rebuild_command
from ..evaluation.running import Run
from ..events import CancelToken, ProgressListener
from .carrying_out import concluded, trained, vectors_of
from .comparing import Arena
from .documents import own_pairs
from .grounds import Ground, spec_over
from .hard_negatives import hard_negatives
from .outcomes import DataUsed, HeadOutcome
from .pairs import OwnPairs
from .parting import LEAST_JUDGED, in_three
from .plans import read_plan, write_plan
from .portions import Portions, Sides, first
from .present import present_vectors, stored_vectors
from .questions import why_none, write_questions
from .run_places import OwnRun

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ...encoders.base import Encoder
    from ...encoders.training.state_cache import StateCache
    from ...storage.records import CollectionRecord
    from ..index_run import Parts

MINUTES = 10.0
"""How long an adaptation takes, at most and about."""

DEFAULTS = TrainingSettings(epochs=3, patience=3, candidates=1000, held_out=0.2)
"""`held_out` is the share of the pairs that the encoders are compared on."""

LIMIT_BYTES = 4 << 30
LEAST_PAIRS, LEAST_DOCUMENTS = 40, 4
"""Below these nothing can be learned and told apart from chance."""

_MOST_JUDGED, _MOST_WATCHED = 400, 300
"""Pairs compared on, pairs that say when training ends."""

_QUESTIONS_UNTIL, _TRAINED_UNTIL = 0.3, 0.92
"""Shares of the time by when each step ends; see also `portions`."""

_MOST_QUESTIONS = 1000


def adapt_collection(
    parts: Parts,
    models: ModelStore,
    collection: CollectionRecord,
    head: str = "glot",
    *,
    settings: TrainingSettings = DEFAULTS,
    minutes: float = MINUTES,
    questions: bool = True,
    decoder: str | None = None,
    run: Path | None = None,
    limit_bytes: int = LIMIT_BYTES,
    progress: ProgressListener | None = None,
    cancel: CancelToken | None = None,
) -> HeadOutcome:
    """Train a head on a collection's own passages, and save it where it finds them better than the present encoder.

    Parameters
    ----------
    head : str
        A spec as for `grounds.Ground`; without a backbone on that of the collection's encoder. Without ``head=`` the
        training goes on from the collection's own head where that is of the same kind, else from the one that ships
        with slotrag, else from mean pooling.
    minutes : float
        About how long it may take: the fewer, the fewer pairs are used. At least one portion of each step is done.
    questions : bool
        Whether the decoder writes questions, where it is on this machine and writes the documents' language.
    decoder : str, optional
        By default the settings'.
    run : Path, optional
        The run's folder; by default one of the collection in the library's. A run that was broken off goes on, as long
        as the documents are the same. The frozen states lie in the library's in any case, so that they go with the
        documents.
    limit_bytes : int
        Most that the frozen states may take on the disk meanwhile; they are deleted at the end.

    Raises
    ------
    slotrag.UsageError
        An unknown encoder or parameter, or too few documents.
    slotrag.SlotragError
        A model is missing, the encoder is not the one that the collection was made with, there is no room, or another
        process adapts such a head to the collection.
    slotrag.rag.events.Cancelled
    """
    return _Adaptation(
        parts, models, collection, head, settings, minutes, questions, decoder or parts.settings.decoder, run,
        limit_bytes, Run(progress, cancel),
    ).outcome()  # fmt: skip


@dataclass
class _Adaptation:
    """One call of `adapt_collection`."""

    parts: Parts
    models: ModelStore
    collection: CollectionRecord
    head: str
    settings: TrainingSettings
    minutes: float
    questions: bool
    decoder: str
    run: Path | None
    limit_bytes: int
    work: Run
    notices: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def outcome(self) -> HeadOutcome:
        self._started = time.monotonic()
        self.work.report(0, 1, "models", "load", self.collection.encoder)
        encoder = self.parts.encoder(self.collection)
        own = own_pairs(
            self.parts.catalog,
            self.collection,
            seed=self.settings.seed,
            report=lambda done, total: self.work.report(done, total, "passages", "read"),
        )
        self._require_enough(own)
        ground = Ground.of(
            spec_over(self.head, self.collection.encoder, self.models), self.models, device=self.parts.settings.device
        )
        own_run = OwnRun(self.parts.catalog, self.collection, ground.config.method)
        with own_run.held():
            return self._adapted(ground, encoder, own, own_run)

    def _adapted(self, ground: Ground, encoder: Encoder, own: OwnPairs, own_run: OwnRun) -> HeadOutcome:
        place = self.run or own_run.folder.path
        facts = self._facts(ground, own)
        plan = read_plan(place, facts)
        pairs = self._with_questions(own, resumed=plan is not None)
        if plan is not None and plan["pairs"] != pairs.sha256:
            plan = None
        if plan is None and self.run is None:
            # Documents or settings are others than those of the run that was broken off.
            own_run.forget()
        sides = self._sides(pairs)
        cache = ground.cache(own_run.states, self.limit_bytes)
        portions = Portions(cache, self.work, self._until, self.limit_bytes, self.settings.seed, plan, self.notices)
        portions.make(sides)
        found = hard_negatives(
            self.parts.catalog,
            self.collection.id,
            sides.training,
            report=lambda done, total: self.work.report(done, total, "pairs", "negatives"),
        )
        negatives = portions.negatives(sides, found)
        write_plan(place, facts, pairs.sha256, sides)
        run = own_run.folder if self.run is None else RunFolder(self.run)
        outcome = self._compared(ground, encoder, cache, run, pairs, sides, negatives)
        shutil.rmtree(own_run.states, ignore_errors=True)
        return outcome

    def _compared(
        self,
        ground: Ground,
        encoder: Encoder,
        cache: StateCache,
        run: RunFolder,
        pairs: OwnPairs,
        sides: Sides,
        negatives: Sequence[str | None],
    ) -> HeadOutcome:
        name = "own documents"
        train = sides.training.examples(name, negatives)
        result, head = trained(
            ground, [(train, sides.watched.examples(name))], cache, run, self.settings, self.work,
            limit_seconds=max(self._until(_TRAINED_UNTIL) - time.monotonic(), 1.0),
        )  # fmt: skip
        self.work.report(0, 2, "encoders", "evaluate")
        arena = Arena(sides.judged.pairs, sides.pool)
        before = arena.ndcg(
            present_vectors(encoder, self.work), stored_vectors(self.parts, self.collection, sides.pool)
        )
        self.work.report(1, 2, "encoders", "evaluate")
        after = arena.ndcg(vectors_of(head, cache, ground.device, self.work))
        self.work.report(2, 2, "encoders", "evaluate")
        comparisons = arena.comparisons(before, after, lambda done, total: self.work.check())
        state_bytes = cache.bytes
        better = comparisons[0].gain.value > 0 and self._is_new(ground, result.best_step)
        self.seconds |= {
            "states": cache.seconds, "training": result.seconds, "all": time.monotonic() - self._started
        }  # fmt: skip
        used = DataUsed(
            name, "OwnPairs", pairs.sha256, train.licence, len(train), len(sides.watched), len(sides.judged)
        )
        outcome = concluded(
            ground, self.models, result, comparisons, [used],
            against=self.collection.encoder, place=run.path, settings=self.settings, state_bytes=state_bytes,
            seconds=self.seconds, better=better, pairs=sides.training.shares, notices=self.notices,
        )  # fmt: skip
        return _with_command(outcome, self.collection)

    def _is_new(self, ground: Ground, best_step: int) -> bool:
        """Whether there is another head than before: one that nothing was learned for gains by rounding only."""
        own = dict(EncoderSpec.parse(self.collection.encoder).parameters).get("head", "none")
        return best_step > 0 or ground.head not in ("none", own)

    def _require_enough(self, pairs: OwnPairs) -> None:
        documents = len(pairs.groups)
        if len(pairs) < LEAST_PAIRS or documents < LEAST_DOCUMENTS:
            raise UsageError(
                f"Collection {self.collection.name} gives {len(pairs)} pairs to train on, of {documents} documents; at "
                f"least {LEAST_PAIRS} of {LEAST_DOCUMENTS} are needed: index more documents, or train on a labelled "
                "file with --data."
            )

    def _until(self, share: float) -> float:
        return self._started + 60.0 * self.minutes * share

    def _facts(self, ground: Ground, own: OwnPairs) -> dict[str, Any]:
        """What a run that was broken off must agree in to go on."""
        return {
            "own": own.sha256,
            "head": ground.config.to_json(),
            "texts": ground.facts,
            "encoder": self.collection.fingerprint,
            "settings": asdict(self.settings),
        }

    def _with_questions(self, own: OwnPairs, *, resumed: bool) -> OwnPairs:
        reason = why_none(self.parts, self.collection, self.models, self.decoder) if self.questions else ""
        if not self.questions or reason:
            self.notices += [f"No questions were written: {reason}."] if reason else []
            return own
        began = time.monotonic()
        written = write_questions(
            self.parts, self.collection, own.passages, self.models, self.decoder,
            until=began if resumed else self._until(_QUESTIONS_UNTIL),
            most=_MOST_QUESTIONS,
            seed=self.settings.seed,
            report=lambda done, total, message: self.work.report(done, total, message, "questions"),
            check=self.work.check,
        )  # fmt: skip
        self.seconds["questions"] = time.monotonic() - began
        return own.with_pairs([*own.pairs, *written.pairs])

    def _sides(self, pairs: OwnPairs) -> Sides:
        seed = self.settings.seed
        parts = in_three(pairs, self.settings.held_out, seed)
        training, watched, judged = parts.training, parts.watched, parts.judged.judged().shuffled(seed)
        if len(judged) < LEAST_JUDGED or not len(watched) or not len(training):
            raise UsageError(
                f"The documents of collection {self.collection.name} cannot be parted so that enough pairs are held "
                f"out ({len(judged)}, at least {LEAST_JUDGED}); index more documents, or train on a labelled file "
                "with --data."
            )
        return Sides(
            training.shuffled(seed),
            first(watched.shuffled(seed), _MOST_WATCHED),
            first(judged, _MOST_JUDGED),
        )


def _with_command(outcome: HeadOutcome, collection: CollectionRecord) -> HeadOutcome:
    if outcome.spec is None:
        return outcome
    command = rebuild_command(collection, outcome.spec)
    if not collection.postprocessing:
        return replace(outcome, command=command)
    return replace(outcome, command=f"{command} --postprocessing none", postprocessing="none")
