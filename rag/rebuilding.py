"""Makes a collection anew beside the old one and puts it in its place. It knows no reader and no index form.

The old collection answers until the new one is whole; the change is one transaction. A rebuild that was interrupted
goes on where it was, as long as encoder and splitting are the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from .. import UsageError
from ..encoders.postprocessing_steps import Steps, parse_steps
from ..storage.records import CollectionRecord
from .encoder_shelf import splitting_for
from .events import CancelToken, ProgressListener
from .folders import SourceMissing
from .index_run import IndexRun, Parts, create_collection, shadow_name, shadow_of
from .postprocessing import suggested
from .refitting import Refit, check_steps
from .results import IndexReport
from .sources import Target
from .training.run_places import erase_stale


@dataclass(slots=True)
class Rebuild:
    """A rebuild of one collection. The caller holds the writer's lock while `run` runs."""

    parts: Parts
    listener: ProgressListener | None = None
    cancel: CancelToken | None = None

    def run(self, collection: CollectionRecord, encoder: str | None = None, steps: Steps | None = None) -> IndexReport:
        """Encode a collection's sources again, into passages and vectors of the encoder named.

        Texts that have a vector under that encoder are not encoded again. The post-processing is fitted to the vectors
        that come out: `steps`, else what the encoder wants where it is another one than before, else what there was.

        Raises
        ------
        SourceMissing
            A followed folder is not there, so that its documents could not be made anew.
        slotrag.UsageError
            `steps` that the encoder, or the vectors that came out, do not allow.
        """
        started = time.perf_counter()
        catalog, keeper = self.parts.catalog, self.parts.keeper
        if steps is not None:
            check_steps(steps, self.parts.shelf.get(encoder or collection.encoder))
        shadow = self._shadow(collection, encoder or collection.encoder)
        wanted = self._targets(collection, shadow)
        run = IndexRun(self.parts, shadow.name, listener=self.listener, cancel=self.cancel)
        scan = run.scan(shadow, wanted)
        if scan.missing:
            raise SourceMissing(
                f"The folder {scan.missing[0].path} is not there, so the collection cannot be made anew; connect its "
                f"disk, or run `slotrag remove {scan.missing[0].path}` first."
            )
        report = IndexReport(collection.name)
        shadow = run.apply(shadow, wanted, scan, report)
        report.notices += self._refit(collection, shadow, steps)
        catalog.replace_collection(collection.id, shadow.id)
        keeper.forget(collection.id, delete=True)
        catalog.prune_vectors()
        erase_stale(catalog)
        report.notices = [notice.replace(shadow.name, collection.name) for notice in report.notices]
        report.seconds = time.perf_counter() - started
        return report

    def postprocess(self, collection: CollectionRecord, steps: Steps) -> IndexReport:
        """Change the post-processing alone; no document is read or encoded again. Errors as in `Refit.run`."""
        started = time.perf_counter()
        refit = Refit(self.parts, self.listener, self.cancel)
        record, notices = refit.run(collection, steps)
        passages = len(self.parts.catalog.passage_ids(collection.id))
        report = IndexReport(collection.name, passages=passages, notices=notices)
        report.postprocessing = str(refit.steps_of(record))
        report.seconds = time.perf_counter() - started
        return report

    def _refit(self, collection: CollectionRecord, shadow: CollectionRecord, asked: Steps | None) -> list[str]:
        """Fit the post-processing to what was made; what is to be said about it."""
        refit = Refit(self.parts, self.listener, self.cancel)
        if asked is not None:
            return refit.run(shadow, asked)[1]
        own = suggested(self.parts.shelf.of(shadow)) if shadow.fingerprint != collection.fingerprint else None
        steps = refit.steps_of(collection) if own is None else parse_steps(own.steps)
        try:
            return refit.run(shadow, steps)[1]
        except UsageError as error:  # of the old one's steps, which nobody asked for with the new encoder
            return [f"The post-processing {steps} was left out: {error}", *refit.run(shadow, Steps())[1]]

    def _shadow(self, collection: CollectionRecord, spec: str) -> CollectionRecord:
        """The collection to build in: an interrupted rebuild's where it fits."""
        catalog, keeper = self.parts.catalog, self.parts.keeper
        encoder = self.parts.shelf.get(spec)
        splitting = splitting_for(encoder, self.parts.settings.passage_tokens)
        shadow = shadow_of(catalog, collection)
        if shadow is not None:
            begun = {key: shadow.splitting.get(key) for key in splitting}
            if (shadow.fingerprint, begun) == (encoder.fingerprint, splitting):
                return shadow
            catalog.remove_collection(shadow.id)
            keeper.forget(shadow.id, delete=True)
        return create_collection(self.parts, shadow_name(collection), encoder)

    def _targets(self, collection: CollectionRecord, shadow: CollectionRecord) -> list[Target]:
        """The collection's sources as targets in its shadow."""
        catalog = self.parts.catalog
        targets = []
        for source in catalog.sources(collection.id):
            record = catalog.put_source(
                shadow.id, source.path, include=source.include, exclude=source.exclude, hidden=source.hidden
            )
            targets.append(Target(source.path, source.include, source.exclude, source.hidden, record))
        wanted = {target.path for target in targets}
        for source in catalog.sources(shadow.id):
            if source.path not in wanted:
                catalog.remove_source(source.id)
        return targets
