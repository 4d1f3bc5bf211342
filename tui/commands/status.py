"""``slotrag status``: what the library holds, what failed and what is pending."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ..invocation import Invocation
from ..output import bold, clean, say, say_json, say_pairs, size
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...rag.maintenance import CollectionStatus, LibraryStatus

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_KINDS = {
    "indexed": "indexed",
    "partial_text": "with text on some pages only",
    "no_text": "without text",
    "failed": "failed",
    "skipped": "skipped",
}


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what the library holds, what failed and what is pending."""
    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        found = library.status()
    if as_json:
        say_json({"schema": 1, **asdict(found)})
        return
    _show(found)
    if not found.collections:
        invocation.notice("nothing is indexed yet: slotrag index FOLDER")


def documents(status: CollectionStatus) -> str:
    """The documents of a collection by what became of them."""
    known = [f"{status.documents[kind]:,} {name}" for kind, name in _KINDS.items() if status.documents.get(kind)]
    others = [f"{count:,} {kind}" for kind, count in status.documents.items() if kind not in _KINDS and count]
    return ", ".join(known + others) or "none"


def postprocessing(status: CollectionStatus) -> str:
    """What the collection's vectors go through, and where its statistics come from."""
    if status.postprocessing == "lost":
        return "its statistics are lost: slotrag doctor --fix"
    if status.postprocessing_origin is None or not status.postprocessing_fitted_on:
        return status.postprocessing
    if status.postprocessing_origin == "collection":
        return f"{status.postprocessing}, fitted on {status.postprocessing_fitted_on:,} passages"
    told = f"{status.postprocessing}, with the encoder's own statistics"
    if not status.fits_statistics:
        return told
    command = f"slotrag rebuild --collection {status.name} --postprocessing {status.postprocessing}"
    return f"{told}; to fit it to these documents: {command}"


def _show(found: LibraryStatus) -> None:
    files = ", ".join(f"{name} {size(count)}" for name, count in found.file_bytes.items() if count)
    pairs = [("library", found.folder), ("files", files or "none"), ("conversations", found.sessions)]
    say_pairs([*pairs, ("read-only", found.read_only_reason)] if found.read_only else pairs)
    for collection in found.collections:
        say()
        say(bold(clean(collection.name)) + (" (default)" if collection.is_default else ""))
        say_pairs(_pairs(collection))


def _pairs(collection: CollectionStatus) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("  documents", documents(collection)),
        ("  passages", f"{collection.passages:,}, with {collection.vectors:,} vectors"),
        ("  encoder", f"{collection.encoder} ({collection.fingerprint[:12]})"),
        ("  post-processing", postprocessing(collection)),
        ("  index", f"{collection.index_state}, {size(collection.index_bytes)}"),
    ]
    if collection.pending:
        pairs.append(("  pending", f"{collection.pending:,} files: slotrag index --collection {collection.name}"))
    if collection.rebuilding:
        again = f"slotrag rebuild --collection {collection.name} --encoder {collection.rebuilding}"
        pairs.append(("  rebuilding", f"interrupted; to go on: {again}"))
    for source in collection.sources:
        filters = [f"--include {glob}" for glob in source.include] + [f"--exclude {glob}" for glob in source.exclude]
        filters += ["--hidden"] if source.hidden else []
        missing = "" if source.present else " (not there now; its documents are kept)"
        pairs.append(("  source", " ".join([source.path, *filters]) + missing))
    return pairs
