"""Table of ``slots.db``: cached memory slots, which can be thrown away and made again. It knows no query."""

from __future__ import annotations

from sqlalchemy import Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class SlotsBase(DeclarativeBase):
    type_annotation_map = {bytes: LargeBinary}  # noqa: RUF012


class SlotEntry(SlotsBase):
    """The slots of one text under one compressor, in the compressor's own byte form."""

    __tablename__ = "slots"
    __table_args__ = (UniqueConstraint("fingerprint", "text_hash"), Index("ix_slots_used_at", "used_at"))

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    text_hash: Mapped[bytes]
    data: Mapped[bytes]
    size: Mapped[int]
    used_at: Mapped[float]
