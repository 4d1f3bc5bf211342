"""Tables of ``sessions.db``: conversations with copies of what they cited. They know no query."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class SessionsBase(DeclarativeBase):
    type_annotation_map = {dict[str, Any]: JSON, list[dict[str, Any]]: JSON}  # noqa: RUF012


class Session(SessionsBase):
    """A conversation."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class Message(SessionsBase):
    """One message; its citations carry the excerpts as they were when it was given."""

    __tablename__ = "messages"
    __table_args__ = (Index("ix_messages_session", "session_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"))
    role: Mapped[str]
    text: Mapped[str]
    citations: Mapped[list[dict[str, Any]]]
    details: Mapped[dict[str, Any]]
    created_at: Mapped[float]
