"""Conversations: what is stored of an answer, what a follow-up question sees, how one is written out.

It knows no retrieval and no model; messages keep copies of the excerpts they cite.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .. import UsageError
from .context import Turn
from .results import Answer

if TYPE_CHECKING:
    from ..storage import Catalog
    from ..storage.records import MessageRecord, SessionRecord

TITLE_LENGTH = 80
FORMATS = ("markdown", "json")


@dataclass(slots=True)
class Conversation:
    """A stored conversation that is being continued.

    Attributes
    ----------
    id : str or None
        None until the first message is stored.
    """

    catalog: Catalog
    id: str | None
    turns: list[Turn]

    @classmethod
    def open(cls, catalog: Catalog, session: str | None) -> Conversation:
        """Continue `session` (its id or the beginning of that), or begin one. Raises `UnknownSession`."""
        if session is None:
            return cls(catalog, None, [])
        found = catalog.session(full_id(catalog.sessions(), session))
        return cls(catalog, found.id, turns_of(found))

    def store(self, question: str, answer: Answer, details: dict[str, Any]) -> str | None:
        """Append a question and its answer; the session's id, None where the library cannot be written."""
        if self.catalog.read_only:
            return None
        if self.id is None:
            self.id = self.catalog.create_session(title_of(question))
        self.catalog.add_message(self.id, "user", question, citations=[], details={})
        self.catalog.add_message(
            self.id,
            "assistant",
            answer.text,
            citations=[asdict(citation) for citation in answer.citations],
            details={
                "stop_reason": answer.stop_reason,
                "quotes": [asdict(quote) for quote in answer.quotes],
                "context": [asdict(item) for item in answer.context],
                "timings_ms": answer.timings_ms,
                "notices": answer.notices,
                **details,
            },
        )
        return self.id


def full_id(sessions: Sequence[SessionRecord], given: str) -> str:
    """The id of the one of `sessions` that begins with `given`; `given` itself where none does.

    Raises
    ------
    slotrag.UsageError
        Several begin so.
    """
    found = [session.id for session in sessions if given and session.id.startswith(given)]
    if len(found) > 1 and given not in found:
        raise UsageError(f"{len(found)} sessions begin with {given!r}; type more of the id.")
    return found[0] if len(found) == 1 else given


def title_of(question: str) -> str:
    """A session's title from its first question: one line, at most 80 characters.

    Examples
    --------
    >>> title_of("When was\\nthe bridge built?")
    'When was the bridge built?'
    """
    text = " ".join(question.split())
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1].rstrip() + "…"


def turns_of(session: SessionRecord) -> list[Turn]:
    """Questions with their answers, oldest first. A question that was never answered is left out."""
    turns: list[Turn] = []
    question: str | None = None
    for message in session.messages:
        if message.role == "user":
            question = message.text
        elif question is not None:
            if message.details.get("stop_reason") not in ("error", "not_found"):
                turns.append(Turn(question, message.text))
            question = None
    return turns


def as_value(session: SessionRecord) -> dict[str, Any]:
    """A conversation in the form of schema 1."""
    return {"schema": 1, **asdict(session)}


def export(session: SessionRecord, format: str = "markdown") -> str:
    """A conversation with its excerpts as Markdown or JSON text.

    Raises
    ------
    slotrag.UsageError
        Another format.
    """
    if format == "json":
        return json.dumps(as_value(session), ensure_ascii=False, indent=2)
    if format != "markdown":
        raise UsageError(f"There is no format {format!r}; choose one of {', '.join(FORMATS)}.")
    parts = [f"# {session.title}", f"_{_when(session.created_at)}_"]
    for message in session.messages:
        parts.append(f"## {message.text}" if message.role == "user" else _answer_markdown(message))
    return "\n\n".join(parts) + "\n"


def _answer_markdown(message: MessageRecord) -> str:
    parts = [message.text]
    for citation in message.citations:
        page = f", page {citation['page']}" if citation.get("page") is not None else ""
        first, last = citation["lines"]
        place = f"{citation['path']}{page}, lines {first}-{last}"
        excerpt = "\n".join(f"> {line}" for line in citation["excerpt"].splitlines())
        parts.append(f"[{citation['number']}] {place}\n\n{excerpt}")
    return "\n\n".join(parts)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
