"""Why a request is refused, in the error codes of the protocol."""

from collections.abc import Sized
from typing import Final

from penstock.access.admission import Admission, Refusal
from penstock.core.groups import Group
from penstock.limits import (
    BACKOFF_MS_DEFAULT,
    PENDING_MAX,
    QUEUE_PAYLOAD_BYTES_MAX,
    QUEUE_REQUEST_BYTES_MAX,
)
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.queue._generated.queue_pb2 import ConfigureGroup
from penstock.wire.queue.faults import (
    BAD_REQUEST,
    FORBIDDEN,
    INTERNAL,
    LIMIT,
    NO_QUORUM,
    NOT_AUTHORIZED,
    NOT_LEADER,
    PAYLOAD_TOO_LARGE,
    Fault,
)

_TEXTS = {
    DisconnectReason.STORAGE_FULL: "the broker's disk is full: nothing changed, retry later",
    DisconnectReason.STORAGE_FAILED: "the broker's disk failed: nothing changed, retry later",
    DisconnectReason.NO_QUORUM: "too few nodes of the cluster are up: retry later",
    DisconnectReason.LEADERSHIP_LOST: "another node leads now: nothing changed, retry",
}

_CLUSTER_CODES = {
    DisconnectReason.NO_QUORUM: (NO_QUORUM, 1_000),
    DisconnectReason.LEADERSHIP_LOST: (NOT_LEADER, 100),
}
"""Code, and when to retry. After ``no_quorum`` the outcome is unknown."""


_REFUSAL_CODES = {
    DisconnectReason.TOPIC_INVALID: BAD_REQUEST,
    DisconnectReason.NOT_AUTHORIZED: NOT_AUTHORIZED,
}

TOO_LARGE: Final = Fault(
    PAYLOAD_TOO_LARGE, f"a payload may have {QUEUE_PAYLOAD_BYTES_MAX} bytes; store it elsewhere"
)
OVERSIZED: Final = Fault(
    BAD_REQUEST, f"a request may have {QUEUE_REQUEST_BYTES_MAX} bytes; send several requests"
)


def produce_fault(
    admission: Admission, principal: Principal, topic: bytes, count: int
) -> Fault | None:
    if topic.startswith(b"$"):
        return reserved_fault(topic)
    route = admission.admit_unsigned(principal, topic, count)
    return refusal_fault(route) if isinstance(route, Refusal) else None


def backoff_fault(known: Group | None, message: ConfigureGroup) -> Fault | None:
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


def full_fault(group: Group | None) -> Fault | None:
    if group is None or not group.is_full:
        return None
    what = f"{PENDING_MAX} messages of this group are in flight or delayed"
    return Fault(LIMIT, f"{what}: acknowledge some")


def too_many(values: Sized, maximum: int, what: str) -> Fault | None:
    if len(values) <= maximum:
        return None
    return Fault(LIMIT, f"a request may have {maximum} {what}; send several requests")


def storage_fault(reason: DisconnectReason, detail: str) -> Fault:
    if reason is DisconnectReason.SIGNATURE_REFUSED:
        return Fault(FORBIDDEN, detail)
    if reason is DisconnectReason.NOT_AUTHORIZED:
        return Fault(NOT_AUTHORIZED, detail)
    text = _TEXTS.get(reason) or f"internal error: {reason.value}"
    code, retry_ms = _CLUSTER_CODES.get(reason, (INTERNAL, 0))
    return Fault(code, f"{text} ({detail})" if detail else text, retry_ms)


def reserved_fault(topic: bytes) -> Fault:
    return Fault(FORBIDDEN, f"{topic.decode()!r}: topics that begin with $ are the broker's own")


def refusal_fault(refusal: Refusal) -> Fault:
    return Fault(_REFUSAL_CODES.get(refusal.reason, FORBIDDEN), refusal.text)
