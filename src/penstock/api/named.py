"""What several resources take and show: names of topics and groups, moments, sizes of pages."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.admin.pages import text_of
from penstock.api.documents.common import ListQuery, Query, moment
from penstock.api.documents.payloads import Header, Payload
from penstock.api.documents.queues import GroupName, TopicName

__all__ = [
    "DryRun",
    "GroupListQuery",
    "GroupName",
    "GroupQuery",
    "TopicName",
    "header_of",
    "moment_or_none",
    "preview",
]

DryRun = Annotated[bool, Meta(description="Only tell what would be done.")]


class GroupQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One group."""

    topic: TopicName
    group: GroupName


class GroupListQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list about one group."""

    topic: TopicName
    group: GroupName


def moment_or_none(time_ms: int) -> str | None:
    return moment(time_ms) if time_ms else None


def header_of(name: bytes, value: bytes) -> Header:
    try:
        return Header(text_of(name), value.decode())
    except UnicodeDecodeError:
        return Header(text_of(name), _base64(value), is_base64=True)


def preview(payload: bytes, bytes_max: int) -> tuple[Payload, bool]:
    """The beginning of a payload, and whether it is cut; a cut text ends with a whole character."""
    shown = payload[:bytes_max]
    is_cut = len(shown) < len(payload)
    try:
        return Payload(text=shown.decode()), is_cut
    except UnicodeDecodeError as error:
        if is_cut and error.reason == "unexpected end of data":
            return Payload(text=shown[: error.start].decode()), True
        return Payload(base64=_base64(shown)), is_cut


def _base64(data: bytes) -> str:
    return str(msgspec.to_builtins(data))
