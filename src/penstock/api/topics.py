"""``topics``: which there are, one of them, one level of their tree, the busiest."""

from collections.abc import Callable
from time import monotonic
from typing import Annotated, Final

from msgspec import Meta

from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import ListQuery, Query, name_of
from penstock.api.documents.topics import (
    Busiest,
    Capture,
    Matches,
    Peek,
    Topic,
    TopicDeleted,
    TopicDeletion,
    TopicDetail,
    TopicGroup,
    Topics,
    TopicValues,
    TreeLevel,
    TreeNode,
)
from penstock.api.names import (
    TopicFilter,
    TopicName,
    filter_of,
    invalid,
    matcher,
    moment_or_none,
    plain_prefix,
    topic_of,
)
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem, not_found
from penstock.api.reading.newest import busiest, peek
from penstock.api.reading.pace import paced
from penstock.api.reading.scanning import Bounds, backwards
from penstock.api.reading.tree import Level, Looks, Node
from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.store.store import Store, TopicInfo
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action

NAMES_MAX: Final = 100_000  # looked at for one answer
SECONDS_MAX: Final = 2.0
VALUES_MAX: Final = 200  # topics whose newest message is shown in one answer
RATE_MESSAGES: Final = 100
RATE_MS: Final = 60_000

_CAPTURE: Final = {
    "captured": "QoS 0 messages are journaled, like all others",
    "excluded": "QoS 0 messages are not journaled: journal.capture_exclude matches the topic",
    "off": "QoS 0 messages are not journaled: journal.capture is off",
    "reserved": "QoS 0 messages of topics that begin with $ are not journaled",
}


class TopicQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which topics."""

    prefix: Annotated[str, Meta(description="Names begin with this.", max_length=65_535)] = ""
    filter: TopicFilter = ""


class OneTopicQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which topic."""

    name: TopicName


class TreeQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which level."""

    prefix: Annotated[
        str,
        Meta(
            description="Empty for the first level, else a name with a slash behind it.",
            max_length=65_535,
        ),
    ] = ""
    values: Annotated[
        bool, Meta(description="With the newest message of the first 200 topics.")
    ] = False


class ValuesQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which topics."""

    topic: Annotated[list[str], Meta(description="Up to 200 topics.", max_length=VALUES_MAX)]


class TopicPages(Resource):
    """Topics."""

    @property
    def _store(self) -> Store:
        return self.parts.view.store

    @operation("GET", "topics", None)
    async def browse(self, call: Call, query: TopicQuery) -> Topics:
        """List topics by name.

        Those that the caller may read. A filter looks at 100,000 names at most, or for 2 s; `next`
        goes on.
        """
        topic_filter = filter_of(query.filter)
        prefix = query.prefix.encode("utf-8", "replace")
        after = key_of("topics", query.cursor, bytes) or b""
        return await call.read(self._listed, call, prefix, topic_filter, after, query)

    def _listed(
        self, call: Call, prefix: bytes, topic_filter: bytes, after: bytes, query: TopicQuery
    ) -> Topics:
        shared = plain_prefix(topic_filter) if query.filter else b""
        if not (shared.startswith(prefix) or prefix.startswith(shared)):
            return Topics([], 0)
        is_wanted = matcher(topic_filter) if query.filter else None
        ends_at = monotonic() + SECONDS_MAX
        rows: list[Topic] = []
        scanned, last = 0, b""
        for info in paced(self._store.topics(max(prefix, shared), after)):
            if len(rows) == query.limit or scanned == NAMES_MAX or monotonic() > ends_at:
                return Topics(rows, scanned, cursor_of("topics", last))
            scanned, last = scanned + 1, info.name
            is_matched = is_wanted is None or is_wanted(info.name)
            if is_matched and call.may(Action.READ, info.name):
                rows.append(_row(info))
        return Topics(rows, scanned)

    @operation("GET", "topics/detail", None)
    async def show(self, call: Call, query: OneTopicQuery) -> TopicDetail:
        """Show one topic: what it holds, who gets it, whether it is captured."""
        topic = topic_of(query.name, "name")
        call.require(Action.READ, topic)
        if self.parts.topics is None:
            raise not_found("this broker tells nothing about topics")
        view, gate = self.parts.topics, self.parts.view.gate
        count = view.audience(topic)
        info, last_ms, rate = await call.read(self._recent, topic)
        audience = await call.read(count)
        capture = view.capture(topic)
        return TopicDetail(
            name=query.name,
            exists=info is not None,
            first_offset=info.first_offset if info else 0,
            next_offset=info.next_offset if info else 0,
            messages=info.count if info else 0,
            bytes=info.bytes if info else 0,
            created=moment_or_none(info.created_ms) if info else None,
            last_time=moment_or_none(last_ms),
            rate_per_s=rate,
            signature_required=gate.demands_signature(topic),
            capture=Capture(capture == "captured", capture, _CAPTURE[capture]),
            groups=self._groups(topic),
            matches=Matches(*audience),
            retained=view.has_retained(topic),
        )

    def _recent(self, topic: bytes) -> tuple[TopicInfo | None, int, float]:
        """A topic, the time of its newest message, and its messages per second."""
        info = self._store.topic(topic)
        if info is None:
            return None, 0, 0.0
        now_ms = self.parts.clients.wall_ms() if self.parts.clients else 0
        bounds = Bounds(RATE_MESSAGES, 1 << 20)
        found = backwards(self._store, topic, info.first_offset, info.next_offset, bounds)
        times = [message.time_ms for message in found]
        recent = [time for time in times if time > now_ms - RATE_MS]
        is_all = len(recent) < len(times) or len(times) == info.count
        span_ms = RATE_MS if is_all else max(now_ms - recent[-1], 1) if recent else RATE_MS
        return info, times[0] if times else 0, round(len(recent) * 1000 / span_ms, 3)

    def _groups(self, topic: bytes) -> list[TopicGroup]:
        queues = self.parts.view.queues
        groups = queues.groups.by_topic.get(topic, {})
        return [
            TopicGroup(name_of(name), group.next, queues.lag(group), queues.consumers(topic, name))
            for name, group in sorted(groups.items())
        ]

    @operation("GET", "topics/tree", None)
    async def tree(self, call: Call, query: TreeQuery) -> TreeLevel:
        """List the names of one level of the tree of topics.

        A branch costs the same however much is below it: its topics are counted up to 1,000.
        """
        if query.prefix and not query.prefix.endswith("/"):
            raise invalid("prefix", "does not end with a slash", f"write {query.prefix}/")
        return await call.read(self._level, call, query)

    def _level(self, call: Call, query: TreeQuery) -> TreeLevel:
        prefix = query.prefix.encode("utf-8", "replace")
        after = key_of("tree", query.cursor, bytes)
        ends_at = monotonic() + SECONDS_MAX
        level = Level(
            self._store,
            prefix,
            after,
            looks=Looks(is_late=lambda: monotonic() > ends_at),
            is_wanted=_wanted_below(call, prefix),
        )
        nodes: list[Node] = []
        for node in level:
            nodes.append(node)
            if len(nodes) == query.limit or level.is_cut:
                break
        else:
            return TreeLevel(query.prefix, self._nodes(prefix, nodes, query))
        cursor = cursor_of("tree", level.label)
        return TreeLevel(query.prefix, self._nodes(prefix, nodes, query), cursor)

    def _nodes(self, prefix: bytes, nodes: list[Node], query: TreeQuery) -> list[TreeNode]:
        left = VALUES_MAX if query.values else 0
        found = []
        for node in paced(nodes):
            info = node.topic
            last = peek(self._store, info) if info is not None and left > 0 else None
            left -= info is not None
            found.append(_tree_node(prefix, node, last))
        return found

    @operation("GET", "topics/values", None)
    async def values(self, call: Call, query: ValuesQuery) -> TopicValues:
        """Show the newest message of each of up to 200 topics; those without one are left out."""
        topics = [topic_of(name) for name in query.topic]
        for topic in topics:
            call.require(Action.READ, topic)
        return TopicValues(await call.read(self._peeks, topics))

    def _peeks(self, topics: list[bytes]) -> list[Peek]:
        infos = [self._store.topic(topic) for topic in paced(topics)]
        found = [peek(self._store, info) for info in paced(infos) if info is not None]
        return [one for one in found if one is not None]

    @operation("GET", "topics/busiest", None)
    async def busiest(self, call: Call) -> Busiest:
        """Show which topics the newest 10,000 messages of the journal are of.

        Fewer, if they are larger than 32 MiB together: see `looked_at`. Topics that begin with `$`
        are left out, unless all of these messages are of such topics.
        """
        return await call.read(busiest, self._store, lambda topic: call.may(Action.READ, topic))

    @operation("DELETE", "topics", None)
    async def delete(self, call: Call, body: TopicDeletion) -> TopicDeleted:
        """Delete a topic with its messages, groups and settings.

        Its offsets begin at 0 again. A retained message stays. `dry_run` shows what would go.
        """
        topic = topic_of(body.name, "name")
        call.require(Action.MANAGE, topic)
        queues = self.parts.queues
        if topic.startswith(b"$") and not topic.startswith(DEAD_PREFIX):
            raise Problem(400, "topic_reserved", "topics that begin with $ are the broker's own")
        if queues is None:
            raise not_found("this broker deletes no topics")
        info = await call.read(self._store.topic, topic)
        groups = sorted(queues.groups.by_topic.get(topic, {}))
        if info is None and not groups and queues.topics.get(topic) is None:
            raise not_found(f"there is no topic {body.name}", "GET topics lists them")
        if not body.dry_run:
            await queues.delete_topic(topic)
        return TopicDeleted(
            name=body.name,
            dry_run=body.dry_run,
            messages=info.count if info else 0,
            bytes=info.bytes if info else 0,
            groups=[name_of(name) for name in groups],
        )


def _row(info: TopicInfo) -> Topic:
    return Topic(
        name=name_of(info.name),
        first_offset=info.first_offset,
        next_offset=info.next_offset,
        messages=info.count,
        bytes=info.bytes,
        created=moment_or_none(info.created_ms),
    )


def _tree_node(prefix: bytes, node: Node, last: Peek | None) -> TreeNode:
    info = node.topic
    return TreeNode(
        name=name_of(prefix + node.label),
        label=name_of(node.label),
        is_topic=info is not None,
        children=node.children,
        children_capped=node.is_capped,
        next_offset=info.next_offset if info else 0,
        messages=info.count if info else 0,
        bytes=info.bytes if info else 0,
        last=last,
    )


def _wanted_below(call: Call, prefix: bytes) -> Callable[[bytes], bool] | None:
    """Which topics below a prefix the caller may read; None: all."""
    rights = call.principal.rights
    is_plain = not prefix.startswith(b"$")
    if is_plain and rights.coverage(Action.READ, prefix + b"#") is Coverage.ALL:
        if prefix:
            return None
        return lambda topic: topic[:1] != b"$" or call.may(Action.READ, topic)
    return lambda topic: call.may(Action.READ, topic)
