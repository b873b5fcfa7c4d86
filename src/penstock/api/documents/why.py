"""What became of a client, a message, a topic or a publish: answers of ``/api/v1/why/...``.

``GET why/client?client_id=pump-7``, ``GET why/message?topic=mail/out&offset=118``,
``GET why/topic?topic=mail/out`` and ``POST why/publish``, a dry run, all answer a ``Why``.
"""

import msgspec

from penstock.api.documents.common import Count, Query
from penstock.api.documents.lists import Missing
from penstock.explain.explanation import (
    Advice,
    Check,
    Explanation,
    Fact,
    Receiver,
    Subject,
)

__all__ = [
    "Advice", "Check", "Explanation", "Fact", "PublishQuestion", "Receiver", "Subject",
    "Why", "WhyClient", "WhyMessage", "WhyTopic",
]  # fmt: skip


class Why(Explanation, frozen=True):
    """What became of it, in plain words. ``incomplete`` are nodes that could not be asked."""

    incomplete: list[Missing] = msgspec.field(default_factory=list)


class WhyClient(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which client."""

    client_id: str


class WhyMessage(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which message."""

    topic: str
    offset: Count


class WhyTopic(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which topic."""

    topic: str


class PublishQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A publish that is only tried."""

    topic: str
    user: str = ""  # the user to publish as; empty: a client that has not logged in
    payload_bytes: Count = 0
    qos: Count = 1
    retain: bool = False
