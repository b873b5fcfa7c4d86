"""Commands on keys that make sense for topics: DEL, EXISTS, TYPE, EXPIRE and the like.

A topic is the only kind of key, and its type is ``stream``. The expiry of a key in Redis is the age
limit of a topic here: older entries go, the topic stays. FLUSHALL and FLUSHDB would delete the
topics of all clients; they are refused unless the configuration allows them.
"""

from collections.abc import Iterable
from functools import partial

from penstock.core.commands import TopicConfigured
from penstock.doors.resp.access import MANAGE, OPEN, SEEN, Access, Demand
from penstock.doors.resp.auditing import recorded
from penstock.doors.resp.awaiting import off_loop
from penstock.doors.resp.calls import OK, Call, Commands, Spec
from penstock.doors.resp.faults import CommandError
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.streams.options import integer
from penstock.doors.resp.tasks import stepwise
from penstock.obs.printable import printable
from penstock.trust.rules import Action
from penstock.wire.resp import encode

GONE = "UNBLOCKED the stream key no longer exists"


def _check_removal(door: RespParts, topic: bytes) -> None:
    if topic.startswith(b"$"):
        raise CommandError(f"ERR topic_reserved: topic {printable(topic)}")
    refusal = door.gate.admit_removal(topic)
    if refusal is not None:
        raise CommandError(f"ERR {refusal.text}")


def _is_there(door: RespParts, topic: bytes) -> bool:
    return door.reader.exists(topic) or door.broker.topics.get(topic) is not None


async def _delete(call: Call) -> bytes:
    """Delete topics, their messages, groups and settings: DEL key …."""
    door = call.door
    topics = [topic for topic in dict.fromkeys(call.args[1:]) if _is_there(door, topic)]
    for topic in topics:
        _check_removal(door, topic)
    await _delete_all(call, topics)
    return encode.integer(len(topics))


async def _delete_all(call: Call, topics: Iterable[bytes]) -> None:
    door = call.door
    for topic in topics:
        groups = list(door.broker.groups.by_topic.get(topic, ()))
        await recorded(call, "deleted", topic, partial(door.dispatchers.topics.delete, topic))
        for group in groups:
            door.group_queues.fail(topic, group, CommandError(GONE))


def _exists(call: Call) -> None:
    """How many of these topics there are: EXISTS key …."""
    door = call.door
    call.value(sum(_is_there(door, topic) for topic in call.args[1:]))


def _type(call: Call) -> None:
    """The type of a key: stream, or none."""
    is_there = _is_there(call.door, call.args[1])
    call.reply(encode.simple("stream" if is_there else "none"))


async def _expire(call: Call) -> bytes:
    """Limit the age of a topic's entries: EXPIRE key seconds."""
    return await _limit_age(call, 1_000)


async def _pexpire(call: Call) -> bytes:
    """Limit the age of a topic's entries: PEXPIRE key milliseconds."""
    return await _limit_age(call, 1)


async def _limit_age(call: Call, unit_ms: int) -> bytes:
    topic = call.args[1]
    age_ms = integer(call.args[2]) * unit_ms
    if not 0 < age_ms < 2**53:
        name = call.args[0].decode(errors="replace").lower()
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    if len(call.args) > 3:
        raise CommandError("ERR The options of EXPIRE are not supported: an age limit is just set")
    return await _configure_age(call, topic, age_ms)


async def _persist(call: Call) -> bytes:
    """Lift the age limit of a topic."""
    door, topic = call.door, call.args[1]
    return await _configure_age(call, topic, 0) if _age_ms(door, topic) else encode.integer(0)


async def _configure_age(call: Call, topic: bytes, age_ms: int) -> bytes:
    door = call.door
    if not _is_there(door, topic):
        return encode.integer(0)
    _check_removal(door, topic)
    command = TopicConfigured(topic, max_age_ms=age_ms)
    configure = partial(door.dispatchers.topics.configure, command)
    await recorded(call, "configured", topic, configure, max_age_ms=age_ms)
    return encode.integer(1)


def _age_ms(door: RespParts, topic: bytes) -> int:
    settings = door.broker.topics.get(topic)
    return settings.max_age_ms if settings else 0


def _ttl(call: Call) -> None:
    """The age limit of a topic in seconds; -1: it has none, -2: there is no such topic."""
    _tell_age(call, 1_000)


def _pttl(call: Call) -> None:
    """The age limit of a topic in milliseconds; -1: it has none, -2: there is no such topic."""
    _tell_age(call, 1)


def _tell_age(call: Call, unit_ms: int) -> None:
    door, topic = call.door, call.args[1]
    if not _is_there(door, topic):
        call.value(-2)
        return
    age_ms = _age_ms(door, topic)
    call.value(-(-age_ms // unit_ms) if age_ms else -1)


async def _flush(call: Call) -> bytes:
    """Delete all topics, if the configuration allows it: FLUSHALL [ASYNC | SYNC]."""
    door = call.door
    if not door.settings.allow_flush:
        raise CommandError(
            "ERR FLUSHALL and FLUSHDB delete the topics of all protocols, and are not allowed here;"
            " an administrator may set resp.allow_flush, or use DEL"
        )
    if len(call.args) > 2 or (call.args[1:] and call.args[1].upper() not in {b"ASYNC", b"SYNC"}):
        raise CommandError("ERR syntax error")
    stored = await off_loop(door.readers, lambda: [info.name for info in door.store.topics()])
    known = dict.fromkeys([*stored, *door.broker.groups.by_topic, *door.broker.topics.by_name])
    await _delete_all(call, [topic for topic in known if _may_go(door, topic)])
    return OK


def _may_go(door: RespParts, topic: bytes) -> bool:
    try:
        _check_removal(door, topic)
    except CommandError:
        return False
    return True


def _time(call: Call) -> None:
    """The broker's clock: seconds, and microseconds beside them."""
    seconds, rest_ms = divmod(call.door.wall_ms(), 1_000)
    call.value([b"%d" % seconds, b"%d" % (rest_ms * 1_000)])


_FLUSHING = Access(
    (Action.MANAGE,), lambda _args, _keys: (Demand((Action.MANAGE,), b"#", is_whole=True),)
)
WRITES = ("write",)
READS = ("readonly", "fast")

COMMANDS: Commands = {
    b"DEL": Spec(stepwise(_delete), -2, MANAGE, flags=WRITES, keys=(1, -1, 1)),
    b"UNLINK": Spec(stepwise(_delete), -2, MANAGE, flags=("write", "fast"), keys=(1, -1, 1)),
    b"EXISTS": Spec(_exists, -2, SEEN, flags=READS, keys=(1, -1, 1)),
    b"TYPE": Spec(_type, 2, SEEN, flags=READS, keys=(1, 1, 1)),
    b"EXPIRE": Spec(stepwise(_expire), -3, MANAGE, flags=("write", "fast"), keys=(1, 1, 1)),
    b"PEXPIRE": Spec(stepwise(_pexpire), -3, MANAGE, flags=("write", "fast"), keys=(1, 1, 1)),
    b"PERSIST": Spec(stepwise(_persist), 2, MANAGE, flags=("write", "fast"), keys=(1, 1, 1)),
    b"TTL": Spec(_ttl, 2, SEEN, flags=READS, keys=(1, 1, 1)),
    b"PTTL": Spec(_pttl, 2, SEEN, flags=READS, keys=(1, 1, 1)),
    b"FLUSHALL": Spec(stepwise(_flush), -1, _FLUSHING, flags=WRITES),
    b"FLUSHDB": Spec(stepwise(_flush), -1, _FLUSHING, flags=WRITES),
    b"TIME": Spec(_time, 1, OPEN, flags=("loading", "stale", "fast")),
}
