"""Adapts a head to a collection without labels: pairs of its own passages, a held-out part, and no worse than before.

The new head is compared with the collection's encoder as it is, on documents that neither the training nor the choice
of its end has seen, and saved only where it is better. The collection itself is not changed: that takes a rebuild.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import UsageError
from ...encoders.backbones import catalogue
from ...encoders.spec import EncoderSpec
from ...encoders.training.settings import TrainingSettings
from ..encoder_shelf import rebuild_command
from ..evaluation.running import Run
from ..events import CancelToken, ProgressListener
from ..language_share import main_language
from .comparing import Arena, Vectors
from .documents import own_pairs
from .grounds import NAMES, Ground
from .hard_negatives import hard_negatives
from .heads import RUNS, concluded, trained, vectors_of
from .outcomes import DataUsed, HeadOutcome
from .pairs import OwnPairs
from .questions import write_questions

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

_LEAST_JUDGED = 10
_MOST_JUDGED, _MOST_OTHERS, _MOST_WATCHED = 400, 1000, 300
"""Pairs compared on, further passages among which they are looked for, pairs that say when training ends."""

_WATCHED = 0.1
_QUESTIONS_UNTIL, _POOL_UNTIL, _STATES_UNTIL, _NEGATIVES_UNTIL, _TRAINED_UNTIL = 0.3, 0.45, 0.65, 0.75, 0.92
"""Shares of the time by when each step ends."""

_CHUNK = 128
_MOST_QUESTIONS = 1000
_PLAN, _STATES = "plan.json", "states"


@dataclass
class _Sides:
    """The pairs by what they are for, and the passages that queries are asked among."""

    training: OwnPairs
    watched: OwnPairs
    judged: OwnPairs
    pool: dict[int, str] = field(default_factory=dict)
    negatives: int = 0


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
        as the documents are the same.
    limit_bytes : int
        Most that the frozen states may take on the disk meanwhile; they are deleted at the end.

    Raises
    ------
    slotrag.UsageError
        An unknown encoder or parameter, or too few documents.
    slotrag.SlotragError
        A model is missing, the encoder is not the one that the collection was made with, or there is no room.
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
        ground = Ground.of(self._spec(), self.models, device=self.parts.settings.device)
        place = self._place(ground)
        plan = self._plan(place, ground, own)
        pairs = self._with_questions(own, resumed=plan is not None)
        if plan is not None and plan["pairs"] != pairs.sha256:
            plan = None
        if plan is None and self.run is None:
            # Documents or settings are others than those of the run that was broken off.
            _forget(place)
        sides = self._sides(pairs)
        cache = ground.cache(place / _STATES, self.limit_bytes)
        self._make_states(cache, sides, plan)
        negatives = self._negatives(cache, sides, plan)
        self._put_down(place, ground, own, pairs, sides)
        return self._compared(ground, encoder, cache, place, pairs, sides, negatives)

    def _negatives(self, cache: StateCache, sides: _Sides, plan: dict[str, Any] | None) -> list[str | None]:
        """A hard negative for each pair to train on, as far as there is time for its states."""
        found = hard_negatives(
            self.parts.catalog,
            self.collection.id,
            sides.training,
            report=lambda done, total: self.work.report(done, total, "pairs", "negatives"),
        )
        different = list(dict.fromkeys(text for text in found if text is not None))
        if plan is not None:
            different = different[: plan["negatives"]]
            self._ensure(cache, different, cache.passage_prefix, "passages")
            made = different
        else:
            made = list(self._ensured(cache, different, _NEGATIVES_UNTIL))
        sides.negatives = len(made)
        there = set(made)
        return [text if text in there else None for text in found]

    def _compared(
        self,
        ground: Ground,
        encoder: Encoder,
        cache: StateCache,
        place: Path,
        pairs: OwnPairs,
        sides: _Sides,
        negatives: Sequence[str | None],
    ) -> HeadOutcome:
        name = "own documents"
        train = sides.training.examples(name, negatives)
        result, head = trained(
            ground, [(train, sides.watched.examples(name))], cache, place, self.settings, self.work,
            limit_seconds=max(self._until(_TRAINED_UNTIL) - time.monotonic(), 1.0),
        )  # fmt: skip
        self.work.report(0, 2, "encoders", "evaluate")
        arena = Arena(sides.judged.pairs, sides.pool)
        before = arena.ndcg(Vectors(encoder.encode_queries, self._in_portions(encoder)), self._stored(sides.pool))
        self.work.report(1, 2, "encoders", "evaluate")
        after = arena.ndcg(vectors_of(head, cache, ground.device, self.work))
        self.work.report(2, 2, "encoders", "evaluate")
        comparisons = arena.comparisons(before, after, lambda done, total: self.work.check())
        state_bytes = cache.bytes
        shutil.rmtree(place / _STATES, ignore_errors=True)
        better = comparisons[0].gain.value > 0
        self.seconds |= {
            "states": cache.seconds, "training": result.seconds, "all": time.monotonic() - self._started
        }  # fmt: skip
        used = DataUsed(name, "OwnPairs", pairs.sha256, train.licence, len(train), len(sides.judged))
        outcome = concluded(
            ground, self.models, result, comparisons, [used],
            against=self.collection.encoder, place=place, settings=self.settings, state_bytes=state_bytes,
            seconds=self.seconds, better=better, pairs=sides.training.shares, notices=self.notices,
        )  # fmt: skip
        return _with_command(outcome, self.collection)

    def _require_enough(self, pairs: OwnPairs) -> None:
        documents = len(pairs.groups)
        if len(pairs) < LEAST_PAIRS or documents < LEAST_DOCUMENTS:
            raise UsageError(
                f"Collection {self.collection.name} gives {len(pairs)} pairs to train on, of {documents} documents; at "
                f"least {LEAST_PAIRS} of {LEAST_DOCUMENTS} are needed: index more documents, or train on a labelled "
                "file with --data."
            )

    def _spec(self) -> str:
        """The head's spec with its backbone, and with the head to go on from."""
        asked, own = EncoderSpec.parse(self.head), EncoderSpec.parse(self.collection.encoder)
        if asked.name not in NAMES:
            return self.head
        while own.backbone is None and "encoder" in (inner := dict(own.parameters)):
            own = EncoderSpec.parse(inner["encoder"])
        spec = EncoderSpec(asked.name, asked.backbone or own.backbone, asked.parameters)
        if asked.parameters and set(dict(asked.parameters)) != {"graph"}:
            return str(spec)
        before = self._head_before(spec, own)
        # The head brings its own parameters along.
        return str(spec) if before is None else str(EncoderSpec(spec.name, spec.backbone, (("head", before),)))

    def _head_before(self, spec: EncoderSpec, own: EncoderSpec) -> str | None:
        from ...encoders.heads.checkpoint import find_head, shipped_head

        graph = dict(spec.parameters).get("graph")
        hash = dict(own.parameters).get("head", "none")
        same = (own.name, own.backbone) == (spec.name, spec.backbone) and hash != "none"
        if same and (graph is None or find_head(hash, self.models).config.parameters.get("graph") == graph):
            return hash
        if spec.backbone is None or spec.name not in ("glot", "ilse"):
            return None
        return shipped_head(spec.name, self.models.weights_sha256(spec.backbone), graph)

    def _place(self, ground: Ground) -> Path:
        name = f"collection-{self.collection.id}-{ground.config.method}"
        return self.run or self.parts.catalog.folder / RUNS / name

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

    def _plan(self, place: Path, ground: Ground, own: OwnPairs) -> dict[str, Any] | None:
        """What an interrupted run had chosen; None where there is none of this kind."""
        path = place / _PLAN
        if not path.is_file() or (place / "result.json").is_file():
            return None
        plan = json.loads(path.read_bytes())
        return plan if plan["facts"] == json.loads(json.dumps(self._facts(ground, own))) else None

    def _put_down(self, place: Path, ground: Ground, own: OwnPairs, pairs: OwnPairs, sides: _Sides) -> None:
        from ...encoders.whole_files import write_whole

        plan = {
            "facts": self._facts(ground, own),
            "pairs": pairs.sha256,
            "training": len(sides.training),
            "pool": len(sides.pool),
            "negatives": sides.negatives,
        }
        write_whole(place / _PLAN, json.dumps(plan, indent=1).encode() + b"\n")

    def _with_questions(self, own: OwnPairs, *, resumed: bool) -> OwnPairs:
        reason = self._why_no_questions() if self.questions else ""
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

    def _why_no_questions(self) -> str:
        if not self.models.present(self.decoder):
            return f"the decoder {self.decoder} is not on this machine (`slotrag models pull {self.decoder}`)"
        entry, language = catalogue.find(self.decoder), main_language(self.parts.catalog, self.collection)
        if entry is not None and language and not entry.knows(language):
            return f"the decoder {self.decoder} does not write the documents' language ({language})"
        return ""

    def _sides(self, pairs: OwnPairs) -> _Sides:
        seed = self.settings.seed
        rest, held = pairs.split(self.settings.held_out, seed)
        training, watched = rest.split(_WATCHED, seed + 1)
        judged = held.judged().shuffled(seed)
        if len(judged) < _LEAST_JUDGED or not len(watched) or not len(training):
            raise UsageError(
                f"The documents of collection {self.collection.name} cannot be parted so that enough pairs are held "
                f"out ({len(judged)}, at least {_LEAST_JUDGED}); index more documents, or train on a labelled file "
                "with --data."
            )
        return _Sides(
            training.shuffled(seed),
            _first(watched.shuffled(seed), _MOST_WATCHED),
            _first(judged, _MOST_JUDGED),
        )

    def _make_states(self, cache: StateCache, sides: _Sides, plan: dict[str, Any] | None) -> None:
        """Run the backbone over what is needed and over as much more as there is time for."""
        judged, watched = sides.judged.pairs, sides.watched.pairs
        needed = [pair.query for pair in (*judged, *watched)]
        self._ensure(cache, needed, cache.query_prefix, "queries")
        own = {pair.passage_id: sides.judged.passages[pair.passage_id].input for pair in judged}
        positives = [pair.positive for pair in (*judged, *watched)]
        self._ensure(cache, [*own.values(), *positives], cache.passage_prefix, "passages")
        sides.pool = own | self._others(cache, sides, plan)
        training = sides.training
        if plan is not None:
            training = _first(training, plan["training"])
            self._ensure(cache, [pair.query for pair in training.pairs], cache.query_prefix, "queries")
            self._ensure(cache, [pair.positive for pair in training.pairs], cache.passage_prefix, "passages")
        else:
            training = self._as_many(cache, training)
        sides.training = training

    def _others(self, cache: StateCache, sides: _Sides, plan: dict[str, Any] | None) -> dict[int, str]:
        """Further passages to look among, of any document, as many as there is time for."""
        passages = sides.judged.passages
        own = {pair.passage_id for pair in sides.judged.pairs}
        seen = {passages[number].text_hash for number in own}
        order = sorted((number for number in passages if number not in own), key=lambda n: passages[n].text_hash)
        random.Random(self.settings.seed).shuffle(order)
        others: dict[int, str] = {}
        most = _MOST_OTHERS if plan is None else plan["pool"] - len(own)
        for number in order:
            if len(others) < most and passages[number].text_hash not in seen:
                seen.add(passages[number].text_hash)
                others[number] = passages[number].input
        if plan is not None:
            self._ensure(cache, list(others.values()), cache.passage_prefix, "passages")
            return others
        made = set(self._ensured(cache, list(others.values()), _POOL_UNTIL))
        return {number: text for number, text in others.items() if text in made}

    def _as_many(self, cache: StateCache, training: OwnPairs) -> OwnPairs:
        """The first of the pairs, as many as there are time and room for."""
        done = 0
        for at in range(0, len(training), _CHUNK):
            if at and (time.monotonic() > self._until(_STATES_UNTIL) or 0.9 * self.limit_bytes < cache.bytes):
                self.notices.append(
                    f"{done:,} of {len(training):,} pairs were used: there was no more time or room for the others "
                    "(--minutes)."
                )
                break
            chunk = training.pairs[at : at + _CHUNK]
            cache.ensure([pair.query for pair in chunk], prefix=cache.query_prefix, check=self.work.check)
            cache.ensure([pair.positive for pair in chunk], prefix=cache.passage_prefix, check=self.work.check)
            done = at + len(chunk)
            self.work.report(done, len(training), "pairs", "states")
        return _first(training, done)

    def _ensured(self, cache: StateCache, texts: Sequence[str], share: float) -> Iterator[str]:
        """Texts whose states are there, made in portions until `share` of the time is over."""
        different = list(dict.fromkeys(texts))
        for at in range(0, len(different), _CHUNK):
            if at and (time.monotonic() > self._until(share) or 0.95 * self.limit_bytes < cache.bytes):
                return
            chunk = different[at : at + _CHUNK]
            cache.ensure(chunk, prefix=cache.passage_prefix, check=self.work.check)
            self.work.report(at + len(chunk), len(different), "passages", "states")
            yield from chunk

    def _ensure(self, cache: StateCache, texts: list[str], prefix: str, unit: str) -> None:
        cache.ensure(
            texts,
            prefix=prefix,
            report=lambda done, total: self.work.report(done, total, unit, "states"),
            check=self.work.check,
        )

    def _in_portions(self, encoder: Encoder) -> Any:
        """The present encoder's passages, so that encoding them can be cancelled."""

        def encode(texts: Sequence[str]) -> np.ndarray:
            rows = []
            for at in range(0, len(texts), _CHUNK):
                self.work.report(at, len(texts), "passages", "evaluate")
                rows.append(encoder.encode_documents(list(texts[at : at + _CHUNK])))
            return np.concatenate(rows)

        return encode

    def _stored(self, pool: dict[int, str]) -> np.ndarray:
        """The pool's vectors as the collection compares them, in the pool's order."""
        places = {number: place for place, number in enumerate(pool)}
        keeper = self.parts.keeper
        found = np.zeros((len(pool), keeper.dimension(self.collection)), dtype=np.float32)
        for ids, vectors in keeper.vectors(self.collection, np.array(sorted(pool), dtype=np.int64)):
            found[[places[number] for number in ids.tolist()]] = vectors
        return found


def _first(pairs: OwnPairs, most: int) -> OwnPairs:
    return pairs.with_pairs(pairs.pairs[:most])


def _forget(place: Path) -> None:
    """Delete a run that cannot go on, but for states, which are still those of their texts."""
    if place.is_dir():
        for path in place.iterdir():
            if path.name != _STATES and path.is_file():
                path.unlink()


def _with_command(outcome: HeadOutcome, collection: CollectionRecord) -> HeadOutcome:
    if outcome.spec is None:
        return outcome
    command = rebuild_command(collection, outcome.spec)
    if not collection.postprocessing:
        return replace(outcome, command=command)
    return replace(outcome, command=f"{command} --postprocessing none", postprocessing="none")
