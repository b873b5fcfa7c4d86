"""What became of a client, a message, a topic or a publish: answers of ``/api/v1/why/...``.

``GET why/client?client_id=pump-7``, ``GET why/message?topic=mail/out&offset=118``,
``GET why/topic?topic=mail/out`` and ``POST why/publish``, a dry run, all answer a ``Why``.
"""

import msgspec

from penstock.explain.fates import Certainty, Fate


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was asked about: one of the four."""

    kind: str  # client, message, topic, publish
    client_id: str | None = None
    topic: str | None = None
    offset: int | None = None
    user: str | None = None


class Fact(msgspec.Struct, frozen=True):
    """A line of the explanation, oldest first."""

    at: str | None  # RFC 3339, UTC; null: no single moment
    code: str  # a fate, a reason, or another snake_case word
    certainty: Certainty
    text: str
    is_trouble: bool = False


class Receiver(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a message for one receiver: a client with its session, or a group."""

    kind: str  # client, group, subscriber, retained
    name: str
    fate: Fate
    reason: str | None = None  # a drop reason, or what a worker gave
    filter: str | None = None  # the subscription that matched
    holder: str | None = None  # the worker that has it
    until: str | None = None
    attempts: int | None = None
    attempts_max: int | None = None
    ahead: int | None = None  # messages before it
    limit: int | None = None
    text: str = ""


class Check(msgspec.Struct, frozen=True):
    """One question of a dry run, and whether the publish would pass."""

    code: str  # topic, access, signature, size, quota, disk, quorum, receivers
    passes: bool
    text: str
    certainty: Certainty = Certainty.DERIVED


class Advice(msgspec.Struct, frozen=True):
    """What to do; ``command`` is a line for the shell where there is one."""

    text: str
    command: str | None = None


class Why(msgspec.Struct, frozen=True):
    """What became of it, in plain words."""

    subject: Subject
    fate: str  # the fate that matters most, or a state or reason code
    summary: str
    receivers: list[Receiver]
    receivers_total: int
    facts: list[Fact]
    checks: list[Check]  # of a dry run
    advice: list[Advice]
    not_kept: list[str]  # what the broker keeps no record of
    near: list[str] = []  # filters that almost match
    incomplete: list["Unheard"] = []


class Unheard(msgspec.Struct, frozen=True):
    """A node that could not be asked."""

    node: int
    reason: str


class PublishQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A publish that is only tried: body of ``POST why/publish``."""

    topic: str
    user: str = ""  # the user to publish as; empty: whoever asks
    payload_bytes: int = 0
    qos: int = 1
    retain: bool = False


class TraceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST traces``: a client or a topic to follow for a while."""

    client_id: str | None = None
    topic: str | None = None
    seconds: int = 60  # at most 900


class Trace(msgspec.Struct, frozen=True):
    """A trace that is on; ``GET traces`` lists them, ``DELETE traces?id=...`` ends one."""

    id: str
    client_id: str | None
    topic: str | None
    until: str
    events: int  # recorded so far; read them from ``events?trace=ID``


class Traces(msgspec.Struct, frozen=True):
    """All traces of this node."""

    items: list[Trace]
