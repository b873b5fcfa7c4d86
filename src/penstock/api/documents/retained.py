"""Retained messages: the list, clearing by filter, and taking that back."""

import msgspec

from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Header, Payload


class RetainedRow(msgspec.Struct, frozen=True):
    """The retained message of a topic."""

    topic: str
    time: str | None
    sequence: int
    qos: int
    author: str | None  # the user who published it, if that is known
    expires: str | None
    headers: list[Header]
    payload: Payload
    payload_bytes: int
    cut: bool
    format: str


class RetainedList(msgspec.Struct, frozen=True):
    """Retained messages by topic."""

    items: list[RetainedRow]
    next: str | None = None
    incomplete: list[Missing] = []


class RetainedCleared(msgspec.Struct, frozen=True):
    """What was cleared, or would be. ``undo`` is for ``retained/undo``, until ``undo_until``.

    ``kept`` are messages of topics that the caller may not manage.
    """

    filter: str
    dry_run: bool
    count: int
    bytes: int
    kept: int
    first: list[str]  # topics of the first 20
    undo: str | None
    undo_until: str | None
    no_undo: str | None  # why it cannot be taken back


class RetainedRestored(msgspec.Struct, frozen=True):
    """What was retained again, and what was not, as its topic has a newer message."""

    restored: int
    superseded: int
    expired: int


class RetainedClearing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to clear: the retained messages of all topics that a filter matches."""

    filter: str
    dry_run: bool = False


class RetainedUndo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to take back: ``undo`` of the answer to the clearing."""

    undo: str
