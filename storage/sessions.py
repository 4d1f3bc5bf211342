"""The catalog's conversations, in their own file. It knows no document: a message keeps copies of what it cited."""

from __future__ import annotations

import time
import unicodedata
import uuid
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from .. import UsageError
from .part import Part
from .records import MessageRecord, SessionRecord
from .sessions_models import Message, Session
from .tables import table

_SESSION = table(Session)
_MESSAGE = table(Message)


class UnknownSession(UsageError):
    """No session of that id."""


class SessionsPart(Part):
    """Conversations and their messages."""

    def create_session(self, title: str) -> str:
        """Begin a conversation; its id."""
        session_id = uuid.uuid4().hex
        now = time.time()
        with self._sessions.writing() as connection:
            connection.execute(insert(_SESSION).values(id=session_id, title=title, created_at=now, updated_at=now))
        return session_id

    def sessions(self, query: str | None = None) -> list[SessionRecord]:
        """Conversations without their messages, last used first; with `query` those that hold it in title or text."""
        counts = select(func.count()).where(Message.session_id == Session.id).scalar_subquery()
        listing = select(_SESSION, counts.label("message_count")).order_by(Session.updated_at.desc(), Session.id)
        with self._sessions.reading() as connection:
            records = [_session_record(row, []) for row in connection.execute(listing)]
            if not query:
                return records
            wanted = _folded(query)
            holding = {
                row.session_id
                for row in connection.execute(select(Message.session_id, Message.text))
                if wanted in _folded(row.text)
            }
        return [record for record in records if record.id in holding or wanted in _folded(record.title)]

    def session(self, session_id: str) -> SessionRecord:
        """A conversation with its messages, oldest first. Raises `UnknownSession`."""
        counts = select(func.count()).where(Message.session_id == Session.id).scalar_subquery()
        with self._sessions.reading() as connection:
            row = connection.execute(
                select(_SESSION, counts.label("message_count")).where(Session.id == session_id)
            ).first()
            if row is None:
                raise _unknown(session_id)
            messages = connection.execute(select(_MESSAGE).where(Message.session_id == session_id).order_by(Message.id))
            return _session_record(row, [_message_record(message) for message in messages])

    def add_message(
        self, session_id: str, role: str, text: str, *, citations: list[dict[str, Any]], details: dict[str, Any]
    ) -> None:
        """Append a message; `citations` and `details` are kept as JSON. Raises `UnknownSession`."""
        now = time.time()
        with self._sessions.writing() as connection:
            if not connection.execute(update(_SESSION).where(Session.id == session_id).values(updated_at=now)).rowcount:
                raise _unknown(session_id)
            connection.execute(
                insert(_MESSAGE).values(
                    session_id=session_id, role=role, text=text, citations=citations, details=details, created_at=now
                )
            )

    def rename_session(self, session_id: str, title: str) -> None:
        """Give a conversation another title. Raises `UnknownSession`."""
        with self._sessions.writing() as connection:
            if not connection.execute(update(_SESSION).where(Session.id == session_id).values(title=title)).rowcount:
                raise _unknown(session_id)

    def delete_session(self, session_id: str) -> None:
        """Erase a conversation. Raises `UnknownSession`."""
        with self._sessions.writing() as connection:
            if not connection.execute(delete(_SESSION).where(Session.id == session_id)).rowcount:
                raise _unknown(session_id)
        self._sessions.checkpoint()


def _unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"there is no session {session_id!r}: `slotrag sessions list` shows them")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _session_record(row: Row[Any], messages: list[MessageRecord]) -> SessionRecord:
    return SessionRecord(row.id, row.title, row.created_at, row.updated_at, row.message_count, messages)


def _message_record(row: Row[Any]) -> MessageRecord:
    return MessageRecord(row.role, row.text, row.citations, row.details, row.created_at)
