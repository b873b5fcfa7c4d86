"""What was recorded, newest first: answers of ``GET /api/v1/events``.

The stream source ``events`` sends the same ``Event`` as it happens.
"""

import msgspec

from penstock.api.documents.why import Unheard


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was recorded: an end, a refusal, a drop, a connect, a kick, a trace."""

    id: str  # grows with time; the cursor of a list is the last one
    at: str
    kind: str  # connected, ended, refused, dropped, kicked, traced
    reason: str  # a code of the page of reasons; empty for connected
    node: int
    count: int = 1  # alike in one second
    client_id: str | None = None
    topic: str | None = None
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
    incomplete: list[Unheard] = []
    kept_since: str | None = None  # older ones were pushed out; the topic $events/clients has more
