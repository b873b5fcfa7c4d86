"""Administration of topics, groups and dead letters."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec

from penstock.access.audit import AuditLog
from penstock.admin.view import Holder, WaitingView
from penstock.clock import Clock, SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import GroupConfigured, GroupGone, TopicConfigured
from penstock.core.groups import Group
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.groups import Start, StartAt
from penstock.errors import PenstockError, Refused
from penstock.model.dead_letters import dead_letter_topic
from penstock.node.cluster_admin import check_leads
from penstock.node.waiting import waiting_of
from penstock.node.workers import WorkerLookout
from penstock.reading.confirming import confirmed
from penstock.store.store import Store

Result = TypeVar("Result")


class NodeQueueAdmin:
    """Implements ``admin.view.QueueAdmin``."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        dispatchers: Dispatchers,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
        audit: AuditLog,
        lookout: WorkerLookout,
        steady: SteadyClock,
    ) -> None:
        self.wall_ms = clock.wall_ms
        self.now_ms = steady.now_ms
        self._lookout = lookout
        self._audit = audit
        self.store = store
        self.topics = broker.topics
        self.groups = broker.groups
        self._dispatchers = dispatchers
        self._pipeline = pipeline
        self._cluster = cluster

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    def first_offset(self, topic: bytes) -> int:
        return self._dispatchers.topics.earliest(topic)

    def lag(self, group: Group) -> int:
        return self._dispatchers.groups.lag(group)

    def messages(self, topic: bytes) -> int:
        return self._dispatchers.topics.messages(topic)

    def consumers(self, topic: bytes, group: bytes) -> int:
        return self._dispatchers.workers(topic, group)

    def workers(self, topic: bytes, group: bytes) -> list[Holder]:
        return self._lookout.workers(topic, group)

    def described_workers(self, names: Iterable[bytes]) -> list[Holder]:
        return self._lookout.described(names)

    def holders(self, leases: Iterable[int]) -> dict[int, Holder]:
        return self._lookout.holders(leases)

    def waiting(self, group: Group, first: int, count_max: int) -> WaitingView:
        return waiting_of(self.store, group, first, count_max, self.now_ms())

    def first_letter(self, letters: bytes) -> int:
        return self._dispatchers.dead_letters.first(letters)

    def letter_count(self, letters: bytes) -> int:
        return self._dispatchers.dead_letters.count(letters)

    # ── changing ──────────────────────────────────────────────────────────────────────────────

    async def configure_topic(self, command: TopicConfigured) -> None:
        check_leads(self._cluster)
        after = {
            name: value
            for name, value in msgspec.structs.asdict(command).items()
            if name != "topic" and value is not None
        }
        take_back = self._audit.topic_changed(command.topic, after, self.wall_ms())
        configured = self._done(partial(self._dispatchers.topics.configure, command))
        await self._audit.stored(configured, take_back)

    async def delete_topic(self, topic: bytes) -> None:
        check_leads(self._cluster)
        take_back = self._audit.topic_changed(topic, None, self.wall_ms())
        deleted = self._done(partial(self._dispatchers.topics.delete, topic))
        await self._audit.stored(deleted, take_back)

    async def make_group(self, topic: bytes, group: bytes, at: str, value: int) -> bool:
        """Create a group; return whether there was none."""
        start = Start(StartAt[at.upper()], value)
        create = partial(self._done, partial(self._dispatchers.groups.create, topic, group, start))
        if self.groups.get(topic, group) is not None:
            return bool(await create())
        after: dict[str, object] = {"start": at, "value": value}
        return bool(await self._group_changed(topic, group, "created", after, create))

    async def move_group(self, topic: bytes, group: bytes, at: str, value: int) -> None:
        start = Start(StartAt[at.upper()], value)
        seek = partial(self._dispatchers.groups.seek, topic, group, start)
        to = {"to": at, "value": value}
        await self._group_changed(topic, group, "moved", to, partial(self._done, seek))

    async def configure_group(self, command: GroupConfigured) -> None:
        """Change a group's retries; messages beyond the new limit become dead letters."""
        after = {
            name: value
            for name, value in msgspec.structs.asdict(command).items()
            if name not in {"topic", "group"} and value is not None
        }
        apply = partial(self._applied, command)
        await self._group_changed(command.topic, command.group, "configured", after, apply)
        self._dispatchers.dead_letters.move_exhausted(command.topic, command.group)

    async def delete_group(self, topic: bytes, group: bytes) -> None:
        command = self._dispatchers.groups.delete_command(topic, group)
        apply = partial(self._applied, command)
        await self._group_changed(topic, group, "deleted", None, apply)

    async def redrive(self, topic: bytes, group: bytes, maximum: int) -> int:
        letters, undone = self._dispatchers.dead_letters, "not all letters were sent back"
        begin = partial(letters.redrive, topic, group, maximum)
        counted = partial(self._counted, begin, undone)
        if not letters.count(dead_letter_topic(topic, group)):
            return await counted()
        return await self._group_changed(topic, group, "redriven", None, counted)

    async def drop(self, topic: bytes, group: bytes) -> int:
        letters = self._dispatchers.dead_letters
        counted = partial(self._counted, partial(letters.drop, topic, group))
        if not letters.count(dead_letter_topic(topic, group)):
            return await counted()
        return await self._group_changed(topic, group, "dead letters dropped", None, counted)

    def is_redriving(self, letters: bytes) -> bool:
        return self._dispatchers.dead_letters.is_redriving(letters)

    async def locate(self, topic: bytes, at: str, value: int) -> int:
        waiter = FutureCompletion("nothing was changed")
        start = Start(StartAt[at.upper()], value)
        self._dispatchers.groups.locate(topic, start, waiter)
        found = await waiter.future
        assert isinstance(found, int)
        return found

    async def move_letters(
        self, topic: bytes, group: bytes, offsets: list[int], *, send_back: bool
    ) -> tuple[int, str]:
        check_leads(self._cluster)
        choose = self._dispatchers.dead_letters.choose
        chosen = choose(topic, group, offsets, send_back=send_back)
        if chosen is None:
            what = "letters of this group are being moved already"
            raise Refused(what, "try again when that is done")
        what = "chosen dead letters redriven" if send_back else "chosen dead letters deleted"
        after: dict[str, object] = {"letters": len(offsets)}
        undone = "not all letters were moved"
        moved = partial(self._counted, chosen.begin, undone)
        await self._group_changed(topic, group, what, after, moved)
        return chosen.moved, chosen.refusal

    async def _group_changed(
        self,
        topic: bytes,
        group: bytes,
        what: str,
        after: dict[str, object] | None,
        change: Callable[[], Awaitable[Result]],
    ) -> Result:
        """Record a change of a group in the commit that makes it."""
        check_leads(self._cluster)
        take_back = self._audit.group_changed(topic, group, what, after, self.wall_ms())
        try:
            return await change()
        except PenstockError:
            take_back()
            raise

    async def _counted(
        self, begin: Callable[[FutureCompletion], object], undone: str = "nothing was changed"
    ) -> int:
        count = await self._done(begin, undone)
        assert isinstance(count, int)
        return count

    async def _applied(self, command: GroupConfigured | GroupGone) -> None:
        submit = self._pipeline.submit
        await self._done(lambda waiter: submit(command, waiter, durable=True))

    async def _done(
        self, begin: Callable[[FutureCompletion], object], undone: str = "nothing was changed"
    ) -> object:
        """Wait until the change is durable. Raises StorageError, ClusterError."""
        check_leads(self._cluster)
        waiter = FutureCompletion(undone)
        begin(waiter)
        return await waiter.future
