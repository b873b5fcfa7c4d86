"""Scheduled publishes: answers of ``/api/v1/schedules``, and what ``POST`` takes.

``GET schedules`` lists them by name, ``GET schedules?name=report`` shows one. ``POST schedules``
creates one, or with ``dry_run`` only says when it would fire. ``DELETE schedules`` cancels one.
``GET schedules/preview`` answers when a timing would fire.
"""

import msgspec

from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Header, Payload


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a schedule fires. Exactly one of ``at``, ``every_s`` and ``cron`` is set."""

    at: str | None = None  # once: RFC 3339, or a local time of ``timezone``
    every_s: float | None = None  # at ``anchor``, and every so many seconds after it
    anchor: str | None = None  # as ``at``; by default the time of creation
    cron: str | None = None  # five fields, or @hourly and the like
    timezone: str = "UTC"  # a name of the tz database, such as Europe/Paris


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to create. Its payload is ``text`` or ``base64``; neither: an empty one."""

    name: str
    topic: str
    at: str | None = None
    in_s: float | None = None  # once, this long from now
    every_s: float | None = None
    anchor: str | None = None
    cron: str | None = None
    timezone: str = "UTC"
    missed: str = "once"  # skip, once or all: firings that no broker could make in time
    text: str | None = None
    base64: str | None = None
    qos: int = 1
    retain: bool = False
    headers: list[tuple[str, str]] = []
    content_type: str = ""
    priority: int = 0
    expires_s: float = 0  # how long each message is worth delivering; 0: for ever
    dry_run: bool = False


class LastFiring(msgspec.Struct, frozen=True):
    """The last firing that was due, and what became of it."""

    due: str
    at: str
    result: str  # published, refused or missed
    reason: str  # a code of the page of reasons, if it was refused
    detail: str  # the refusal in words


class ScheduleRow(msgspec.Struct, frozen=True):
    """A schedule. ``state`` is active, done (it fires no more) or ownerless (see ``owner``).

    Without the right to read its topic, ``payload`` and ``headers`` are not shown.
    """

    name: str
    state: str
    topic: str
    timing: Timing
    timing_text: str  # in words: "every 5 s", "cron 0 8 * * mon-fri, Europe/Paris"
    missed: str
    qos: int
    retain: bool
    priority: int
    content_type: str
    expires_s: float
    headers: list[Header] | None
    payload: Payload | None
    payload_bytes: int
    cut: bool
    owner: str  # the user by whose rights it publishes; empty: nobody by name
    created: str
    next_firings: list[str]  # five at most
    last: LastFiring | None
    published: int  # messages
    refused: int  # firings, each because of the reason of its time
    skipped: int  # missed firings for which there was no message


class Schedules(msgspec.Struct, frozen=True):
    """A page of schedules, by name."""

    items: list[ScheduleRow]
    next: str | None = None
    incomplete: list[Missing] = []


class FiringPreview(msgspec.Struct, frozen=True):
    """When a timing would fire."""

    timing: Timing
    timing_text: str
    next_firings: list[str]


class ScheduleCreated(msgspec.Struct, frozen=True):
    """A schedule that was created, or would be."""

    dry_run: bool
    schedule: ScheduleRow


class ScheduleCancelled(msgspec.Struct, frozen=True):
    """A schedule that was cancelled, or would be."""

    name: str
    dry_run: bool
    state: str  # that it had
