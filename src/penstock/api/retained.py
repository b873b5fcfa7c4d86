"""``retained``: the messages that topics keep for later subscribers; clearing, and its undo."""

from heapq import nsmallest
from operator import attrgetter
from typing import Annotated, Final

from msgspec import Meta

from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import ListQuery, moment, name_of
from penstock.api.documents.retained import (
    RetainedCleared,
    RetainedClearing,
    RetainedList,
    RetainedRestored,
    RetainedRow,
    RetainedUndo,
)
from penstock.api.names import TopicFilter, filter_of, moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.parts import Parts
from penstock.api.problems import Problem, not_found
from penstock.api.reading.decoding import Form, headers_of, shown
from penstock.api.reading.pace import paced
from penstock.api.undo import KEPT_MS, Undo
from penstock.api.views import RetainedAdmin
from penstock.core.retained import RetainedMessage
from penstock.limits import KIB
from penstock.trust.rules import Action

FIRST_SHOWN: Final = 20
PAYLOAD_SHOWN_MAX: Final = 64 * KIB

_by_topic = attrgetter("topic")


class RetainedQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which retained messages."""

    filter: TopicFilter = ""
    decode: Annotated[Form, Meta(description="How to show payloads.")] = "auto"
    payload_max: Annotated[
        int, Meta(description="Bytes of a payload that are shown.", ge=1, le=PAYLOAD_SHOWN_MAX)
    ] = 256


class RetainedPages(Resource):
    """Retained messages."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._undo = Undo()

    @property
    def _admin(self) -> RetainedAdmin:
        if self.parts.retained is None:
            raise not_found("this broker retains no messages")
        return self.parts.retained

    @operation("GET", "retained", None)
    async def browse(self, call: Call, query: RetainedQuery) -> RetainedList:
        """List retained messages by topic, those that the caller may read."""
        admin, topic_filter = self._admin, filter_of(query.filter)
        after = key_of("retained", query.cursor, bytes) or b""
        return await call.read(self._listed, call, admin, topic_filter, after, query)

    def _listed(
        self,
        call: Call,
        admin: RetainedAdmin,
        topic_filter: bytes,
        after: bytes,
        query: RetainedQuery,
    ) -> RetainedList:
        now_ms = admin.wall_ms()
        wanted = (
            message
            for message in paced(admin.walk(topic_filter))
            if message is not None
            and message.topic > after
            and not message.is_expired(now_ms)
            and call.may(Action.READ, message.topic)
        )
        found = nsmallest(query.limit + 1, wanted, key=_by_topic)
        part = first_of(
            "retained",
            found,
            query.limit,
            lambda message: _row(message, query.decode, query.payload_max),
            _by_topic,
        )
        return RetainedList(*part)

    @operation("DELETE", "retained", None)
    async def clear(self, call: Call, body: RetainedClearing) -> RetainedCleared:
        """Clear the retained messages of all topics that a filter matches.

        Exactly those that are found: what is published meanwhile stays. Subscribers are not told,
        and the history of the topics stays. `dry_run` counts and names the first 20. For an hour,
        `retained/undo` on this node takes it back, unless there are more than 100,000 messages or
        64 MiB.
        """
        admin, topic_filter = self._admin, filter_of(body.filter)
        found, kept = await call.read(self._clearable, call, admin, topic_filter)
        size = sum(len(message.payload) + len(message.topic) for message in found)
        no_undo = self._undo.refusal(len(found), size)
        undo, until = None, None
        if not body.dry_run and found:
            if no_undo is None:
                now_ms = admin.wall_ms()
                undo = self._undo.keep(found, size, call.principal.user, now_ms)
                until = moment(now_ms + KEPT_MS)
            admin.audit("cleared", body.filter, len(found))
            await admin.clear(found)
        return RetainedCleared(
            filter=body.filter,
            dry_run=body.dry_run,
            count=len(found),
            bytes=size,
            kept=kept,
            first=[name_of(message.topic) for message in found[:FIRST_SHOWN]],
            undo=undo,
            undo_until=until,
            no_undo=no_undo,
        )

    @staticmethod
    def _clearable(
        call: Call, admin: RetainedAdmin, topic_filter: bytes
    ) -> tuple[list[RetainedMessage], int]:
        """The messages to clear by topic, and how many the caller may not clear."""
        matched = [message for message in paced(admin.walk(topic_filter)) if message is not None]
        found = [one for one in matched if call.may(Action.MANAGE, one.topic)]
        return sorted(found, key=_by_topic), len(matched) - len(found)

    @operation("POST", "retained/undo", None)
    async def undo(self, call: Call, body: RetainedUndo) -> RetainedRestored:
        """Take a clearing back: publish its messages again, with RETAIN.

        Subscribers that are connected get them once more. Topics that have another retained message
        by now keep that.
        """
        admin = self._admin
        now_ms = admin.wall_ms()
        kept = self._undo.get(body.undo, now_ms)
        if kept is None:
            advice = "it is kept for an hour, in memory of the node that cleared"
            raise not_found("there is no such clearing", advice)
        if kept.user != call.principal.user:
            raise Problem(403, "forbidden", "somebody else has cleared these messages")
        for message in kept.messages:
            if not call.may(Action.MANAGE, message.topic):
                call.require(Action.MANAGE, message.topic)
        living = [one for one in kept.messages if not one.is_expired(now_ms)]
        missing = [one for one in living if admin.get(one.topic) is None]
        self._undo.forget(body.undo)
        if missing:
            admin.audit("restored", "", len(missing))
            await admin.restore(missing)
        return RetainedRestored(
            restored=len(missing),
            superseded=len(living) - len(missing),
            expired=len(kept.messages) - len(living),
        )


def _row(message: RetainedMessage, form: Form, bytes_max: int) -> RetainedRow:
    seen = shown(message.payload, form, bytes_max, message.content_type)
    return RetainedRow(
        topic=name_of(message.topic),
        time=moment_or_none(message.time_ms),
        sequence=message.sequence,
        qos=message.qos,
        author=message.author or None,
        expires=moment_or_none(message.expires_ms),
        headers=headers_of(message.headers),
        payload=seen.payload,
        payload_bytes=len(message.payload),
        cut=seen.cut,
        format=seen.format,
    )
