"""What groups miss is counted, however many topics retention has removed messages of."""

import asyncio

import pytest
from tests.benches.commit_bench import turns
from tests.benches.dispatch_bench import Bench

from penstock.core.commands import GroupMade
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.retention import missed as module
from penstock.retention.missed import MissedMessages
from penstock.store.store import RetentionResult

pytestmark = pytest.mark.asyncio


@pytest.fixture
def counters():
    return Counters()


async def counted(counters, *, groups=(), removed):
    """Let a broker with these groups know of these ranges."""
    bench = Bench()
    broker = bench.parts.broker
    for number, (topic, group, start) in enumerate(groups, 1):
        broker.groups.apply(GroupMade(topic, group, start), number, recovering=False)
    missed = MissedMessages(broker, counters, asyncio.get_running_loop())
    missed.removed(RetentionResult(offsets=removed))
    await turns(4 + len(groups))
    await bench.close()


async def test_each_group_misses_what_it_has_not_done(counters):
    groups = [(b"a", b"g", 0), (b"a", b"h", 7), (b"b", b"g", 0)]
    await counted(counters, groups=groups, removed={b"a": [(0, 4), (6, 10)], b"c": [(0, 9)]})
    assert counters.drops[DropReason.RETENTION] == 8 + 3


async def test_a_queue_misses_all_while_no_worker_came(counters):
    groups = [(b"q:b", b"workers", 5)]
    await counted(counters, groups=groups, removed={b"q:a": [(0, 4)], b"q:b": [(0, 6)]})
    assert counters.drops[DropReason.RETENTION] == 4 + 1


async def test_topics_are_counted_in_several_turns(counters, monkeypatch):
    monkeypatch.setattr(module, "COUNTED_AT_ONCE", 2)
    groups = [(b"%d" % number, b"g", 0) for number in range(7)]
    seen = []
    count = MissedMessages._count

    def watched(self, removed):
        before = counters.drops[DropReason.RETENTION]
        count(self, removed)
        seen.append(counters.drops[DropReason.RETENTION] - before)

    monkeypatch.setattr(MissedMessages, "_count", watched)
    removed = {b"%d" % number: [(0, 1)] for number in range(12)}
    await counted(counters, groups=groups, removed=removed)
    assert seen == [2, 2, 2, 1, 0, 0, 0]
