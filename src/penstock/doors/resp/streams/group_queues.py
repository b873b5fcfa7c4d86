"""New entries for the consumers of a group, in the order in which they asked.

Every XREADGROUP for new entries (``>``) joins the **queue** of its group, which is served in
rounds. A round takes what the group has not handed out yet, divides it among those in the queue,
first come first served, and journals one ``Taken`` for all of them; when that is on disk, they get
their entries. Consumers that ask during a round share the next one. Mostly the entries are at hand
(``ahead``): then a round needs no thread and no task, and costs little more than its commit.

A consumer that got nothing leaves the queue, or stays if it may **wait**. One that waits for
several streams is in the queue of each, and is served by one of them. A consumer whose time is over
while it is being served gets its entries all the same: by ``Taken`` they are its own.

All this is for groups that only streams use, where the next entry is the one with the next offset.
If workers of other doors use the group, or the topic has delayed or expiring messages, the
consumers go to the group's dispatcher instead (``worker``).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.clock import Clock
from penstock.commit.completion import Callback
from penstock.commit.feed import CommittedMessages, Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import Settled, Taken
from penstock.core.effects import GroupChanged
from penstock.core.groups import Group, GroupDelivery, Groups
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.faults import CommandError, no_group, not_stored
from penstock.doors.resp.streams.ahead import (
    AHEAD_BYTES_MAX,
    AHEAD_COUNT_MAX,
    EntriesAhead,
)
from penstock.doors.resp.streams.encoding import EncodedEntries, encoded_committed
from penstock.doors.resp.streams.reader import EntryReader
from penstock.doors.resp.streams.waiting_consumer import (
    ROUND_COUNT_MAX,
    Found,
    KnownEntries,
    NewEntries,
    WaitingConsumer,
)
from penstock.doors.resp.streams.worker import StreamWorker
from penstock.errors import StorageError
from penstock.net.connection_ids import ConnectionIds
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
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
        self.ahead = EntriesAhead(reader.store, reader.readers)
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

    def join(
        self, topics: list[bytes], group: bytes, waiting: WaitingConsumer, timeout_s: float = 0
    ) -> None:
        """Serve a consumer, at once or when there is something; ``leave`` when it is done."""
        queues = [self._queue(topic, group) for topic in topics]
        waiting.serve_again = [queue.serve for queue in queues]
        if timeout_s:
            loop = asyncio.get_running_loop()
            waiting.timer = loop.call_later(timeout_s, waiting.expire)
        for queue in queues:
            queue.consumers[waiting] = None
        for queue in queues:
            queue.serve()

    def leave(self, topics: list[bytes], group: bytes, waiting: WaitingConsumer) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        for topic in topics:
            queue = self._queues.get((topic, group))
            if queue is not None:
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
            self._feed.tap(topic, queue.committed)
        return queue

    def _leave(self, queue: "_GroupQueue", waiting: WaitingConsumer) -> None:
        queue.leave(waiting)
        if not queue.consumers:
            queue.stop_reading()
            self.tidy(queue)

    def tidy(self, queue: "_GroupQueue") -> None:
        """Drop a queue without consumers. Not during a round: the next one builds on it."""
        if not queue.consumers and not queue.is_busy and queue.key in self._queues:
            del self._queues[queue.key]
            self._feed.untap(queue.topic, queue.committed)


class _Seen(NamedTuple):
    """What a round has looked at, and found."""

    start: int
    end: int  # everything before this offset was looked at
    run: EncodedEntries | None  # all of it, if there are no gaps
    entries: dict[int, bytes]
    incarnation: int  # of the topic

    def gaps(self) -> list[tuple[int, int]]:
        return [] if self.run is not None else _gaps(self.start, [*self.entries, self.end])

    def at(self, topic: bytes, offsets: list[int]) -> NewEntries:
        """Those of the entries that were found."""
        run = self.run
        if run is not None and run.first <= offsets[0] and offsets[-1] < run.end:
            first, last = offsets[0] - run.first, offsets[-1] - run.first
            if last - first == len(offsets) - 1:  # and they ascend
                ids, entries = run.ids[first : last + 1], run.entries[first : last + 1]
                return NewEntries(topic, entries, KnownEntries(self.incarnation, ids, offsets))
        found = self.by_offset()
        return NewEntries(topic, [found[offset] for offset in offsets if offset in found])

    def by_offset(self) -> dict[int, bytes]:
        if self.run is None or self.entries:
            return self.entries
        self.entries.update(zip(range(self.run.first, self.run.end), self.run.entries, strict=True))
        return self.entries


Served = dict[WaitingConsumer, int]  # and how many entries each gets at most


class _GroupQueue:
    """Consumers that want new entries of one group."""

    def __init__(self, queues: GroupQueues, topic: bytes, group: bytes) -> None:
        self._all = queues
        self._reader = queues.reader
        self.key = topic, group
        self.topic = topic
        self.group = group
        self.consumers: dict[WaitingConsumer, None] = {}
        self._workers: dict[WaitingConsumer, StreamWorker] = {}  # served by the dispatcher
        self.is_busy = False  # a round is under way
        self._reading: asyncio.Task[None] | None = None  # reads for that round
        self._served: Served = {}  # those whom that round serves

    def stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def fail(self, error: Exception) -> None:
        for waiting in list(self.consumers):
            if waiting.is_free:
                waiting.fail(error)

    def committed(self, committed: CommittedMessages) -> None:
        """Entries came: those that are to be handed out next need not be read."""
        group = self._all.groups.get(self.topic, self.group)
        info = self._reader.info(self.topic)
        if group is not None and info is not None:
            run = encoded_committed(committed)
            if run is not None:
                self._all.ahead.committed(self.key, info, run, group.next)
        self.serve()

    # ── a round ───────────────────────────────────────────────────────────────────────────────

    def serve(self) -> None:
        if self.is_busy or not self._free():
            return
        group = self._all.groups.get(self.topic, self.group)
        if group is None:
            self.fail(no_group(self.topic, self.group))
            return
        if not self._is_plain(group):
            self._go_to_dispatcher()
            return
        info = self._reader.info(self.topic)
        if info is None or not group.available(info.next_offset):
            self._dismiss()
            return
        self.is_busy = True
        start = max(group.next, info.first_offset)
        wanted = min(sum([waiting.count_max for waiting in self._free()]), ROUND_COUNT_MAX)
        enough = min(wanted, info.next_offset - start)
        run = self._all.ahead.take(self.key, info, start, enough)
        if run is not None and len(run.ids) == enough:
            self._found(group, info, run)
        elif enough and _may_read_ahead(info, enough):
            found = partial(self._guarded, self._read, group, info, enough)
            self._all.ahead.read(self.key, info, start, found, self._fail_round)
        else:
            self._begin_reading(group, info, wanted)

    def _is_plain(self, group: Group) -> bool:
        """Whether only streams use the group: its next entry is that of the next offset."""
        workers = self._all.dispatchers.workers(self.topic, self.group)
        return not (workers or group.wakes_ms() or group.ahead or len(group.returned))

    def _go_to_dispatcher(self) -> None:
        for waiting in list(self.consumers):
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

    def _end_round(self) -> None:
        self.is_busy = False
        self.serve()
        self._all.tidy(self)

    def _fail_round(self, failure: BaseException) -> None:
        error = failure if isinstance(failure, Exception) else StorageError(repr(failure))
        if not isinstance(error, (CommandError, StorageError)):
            _log.error("round_failed", exc_info=error)
            error = StorageError(f"internal error while serving a group: {error!r}")
        self.is_busy = False
        served, self._served = self._served, {}
        for waiting in served:
            waiting.fail(error)
        self.fail(error)
        self._all.tidy(self)

    def _guarded(self, step: Callable[..., None], *arguments: object) -> None:
        """Do a step of a round. An internal error must not leave the queue busy for ever."""
        try:
            step(*arguments)
        except Exception as error:  # noqa: BLE001 - see above; it is logged
            self._fail_round(error)

    # ── what there is ─────────────────────────────────────────────────────────────────────────

    def _read(
        self, group: Group, info: TopicInfo, enough: int, run: EncodedEntries, is_timed: bool
    ) -> None:
        """Some entries were read ahead. If they are too few, read as many as one answer holds."""
        if not self._is_plain(group) or (is_timed and not run.ids):
            self._go_to_dispatcher()
            self._end_without_serving()
        elif len(run.ids) >= enough or is_timed:
            ids, entries = run.ids[:enough], run.entries[:enough]
            self._found(group, info, EncodedEntries(run.first, ids, entries))
        else:
            self._begin_reading(group, info, enough)

    def _end_without_serving(self) -> None:
        self.is_busy = False
        self._all.tidy(self)

    def _found(self, group: Group, info: TopicInfo, run: EncodedEntries) -> None:
        fitting = self._reader.fitting(run.entries)
        if fitting < len(run.ids):
            run = EncodedEntries(run.first, run.ids[:fitting], run.entries[:fitting])
        self._hand_out(group, info, _Seen(run.first, run.end, run, {}, info.id))

    def _begin_reading(self, group: Group, info: TopicInfo, wanted: int) -> None:
        self._reading = asyncio.get_running_loop().create_task(self._look(group, info, wanted))
        self._reading.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if task.cancelled():
            self._end_without_serving()
        elif (error := task.exception()) is not None:
            self._fail_round(error)

    async def _look(self, group: Group, info: TopicInfo, wanted: int) -> None:
        """Read what is there, whatever was deleted of it."""
        start = max(group.next, info.first_offset)
        seen = await self._reader.entries_from(
            self.topic, start, info.next_offset, wanted, stops_at_times=True
        )
        self._reading = None  # from here on nobody may cancel it
        if not self._is_plain(group) or (seen.is_timed and not seen.entries):
            self._go_to_dispatcher()
            self._end_without_serving()
        else:
            self._hand_out(group, info, _Seen(start, seen.end, None, dict(seen.entries), info.id))

    # ── who gets it ───────────────────────────────────────────────────────────────────────────

    def _hand_out(self, group: Group, info: TopicInfo, seen: _Seen) -> None:
        count = len(seen.entries) if seen.run is None else len(seen.run.ids)
        served = self._shares(count + len(group.returned))
        if not served:
            self._dismiss()
            self._end_without_serving()
            return
        self._served = served
        for waiting in served:
            waiting.reserve()
        wanted = [(waiting.consumer, share) for waiting, share in served.items()]
        settle = next(iter(served)).settle
        now_ms = self._all.clock.wall_ms()
        first, gone = info.first_offset, seen.gaps()
        taken = Taken(self.topic, self.group, wanted, first, seen.end, now_ms, settle, gone)
        given = partial(self._guarded, self._taken, served, seen)
        waiter = Callback(given, partial(self._refused, served))
        self._all.pipeline.submit(taken, waiter, durable=True)

    def _free(self) -> list[WaitingConsumer]:
        """Those who may be served, as far as they have the same NOACK as the first."""
        free = [each for each in self.consumers if each.is_free and each not in self._workers]
        return [waiting for waiting in free if waiting.settle == free[0].settle]

    def _dismiss(self) -> None:
        for waiting in self._free():
            if not waiting.waits:
                waiting.answer(None)

    def _shares(self, available: int) -> Served:
        shares: Served = {}
        for waiting in self._free():
            count = min(waiting.count_max, available)
            if count:
                shares[waiting] = count
                available -= count
        return shares

    def _refused(self, served: Served, reason: DisconnectReason, _detail: str) -> None:
        self._release(served, CommandError(not_stored(reason.value)))

    def _taken(self, served: Served, seen: _Seen, value: object) -> None:
        if value is None:
            self._release(served, no_group(self.topic, self.group))
            return
        assert isinstance(value, list)
        shares: list[GroupDelivery] = value
        missing = [offset for share in shares for offset in share.offsets]
        if seen.run is not None and missing == list(range(seen.start, seen.start + len(missing))):
            missing = missing[len(seen.run.ids) :]
        else:
            found = seen.by_offset()
            missing = [offset for offset in missing if offset not in found]
        if missing:
            self._fetch(served, shares, seen, missing)
        else:
            self._give(served, shares, seen)

    def _fetch(
        self, served: Served, shares: list[GroupDelivery], seen: _Seen, offsets: list[int]
    ) -> None:
        """Read what this round did not look at: returned messages, or the group was moved."""

        async def fetch() -> None:
            left = offsets
            while left:
                part = await self._reader.entries_at(self.topic, left)
                seen.by_offset().update(part.entries)
                left = [offset for offset in left if offset >= part.end]

        def fetched(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                self._release(served, None)
            elif (error := task.exception()) is not None:
                assert isinstance(error, Exception)
                self._release(served, error)
            else:
                self._give(served, shares, seen)

        task = asyncio.get_running_loop().create_task(fetch())
        task.add_done_callback(fetched)

    def _give(self, served: Served, shares: list[GroupDelivery], seen: _Seen) -> None:
        for waiting, share in zip(list(served), shares, strict=False):
            found = seen.at(self.topic, share.offsets)
            if len(found.entries) < len(share.offsets):
                self._settle_gone(share.offsets, seen)
            if found.entries:
                waiting.answer(found)
        self._release(served, None)

    def _settle_gone(self, offsets: list[int], seen: _Seen) -> None:
        gone = [offset for offset in offsets if offset not in seen.by_offset()]
        settled = Settled(self.topic, self.group, ranges_of(gone))
        self._all.pipeline.submit(settled, None, durable=True)

    def _release(self, served: Served, result: Found) -> None:
        """The round is over. Who got nothing waits on, or is told so."""
        self._served = {}
        for waiting in served:
            if result is not None:
                waiting.answer(result)
            waiting.release()
        self._end_round()


def _may_read_ahead(info: TopicInfo, count: int) -> bool:
    """Whether so many entries are likely to be read at once; deleted ones would be gaps."""
    likely = count * info.bytes // max(info.count, 1)
    return not info.deleted and count <= AHEAD_COUNT_MAX and likely <= AHEAD_BYTES_MAX


def _gaps(start: int, offsets: list[int]) -> list[tuple[int, int]]:
    gaps = []
    for offset in offsets:
        if start < offset:
            gaps.append((start, offset))
        start = offset + 1
    return gaps
