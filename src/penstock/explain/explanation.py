"""An explanation as data: what the API answers and the command line prints."""

from typing import Final

import msgspec

from penstock.explain.fates import Certainty, Fate

FACTS_MAX: Final = 100  # lines of one explanation; the oldest are left out
RECEIVERS_MAX: Final = 200  # the rest is counted in ``receivers_total``


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was asked about."""

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
    """What became of a message for one receiver."""

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
    certainty: Certainty = Certainty.DERIVED


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


class Explanation(msgspec.Struct, frozen=True):
    """What became of it, in plain words."""

    subject: Subject
    fate: str  # the fate that matters most, or a state or reason code
    summary: str
    receivers: list[Receiver] = []
    receivers_total: int = 0
    facts: list[Fact] = []
    checks: list[Check] = []  # of a dry run
    advice: list[Advice] = []
    not_kept: list[str] = []  # what the broker keeps no record of
    near: list[str] = []  # filters that almost match
    subscribers: list[str] = []  # of a topic: the first clients whose subscriptions match
    subscribers_total: int = 0
    rank: int = 0  # 1: the node that answers has the connection
