"""``groups``: consumer groups, what they have in flight, and what waits."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from penstock.admin.groups import check_backoff, check_new, known_group, position
from penstock.admin.pages import applied, text_of
from penstock.admin.queues import is_topic, known_topic, valid_topic
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import Holder, QueueAdmin
from penstock.api import attention
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import Current, ListQuery
from penstock.api.documents.queues import (
    Group,
    GroupChange,
    GroupChanged,
    GroupCreation,
    Groups,
    PendingMessage,
    PendingMessages,
    PriorityDepth,
    Waiting,
    WaitingMessage,
)
from penstock.api.named import (
    DryRun,
    GroupListQuery,
    GroupQuery,
    moment_or_none,
    preview,
)
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.api.rates import Rates
from penstock.api.sight import Sight
from penstock.core import groups as core
from penstock.core.commands import GroupConfigured
from penstock.limits import KIB
from penstock.model.dead_letters import dead_letter_topic
from penstock.model.message import Message
from penstock.store.store import Store
from penstock.trust.rules import Action

LOOKED_AT_MAX = 200_000  # messages whose priority is looked at: some 20 ms
PREVIEW_BYTES = 256

_GROUPS, _PENDING = "groups", "groups/pending"


class GroupsQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which groups."""

    topic: Annotated[str | None, Meta(description="Only groups of this topic.")] = None
    group: Annotated[str | None, Meta(description="Only groups of this name.")] = None
    current: Current = False


class GroupDeletionQuery(GroupQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which group to delete."""

    dry_run: DryRun = False


class ConsumerGroups(Resource):
    """Consumer groups."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._rates = Rates()

    @operation("GET", "groups", None)
    async def list(self, call: Call, query: GroupsQuery) -> Groups:
        """List groups by topic and name, with what waits, what is in flight, and who works.

        Workers are counted on all nodes. A rate is that since the group was last asked for, at
        least a second ago; the first time there is none.
        """
        admin, sight = self.parts.queue_admin, Sight(call)
        after = key_of(_GROUPS, query.cursor, tuple[bytes, bytes])
        found = (
            group
            for group in _candidates(admin, query.topic)
            if (after is None or (group.topic, group.name) > after)
            and (query.group is None or text_of(group.name) == query.group)
            and sight.sees(group.topic)
        )
        page = nsmallest(query.limit + 1, found, key=_key)
        more = page[query.limit :]
        page = page[: query.limit]
        oldest = await call.read(_times, admin.store, page)
        items = [self._describe(group, oldest.get(_key(group), 0)) for group in page]
        there = await call.others(Groups)
        return Groups(
            items=_with_workers(items, there.answers),
            next=cursor_of(_GROUPS, _key(page[-1])) if more else None,
            incomplete=there.missing,
        )

    def _describe(self, group: core.Group, oldest_ms: int) -> Group:
        admin = self.parts.queue_admin
        info = admin.store.topic(group.topic)
        end, lag = info.next_offset if info else 0, admin.lag(group)
        now_ms = admin.wall_ms()
        rate = self._rates.look(_key(group), end - lag, now_ms / 1000)
        oldest_s = max(now_ms - oldest_ms, 0) / 1000 if oldest_ms and lag else None
        described = Group(
            topic=text_of(group.topic),
            group=text_of(group.name),
            attention=[],
            lag=lag,
            in_flight=group.in_flight,
            returned=len(group.returned),
            delayed=len(group.delayed),
            exhausted=len(group.exhausted),
            oldest=moment_or_none(oldest_ms) if lag else None,
            oldest_s=oldest_s,
            redeliveries=group.redeliveries,
            dead_letters=admin.letter_count(dead_letter_topic(group.topic, group.name)),
            dead_letters_total=group.dead_letters,
            workers=admin.consumers(group.topic, group.name),
            rate_per_s=rate,
            eta_s=lag / rate if rate and lag else None,
            position=group.oldest_unsettled,
            end_offset=end,
            start=group.start,
            reader=group.reader,
            max_deliveries=group.max_deliveries,
            backoff_s=group.backoff_ms / 1000,
            backoff_max_s=group.backoff_max_ms / 1000,
            full=group.is_full,
        )
        return _marked(described)

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    @operation("POST", "groups", None)
    async def make(self, call: Call, body: GroupCreation) -> Group:
        """Create a group of a topic, before the topic if need be. Needs `manage` of the topic."""
        call.require(Action.MANAGE, body.topic.encode())
        admin = self.parts.queue_admin
        topic, name = body.topic.encode(), body.group.encode()
        if not is_topic(admin, topic):
            valid_topic(body.topic)
        if admin.groups.get(topic, name) is not None:
            error = f"there is a group {body.group!r} of the topic {body.topic!r} already"
            raise RequestRefused(409, error, "change it with PATCH")
        check_new(body.group, admin.groups.count)
        check_backoff(body.backoff_s, body.backoff_max_s, None)
        await applied(admin.make_group(topic, name, *position("start", body.start)))
        await self._configure(topic, name, body)
        return self._describe(known_group(admin, body.topic, body.group), 0)

    async def _configure(
        self, topic: bytes, name: bytes, wanted: GroupCreation | GroupChange
    ) -> None:
        settings = (
            wanted.max_deliveries,
            _milliseconds(wanted.backoff_s),
            _milliseconds(wanted.backoff_max_s),
        )
        if settings != (None, None, None):
            configured = GroupConfigured(topic, name, *settings)
            await applied(self.parts.queue_admin.configure_group(configured))

    @operation("PATCH", "groups", None)
    async def change(self, call: Call, body: GroupChange) -> GroupChanged:
        """Change settings of a group, or let it read on from elsewhere (`seek`).

        With `dry_run` it only tells how many messages would be skipped or repeated, and which
        become dead letters because of a lower `max_deliveries`. Needs `manage` of the topic.
        """
        call.require(Action.MANAGE, body.topic.encode())
        admin = self.parts.queue_admin
        group = known_group(admin, body.topic, body.group)
        check_backoff(body.backoff_s, body.backoff_max_s, group)
        told = _told(admin, group, dry_run=body.dry_run)
        if body.max_deliveries is not None:
            told = replace(told, exhausted=_exhausted_by(group, body.max_deliveries))
        if body.seek is not None:
            target = await applied(admin.locate(group.topic, *position("seek", body.seek)))
            told = _moved(admin, group, target, told)
        if not body.dry_run:
            await self._configure(group.topic, group.name, body)
            if told.seek_to is not None:
                await applied(admin.move_group(group.topic, group.name, "offset", told.seek_to))
        return told

    @operation("DELETE", "groups", None)
    async def delete(self, call: Call, query: GroupDeletionQuery) -> GroupChanged:
        """Delete a group that has no workers. Needs `manage` of the topic."""
        call.require(Action.MANAGE, query.topic.encode())
        admin = self.parts.queue_admin
        group = known_group(admin, query.topic, query.group)
        workers = admin.consumers(group.topic, group.name)
        if workers:
            what = f"the group {query.group!r} of {query.topic!r} has connected workers: {workers}"
            advice = "stop them first; otherwise they would create it again, at the beginning"
            raise RequestRefused(409, what, advice)
        told = _told(admin, group, dry_run=query.dry_run)
        if not query.dry_run:
            await applied(admin.delete_group(group.topic, group.name))
        return told

    # ── one group ─────────────────────────────────────────────────────────────────────────────

    @operation("GET", "groups/pending", None)
    async def pending(self, call: Call, query: GroupListQuery) -> PendingMessages:
        """List messages that were delivered and are not done: who has them, until when, why back.

        The journal names no holder of a lease: it is known to the node that handed it out, since
        its start; if no node knows, `holder` is among `not_kept`.
        """
        Sight(call).require(query.topic.encode())
        admin = self.parts.queue_admin
        group = known_group(admin, query.topic, query.group)
        after = key_of(_PENDING, query.cursor, int)
        offsets = (offset for offset in group.pending if after is None or offset > after)
        page = nsmallest(query.limit + 1, offsets)
        more, page = page[query.limit :], page[: query.limit]
        items = _pending_of(admin, group, page)
        there = await call.others(PendingMessages)
        return PendingMessages(
            items=_with_holders(items, there.answers),
            next=cursor_of(_PENDING, page[-1]) if more else None,
            incomplete=there.missing,
        )

    @operation("GET", "groups/waiting", None)
    async def waiting(self, call: Call, query: GroupQuery) -> Waiting:
        """Show what waits by priority, and the next messages in order.

        Payloads are shown to those who may `read` the topic.
        """
        Sight(call).require(query.topic.encode())
        admin = self.parts.queue_admin
        group = known_group(admin, query.topic, query.group)
        first = admin.first_offset(group.topic)
        found = await call.read(admin.waiting, group, first, LOOKED_AT_MAX)
        returned = [[-n for n in reversed(queue)] for queue in group.returned.by_priority]
        depths = [
            PriorityDepth(
                priority=priority,
                waiting=depth.messages,
                returned=len(returned[priority]),
                not_due=depth.not_due,
                next_offset=depth.next_offset if depth.next_offset >= 0 else None,
            )
            for priority, depth in reversed([*enumerate(found.depths)])
        ]
        again = [(o, p) for p in reversed(range(len(returned))) for o in returned[p][:20]]
        order = sorted([*again, *found.next], key=lambda each: (-each[1], each[0]))[:20]
        may_read = call.may(Action.READ, group.topic)
        shown = await call.read(_next_of, admin.store, group, order, may_read=may_read)
        return Waiting(
            topic=query.topic,
            group=query.group,
            depths=depths,
            next=shown,
            looked_at=found.looked_at,
            complete=found.is_complete,
        )


# ── groups ────────────────────────────────────────────────────────────────────────────────────


def _key(group: core.Group) -> tuple[bytes, bytes]:
    return group.topic, group.name


def _candidates(admin: QueueAdmin, topic: str | None) -> Iterable[core.Group]:
    if topic is not None:
        return admin.groups.by_topic.get(known_topic(admin, topic), {}).values()
    return (group for group in admin.groups if not group.topic.startswith(b"$"))


def _times(store: Store, groups: list[core.Group]) -> dict[tuple[bytes, bytes], int]:
    """When the oldest message of each group that is not done was published. Reads the disk."""
    found = {}
    for group in groups:
        message = next(store.read_topic(group.topic, group.oldest_unsettled, 1, 0).messages(), None)
        if message is not None:
            found[_key(group)] = message.time_ms
    return found


def _marked(group: Group) -> Group:
    if group.reader:
        return group
    found = attention.of_group(
        lag=group.lag,
        workers=group.workers or int(bool(group.rate_per_s)),  # that ask now and then
        oldest_s=group.oldest_s,
        letters=group.dead_letters,
        exhausted=group.exhausted,
        is_full=group.full,
    )
    return replace(group, attention=list(found))


def _with_workers(items: list[Group], others: list[Groups]) -> list[Group]:
    """With the workers of all nodes."""
    workers = {(item.topic, item.group): item.workers for item in items}
    for there in others:
        for item in there.items:
            if (item.topic, item.group) in workers:
                workers[item.topic, item.group] += item.workers
    summed = (replace(item, workers=workers[item.topic, item.group]) for item in items)
    return [_marked(item) for item in summed]


# ── what a change does ────────────────────────────────────────────────────────────────────────


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _told(admin: QueueAdmin, group: core.Group, *, dry_run: bool) -> GroupChanged:
    return GroupChanged(
        topic=text_of(group.topic),
        group=text_of(group.name),
        dry_run=dry_run,
        position=group.oldest_unsettled,
        in_flight=group.in_flight,
        lag=admin.lag(group),
    )


def _exhausted_by(group: core.Group, max_deliveries: int) -> int:
    """Messages that nobody has, and that were delivered so often already."""
    if not max_deliveries:
        return 0
    idle = (pending for pending in group.pending.values() if pending.consumer is None)
    return sum(pending.deliveries >= max_deliveries for pending in idle)


def _moved(admin: QueueAdmin, group: core.Group, target: int, told: GroupChanged) -> GroupChanged:
    """What moving a group means. What is pending stays so."""
    first = admin.first_offset(group.topic)
    here, there = max(group.next, first), max(target, first)
    between = abs(
        admin.store.count_from(group.topic, here) - admin.store.count_from(group.topic, there)
    )
    if there >= here:
        return replace(told, seek_to=target, skipped=max(between - group.ahead, 0))
    kept = sum(offset >= there for offset in group.pending)
    return replace(told, seek_to=target, repeated=max(between + group.ahead - kept, 0))


# ── pending messages ──────────────────────────────────────────────────────────────────────────


def _pending_of(admin: QueueAdmin, group: core.Group, offsets: list[int]) -> list[PendingMessage]:
    found = [(offset, group.pending[offset]) for offset in offsets]
    by_lease = admin.holders(p.lease for _, p in found if p.consumer == b"")
    names = sorted({p.consumer for _, p in found if p.consumer})
    by_name = dict(zip(names, admin.described_workers(names), strict=True))
    nobody, skew_ms = Holder(""), admin.wall_ms() - admin.now_ms()
    items = []
    for offset, pending in found:
        has = by_name.get(pending.consumer or b"") or by_lease.get(pending.lease, nobody)
        holder = has if pending.consumer is not None else nobody
        items.append(_pending(admin, group, offset, pending, holder, skew_ms))
    return items


def _pending(
    admin: QueueAdmin,
    group: core.Group,
    offset: int,
    pending: core.Pending,
    holder: Holder,
    skew_ms: int,
) -> PendingMessage:
    state = _state(group, offset, pending)
    is_held = state == "in_flight"
    held_s = max(admin.now_ms() - pending.taken_ms, 0) / 1000
    return PendingMessage(
        offset=offset,
        state=state,
        holder=holder.client_id or holder.worker,
        worker=holder.worker,
        address=holder.address,
        node=holder.node,
        taken=moment_or_none(pending.taken_ms + skew_ms if pending.taken_ms else 0),
        until=moment_or_none(pending.until_ms + skew_ms if pending.until_ms > 0 else 0),
        held_s=held_s if is_held else None,
        attempts=pending.deliveries,
        last_reason=text_of(pending.reason),
        priority=pending.priority,
        lease=pending.lease if is_held and pending.lease >= 0 else None,
        not_kept=["holder"] if is_held and not holder.worker else [],
    )


def _state(group: core.Group, offset: int, pending: core.Pending) -> str:
    if pending.consumer is not None:
        return "in_flight"
    if offset in group.exhausted:
        return "exhausted"
    return "delayed" if offset in group.delayed else "returned"


def _with_holders(
    items: list[PendingMessage], others: list[PendingMessages]
) -> list[PendingMessage]:
    """With the holders that other nodes know."""
    known = {
        (item.offset, item.lease): item for there in others for item in there.items if item.worker
    }
    return [_with_holder(item, known.get((item.offset, item.lease))) for item in items]


def _with_holder(item: PendingMessage, there: PendingMessage | None) -> PendingMessage:
    if there is None or item.address or (item.worker and not there.address):
        return item
    names = ("holder", "worker", "address", "node", "not_kept")
    return replace(item, **{name: getattr(there, name) for name in names})


# ── waiting messages ──────────────────────────────────────────────────────────────────────────


def _next_of(
    store: Store, group: core.Group, order: list[tuple[int, int]], *, may_read: bool
) -> list[WaitingMessage]:
    """The messages at these offsets, with their priority. Reads the disk."""
    shown = []
    for offset, priority in order:
        message = next(store.read_topic(group.topic, offset, 1, 0).messages(), None)
        if message is not None and message.offset == offset:
            pending = group.pending.get(offset)
            attempts = pending.deliveries if pending else 0
            shown.append(_shown(message, priority, attempts, may_read=may_read))
    return shown


def _shown(message: Message, priority: int, attempts: int, *, may_read: bool) -> WaitingMessage:
    payload, is_cut = preview(message.payload, min(PREVIEW_BYTES, KIB))
    return WaitingMessage(
        offset=message.offset,
        priority=priority,
        time=moment_or_none(message.time_ms),
        attempts=attempts,
        payload=payload if may_read else None,
        payload_bytes=len(message.payload),
        cut=is_cut,
    )
