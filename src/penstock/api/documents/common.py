"""What operations have in common: parameters of lists, moments, problems.

Names are in snake_case; moments are RFC 3339 in UTC with milliseconds; durations end in ``_s`` or
``_ms``, sizes in ``_bytes``. Fields are added, never renamed or removed.
"""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.limits import API_ITEMS_MAX

Moment = Annotated[
    str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-31T14:03:04.118Z"])
]
Cursor = Annotated[
    str, Meta(description="`next` of the answer before; the list goes on there.", max_length=4_096)
]
Limit = Annotated[int, Meta(description="How many items, at most.", ge=1, le=API_ITEMS_MAX)]
Current = Annotated[
    bool,
    Meta(description="First wait until this node has all that was acknowledged anywhere so far."),
]
Count = Annotated[int, Meta(ge=0, le=2**53)]  # an offset, a sequence, a number of things


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an operation, from its query. A subclass has a field for each."""


class ListQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a list."""

    cursor: Cursor = ""
    limit: Limit = 100


class CurrentListQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a list of what all nodes agree on."""

    current: Current = False


class FieldFault(msgspec.Struct, frozen=True):
    """A parameter, or a field of the body, that is wrong."""

    name: str
    detail: str


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457). Programs should look at ``code``."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    reason: str | None = None  # a reason of disconnects and drops, if there is one
    advice: str = ""
    fields: list[FieldFault] = []
    leader_addr: str | None = None  # where to ask instead, if only the leader can answer


def moment(time_ms: int) -> str:
    """Milliseconds since 1970 as text."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


def name_of(data: bytes) -> str:
    """A topic, client id or group as text; what is not UTF-8 is escaped."""
    return data.decode("utf-8", "backslashreplace")
