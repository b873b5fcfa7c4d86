"""What a request is refused for, in the codes of the protocol, and who may do what to which topic.

The first codes are those that every client knows; ``forbidden``, ``limit`` and ``no_quorum`` are
Penstock's own.
What a client may read is more than it may write: dead letters are read like any topic, but only
the broker puts them there.
"""

from collections.abc import Sized
from typing import Final, NamedTuple

from penstock.access.admission import Refusal, topic_refusal
from penstock.limits import (
    BACKOFF_MS_DEFAULT,
    GROUP_BYTES_MAX,
    GROUPS_MAX,
    PENDING_MAX,
    QUEUE_PAYLOAD_BYTES_MAX,
    QUEUE_REQUEST_BYTES_MAX,
)
from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.model.principal import ANYONE
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue._generated.queue_pb2 import ConfigureGroup

BAD_REQUEST: Final = "bad_request"
PAYLOAD_TOO_LARGE: Final = "payload_too_large"
RATE_LIMITED: Final = "rate_limited"
INTERNAL: Final = "internal"
NOT_LEADER: Final = "not_leader"
NO_QUORUM: Final = "no_quorum"
BOOTSTRAP_FAILED: Final = "bootstrap_failed"
FORBIDDEN: Final = "forbidden"
LIMIT: Final = "limit"


_TEXTS = {
    DisconnectReason.STORAGE_FULL: "the broker's disk is full: nothing changed, ask again later",
    DisconnectReason.STORAGE_FAILED: "the broker's disk failed: nothing changed, ask again later",
    DisconnectReason.NO_QUORUM: "too few nodes of the cluster are up: ask again later",
    DisconnectReason.LEADERSHIP_LOST: "another node leads by now: nothing changed, ask again",
}
"""What a client is told when the disk refuses."""

_CLUSTER_CODES = {
    DisconnectReason.NO_QUORUM: (NO_QUORUM, 1_000),
    DisconnectReason.LEADERSHIP_LOST: (NOT_LEADER, 100),
}
"""Code and when to ask again. After ``no_quorum`` it may have been done, or be done yet."""


class Fault(NamedTuple):
    """Why a request is refused: a code for programs, a text for people."""

    code: str
    text: str
    retry_ms: int = 0
    leader_addr: str = ""
    """Where the leader is, if it is another node."""


TOO_LARGE: Final = Fault(
    PAYLOAD_TOO_LARGE, f"a payload may have {QUEUE_PAYLOAD_BYTES_MAX} bytes; store it elsewhere"
)
OVERSIZED: Final = Fault(
    BAD_REQUEST, f"a request may have {QUEUE_REQUEST_BYTES_MAX} bytes; send several requests"
)


def read_fault(hub: Hub, topic: bytes) -> Fault | None:
    """Say why nobody may read a topic; None: it may be read, if it exists."""
    refusal = topic_refusal(topic, hub.limits)
    if refusal and refusal[0] is DisconnectReason.TOPIC_RESERVED and topic.startswith(DEAD_PREFIX):
        return None  # only the broker writes dead letters, but they are there to be read
    return _fault(refusal)


def steer_fault(hub: Hub, topic: bytes) -> Fault | None:
    """Say why no client of this protocol may make, change or delete a topic."""
    if topic.startswith(b"$") and not topic.startswith(DEAD_PREFIX):
        return _reserved(topic)
    fault = read_fault(hub, topic)
    if fault is not None:
        return fault
    refusal = hub.gate.admit_removal(topic)
    return Fault(FORBIDDEN, refusal.text) if refusal else None


def produce_fault(hub: Hub, topic: bytes, count: int) -> Fault | None:
    """Say why so many messages without a signature may not be produced to a topic."""
    if topic.startswith(b"$"):
        return _reserved(topic)
    route = hub.admission.admit_unsigned(ANYONE, topic, count)
    return _fault(route) if isinstance(route, Refusal) else None


def group_fault(hub: Hub, topic: bytes, group: bytes) -> Fault | None:
    """Say why a group of a topic may not be used, which may make it."""
    if len(group) > GROUP_BYTES_MAX:
        return Fault(LIMIT, f"the name of a group may have {GROUP_BYTES_MAX} bytes at most")
    fault = read_fault(hub, topic)
    refusal = hub.gate.admit_group(topic, group)
    if fault is None and refusal is not None:
        return Fault(FORBIDDEN, refusal.text)
    if fault is None and not hub.dispatchers.may_have(topic, group):
        return Fault(LIMIT, f"there are {GROUPS_MAX} groups: delete some that nobody needs")
    return fault


def backoff_fault(hub: Hub, message: ConfigureGroup) -> Fault | None:
    """Say that the longest pause would be less than the first one."""
    known = hub.broker.groups.get(message.topic.encode(), message.group.encode())
    first_ms, longest_ms = message.backoff_ms, message.backoff_max_ms
    if not message.HasField("backoff_ms"):
        first_ms = known.backoff_ms if known else BACKOFF_MS_DEFAULT
    if not message.HasField("backoff_max_ms"):
        longest_ms = known.backoff_max_ms if known and known.is_backoff_chosen else 0
    if not 0 < longest_ms < first_ms:
        return None
    return Fault(
        BAD_REQUEST,
        f"the longest pause, backoff_max_ms {longest_ms}, is less than the first one, backoff_ms"
        f" {first_ms}: raise the one or lower the other; a longest pause of 0 is no limit",
    )


def full_fault(hub: Hub, topic: bytes, group: bytes) -> Fault | None:
    """Say why a group is given no more messages, though there may be some."""
    known = hub.broker.groups.get(topic, group)
    if known is None or not known.is_full:
        return None
    what = f"{PENDING_MAX} messages of this group are with somebody, or wait for their time"
    return Fault(LIMIT, f"{what}: acknowledge some")


def too_many(values: Sized, maximum: int, what: str) -> Fault | None:
    """Say that a request has too many of something, if so."""
    if len(values) <= maximum:
        return None
    return Fault(LIMIT, f"a request may have {maximum} {what}; send several requests")


def storage_fault(reason: DisconnectReason, detail: str) -> Fault:
    """Say that the disk or the cluster refused, or that we failed."""
    if reason is DisconnectReason.SIGNATURE_REFUSED:
        return Fault(FORBIDDEN, detail)
    text = _TEXTS.get(reason) or f"the broker failed: {reason.value}"
    code, retry_ms = _CLUSTER_CODES.get(reason, (INTERNAL, 0))
    return Fault(code, f"{text} ({detail})" if detail else text, retry_ms)


def _reserved(topic: bytes) -> Fault:
    return Fault(FORBIDDEN, f"{topic.decode()!r}: topics with $ in front are the broker's own")


def _fault(refusal: Refusal | None) -> Fault | None:
    if refusal is None:
        return None
    reason, text = refusal
    is_invalid = reason is DisconnectReason.TOPIC_INVALID
    return Fault(BAD_REQUEST if is_invalid else FORBIDDEN, text)
