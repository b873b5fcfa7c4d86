"""``dlq``: messages that failed too often: by group, one by one, sent back, deleted."""

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from time import monotonic
from typing import Annotated, NamedTuple

from msgspec import Meta

from penstock.admin.dead_letters import HEADER_PREFIX, REDRIVEN_MAX
from penstock.admin.groups import known_group
from penstock.admin.pages import applied, text_of
from penstock.admin.queues import is_topic
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import Count, Current, CurrentListQuery
from penstock.api.documents.dead_letters import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetters,
    LetterSelection,
    LettersMoved,
    ReasonCount,
)
from penstock.api.named import GroupListQuery, header_of, moment_or_none, preview
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem
from penstock.api.sight import Sight
from penstock.limits import KIB, MIB
from penstock.model.dead_letters import PREFIX, dead_letter_topic, origin
from penstock.model.message import Message
from penstock.store.store import Store
from penstock.trust.rules import Action

READ_AT_ONCE = 256
READ_BYTES = 4 * MIB
PREVIEW_BYTES = 1 * KIB
SAMPLED_MAX = 1_000  # letters whose reason is counted, of each group
SAMPLED_S = 0.5  # for all groups of a page
SEARCHED_MAX = 100_000  # letters looked at for one change
SEARCHED_S = 2.0
FIRST_SHOWN = 20
OFFSETS_MAX = 1_000  # that a request may name

_GROUPS, _LETTERS = "dlq", "dlq/letters"


class LettersQuery(GroupListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which letters."""

    reason: Annotated[str | None, Meta(description="Only letters with this reason.")] = None
    offset: Annotated[Count, Meta(description="Begin there, if there is no `cursor`.")] = 0
    current: Current = False


class _Found(NamedTuple):
    """Letters that were chosen."""

    offsets: list[int]
    shown: list[DeadLetter]  # the first of them; payloads of all would be too much
    next_offset: int  # where the search ended
    is_complete: bool  # whether there are no more


class _Sample(NamedTuple):
    """The oldest letters of a group: time and reason of each; and when the newest came."""

    letters: list[tuple[int, bytes]]
    newest_ms: int


class FailedMessages(Resource):
    """Dead letters: messages that failed as often as their group allows."""

    @operation("GET", "dlq", None)
    async def list(self, call: Call, query: CurrentListQuery) -> DeadLetterGroups:
        """List groups that have dead letters, with their number, and why the oldest ones failed."""
        admin, sight = self.parts.queue_admin, Sight(call)
        after = key_of(_GROUPS, query.cursor, bytes)
        found = (
            name
            for name in admin.topics.by_name
            if name.startswith(PREFIX)
            and (after is None or name > after)
            and sight.sees(origin(name)[0])
            and admin.letter_count(name)
        )
        page = nsmallest(query.limit + 1, found)
        more, page = page[query.limit :], page[: query.limit]
        places = [(name, admin.first_letter(name)) for name in page]
        samples = await call.read(_sampled, admin.store, places)
        items = [self._describe(name, sample) for name, sample in zip(page, samples, strict=True)]
        return DeadLetterGroups(items=items, next=cursor_of(_GROUPS, page[-1]) if more else None)

    def _describe(self, name: bytes, sample: _Sample) -> DeadLetterGroup:
        admin, (topic, group) = self.parts.queue_admin, origin(name)
        reasons = Counter(reason for _, reason in sample.letters)
        return DeadLetterGroup(
            topic=text_of(topic),
            group=text_of(group),
            letters_topic=text_of(name),
            letters=admin.letter_count(name),
            oldest=moment_or_none(sample.letters[0][0] if sample.letters else 0),
            newest=moment_or_none(sample.newest_ms),
            reasons=[ReasonCount(text_of(why), count) for why, count in reasons.most_common(20)],
            counted=len(sample.letters),
            redriving=admin.is_redriving(name),
        )

    @operation("GET", "dlq/letters", None)
    async def letters(self, call: Call, query: LettersQuery) -> DeadLetters:
        """List dead letters of a group, oldest first, with their payload and why they failed.

        Needs `manage` of the topic.
        """
        call.require(Action.MANAGE, query.topic.encode())
        admin = self.parts.queue_admin
        name = self._letters_topic(query.topic, query.group)
        after = key_of(_LETTERS, query.cursor, int)
        first = max(admin.first_letter(name), query.offset) if after is None else after + 1
        limit = query.limit
        found = await call.read(_search, admin.store, name, first, query.reason, limit, limit)
        more = None if found.is_complete else cursor_of(_LETTERS, found.next_offset - 1)
        return DeadLetters(
            items=found.shown,
            letters=admin.letter_count(name),
            letters_topic=text_of(name),
            next=more,
        )

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    @operation("POST", "dlq/redrive", None)
    async def redrive(self, call: Call, body: LetterSelection) -> LettersMoved:
        """Publish dead letters to their topic again: the oldest, chosen ones, or by reason.

        Needs `manage` of the topic. What is sent back and its removal are one commit.
        """
        return await self._move(call, body, send_back=True)

    @operation("POST", "dlq/delete", None)
    async def delete(self, call: Call, body: LetterSelection) -> LettersMoved:
        """Delete dead letters: the oldest, chosen ones, or by reason.

        Needs `manage` of the topic.
        """
        return await self._move(call, body, send_back=False)

    async def _move(self, call: Call, wanted: LetterSelection, *, send_back: bool) -> LettersMoved:
        call.require(Action.MANAGE, wanted.topic.encode())
        _check(wanted)
        admin = self.parts.queue_admin
        name = self._letters_topic(wanted.topic, wanted.group)
        found = await call.read(_chosen, admin.store, name, admin.first_letter(name), wanted)
        moved, refused = 0, ""
        if not wanted.dry_run and found.offsets:
            names = wanted.topic.encode(), wanted.group.encode()
            change = admin.move_letters(*names, found.offsets, send_back=send_back)
            moved, refused = await applied(change, 409)
        return LettersMoved(
            topic=wanted.topic,
            group=wanted.group,
            dry_run=wanted.dry_run,
            matched=len(found.offsets),
            moved=moved,
            left=admin.letter_count(name),
            first=found.shown,
            complete=found.is_complete,
            refused=refused,
        )

    def _letters_topic(self, topic: str, group: str) -> bytes:
        """The topic of a group's letters; it may outlive the group and its topic."""
        letters = dead_letter_topic(topic.encode(), group.encode())
        if not is_topic(self.parts.queue_admin, letters):
            known_group(self.parts.queue_admin, topic, group)
        return letters


def _check(wanted: LetterSelection) -> None:
    if wanted.offsets is None:
        return
    if wanted.reason is not None or wanted.max is not None:
        advice = "give offsets alone, or reason and max"
        raise Problem(400, "invalid_body", "offsets choose letters by themselves", advice)
    if len(wanted.offsets) > OFFSETS_MAX:
        advice = "choose by reason, or in several requests"
        raise Problem(400, "invalid_body", f"at most {OFFSETS_MAX} offsets", advice)


# ── reading the disk ──────────────────────────────────────────────────────────────────────────


def _walk(store: Store, name: bytes, start: int, count_max: int) -> Iterator[Message]:
    """Letters from an offset on; with its payloads, so not many at a time."""
    while count_max > 0:
        found = store.read_topic(name, start, min(count_max, READ_AT_ONCE), READ_BYTES)
        messages = list(found.messages())
        if not messages:
            return
        yield from messages
        count_max -= len(messages)
        start = messages[-1].offset + 1


def _sampled(store: Store, places: list[tuple[bytes, int]]) -> list[_Sample]:
    """The oldest letters of each topic; only the very first if that takes too long."""
    deadline = monotonic() + SAMPLED_S
    samples = []
    for name, first in places:
        count = SAMPLED_MAX if monotonic() < deadline else 1
        letters = [(m.time_ms, _reason(m)) for m in _walk(store, name, first, count)]
        samples.append(_Sample(letters, _newest_ms(store, name)))
    return samples


def _newest_ms(store: Store, name: bytes) -> int:
    """When the last letter came; 0 if that one was deleted."""
    info = store.topic(name)
    end = info.next_offset if info else 0
    message = next(store.read_topic(name, max(end - 1, 0), 1, 0).messages(), None)
    return message.time_ms if message is not None else 0


def _search(
    store: Store, name: bytes, first: int, reason: str | None, count_max: int, shown_max: int
) -> _Found:
    """Up to ``count_max`` letters with a reason."""
    found = _Found([], [], first, is_complete=False)
    deadline, end = monotonic() + SEARCHED_S, first
    for seen, message in enumerate(_walk(store, name, first, SEARCHED_MAX)):
        is_late = seen % READ_AT_ONCE == READ_AT_ONCE - 1 and monotonic() > deadline
        if len(found.offsets) == count_max or is_late:
            return found._replace(next_offset=end)
        end = message.offset + 1
        if reason is None or text_of(_reason(message)) == reason:
            _note(found, message, shown_max)
    return found._replace(next_offset=end, is_complete=not store.count_from(name, end))


def _chosen(store: Store, name: bytes, first: int, wanted: LetterSelection) -> _Found:
    if wanted.offsets is None:
        count_max = min(wanted.max or REDRIVEN_MAX, REDRIVEN_MAX)
        return _search(store, name, first, wanted.reason, count_max, FIRST_SHOWN)
    found = _Found([], [], first, is_complete=True)
    for offset in sorted({offset for offset in wanted.offsets if offset >= first}):
        message = next(store.read_topic(name, offset, 1, 0).messages(), None)
        if message is not None and message.offset == offset:
            _note(found, message, FIRST_SHOWN)
    return found


def _note(found: _Found, message: Message, shown_max: int) -> None:
    found.offsets.append(message.offset)
    if len(found.shown) < shown_max:
        found.shown.append(_letter(message))


# ── letters ───────────────────────────────────────────────────────────────────────────────────


def _headers(message: Message) -> tuple[tuple[bytes, bytes], ...]:
    return message.extras.headers if message.extras else ()


def _reason(message: Message) -> bytes:
    return dict(_headers(message)).get(b"dlq-reason", b"")


def _letter(message: Message) -> DeadLetter:
    headers = _headers(message)
    told = dict(headers)
    payload, is_cut = preview(message.payload, PREVIEW_BYTES)
    return DeadLetter(
        offset=message.offset,
        time=moment_or_none(message.time_ms),
        topic=text_of(told.get(b"dlq-topic", b"")),
        topic_offset=int(told.get(b"dlq-offset", b"0")),
        attempts=int(told.get(b"dlq-attempts", b"0")),
        reason=text_of(_reason(message)),
        signed=message.extras is not None and message.extras.signature is not None,
        headers=[header_of(n, v) for n, v in headers if not n.startswith(HEADER_PREFIX)],
        payload=payload,
        payload_bytes=len(message.payload),
        cut=is_cut,
    )
