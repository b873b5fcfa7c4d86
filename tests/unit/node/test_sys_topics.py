"""The broker's figures under $SYS: sent when they change, kept for those who come later."""

from types import SimpleNamespace
from typing import Any

from penstock.core.broker import Broker
from penstock.core.live import Live
from penstock.node.sys_topics import SysTopics
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.store.memory import MemoryStore
from penstock.testing import VirtualClock


class Bench:
    """$SYS that notes what is forwarded: topic → the values in order."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.broker = Broker(self.counters)
        self.sent: dict[bytes, list[bytes]] = {}
        self.uptime_s = 1.9
        fanout: Any = SimpleNamespace(forward=self._forward)
        self.topics = SysTopics(
            self.broker, MemoryStore(), fanout, VirtualClock(), "1.2.3", lambda: self.uptime_s
        )

    def _forward(self, _targets: Any, live: Live, _marked: Any) -> None:
        for run in live.runs:
            self.sent.setdefault(run.topic, []).extend(run.payloads)


def test_only_values_that_changed_are_sent_again():
    bench = Bench()
    bench.topics.publish()
    bench.uptime_s = 2.0
    bench.counters.drops[DropReason.SLOW_READER] += 3
    bench.topics.publish()
    assert bench.sent[b"$SYS/broker/uptime"] == [b"1", b"2"]
    assert bench.sent[b"$SYS/broker/messages/dropped"] == [b"0", b"3"]
    assert bench.sent[b"$SYS/broker/version"] == [b"penstock 1.2.3"]


def test_values_are_retained_but_never_written_down():
    bench = Bench()
    bench.topics.publish()
    assert len(bench.broker.retained.match(b"$SYS/#")) == len(bench.sent)
    assert bench.broker.retained.get(b"$SYS/broker/journal/sequence").payload == b"0"
    assert bench.broker.retained.count == bench.broker.retained.dirty_count == 0
