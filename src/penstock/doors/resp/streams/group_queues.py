"""New entries for the consumers of a group, in the order in which they asked.

Every XREADGROUP for new entries (``>``) joins the **queue** of its group, which is served in
rounds. A round reads off the loop what the group has not handed out yet, divides it among those in
the queue, first come first served, and journals one ``Taken`` for all of them; when that is on
disk, they get their entries. So consumers that ask at the same time share a commit.

A consumer that got nothing leaves the queue, or stays if it may **wait**. One that waits for
several streams is in the queue of each, and is served by one of them. A consumer whose time is over
while it is being served gets its entries all the same: by ``Taken`` they are its own.

All this is for groups that only streams use, where the next entry is the one with the next offset.
If workers of other doors use the group, or the topic has delayed or expiring messages, the
consumers go to the group's dispatcher instead (``worker``).
"""

import asyncio

from penstock.clock import Clock
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import Settled, Taken
from penstock.core.effects import GroupChanged
from penstock.core.groups import Group, GroupDelivery, Groups
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.awaiting import submitted
from penstock.doors.resp.faults import CommandError, no_group
from penstock.doors.resp.streams.reader import EntryReader, Gathered
from penstock.doors.resp.streams.waiting_consumer import (
    ROUND_COUNT_MAX,
    NewEntries,
    WaitingConsumer,
)
from penstock.doors.resp.streams.worker import StreamWorker
from penstock.errors import StorageError
from penstock.net.connection_ids import ConnectionIds
from penstock.obs.log import get_logger
from penstock.store.store import TopicInfo

_log = get_logger("streams")


class GroupQueues:
    """The queues of all groups of one broker that consumers of streams wait for."""

    def __init__(
        self,
        *,
        reader: EntryReader,
        groups: Groups,
        dispatchers: Dispatchers,
        pipeline: Pipeline,
        feed: Feed,
        clock: Clock,
        ids: ConnectionIds,
    ) -> None:
        self.reader = reader
        self.groups = groups
        self.dispatchers = dispatchers
        self.pipeline = pipeline
        self.clock = clock
        self.ids = ids
        self._feed = feed
        self._queues: dict[tuple[bytes, bytes], _GroupQueue] = {}

    def group_changed(self, effect: GroupChanged) -> None:
        if effect.group is not None:
            self.serve(effect.topic, effect.group)

    async def wait(
        self, topics: list[bytes], group: bytes, waiting: WaitingConsumer, timeout_s: float = 0
    ) -> NewEntries | None:
        """Wait for entries; None: none in time. Raises CommandError if the group is gone."""
        queues = [self._queue(topic, group) for topic in topics]
        waiting.serve_again = [queue.serve for queue in queues]
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_s, waiting.expire) if timeout_s else None
        try:
            for queue in queues:
                queue.consumers[waiting] = None
                queue.serve()
            return await waiting.found
        finally:
            if timer is not None:
                timer.cancel()
            for queue in queues:
                self._leave(queue, waiting)

    def serve(self, topic: bytes, group: bytes) -> None:
        queue = self._queues.get((topic, group))
        if queue is not None:
            queue.serve()

    def fail(self, topic: bytes, group: bytes, error: Exception) -> None:
        queue = self._queues.get((topic, group))
        if queue is not None:
            queue.fail(error)

    def _queue(self, topic: bytes, group: bytes) -> "_GroupQueue":
        queue = self._queues.get((topic, group))
        if queue is None:
            queue = self._queues[topic, group] = _GroupQueue(self, topic, group)
            self._feed.watch(topic, queue.serve)
        return queue

    def _leave(self, queue: "_GroupQueue", waiting: WaitingConsumer) -> None:
        queue.leave(waiting)
        if not queue.consumers and self._queues.get((queue.topic, queue.group)) is queue:
            del self._queues[queue.topic, queue.group]
            self._feed.unwatch(queue.topic, queue.serve)
            queue.close()


class _GroupQueue:
    """Consumers that want new entries of one group."""

    def __init__(self, queues: GroupQueues, topic: bytes, group: bytes) -> None:
        self._all = queues
        self._reader = queues.reader
        self.topic = topic
        self.group = group
        self.consumers: dict[WaitingConsumer, None] = {}
        self._workers: dict[WaitingConsumer, StreamWorker] = {}  # served by the dispatcher
        self._round_task: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._round_task is not None:
            self._round_task.cancel()

    def fail(self, error: Exception) -> None:
        for waiting in self.consumers:
            if waiting.is_free:
                waiting.fail(error)

    def serve(self) -> None:
        if self._round_task is not None or not self._free():
            return
        group = self._all.groups.get(self.topic, self.group)
        if group is None:
            self.fail(no_group(self.topic, self.group))
            return
        info = self._reader.info(self.topic)
        if not self._is_plain(group):
            self._go_to_dispatcher()
            return
        if info is None or not group.available(info.next_offset):
            self._dismiss()
            return
        self._round_task = asyncio.get_running_loop().create_task(self._round(group, info))
        self._round_task.add_done_callback(self._ended)

    def _is_plain(self, group: Group) -> bool:
        """Whether only streams use the group: its next entry is that of the next offset."""
        workers = self._all.dispatchers.workers(self.topic, self.group)
        return not (workers or group.wakes_ms() or group.ahead or len(group.returned))

    def _go_to_dispatcher(self) -> None:
        for waiting in self.consumers:
            if waiting.is_free and waiting not in self._workers:
                worker = self._workers[waiting] = StreamWorker(
                    (self.topic, self.group),
                    waiting,
                    dispatchers=self._all.dispatchers,
                    pipeline=self._all.pipeline,
                    clock=self._all.clock,
                    ids=self._all.ids,
                )
                worker.join()

    def leave(self, waiting: WaitingConsumer) -> None:
        self.consumers.pop(waiting, None)
        worker = self._workers.pop(waiting, None)
        if worker is not None:
            worker.rest()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._round_task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.serve()
            return
        if not isinstance(error, (CommandError, StorageError)):
            _log.error("round_failed", exc_info=error)
            error = StorageError(f"internal error while serving a group: {error!r}")
        self.fail(error)

    async def _round(self, group: Group, info: TopicInfo) -> None:
        start = max(group.next, info.first_offset)
        wanted = min(sum(waiting.count_max for waiting in self._free()), ROUND_COUNT_MAX)
        seen = await self._reader.entries_from(
            self.topic, start, info.next_offset, wanted, stops_at_times=True
        )
        if not self._is_plain(group) or (seen.is_timed and not seen.entries):
            self._go_to_dispatcher()
            return
        served = self._shares(len(seen.entries) + len(group.returned))
        if not served:
            self._dismiss()
            return
        for waiting in served:
            waiting.reserve()
        try:
            shares = await self._take(served, info.first_offset, _gaps(start, seen), seen.end)
            await self._give(served, shares, dict(seen.entries))
        except Exception as error:
            for waiting in served:
                waiting.fail(error)
            raise
        finally:
            for waiting in served:
                waiting.release()

    def _free(self) -> list[WaitingConsumer]:
        """Those who may be served, as far as they have the same NOACK as the first."""
        free = [each for each in self.consumers if each.is_free and each not in self._workers]
        return [waiting for waiting in free if waiting.settle == free[0].settle]

    def _dismiss(self) -> None:
        for waiting in self._free():
            if not waiting.waits:
                waiting.answer(None)

    def _shares(self, available: int) -> dict[WaitingConsumer, int]:
        shares: dict[WaitingConsumer, int] = {}
        for waiting in self._free():
            count = min(waiting.count_max, available)
            if count:
                shares[waiting] = count
                available -= count
        return shares

    async def _take(
        self, served: dict[WaitingConsumer, int], first: int, gone: list[tuple[int, int]], end: int
    ) -> list[GroupDelivery]:
        wanted = [(waiting.consumer, count) for waiting, count in served.items()]
        settle = next(iter(served)).settle
        now_ms = self._all.clock.wall_ms()
        taken = Taken(self.topic, self.group, wanted, first, end, now_ms, settle, gone)
        shares = await submitted(self._all.pipeline, taken)
        if shares is None:
            raise no_group(self.topic, self.group)
        assert isinstance(shares, list)
        return shares

    async def _give(
        self,
        served: dict[WaitingConsumer, int],
        shares: list[GroupDelivery],
        entries: dict[int, bytes],
    ) -> None:
        offsets = [offset for share in shares for offset in share.offsets]
        await self._fetch([offset for offset in offsets if offset not in entries], entries)
        for waiting, share in zip(served, shares, strict=False):
            found = [entries[offset] for offset in share.offsets if offset in entries]
            if found:
                waiting.answer(NewEntries(self.topic, found))
        gone = [offset for offset in offsets if offset not in entries]
        if gone:
            settled = Settled(self.topic, self.group, ranges_of(gone))
            self._all.pipeline.submit(settled, None, durable=True)

    async def _fetch(self, offsets: list[int], entries: dict[int, bytes]) -> None:
        """Read what this round did not look at: returned messages, or the group was moved."""
        while offsets:
            part = await self._reader.entries_at(self.topic, offsets)
            entries.update(part.entries)
            offsets = [offset for offset in offsets if offset >= part.end]


def _gaps(start: int, seen: Gathered) -> list[tuple[int, int]]:
    gaps = []
    for offset in [*(offset for offset, _ in seen.entries), seen.end]:
        if start < offset:
            gaps.append((start, offset))
        start = offset + 1
    return gaps
