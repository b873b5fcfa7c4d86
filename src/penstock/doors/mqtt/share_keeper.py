"""Looks after shared subscriptions whose members are away, and ends those that nobody has.

While a member is connected, its connection makes the group of each new topic
(``shared_subscriptions``). A share is also there while all its sessions are away. So the leader
follows the filters of all shares with wildcards, and makes the group of a topic that first appears,
from its first message on: messages wait in the group, not for one member.

The group is made after the commit of that message, and a crash may come in between. Whoever leads
next looks for topics without their group: one that is younger than the share is taken from its
first message, an older one (of a share that former versions made) from now on.

A share ends when no session has it. Then the groups that MQTT 5 made for it, and that nothing else
has used, are deleted. A cluster keeps them: each node knows the subscriptions of its own clients
and of durable sessions, but not of those that end with their connection at another node.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from penstock.cluster.consensus import Leadership
from penstock.commit.completion import Callback
from penstock.commit.feed import CommittedMessages, Follower
from penstock.core.session import Session
from penstock.core.shares import Share, is_shared, parse_share
from penstock.dispatch.groups import Start, StartAt
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.shared_subscriptions import MEMBERSHIPS_MAX, topics_matching
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.store.store import TopicInfo

GROUPS_AT_ONCE = 256  # groups looked at in one step

_log = get_logger("shares")


class ShareKeeper:
    """All shared subscriptions of a broker, whether their members are connected or not."""

    def __init__(self, door: MqttParts) -> None:
        self._door = door
        self._routes = door.broker.routes
        self._followers: dict[bytes, tuple[Share, Follower]] = {}
        self._is_leading = False
        self._routes.on_share = self._changed

    def led(self, leadership: Leadership) -> None:
        if leadership.is_leader == self._is_leading:
            return
        self._is_leading = leadership.is_leader
        if self._is_leading:
            for name in [name for name in self._routes.filters() if is_shared(name)]:
                self._begin(name, is_old=True)
        else:
            for name in list(self._followers):
                self._unfollow(name)

    def _changed(self, name: bytes) -> None:
        """A session has begun or ceased to have a share."""
        if self._routes.audience(name):
            self._begin(name)
        elif (share := parse_share(name)) is not None:
            self._unfollow(name)
            if not self._door.cluster.is_clustered:
                self._door.connections.turns.share(self._end_groups(name, share))

    # ── new topics ────────────────────────────────────────────────────────────────────────────

    def _begin(self, name: bytes, *, is_old: bool = False) -> None:
        share = parse_share(name)
        if share is None or not share.has_wildcard or not self._is_leading:
            return
        if name in self._followers:
            return
        follower = partial(self._grown, share)
        self._followers[name] = share, follower
        self._door.feed.follow(share.topic_filter, follower)
        if is_old:
            self._look_for_topics(name, share)

    def _unfollow(self, name: bytes) -> None:
        if name in self._followers:
            share, follower = self._followers.pop(name)
            self._door.feed.unfollow(share.topic_filter, follower)

    def _grown(self, share: Share, part: CommittedMessages) -> None:
        if self._door.broker.groups.get(part.topic, share.group) is None:
            self._make(part.topic, share, Start(StartAt.OFFSET, part.first_offset))

    def _make(self, topic: bytes, share: Share, start: Start) -> None:
        groups = self._door.dispatchers.groups
        if groups.has_room_for(topic, share.group):
            made = Callback(lambda _value: None)
            groups.create(topic, share.group, start, made, is_share=True)
        else:
            self._door.connections.throttled_log.warning("groups_limited", topic=printable(topic))

    def _look_for_topics(self, name: bytes, share: Share) -> None:
        store = self._door.readers.store

        def found() -> list[TopicInfo]:
            topics = topics_matching(store, share.topic_filter, MEMBERSHIPS_MAX)
            return [info for topic in topics if (info := store.topic(topic)) is not None]

        def failed(error: StorageError) -> None:
            _log.warning("share_topics_unread", error=error.message)

        turns = self._door.connections.turns
        self._door.readers.run(
            found, lambda topics: turns.share(self._complete(name, share, topics)), failed
        )

    def _complete(self, name: bytes, share: Share, topics: Iterable[TopicInfo]) -> Iterator[None]:
        began_ms = self._began_ms(name)
        for info in topics:
            if name not in self._followers:
                return
            if self._door.broker.groups.get(info.name, share.group) is None:
                is_younger = 0 < began_ms <= info.created_ms
                at = StartAt.EARLIEST if is_younger else StartAt.LATEST
                self._make(info.name, share, Start(at))
            yield

    def _began_ms(self, name: bytes) -> int:
        """When the first of those who have the share began to; 0: not known."""
        sessions = [one for one in self._routes.audience(name) if isinstance(one, Session)]
        times = [(session.shares or {}).get(name, 0) for session in sessions]
        return min(filter(None, times), default=0)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _end_groups(self, name: bytes, share: Share) -> Iterator[None]:
        groups = self._door.broker.groups
        if not share.has_wildcard:
            self._end_group(name, share.topic_filter, share.group)
            return
        for count, topic in enumerate(list(groups.by_topic)):
            self._end_group(name, topic, share.group)
            if not (count + 1) % GROUPS_AT_ONCE:
                yield

    def _end_group(self, name: bytes, topic: bytes, group: bytes) -> None:
        known = self._door.broker.groups.get(topic, group)
        is_wanted = self._routes.audience(name) or self._door.dispatchers.workers(topic, group)
        if known is not None and known.is_share and not is_wanted:
            self._door.dispatchers.groups.end(topic, group)
