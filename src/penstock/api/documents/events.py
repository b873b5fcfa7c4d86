"""What was recorded, newest first: answers of ``GET /api/v1/events``.

The stream source ``events`` sends the same ``Event`` as it happens.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.api.documents.common import Count, ListQuery
from penstock.api.documents.lists import Missing


class EventQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events."""

    client_id: str = ""
    topic: str = ""
    kind: Annotated[
        str,
        Meta(description="connected, ended, refused, dropped or returned."),
    ] = ""
    reason: str = ""
    since_s: Annotated[Count, Meta(description="Of the last so many seconds; 0: all.")] = 0


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was recorded: an end, a refusal, a drop, a connect, a returned job."""

    id: str  # of this node; grows with time
    at: str
    kind: str  # connected, ended, refused, dropped, returned
    reason: str  # a code of the page of reasons; empty for connected
    node: int
    text: str  # the same in words
    count: int = 1  # alike in one second
    client_id: str | None = None
    topic: str | None = None
    group: str | None = None
    offset: int | None = None
    sequence: int | None = None
    user: str | None = None
    peer: str | None = None
    detail: str = ""
    advice: str = ""  # what to do about the reason


class Events(msgspec.Struct, frozen=True):
    """A page of events. ``next`` is the cursor of the next, older page."""

    items: list[Event]
    next: str | None = None
    incomplete: list[Missing] = []
    kept_since: str | None = None  # older ones were pushed out; the topic $events/clients has more
