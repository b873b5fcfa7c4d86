"""All operations of the queue protocol, and the handlers of the short ones.

Topics, groups and leases that do not exist are no error: what was to be done to them is done.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from penstock.cluster.frames import Member
from penstock.commit.completion import Callback
from penstock.core.commands import GroupConfigured, TopicConfigured
from penstock.core.rate import milli_rate
from penstock.dispatch.groups import Start
from penstock.doors.queue import changes, fetch, fetch_many, listing, poll, producing, push, staging
from penstock.doors.queue.access import (
    ADMITTED,
    FILTERED,
    JUDGED,
    KNOWN,
    OWNED,
    administering,
    committing,
    creating_group,
    on_topic,
)
from penstock.doors.queue.authentication import authenticate
from penstock.doors.queue.faults import backoff_fault, too_many
from penstock.doors.queue.operation import After, Operation, Requester
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.request_fields import delay_ms, reason_of, requested_group, visibility_ms
from penstock.errors import PenstockError
from penstock.limits import LEASES_MAX, MEMBERS_MAX, NODE_ID_MAX
from penstock.model.dead_letters import dead_letter_topic
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rules import Action
from penstock.wire.queue._generated import queue_pb2
from penstock.wire.queue._generated.queue_pb2 import Redriven, Response
from penstock.wire.queue.faults import BAD_REQUEST, BOOTSTRAP_FAILED, Fault

NUMBER_MAX = (1 << 63) - 1  # larger settings mean "no limit", too

NOT_A_READER = Fault(
    BAD_REQUEST, "a group of that name works on the topic; choose another name for the reader"
)


def _capped(number: int) -> int:
    return min(number, NUMBER_MAX)


def _nack(client: Requester, message: queue_pb2.Nack, slot: Slot) -> None:
    _return(client, message, [message.lease_id], slot)


def _ack_many(client: Requester, message: queue_pb2.AckMany, slot: Slot) -> None:
    if slot.is_refused(_leases_fault(message)):
        return
    topic, group = message.topic.encode(), message.group.encode()
    client.door.dispatchers.leases.settle(topic, group, list(message.lease_ids), slot)


def _nack_many(client: Requester, message: queue_pb2.NackMany, slot: Slot) -> None:
    if not slot.is_refused(_leases_fault(message)):
        _return(client, message, list(message.lease_ids), slot)


def _return(
    client: Requester, message: queue_pb2.Nack | queue_pb2.NackMany, leases: list[int], slot: Slot
) -> None:
    client.door.dispatchers.leases.give_back(
        message.topic.encode(),
        message.group.encode(),
        leases,
        slot,
        delay_ms=delay_ms(message.delay_ms),
        reason=reason_of(message),
        is_final=message.dead_letter,
    )


def _leases_fault(
    message: queue_pb2.AckMany | queue_pb2.NackMany | queue_pb2.Extend,
) -> Fault | None:
    return too_many(message.lease_ids, LEASES_MAX, "leases")


def _extend(client: Requester, message: queue_pb2.Extend, slot: Slot) -> None:
    if slot.is_refused(_leases_fault(message)):
        return
    topic, group, leases = message.topic.encode(), message.group.encode(), list(message.lease_ids)
    extent_ms = visibility_ms(message.visibility_timeout_ms)
    client.door.dispatchers.leases.extend(topic, group, leases, extent_ms, slot)


def _commit(client: Requester, message: queue_pb2.Commit, slot: Slot) -> None:
    topic, group = message.topic.encode(), message.group.encode()
    if not slot.is_refused(client.door.group_fault(topic, group)):
        client.door.dispatchers.groups.commit(topic, group, message.offset, slot)


def _create_topic(client: Requester, message: queue_pb2.CreateTopic, slot: Slot) -> None:
    topic = message.topic.encode()
    if not slot.is_refused(client.door.change_fault(topic)):
        client.door.dispatchers.topics.ensure(topic, slot)


def _delete_topic(client: Requester, message: queue_pb2.DeleteTopic, slot: Slot) -> None:
    topic = message.topic.encode()

    def delete() -> None:
        take_back = _recorded(client, "deleted", topic) if client.door.is_there(topic) else _nothing
        refused = partial(_not_stored, slot, take_back)
        client.door.dispatchers.topics.delete(topic, client.blocking(slot.done, refused))

    if not slot.is_refused(client.door.change_fault(topic)):
        client.when_stored(delete)  # messages of this client would outlive the topic


def _set_rate_limit(client: Requester, message: queue_pb2.SetRateLimit, slot: Slot) -> None:
    rate_milli = _capped(milli_rate(message.rate_per_sec))
    command = TopicConfigured(message.topic.encode(), rate_milli=rate_milli, burst=message.burst)
    _configure(client, command, slot)


def _set_retention(client: Requester, message: queue_pb2.SetRetention, slot: Slot) -> None:
    command = TopicConfigured(
        message.topic.encode(),
        max_messages=_capped(message.max_messages),
        max_age_ms=_capped(message.max_age_ms),
        max_bytes=_capped(message.max_bytes),
    )
    _configure(client, command, slot)


def _configure_topic(client: Requester, message: queue_pb2.ConfigureTopic, slot: Slot) -> None:
    settings: dict[str, int] = {
        field: _capped(getattr(message, field))
        for field in ("burst", "max_messages", "max_age_ms", "max_bytes")
        if message.HasField(field)
    }
    if message.HasField("rate_per_sec"):
        settings["rate_milli"] = _capped(milli_rate(message.rate_per_sec))
    keep = message.keep if message.HasField("keep") else None
    _configure(client, TopicConfigured(message.topic.encode(), keep=keep, **settings), slot)


def _configure(client: Requester, command: TopicConfigured, slot: Slot) -> None:
    if slot.is_refused(client.door.change_fault(command.topic)):
        return
    after = {
        name: value
        for name, value in msgspec.structs.asdict(command).items()
        if name != "topic" and value is not None
    }
    take_back = _recorded(client, "configured", command.topic, after=after)
    completion = Callback(slot.done, partial(_not_stored, slot, take_back))
    client.door.dispatchers.topics.configure(command, completion)


def _create_group(client: Requester, message: queue_pb2.CreateGroup, slot: Slot) -> None:
    door, (topic, group, start) = client.door, requested_group(message)
    if slot.is_refused(door.group_fault(topic, group)):
        return
    known = door.broker.groups.get(topic, group)
    if message.reader and known is not None and not known.reader:
        slot.fail(NOT_A_READER)
    elif message.seek and known is not None:
        take_back = _recorded(client, "moved", topic, group, _told(start))
        completion = Callback(slot.done, partial(_not_stored, slot, take_back))
        door.dispatchers.groups.seek(topic, group, start, completion)
    else:
        door.dispatchers.groups.create(topic, group, start, slot, reader=message.reader)


def _delete_group(client: Requester, message: queue_pb2.DeleteGroup, slot: Slot) -> None:
    door, topic, group = client.door, message.topic.encode(), message.group.encode()
    if door.broker.groups.get(topic, group) is None:
        slot.ok()
    elif not slot.is_refused(door.group_fault(topic, group)):
        take_back = _recorded(client, "deleted", topic, group)
        completion = Callback(slot.done, partial(_not_stored, slot, take_back))
        command = door.dispatchers.groups.delete_command(topic, group)
        door.pipeline.submit(command, completion, durable=True)


def _configure_group(client: Requester, message: queue_pb2.ConfigureGroup, slot: Slot) -> None:
    door, topic, group = client.door, message.topic.encode(), message.group.encode()
    known = door.broker.groups.get(topic, group)
    if slot.is_refused(door.group_fault(topic, group) or backoff_fault(known, message)):
        return

    def configured(_value: object) -> None:
        slot.ok()
        # There may be fewer tries than before.
        door.dispatchers.dead_letters.move_exhausted(topic, group)

    door.dispatchers.groups.create(topic, group, Start(), Callback(lambda _new: None))
    command = GroupConfigured(
        topic,
        group,
        message.max_deliveries if message.HasField("max_deliveries") else None,
        _capped(message.backoff_ms) if message.HasField("backoff_ms") else None,
        _capped(message.backoff_max_ms) if message.HasField("backoff_max_ms") else None,
    )
    take_back = _recorded(client, "configured", topic, group)
    refused = partial(_not_stored, slot, take_back)
    door.pipeline.submit(command, Callback(configured, refused), durable=True)


def _redrive(client: Requester, message: queue_pb2.Redrive, slot: Slot) -> None:
    def redriven(count: object) -> None:
        assert isinstance(count, int)
        slot.respond(Response(redriven=Redriven(count=count)))

    topic, group = message.topic.encode(), message.group.encode()
    letters = client.door.dispatchers.dead_letters
    if letters.count(dead_letter_topic(topic, group)):
        _recorded(client, "redriven", topic, group)  # in several commits: it is not taken back
    completion = Callback(redriven, slot.refused)
    client.door.dispatchers.dead_letters.redrive(topic, group, message.max, completion)


def _recorded(
    client: Requester,
    what: str,
    topic: bytes,
    group: bytes = b"",
    after: dict[str, object] | None = None,
) -> Callable[[], None]:
    """Record a change in the audit log; returns what to call if it is not stored."""
    audit, now_ms = client.door.audit, client.door.wall_ms()
    return audit.client_changed(client.principal, now_ms, what, topic, group, after)


def _told(start: Start) -> dict[str, object]:
    return {"to": start.at.name.lower(), "value": start.value}


def _not_stored(
    slot: Slot, take_back: Callable[[], None], reason: DisconnectReason, detail: str
) -> None:
    take_back()
    slot.refused(reason, detail)


def _nothing() -> None:
    """Nothing was recorded, so nothing is taken back."""


def _bootstrap(client: Requester, message: queue_pb2.Bootstrap, slot: Slot) -> None:
    """Form a cluster. Idempotent; a node that stands alone has nothing to do."""

    def begun(error: PenstockError | None) -> None:
        if error is None:
            slot.ok()
        else:
            slot.fail(Fault(BOOTSTRAP_FAILED, str(error)))

    if not slot.is_refused(_nodes_fault(message)):
        members = [Member(node.id, node.peer_addr) for node in message.nodes]
        client.door.cluster.bootstrap(members, begun)


def _nodes_fault(message: queue_pb2.Bootstrap) -> Fault | None:
    fault = too_many(message.nodes, MEMBERS_MAX, "nodes")
    if fault is None and any(not 0 < node.id <= NODE_ID_MAX for node in message.nodes):
        return Fault(BOOTSTRAP_FAILED, f"the id of a node is a number from 1 to {NODE_ID_MAX}")
    return fault


def _ping(_client: Requester, _message: queue_pb2.Ping, slot: Slot) -> None:
    slot.ok()


_WORK = on_topic(Action.WORK)
_MANAGE = on_topic(Action.MANAGE)
_READ = on_topic(Action.READ)

OPERATIONS: Final[dict[str, Operation]] = {
    "produce": Operation(producing.produce, ADMITTED),
    "produce_many": Operation(producing.produce_many, ADMITTED),
    "poll": Operation(poll.poll, _WORK, After.MESSAGES, sees_topics=True),
    "subscribe": Operation(push.subscribe, _WORK),
    "nack": Operation(_nack, _WORK, on_push=push.nack),
    "ack_many": Operation(_ack_many, _WORK, on_push=push.ack_many),
    "nack_many": Operation(_nack_many, _WORK, on_push=push.nack_many),
    "extend": Operation(_extend, _WORK, on_push=push.extend),
    "commit": Operation(_commit, committing),
    "create_topic": Operation(
        _create_topic, on_topic(Action.MANAGE, Action.PUBLISH), sees_topics=True
    ),  # which producing does, too
    "delete_topic": Operation(_delete_topic, _MANAGE, sees_topics=True),
    "set_rate_limit": Operation(_set_rate_limit, _MANAGE),
    "set_retention": Operation(_set_retention, _MANAGE, sees_topics=True),
    "configure_topic": Operation(_configure_topic, _MANAGE, sees_topics=True),
    "create_group": Operation(_create_group, creating_group, sees_topics=True),
    "delete_group": Operation(_delete_group, _MANAGE),
    "configure_group": Operation(_configure_group, _MANAGE),
    "redrive": Operation(_redrive, _MANAGE, sees_topics=True),
    "fetch": Operation(fetch.fetch, _READ, After.MESSAGES, is_read=True, sees_topics=True),
    "fetch_many": Operation(
        fetch_many.fetch_many, JUDGED, After.MESSAGES, is_read=True, sees_topics=True
    ),
    "locate": Operation(fetch.locate, _READ, After.MESSAGES, is_read=True, sees_topics=True),
    "changes": Operation(changes.changes, FILTERED, After.MESSAGES, is_read=True, sees_topics=True),
    "list_topics": Operation(
        listing.list_topics, FILTERED, After.REQUESTS, is_read=True, sees_topics=True
    ),
    "list_groups": Operation(
        listing.list_groups, FILTERED, After.REQUESTS, is_read=True, sees_topics=True
    ),
    "list_keys": Operation(
        listing.list_keys, KNOWN, After.REQUESTS, is_read=True, sees_topics=True
    ),
    "stats": Operation(listing.stats, FILTERED, After.REQUESTS, is_read=True, sees_topics=True),
    "stage": Operation(staging.stage, ADMITTED),
    "commit_stage": Operation(staging.commit_stage, ADMITTED),
    "abort_stage": Operation(staging.abort_stage, OWNED),
    "list_sinks": Operation(staging.list_sinks, FILTERED, is_read=True),
    "forget_sink": Operation(staging.forget_sink, OWNED),
    "bootstrap": Operation(_bootstrap, administering, at_any_node=True),
    "authenticate": Operation(authenticate, KNOWN, at_any_node=True, before_login=True),
    "ping": Operation(_ping, KNOWN, at_any_node=True, on_push=push.ping),
}
"""By the name of the request's kind in ``queue.proto``. Ack is missing: it comes in runs."""
