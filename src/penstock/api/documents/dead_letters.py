"""What the API says about dead letters: messages that failed as often as their group allows."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.api.documents.common import Count
from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Header, Payload
from penstock.api.documents.queues import GroupName, TopicName


class ReasonCount(msgspec.Struct, frozen=True):
    """How many letters have the same reason."""

    reason: str
    letters: int


class DeadLetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one group."""

    topic: str
    group: str
    letters_topic: str  # where they are; every protocol can read it
    letters: int
    oldest: str | None
    newest: str | None
    reasons: list[ReasonCount]  # the most frequent first
    counted: int  # letters whose reason was looked at
    redriving: bool


class DeadLetterGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that have dead letters, by topic and name."""

    items: list[DeadLetterGroup]
    next: str | None = None
    incomplete: list[Missing] = []


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter."""

    offset: int  # in the topic of the letters
    time: str | None  # when it became a dead letter
    topic: str  # where it was published
    topic_offset: int
    attempts: int
    reason: str  # the last
    signed: bool
    headers: list[Header]  # of the message itself
    payload: Payload
    payload_bytes: int
    cut: bool


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """The letters of one group by offset."""

    items: list[DeadLetter]
    letters: int  # in total
    letters_topic: str  # where they are
    next: str | None = None
    incomplete: list[Missing] = []


class LetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``dlq/redrive`` and ``dlq/delete``: which letters of a group.

    By ``offsets``, or by ``reason``, at most ``max``; without either the oldest ``max``.
    """

    topic: TopicName
    group: GroupName
    offsets: Annotated[list[Count], Meta(max_length=1_000)] | None = None
    reason: Annotated[str, Meta(max_length=65_535)] | None = None
    max: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    dry_run: bool = False


class LettersMoved(msgspec.Struct, frozen=True, kw_only=True):
    """What was redriven or deleted, or with ``dry_run`` would be."""

    topic: str
    group: str
    dry_run: bool
    matched: int  # letters that were chosen
    moved: int  # that went; 0 for a dry run
    left: int
    first: list[DeadLetter]  # the first 20 that were chosen
    complete: bool  # False: more match than one request takes; repeat it
    refused: str  # why some of them stay; empty if none do
