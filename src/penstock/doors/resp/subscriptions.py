"""What one connection subscribes to, and how messages reach it.

Subscriptions join the broker's routes as live subscribers. Each has a listener, which determines
the form of its messages: all channels of a connection share one, each pattern and each wildcard
filter has its own. So a client that subscribes to ``a`` and ``a*`` gets both forms, as in Redis.

A channel is a topic (``wire.resp.names``). A name that is a well-formed filter of MQTT with a
wildcard, ``a/#``, is that filter. As in MQTT, neither filters nor patterns that begin with a
wildcard see topics that begin with ``$``.
"""

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from penstock.access.admission import CAPTURED
from penstock.core.delivery import Delivery
from penstock.core.live import Live, LiveClient, LiveSubscriber
from penstock.delivery.fanout import Targets
from penstock.doors.resp.pattern_budget import Account, account_of
from penstock.doors.resp.replay import Replays, SubscribedClient
from penstock.model.topic import filter_fault, has_wildcard
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action
from penstock.wire.resp import encode, glob
from penstock.wire.resp.events import PushOutbox
from penstock.wire.resp.names import name_of, topic_of

Outlets: TypeAlias = list[tuple[PushOutbox, bytes]]  # outboxes, with the head of their pushes

_SIGN = re.compile(rb"[*?\[\\]")  # what is not literal in a pattern


class _Listener(LiveSubscriber):
    """A live subscriber that is its own client."""

    __slots__ = ("_connection",)

    def __init__(self, connection: SubscribedClient) -> None:
        super().__init__(self)
        self._connection = connection

    @property
    def principal(self) -> Principal:
        return self._connection.principal

    @property
    def connection(self) -> SubscribedClient:
        return self._connection

    @property
    def head(self) -> bytes:
        """What its messages begin with."""
        raise NotImplementedError

    @property
    def outlet(self) -> tuple[PushOutbox, bytes] | None:
        """Its outbox, and the head of its pushes; None if it must look at each topic."""
        return self._connection.outbox, self.head

    def forward(self, live: Live) -> None:
        self._connection.outbox.send_live(live.count, live.as_resp(self.head))

    def deliver(self, deliveries: list[Delivery]) -> None:
        for topic, run in groupby(deliveries, itemgetter(0)):
            self.take(topic, [delivery[1] or b"" for delivery in run])

    def take(self, topic: bytes, payloads: list[bytes]) -> None:
        frames = encode.deliveries(self.head, topic, payloads)
        self._connection.outbox.send_live(len(payloads), frames)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self._connection.close(reason, detail)


class _FilterListener(_Listener):
    """The messages of a wildcard filter."""

    __slots__ = ()

    @property
    def head(self) -> bytes:
        return encode.message_head(self._connection.protocol)


class _PatternListener(_Listener):
    """The messages of one pattern."""

    __slots__ = ("_pattern", "account")

    def __init__(self, connection: SubscribedClient, pattern: bytes, account: Account) -> None:
        super().__init__(connection)
        self._pattern = pattern
        self.account = account  # who pays for it

    @property
    def head(self) -> bytes:
        return encode.pattern_head(self._pattern, self._connection.protocol)


class _ShardListener(_Listener):
    """The messages of all shard channels: a shard channel is the topic of its name, too."""

    __slots__ = ()

    @property
    def head(self) -> bytes:
        return encode.shard_head(self._connection.protocol)


class _ChannelsListener(_FilterListener):
    """The messages of all channels, without live ones of topics that are being replayed."""

    __slots__ = ("replays",)

    def __init__(self, connection: SubscribedClient) -> None:
        super().__init__(connection)
        self.replays = Replays(connection)

    @property
    def outlet(self) -> tuple[PushOutbox, bytes] | None:
        if self.replays.topics:
            return None
        connection = self._connection
        return connection.outbox, encode.message_head(connection.protocol)

    def forward(self, live: Live) -> None:
        if not self.replays.topics:  # as ``_Listener.forward``, without a call more
            self._connection.outbox.send_live(live.count, live.as_resp(self.head))
            return
        for run in live.runs:
            self.take(run.topic, run.payloads)

    def take(self, topic: bytes, payloads: list[bytes]) -> None:
        if topic not in self.replays.topics:
            super().take(topic, payloads)


class Subscriptions:
    """The channels and patterns of one connection."""

    __slots__ = (
        "_budget",
        "_connection",
        "_own",
        "_routes",
        "_shard",
        "channels",
        "patterns",
        "shards",
    )

    def __init__(self, connection: SubscribedClient) -> None:
        self._connection = connection
        self._routes = connection.door.broker.routes
        self._budget = connection.door.pattern_budget
        self._own: _ChannelsListener | None = None
        self.channels: dict[bytes, _Listener] = {}  # by topic or filter, in order of subscribing
        self.patterns: dict[bytes, _PatternListener] = {}
        self.shards: dict[bytes, bytes] = {}  # topics of shard channels by name
        self._shard = _ShardListener(connection)

    @property
    def count(self) -> int:
        return len(self.channels) + len(self.patterns) + len(self.shards)

    def channel_fault(self, names: list[bytes]) -> str:
        return self._names_fault(names, filter_of) or self._count_fault(names, self.channels)

    def shard_fault(self, names: list[bytes]) -> str:
        return self._names_fault(names, topic_of) or self._count_fault(names, self.shards)

    def _names_fault(self, names: list[bytes], filter_of: Callable[[bytes], bytes]) -> str:
        limits = self._connection.door.limits
        for name in names:
            fault = filter_fault(filter_of(name), limits.topic_bytes_max, limits.topic_levels_max)
            if fault:
                return f"invalid channel '{printable(name)}': {fault}"
        return ""

    def pattern_fault(self, patterns: list[bytes]) -> str:
        if fault := self.size_fault(patterns):
            return fault
        new = set(patterns).difference(self.patterns)
        if fault := self._budget.fault(self._account(), new):
            return fault
        return self._count_fault(patterns, self.patterns)

    def _account(self) -> Account:
        connection = self._connection
        return account_of(connection.principal.user, connection.origin, connection)

    def size_fault(self, patterns: list[bytes]) -> str:
        bytes_max = self._connection.door.limits.topic_bytes_max
        if any(len(pattern) > bytes_max for pattern in patterns):
            return f"invalid pattern: longer than {bytes_max} bytes"
        return ""

    def _count_fault(self, names: Iterable[bytes], known: Iterable[bytes]) -> str:
        count_max = self._connection.door.limits.subscriptions_max
        count = self.count + len(set(names).difference(known))
        return "" if count <= count_max else f"too many subscriptions: at most {count_max}"

    def subscribe(self, name: bytes) -> None:
        if name in self.channels:
            return
        topic = filter_of(name)
        listener = (
            _FilterListener(self._connection) if has_wildcard(topic) else self._channels_listener()
        )
        self.channels[name] = listener
        if listener is self._own and self._is_replayed(topic):
            self._own.replays.begin(topic)
        self._routes.subscribe(topic, listener, 0)

    def _channels_listener(self) -> _ChannelsListener:
        if self._own is None:
            self._own = _ChannelsListener(self._connection)
            self._connection.outbox.when_resumed = self._own.replays.resume
        return self._own

    def _is_replayed(self, topic: bytes) -> bool:
        """Whether the journal is read first: if configured, and if it has all messages."""
        door = self._connection.door
        is_complete = bool(door.admission.policy(topic) & CAPTURED)
        return door.settings.replay and is_complete and self._may_read(topic)

    def _may_read(self, topic: bytes) -> bool:
        """History needs another right than what is live."""
        connection = self._connection
        return connection.door.admission.allows(connection.principal, Action.READ, topic)

    def stop_denied_replays(self) -> None:
        topics = list(self._own.replays.topics) if self._own is not None else []
        for topic in topics:
            if self._own is not None and not self._may_read(topic):
                self._own.replays.stop(topic)

    def route_again(self) -> None:
        """Another user has the connection: routes are made anew, and judged by its rights."""
        for topic in [*map(filter_of, self.channels), *self.shards.values()]:
            self._routes.forget(topic)
        for pattern in list(self.patterns):
            self.unsubscribe_pattern(pattern)
            self.subscribe_pattern(pattern)

    def unsubscribe(self, name: bytes) -> None:
        listener = self.channels.pop(name, None)
        if listener is None:
            return
        topic = filter_of(name)
        self._routes.unsubscribe(topic, listener)
        self._connection.outbox.settle_live()
        if self._own is not None:
            self._own.replays.stop(topic)

    def subscribe_pattern(self, pattern: bytes) -> None:
        if pattern not in self.patterns:
            account = self._account()
            listener = _PatternListener(self._connection, pattern, account)
            self.patterns[pattern] = listener
            self._budget.take(account, pattern)
            matches, cost = glob.compile(pattern), glob.cost(pattern)
            self._routes.subscribe_pattern(
                pattern, lambda topic: matches(name_of(topic)), listener, cost
            )

    def unsubscribe_pattern(self, pattern: bytes) -> None:
        listener = self.patterns.pop(pattern, None)
        if listener is not None:
            self._routes.unsubscribe_pattern(pattern, listener)
            self._budget.give_back(listener.account, pattern)
            self._connection.outbox.settle_live()

    def subscribe_shard(self, name: bytes) -> None:
        if name not in self.shards:
            topic = self.shards[name] = topic_of(name)
            self._routes.subscribe(topic, self._shard, 0)

    def unsubscribe_shard(self, name: bytes) -> None:
        topic = self.shards.pop(name, None)
        if topic is not None:
            self._routes.unsubscribe(topic, self._shard)
            self._connection.outbox.settle_live()

    def clear(self) -> None:
        for name in list(self.shards):
            self.unsubscribe_shard(name)
        for name in list(self.channels):
            self.unsubscribe(name)
        for pattern in list(self.patterns):
            self.unsubscribe_pattern(pattern)


def connection_of(client: LiveClient | None) -> object:
    """Whose connection a live subscriber's client is, or belongs to."""
    return client.connection if isinstance(client, _Listener) else client


def way_of(targets: Targets) -> Outlets | None:
    """Where pushes go; None if not all who are connected take them as they are."""
    way: Outlets = []
    for target, _granted in targets:
        client = target.client
        if client is not None:
            outlet = client.outlet if isinstance(client, _Listener) else None
            if outlet is None:
                return None
            way.append(outlet)
    return way


def filter_of(name: bytes) -> bytes:
    """What a channel is: a filter of MQTT if it reads like one, otherwise a topic."""
    topic = topic_of(name)
    is_filter = topic != name and has_wildcard(name) and not filter_fault(name)
    return name if is_filter and _is_utf8(name) else topic


def filter_around(pattern: bytes) -> bytes:
    """A filter of MQTT that matches whatever a pattern does: its levels before the first sign."""
    plain = _SIGN.split(pattern, maxsplit=1)[0]
    if plain == pattern:
        return topic_of(pattern)
    levels = plain.rpartition(b"/")[0]
    return topic_of(levels) + b"/#" if levels else b"#"


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
