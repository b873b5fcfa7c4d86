"""``queues``: topics that are used as queues, and their settings."""

from heapq import nsmallest
from itertools import chain
from typing import Annotated

from msgspec import Meta

from penstock.admin.pages import applied, text_of
from penstock.admin.queues import known_topic, valid_topic
from penstock.admin.view import QueueAdmin
from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import Current, ListQuery, Query
from penstock.api.documents.queues import Queue, QueueDeletion, Queues, QueueSettings
from penstock.api.named import DryRun, TopicName
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.sight import Sight
from penstock.core.commands import TopicConfigured
from penstock.core.rate import milli_rate
from penstock.core.topics import TopicSettings
from penstock.model.dead_letters import dead_letter_topic
from penstock.trust.rules import Action

_LIST = "queues"
_UNCONFIGURED = TopicSettings(b"", keep=True)  # a log with the configured retention


class QueueQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which queues."""

    prefix: Annotated[str, Meta(description="How the name begins; $ for the broker's own.")] = ""
    current: Current = False


class OneQueueQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which queue."""

    topic: TopicName
    current: Current = False


class QueueDeletionQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which queue to delete."""

    topic: TopicName
    dry_run: DryRun = False


class WorkQueues(Resource):
    """Topics that are used as queues: those that were created or configured, or have groups."""

    @operation("GET", "queues", None)
    async def list(self, call: Call, query: QueueQuery) -> Queues:
        """List queues by name, with their settings and how far their groups are behind."""
        sight, admin = Sight(call), self.parts.queue_admin
        after, prefix = key_of(_LIST, query.cursor, bytes), query.prefix.encode()
        hidden = () if prefix.startswith(b"$") else b"$"
        found = {
            name
            for name in chain(admin.topics.by_name, admin.groups.by_topic)
            if name.startswith(prefix)
            and not name.startswith(hidden)
            and (after is None or name > after)
            and sight.sees(name)
        }
        page = nsmallest(query.limit + 1, found)
        part = first_of(_LIST, page, query.limit, lambda name: describe(admin, name), _itself)
        return Queues(items=part.items, next=part.next)

    @operation("GET", "queues/detail", None)
    async def detail(self, call: Call, query: OneQueueQuery) -> Queue:
        """Show any topic as a queue, also one that was never configured and has no groups."""
        Sight(call).require(query.topic.encode())
        admin = self.parts.queue_admin
        return describe(admin, known_topic(admin, query.topic))

    @operation("PATCH", "queues", None)
    async def configure(self, call: Call, body: QueueSettings) -> Queue:
        """Change settings of a queue, or create it; what is left out stays as it is.

        Needs `manage` of the topic.
        """
        call.require(Action.MANAGE, body.topic.encode())
        topic, admin = valid_topic(body.topic), self.parts.queue_admin
        rate, age_s = body.rate_per_s, body.max_age_s
        command = TopicConfigured(
            topic,
            rate_milli=None if rate is None else milli_rate(rate),
            burst=body.burst,
            max_messages=body.max_messages,
            max_age_ms=None if age_s is None else round(age_s * 1000),
            max_bytes=body.max_bytes,
            keep=body.keep,
        )
        await applied(admin.configure_topic(command))
        return describe(admin, topic)

    @operation("DELETE", "queues", None)
    async def delete(self, call: Call, query: QueueDeletionQuery) -> QueueDeletion:
        """Delete a queue with its messages and groups. Needs `manage` of the topic."""
        call.require(Action.MANAGE, query.topic.encode())
        admin = self.parts.queue_admin
        topic = known_topic(admin, query.topic)
        valid_topic(query.topic)
        deletion = QueueDeletion(
            topic=query.topic,
            messages=admin.messages(topic),
            groups=sorted(text_of(name) for name in admin.groups.by_topic.get(topic, ())),
            dry_run=query.dry_run,
        )
        if not query.dry_run:
            await applied(admin.delete_topic(topic))
        return deletion


def _itself(name: bytes) -> bytes:
    return name


def describe(admin: QueueAdmin, name: bytes) -> Queue:
    info = admin.store.topic(name)
    settings = admin.topics.get(name) or _UNCONFIGURED
    groups = admin.groups.by_topic.get(name, {})
    letters = (admin.letter_count(dead_letter_topic(name, group)) for group in groups)
    return Queue(
        topic=text_of(name),
        messages=admin.messages(name),
        stored=info.count if info else 0,
        stored_bytes=info.bytes if info else 0,
        first_offset=admin.first_offset(name),
        end_offset=info.next_offset if info else 0,
        groups=len(groups),
        lag=max((admin.lag(group) for group in groups.values()), default=0),
        dead_letters=sum(letters),
        rate_per_s=settings.rate_milli / 1000,
        burst=settings.burst,
        max_messages=settings.max_messages,
        max_age_s=settings.max_age_ms / 1000,
        max_bytes=settings.max_bytes,
        keep=settings.keep,
    )
