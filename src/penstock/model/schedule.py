"""A scheduled publish: when it is due, and what is published then."""

import msgspec

from penstock.model.mqtt_headers import Headers

ONCE, EVERY, CRON = "once", "every", "cron"  # kinds of timing

MISSED_POLICIES = ("skip", "once", "all")

NAME_HEADER, DUE_HEADER = b"schedule", b"schedule-due"  # of each message


class Timing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a schedule fires; ``schedules.timing`` tells when that is."""

    kind: str
    at_ms: int = 0  # once
    interval_ms: int = 0  # every so long, beginning at ``anchor_ms``
    anchor_ms: int = 0
    cron: str = ""
    timezone: str = "UTC"


class ScheduledMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is published. The content type is among the headers (``model.mqtt_headers``)."""

    topic: bytes
    payload: bytes
    qos: int = 1
    retain: bool = False
    headers: Headers = ()
    priority: int = 0
    expiry_ms: int = 0  # how long it is worth delivering, from its firing on; 0: for ever

    @property
    def size(self) -> int:
        texts = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.topic) + len(self.payload) + texts
