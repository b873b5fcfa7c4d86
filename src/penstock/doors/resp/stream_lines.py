"""New messages for the consumers of a group, in the order in which they asked.

Every XREADGROUP for new messages (``>``) takes a place in the **line** of its group. The line is
served in rounds. A round looks off the loop at what the group has not handed out yet, divides it
among those who stand in the line, first come first served, and has one ``Taken`` journaled for all
of them; when that is on disk, they get their entries. Whoever came meanwhile is in the next round.
So consumers that ask at the same time share a commit, and one that does not wait long for others.

A consumer that got nothing leaves the line, or stays if it may **wait**: until the topic grows, its
time is over, its client goes or the group does. One that waits for several streams stands in the
line of each, and is served by one of them.

What is promised by ``Taken`` is delivered: a consumer whose time is over while it is being served
gets its entries all the same, since they are its own by then.

All this is for groups that only streams use, where a message is next because of its offset. In a
group that workers of other doors use as well, or on a topic with messages that have a time, others
may have taken what lies ahead, leases run out and delays pass. There the consumers go to the
group's dispatcher (``stream_desk``), which sees to all that.
"""

import asyncio
from weakref import WeakKeyDictionary

from penstock.core.commands import Settled, Taken
from penstock.core.effects import GroupChanged
from penstock.core.groups import Group, GroupDelivery
from penstock.dispatch.unacked import ranges_of
from penstock.doors.resp.stream_dispatch import DispatchPlace
from penstock.doors.resp.stream_faults import StreamFault, no_group
from penstock.doors.resp.stream_places import ROUND_COUNT_MAX, Found, Place
from penstock.doors.resp.stream_reading import Gathered, entries_at, entries_from, topic_info
from penstock.doors.resp.stream_steps import submitted
from penstock.errors import StorageError
from penstock.node.hub import Hub
from penstock.obs.log import get_logger
from penstock.store.store import TopicInfo

_log = get_logger("streams")


class _Line:
    """Those who want new messages of one group."""

    def __init__(self, hub: Hub, topic: bytes, group: bytes) -> None:
        self._hub = hub
        self.topic = topic
        self.group = group
        self.places: dict[Place, None] = {}
        self._at_dispatcher: dict[Place, DispatchPlace] = {}
        """Those of them who are served by the group's dispatcher, until they leave."""
        self._round_task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Nobody is left. What is on its way to the disk will be pending, as for any who left."""
        if self._round_task is not None:
            self._round_task.cancel()

    def fail(self, error: Exception) -> None:
        """Nobody can be served."""
        for place in self.places:
            if place.is_free:
                place.fail(error)

    def serve(self) -> None:
        """Begin a round, unless one is under way or there is nothing to hand out."""
        if self._round_task is not None or not self._free():
            return
        group = self._hub.broker.groups.get(self.topic, self.group)
        if group is None:
            self.fail(no_group(self.topic, self.group))
            return
        info = topic_info(self._hub, self.topic)
        if not self._is_plain(group):
            self._go_to_dispatcher()
            return
        if info is None or not group.available(info.next_offset):
            self._dismiss()
            return
        self._round_task = self._hub.loop.create_task(self._round(group, info))
        self._round_task.add_done_callback(self._ended)

    def _is_plain(self, group: Group) -> bool:
        """Whether only streams use the group: its next message is that of the next offset."""
        is_worked_on = self._hub.dispatchers.workers(self.topic, self.group) or group.wakes_ms()
        return not (is_worked_on or group.ahead or len(group.returned))

    def _go_to_dispatcher(self) -> None:
        """Have all who stand here served by the group's dispatcher."""
        for place in self.places:
            if place.is_free and place not in self._at_dispatcher:
                worker = self._at_dispatcher[place] = DispatchPlace(
                    self._hub, self.topic, self.group, place
                )
                worker.join()

    def leave(self, place: Place) -> None:
        """One has got what it wanted, or gives up."""
        self.places.pop(place, None)
        worker = self._at_dispatcher.pop(place, None)
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
        if not isinstance(error, (StreamFault, StorageError)):
            _log.error("round_failed", exc_info=error)
            error = StorageError(f"serving a group failed on a bug of ours: {error!r}")
        self.fail(error)

    # ── a round ───────────────────────────────────────────────────────────────────────────────

    async def _round(self, group: Group, info: TopicInfo) -> None:
        start = max(group.next, info.first_offset)
        wanted = min(sum(place.count_max for place in self._free()), ROUND_COUNT_MAX)
        seen = await entries_from(
            self._hub, self.topic, start, info.next_offset, wanted, stops_at_times=True
        )
        if not self._is_plain(group) or (seen.is_timed and not seen.entries):
            self._go_to_dispatcher()
            return
        served = self._shares(len(seen.entries) + len(group.returned))
        if not served:
            self._dismiss()
            return
        for place in served:
            place.reserve()
        try:
            shares = await self._take(served, info.first_offset, _gaps(start, seen), seen.end)
            await self._give(served, shares, dict(seen.entries))
        except Exception as error:
            for place in served:
                place.fail(error)
            raise
        finally:
            for place in served:
                place.release()

    def _free(self) -> list[Place]:
        """Those who may be served, as far as they want messages in the same way as the first."""
        free = [
            place for place in self.places if place.is_free and place not in self._at_dispatcher
        ]
        return [place for place in free if place.settle == free[0].settle]

    def _dismiss(self) -> None:
        """There is nothing: who does not wait leaves."""
        for place in self._free():
            if not place.waits:
                place.answer(None)

    def _shares(self, available: int) -> dict[Place, int]:
        """How many messages each gets, first come first served."""
        shares: dict[Place, int] = {}
        for place in self._free():
            count = min(place.count_max, available)
            if count:
                shares[place] = count
                available -= count
        return shares

    async def _take(
        self, served: dict[Place, int], first: int, gone: list[tuple[int, int]], end: int
    ) -> list[GroupDelivery]:
        wanted = [(place.consumer, count) for place, count in served.items()]
        settle = next(iter(served)).settle
        now_ms = self._hub.wall_ms()
        taken = Taken(self.topic, self.group, wanted, first, end, now_ms, settle, gone)
        shares = await submitted(self._hub, taken)
        if shares is None:
            raise no_group(self.topic, self.group)
        assert isinstance(shares, list)
        return shares

    async def _give(
        self, served: dict[Place, int], shares: list[GroupDelivery], entries: dict[int, bytes]
    ) -> None:
        """Hand out what was taken. Those who came last may have got nothing."""
        offsets = [offset for share in shares for offset in share.offsets]
        await self._fetch([offset for offset in offsets if offset not in entries], entries)
        for place, share in zip(served, shares, strict=False):
            found = [entries[offset] for offset in share.offsets if offset in entries]
            if found:
                place.answer(Found(self.topic, found))
        gone = [offset for offset in offsets if offset not in entries]
        if gone:
            settled = Settled(self.topic, self.group, ranges_of(gone))
            self._hub.pipeline.submit(settled, None, durable=True)

    async def _fetch(self, offsets: list[int], entries: dict[int, bytes]) -> None:
        """Read what this round did not look at: returned messages, or the group was moved."""
        while offsets:
            part = await entries_at(self._hub, self.topic, offsets)
            entries.update(part.entries)
            offsets = [offset for offset in offsets if offset >= part.end]


def _gaps(start: int, seen: Gathered) -> list[tuple[int, int]]:
    """The stretches between ``start`` and the end of what was seen that have no entries."""
    gaps = []
    for offset in [*(offset for offset, _ in seen.entries), seen.end]:
        if start < offset:
            gaps.append((start, offset))
        start = offset + 1
    return gaps


class Lines:
    """All lines of one broker."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lines: dict[tuple[bytes, bytes], _Line] = {}

    @staticmethod
    def of(hub: Hub) -> "Lines":
        """The lines of a broker, made when first asked for: most have no groups over RESP."""
        lines = _of_hubs.get(hub)
        if lines is None:
            lines = _of_hubs[hub] = Lines(hub)
            hub.effects.on(GroupChanged, lines.group_changed)
        return lines

    def group_changed(self, effect: GroupChanged) -> None:
        if effect.group is not None:
            self.serve(effect.topic, effect.group)

    async def stand(
        self, topics: list[bytes], group: bytes, place: Place, timeout_s: float = 0
    ) -> Found | None:
        """Stand in the lines of a group of some topics until there is something, or time is up.

        Raises StreamFault if the group is gone or the disk refuses.
        """
        place.lines = lines = [self._line(topic, group) for topic in topics]
        timer = self._hub.loop.call_later(timeout_s, place.expire) if timeout_s else None
        try:
            for line in lines:
                line.places[place] = None
                line.serve()
            return await place.found
        finally:
            if timer is not None:
                timer.cancel()
            for line in lines:
                self._leave(line, place)

    def serve(self, topic: bytes, group: bytes) -> None:
        """A group was moved: there may be something to hand out."""
        line = self._lines.get((topic, group))
        if line is not None:
            line.serve()

    def fail(self, topic: bytes, group: bytes, error: Exception) -> None:
        """Let nobody wait for a group any longer."""
        line = self._lines.get((topic, group))
        if line is not None:
            line.fail(error)

    def _line(self, topic: bytes, group: bytes) -> _Line:
        line = self._lines.get((topic, group))
        if line is None:
            line = self._lines[topic, group] = _Line(self._hub, topic, group)
            self._hub.feed.watch(topic, line.serve)
        return line

    def _leave(self, line: _Line, place: Place) -> None:
        line.leave(place)
        if not line.places and self._lines.get((line.topic, line.group)) is line:
            del self._lines[line.topic, line.group]
            self._hub.feed.unwatch(line.topic, line.serve)
            line.close()


_of_hubs: WeakKeyDictionary[Hub, Lines] = WeakKeyDictionary()
