"""SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, their opposites, and PUBSUB; many names take several turns."""

from collections.abc import Callable, Mapping

from penstock.doors.resp.access import OPEN, Access, Demand, Keys, Used
from penstock.doors.resp.calls import Call, Spec, container
from penstock.doors.resp.faults import extra_argument
from penstock.doors.resp.subscriptions import filter_around, filter_of
from penstock.model.topic import has_wildcard
from penstock.trust.rules import Action
from penstock.wire.resp import encode, glob
from penstock.wire.resp.names import name_of, topic_of

SLICE = 128  # names taken in one turn of the loop; a pattern takes a tenth of a millisecond


def _subscribe(call: Call) -> None:
    """Subscribe to channels: SUBSCRIBE channel …."""
    subscriptions = call.connection.subscriptions
    _begin(
        call, b"subscribe", subscriptions.channel_fault, subscriptions.subscribe,
        subscriptions.channels,
    )  # fmt: skip


def _psubscribe(call: Call) -> None:
    """Subscribe to all channels that match: PSUBSCRIBE pattern …."""
    subscriptions = call.connection.subscriptions
    _begin(
        call, b"psubscribe", subscriptions.pattern_fault, subscriptions.subscribe_pattern,
        subscriptions.patterns,
    )  # fmt: skip


def _ssubscribe(call: Call) -> None:
    """Subscribe to shard channels, which are topics like all others: SSUBSCRIBE channel …."""
    subscriptions = call.connection.subscriptions
    _begin(
        call, b"ssubscribe", subscriptions.shard_fault, subscriptions.subscribe_shard,
        subscriptions.shards,
    )  # fmt: skip


def _begin(
    call: Call,
    kind: bytes,
    fault_of: Callable[[list[bytes]], str],
    subscribe: Callable[[bytes], None],
    known: Mapping[bytes, object],
) -> None:
    names = call.args[1:]
    if fault := fault_of(names):
        call.fail(f"ERR {fault}")
    elif fault := _quota_fault(call, len(set(names).difference(known))):
        call.fail(f"ERR quota: {fault}")
    else:
        _Slices(call, kind, names, subscribe).go_on()


def _quota_fault(call: Call, more: int) -> str:
    """Why the user may not have so many subscriptions more; empty if it may."""
    meter = call.connection.meter
    total = call.connection.subscriptions.count + more
    return "" if meter is None else meter.admit_subscriptions(total)


def _unsubscribe(call: Call) -> None:
    """Unsubscribe from some channels, or all."""
    subscriptions = call.connection.subscriptions
    names = call.args[1:] or list(subscriptions.channels)
    _Slices(call, b"unsubscribe", names, subscriptions.unsubscribe).go_on()


def _punsubscribe(call: Call) -> None:
    """Unsubscribe from some patterns, or all."""
    subscriptions = call.connection.subscriptions
    patterns = call.args[1:] or list(subscriptions.patterns)
    _Slices(call, b"punsubscribe", patterns, subscriptions.unsubscribe_pattern).go_on()


def _sunsubscribe(call: Call) -> None:
    """Unsubscribe from some shard channels, or all."""
    subscriptions = call.connection.subscriptions
    names = call.args[1:] or list(subscriptions.shards)
    _Slices(call, b"sunsubscribe", names, subscriptions.unsubscribe_shard).go_on()


class _Slices:
    """One such command, over as many turns of the loop as it takes."""

    def __init__(
        self, call: Call, kind: bytes, names: list[bytes], change: Callable[[bytes], None]
    ) -> None:
        self._call = call
        self._kind = kind
        self._names = names
        self._change = change
        self._confirmed: list[bytes] = []
        self._position = 0

    def go_on(self) -> None:
        call = self._call
        if call.closed:
            return
        names = self._names[self._position : self._position + SLICE]
        for name in names:
            self._change(name)
            self._confirm(name)
        self._count(len(names))
        self._position += SLICE
        if self._position < len(self._names):
            call.door.loop.call_soon(self.go_on)
            return
        if not self._names:
            self._confirm(None)
        call.connection.limit()
        _quota_fault(call, 0)  # counts what was given up
        call.reply(b"".join(self._confirmed))

    def _count(self, count: int) -> None:
        counters = self._call.door.counters
        if self._kind.endswith(b"unsubscribe"):
            counters.unsubscribed_total += count
        else:
            counters.subscribed_total += count

    def _confirm(self, name: bytes | None) -> None:
        connection = self._call.connection
        protocol = connection.protocol
        parts = encode.bulk(self._kind, protocol), encode.bulk(name, protocol)
        subscriptions, shards = connection.subscriptions, len(connection.subscriptions.shards)
        is_shard = self._kind in {b"ssubscribe", b"sunsubscribe"}
        count = encode.integer(shards if is_shard else subscriptions.count - shards)
        self._confirmed.append(encode.push([*parts, count], protocol))


def _channels(call: Call) -> None:
    """Topics that clients subscribe to by name: PUBSUB CHANNELS [pattern]."""
    if len(call.args) > 3:
        call.fail(extra_argument(call.args))
        return
    door = call.door
    if fault := call.connection.subscriptions.size_fault(call.args[2:]):
        call.fail(f"ERR {fault}")
        return
    matches = glob.compile(call.args[2]) if len(call.args) > 2 else None
    names: dict[bytes, None] = {}
    for routes in (door.broker.routes, door.feed.routes):
        for topic in routes.filters():
            name = name_of(topic)
            is_asked = not has_wildcard(topic) and (matches is None or matches(name))
            if is_asked and _is_seen(call, topic) and _count(call, topic):
                names[name] = None
    call.value(list(names))


def _numsub(call: Call) -> None:
    """How many clients subscribe to each by name: PUBSUB NUMSUB [channel …]."""
    counted: list[encode.Value] = []
    for name in call.args[2:]:
        topic = topic_of(name)
        counted += name, _count(call, topic) if _is_seen(call, topic) else 0
    call.value(counted)


def _is_seen(call: Call, topic: bytes) -> bool:
    """Whether the client may know who listens: if it could, too."""
    return call.door.admission.allows(call.connection.principal, Action.SUBSCRIBE, topic)


def _count(call: Call, topic: bytes) -> int:
    door = call.door
    sessions = door.broker.routes.audience(topic)
    connected = [True for subscriber in sessions if subscriber.client is not None]
    return len(connected) + len(door.feed.routes.audience(topic))


def _numpat(call: Call) -> None:
    """How many patterns clients subscribe to."""
    call.value(call.door.broker.routes.pattern_count)


_PUBSUB_FLAGS = ("pubsub", "loading", "stale")


def _receiving(filter_of: Callable[[bytes], bytes]) -> Access:
    """What is subscribed to, as the handler will; a part of a filter or pattern is enough."""

    def demands(args: list[bytes], _keys: Keys) -> list[Demand]:
        filters = map(filter_of, args[1:])
        return [
            Demand((Action.SUBSCRIBE,), each, Used.CHANNEL, is_filter=has_wildcard(each))
            for each in filters
        ]

    return Access((Action.SUBSCRIBE,), demands)


def _spec(handler: Callable[[Call], None], arity: int, access: Access = OPEN) -> Spec:
    flags = ("pubsub", "noscript", "loading", "stale")
    return Spec(handler, arity, access, flags=flags, while_subscribed=True)


COMMANDS = {
    b"SUBSCRIBE": _spec(_subscribe, -2, _receiving(filter_of)),
    b"UNSUBSCRIBE": _spec(_unsubscribe, -1),
    b"PSUBSCRIBE": _spec(_psubscribe, -2, _receiving(filter_around)),
    b"PUNSUBSCRIBE": _spec(_punsubscribe, -1),
    b"SSUBSCRIBE": _spec(_ssubscribe, -2, _receiving(topic_of)),
    b"SUNSUBSCRIBE": _spec(_sunsubscribe, -1),
    b"PUBSUB": container(
        {
            b"SHARDCHANNELS": Spec(_channels, -2, OPEN, flags=_PUBSUB_FLAGS),
            b"SHARDNUMSUB": Spec(_numsub, -2, OPEN, flags=_PUBSUB_FLAGS),
            b"CHANNELS": Spec(_channels, -2, OPEN, flags=_PUBSUB_FLAGS),
            b"NUMSUB": Spec(_numsub, -2, OPEN, flags=_PUBSUB_FLAGS),
            b"NUMPAT": Spec(_numpat, 2, OPEN, flags=_PUBSUB_FLAGS),
        }
    ),
}
