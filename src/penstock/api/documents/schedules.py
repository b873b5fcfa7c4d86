"""Scheduled publishes: answers of ``/api/v1/schedules``, and what ``POST`` takes.

``GET schedules`` lists them by name, ``GET schedules?name=report`` shows one. ``POST schedules``
creates one, or with ``dry_run`` only says when it would fire. ``DELETE schedules`` cancels one.
``GET schedules/preview`` answers when a timing would fire.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.api.documents.common import ListQuery, Query
from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Header, Payload

AT = Annotated[
    str, Meta(description="Once: RFC 3339, or a local time of `timezone`.", max_length=64)
]
IN_S = Annotated[float, Meta(description="Once, this long from now.", gt=0, le=10**9)]
EVERY_S = Annotated[float, Meta(description="From `anchor` on.", ge=1, le=366 * 24 * 3600)]
ANCHOR = Annotated[
    str, Meta(description="As `at`; by default the time of creation.", max_length=64)
]
CRON = Annotated[str, Meta(description="Five fields, or @hourly and the like.", max_length=512)]
TIMEZONE = Annotated[str, Meta(description="A name of the tz database.", max_length=64)]
NAME = Annotated[str, Meta(min_length=1, max_length=128)]


class ScheduleQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules to list."""

    name: Annotated[str, Meta(description="The one of this name.", max_length=128)] = ""
    prefix: Annotated[str, Meta(description="Of names.", max_length=128)] = ""
    state: Literal["", "active", "done", "ownerless"] = ""


class CancelQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedule to cancel."""

    name: NAME
    dry_run: bool = False


class PreviewQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A timing to try: one of ``at``, ``in_s``, ``every_s`` and ``cron``."""

    at: AT | None = None
    in_s: IN_S | None = None
    every_s: EVERY_S | None = None
    anchor: ANCHOR | None = None
    cron: CRON | None = None
    timezone: TIMEZONE = "UTC"
    count: Annotated[int, Meta(description="Of firings.", ge=1, le=100)] = 5


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a schedule fires. Exactly one of ``at``, ``every_s`` and ``cron`` is set."""

    at: str | None = None  # once: RFC 3339, or a local time of ``timezone``
    every_s: float | None = None  # at ``anchor``, and every so many seconds after it
    anchor: str | None = None  # as ``at``; by default the time of creation
    cron: str | None = None  # five fields, or @hourly and the like
    timezone: str = "UTC"  # a name of the tz database, such as Europe/Paris


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to create. Its payload is ``text`` or ``base64``; neither: an empty one."""

    name: NAME
    topic: str
    at: AT | None = None
    in_s: IN_S | None = None
    every_s: EVERY_S | None = None
    anchor: ANCHOR | None = None
    cron: CRON | None = None
    timezone: TIMEZONE = "UTC"
    # what becomes of firings that no broker could make in time
    missed: Literal["skip", "once", "all"] = "once"
    text: str | None = None
    base64: str | None = None
    qos: Annotated[int, Meta(ge=0, le=2)] = 1
    retain: bool = False
    headers: list[tuple[str, str]] = []
    content_type: str = ""
    priority: Annotated[int, Meta(ge=0, le=7)] = 0
    # how long each message is worth delivering; 0: for ever
    expires_s: Annotated[float, Meta(ge=0, le=2**32 - 1)] = 0
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
