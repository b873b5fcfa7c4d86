"""All requests that come one by one, by kind, and what the plain ones do.

A handler is given the connection, the message of the request and the slot of its response; it
answers the slot, or gives it to somebody who will. Things that do not exist (a topic, a group, a
lease that is over) are no error: what was to be done to them is done.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cluster.frames import Member
from penstock.commit.completion import Callback
from penstock.core.commands import GroupConfigured, TopicConfigured
from penstock.core.rate import milli_rate
from penstock.dispatch.dispatchers import Start
from penstock.doors.queue import changes, fetch, listing, producing, staging
from penstock.doors.queue.faults import (
    BAD_REQUEST,
    BOOTSTRAP_FAILED,
    Fault,
    backoff_fault,
    group_fault,
    steer_fault,
    too_many,
)
from penstock.doors.queue.poll import Poll
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.terms import delay_ms, place_of, reason_of, visibility_ms
from penstock.errors import PenstockError
from penstock.limits import LEASES_MAX, MEMBERS_MAX, NODE_ID_MAX
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import Redriven, Response

if TYPE_CHECKING:
    from penstock.doors.queue.connection import QueueConnection


Handler = Callable[["QueueConnection", Any, Slot], None]

NUMBER_MAX = (1 << 63) - 1
"""Largest number that is kept; whoever asks for more means without limit."""


NOT_A_READER = Fault(
    BAD_REQUEST, "a group of that name works on the topic; choose another name for the reader"
)


def _capped(number: int) -> int:
    return min(number, NUMBER_MAX)


# ── messages in hand ──────────────────────────────────────────────────────────────────────────


def _poll(door: "QueueConnection", message: queue_pb2.Poll, slot: Slot) -> None:
    Poll(door, message, slot).start()


def _nack(door: "QueueConnection", message: queue_pb2.Nack, slot: Slot) -> None:
    _give_back(door, message, [message.lease_id], slot)


def _ack_many(door: "QueueConnection", message: queue_pb2.AckMany, slot: Slot) -> None:
    if _is_refused(slot, _leases_fault(message)):
        return
    topic, group = message.topic.encode(), message.group.encode()
    door.hub.dispatchers.settle_leases(topic, group, list(message.lease_ids), slot)


def _nack_many(door: "QueueConnection", message: queue_pb2.NackMany, slot: Slot) -> None:
    if not _is_refused(slot, _leases_fault(message)):
        _give_back(door, message, list(message.lease_ids), slot)


def _give_back(
    door: "QueueConnection",
    message: queue_pb2.Nack | queue_pb2.NackMany,
    leases: list[int],
    slot: Slot,
) -> None:
    door.hub.dispatchers.return_leases(
        message.topic.encode(),
        message.group.encode(),
        leases,
        slot,
        delay_ms=delay_ms(message.delay_ms),
        reason=reason_of(message),
    )


def _leases_fault(
    message: queue_pb2.AckMany | queue_pb2.NackMany | queue_pb2.Extend,
) -> Fault | None:
    return too_many(message.lease_ids, LEASES_MAX, "leases")


def _extend(door: "QueueConnection", message: queue_pb2.Extend, slot: Slot) -> None:
    if _is_refused(slot, _leases_fault(message)):
        return
    topic, group, leases = message.topic.encode(), message.group.encode(), list(message.lease_ids)
    extent_ms = visibility_ms(message.visibility_timeout_ms)
    door.hub.dispatchers.extend_leases(topic, group, leases, extent_ms, slot)


def _commit(door: "QueueConnection", message: queue_pb2.Commit, slot: Slot) -> None:
    topic, group = message.topic.encode(), message.group.encode()
    if not _is_refused(slot, group_fault(door.hub, topic, group)):
        door.hub.dispatchers.commit(topic, group, message.offset, slot)


# ── topics ────────────────────────────────────────────────────────────────────────────────────


def _create_topic(door: "QueueConnection", message: queue_pb2.CreateTopic, slot: Slot) -> None:
    topic = message.topic.encode()
    if not _is_refused(slot, steer_fault(door.hub, topic)):
        door.hub.dispatchers.ensure_topic(topic, slot)


def _delete_topic(door: "QueueConnection", message: queue_pb2.DeleteTopic, slot: Slot) -> None:
    topic = message.topic.encode()
    if not _is_refused(slot, steer_fault(door.hub, topic)):
        door.when_stored(lambda: _delete(door, topic, slot))


def _delete(door: "QueueConnection", topic: bytes, slot: Slot) -> None:
    """Delete a topic that has all that this client produced to it."""
    door.hub.dispatchers.delete_topic(topic, door.blocking(slot.done, slot.refused))


def _set_rate_limit(door: "QueueConnection", message: queue_pb2.SetRateLimit, slot: Slot) -> None:
    rate_milli = milli_rate(message.rate_per_sec)
    settings = {"rate_milli": _capped(rate_milli), "burst": message.burst}
    _configure(door, message.topic.encode(), settings, slot)


def _set_retention(door: "QueueConnection", message: queue_pb2.SetRetention, slot: Slot) -> None:
    settings = {
        "max_messages": _capped(message.max_messages),
        "max_age_ms": _capped(message.max_age_ms),
        "max_bytes": _capped(message.max_bytes),
    }
    _configure(door, message.topic.encode(), settings, slot)


def _configure_topic(
    door: "QueueConnection", message: queue_pb2.ConfigureTopic, slot: Slot
) -> None:
    settings: dict[str, int] = {
        field: _capped(getattr(message, field))
        for field in ("burst", "max_messages", "max_age_ms", "max_bytes", "keep")
        if message.HasField(field)
    }
    if message.HasField("rate_per_sec"):
        settings["rate_milli"] = _capped(milli_rate(message.rate_per_sec))
    if "keep" in settings:
        settings["keep"] = bool(settings["keep"])
    _configure(door, message.topic.encode(), settings, slot)


def _configure(door: "QueueConnection", topic: bytes, settings: dict[str, Any], slot: Slot) -> None:
    if not _is_refused(slot, steer_fault(door.hub, topic)):
        door.hub.dispatchers.configure_topic(TopicConfigured(topic, **settings), slot)


# ── groups ────────────────────────────────────────────────────────────────────────────────────


def _create_group(door: "QueueConnection", message: queue_pb2.CreateGroup, slot: Slot) -> None:
    hub, (topic, group, start) = door.hub, place_of(message)
    if _is_refused(slot, group_fault(hub, topic, group)):
        return
    known = hub.broker.groups.get(topic, group)
    if message.reader and known is not None and not known.reader:
        slot.fail(NOT_A_READER)
    elif message.seek and known is not None:
        hub.dispatchers.seek(topic, group, start, slot)
    else:
        hub.dispatchers.make_group(topic, group, start, slot, reader=message.reader)


def _delete_group(door: "QueueConnection", message: queue_pb2.DeleteGroup, slot: Slot) -> None:
    topic, group = message.topic.encode(), message.group.encode()
    if door.hub.broker.groups.get(topic, group) is None:
        slot.ok()
    elif not _is_refused(slot, group_fault(door.hub, topic, group)):
        door.hub.pipeline.submit(door.hub.dispatchers.group_gone(topic, group), slot, durable=True)


def _configure_group(
    door: "QueueConnection", message: queue_pb2.ConfigureGroup, slot: Slot
) -> None:
    hub, topic, group = door.hub, message.topic.encode(), message.group.encode()
    fault = group_fault(hub, topic, group) or backoff_fault(hub, message)
    if _is_refused(slot, fault):
        return

    def configured(_value: object) -> None:
        slot.ok()
        hub.dispatchers.dead_letters.bury(topic, group)  # there may be fewer tries than before

    hub.dispatchers.make_group(topic, group, Start(), Callback(lambda _new: None))
    command = GroupConfigured(
        topic,
        group,
        message.max_deliveries if message.HasField("max_deliveries") else None,
        _capped(message.backoff_ms) if message.HasField("backoff_ms") else None,
        _capped(message.backoff_max_ms) if message.HasField("backoff_max_ms") else None,
    )
    hub.pipeline.submit(command, Callback(configured, slot.refused), durable=True)


def _redrive(door: "QueueConnection", message: queue_pb2.Redrive, slot: Slot) -> None:
    def redriven(count: Any) -> None:
        slot.respond(Response(redriven=Redriven(count=count)))

    topic, group = message.topic.encode(), message.group.encode()
    outlet = Callback(redriven, slot.refused)
    door.hub.dispatchers.dead_letters.redrive(topic, group, message.max, outlet)


# ── the rest ──────────────────────────────────────────────────────────────────────────────────


def _bootstrap(door: "QueueConnection", message: queue_pb2.Bootstrap, slot: Slot) -> None:
    """Begin a cluster; a node that has begun with the same nodes, or stands alone, has done it."""

    def begun(error: PenstockError | None) -> None:
        if error is None:
            slot.ok()
        else:
            slot.fail(Fault(BOOTSTRAP_FAILED, str(error)))

    if not _is_refused(slot, _nodes_fault(message)):
        members = [Member(node.id, node.peer_addr) for node in message.nodes]
        door.hub.cluster.bootstrap(members, begun)


def _nodes_fault(message: queue_pb2.Bootstrap) -> Fault | None:
    """Say what is wrong with the list, as far as that can be said without knowing the node."""
    fault = too_many(message.nodes, MEMBERS_MAX, "nodes")
    if fault is None and any(not 0 < node.id <= NODE_ID_MAX for node in message.nodes):
        return Fault(BOOTSTRAP_FAILED, f"the id of a node is a number from 1 to {NODE_ID_MAX}")
    return fault


def _ping(_door: "QueueConnection", _message: queue_pb2.Ping, slot: Slot) -> None:
    slot.ok()


def _is_refused(slot: Slot, fault: Fault | None) -> bool:
    if fault is not None:
        slot.fail(fault)
    return fault is not None


HANDLERS: dict[str, Handler] = {
    "produce": producing.produce,
    "produce_many": producing.produce_many,
    "poll": _poll,
    "nack": _nack,
    "ack_many": _ack_many,
    "nack_many": _nack_many,
    "extend": _extend,
    "commit": _commit,
    "create_topic": _create_topic,
    "delete_topic": _delete_topic,
    "set_rate_limit": _set_rate_limit,
    "set_retention": _set_retention,
    "configure_topic": _configure_topic,
    "create_group": _create_group,
    "delete_group": _delete_group,
    "configure_group": _configure_group,
    "redrive": _redrive,
    "fetch": fetch.fetch,
    "locate": fetch.locate,
    "changes": changes.changes,
    "list_topics": listing.list_topics,
    "list_groups": listing.list_groups,
    "list_keys": listing.list_keys,
    "stats": listing.stats,
    "stage": staging.stage,
    "commit_stage": staging.commit_stage,
    "abort_stage": staging.abort_stage,
    "list_sinks": staging.list_sinks,
    "forget_sink": staging.forget_sink,
    "bootstrap": _bootstrap,
    "ping": _ping,
}
"""By the name of the kind in ``queue.proto``; Ack comes in runs, and Subscribe ends this talk."""

LOOKS_AT_MESSAGES = frozenset({"poll", "fetch", "locate", "changes"})
LOOKS_AT_STATE = frozenset({"stats", "list_topics", "list_groups", "list_keys"})
LOOKS_AT_TOPICS = (
    LOOKS_AT_MESSAGES
    | LOOKS_AT_STATE
    | {
        "create_topic",
        "delete_topic",
        "configure_topic",
        "set_retention",
        "create_group",
        "redrive",
    }
)
"""Must see all messages that were acknowledged, also where those may not be on disk yet."""
