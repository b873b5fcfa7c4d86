"""A broker made of fixed numbers, for the pages to show."""

import pytest
from asking import Current
from queue_bench import Book
from tests.cluster.lone_node import LoneNode

from penstock.admin.view import JournalView
from penstock.config.schema import Signing
from penstock.obs.bridge_view import BridgeState, BridgeView, Copying
from penstock.obs.counters import Counters
from penstock.obs.reasons import BridgeDropReason
from penstock.store.store import TopicInfo
from penstock.trust.gate import Gate
from penstock.trust.keys import KeyRing
from penstock.trust.policy import Policy
from penstock.trust.replay import ReplayWindow


class FixedStore:
    next_index = 19

    def __init__(self):
        self.counts = {}

    def topics(self, prefix=b""):
        infos = (TopicInfo(1, name, 0, count, 0, 0) for name, count in self.counts.items())
        return (info for info in infos if info.name.startswith(prefix))


class OneBridge:
    def views(self):
        drops = dict.fromkeys(BridgeDropReason, 0) | {BridgeDropReason.LOOP: 43}
        return [
            BridgeView(
                name="old",
                url="mqtt://old:1883",
                state=BridgeState.CONNECTED,
                since_ms=0,
                version=5,
                error="",
                advice="",
                retry_ms=0,
                incoming=Copying(["#"], 41, dict.fromkeys(BridgeDropReason, 0), 0),
                outgoing=Copying(["#"], 42, drops, 0),
            )
        ]


class FixedView(Current):
    version = "9.8.7"

    def __init__(self):
        self.counters = Counters()
        self.readiness = (True, "")
        self.store = FixedStore()
        self.gate = Gate(KeyRing(), Policy(Signing()), ReplayWindow(60_000, 8, 0))
        self.queues = Book()
        self.audiences = {}
        self.node = LoneNode(self.store)
        self.bridges = OneBridge()

    def connections(self):
        return 2

    def certificate_expiry(self):
        return {"127.0.0.1:1883": 86_400.0}

    def reloads(self):
        return {"done": 17}

    def followers(self):
        return 14

    def durable_subscribers(self):
        return 15

    def topics_subscribed(self):
        return 16

    def filters(self, count_max):
        return list(self.audiences)[:count_max]

    def subscribers(self, topic_filter):
        return self.audiences.get(topic_filter, 0)

    def queue_pending(self):
        return 17

    def sessions(self):
        return (3, 4)

    def outgoing(self):
        return 17, 1_000, 2

    def queued(self):
        return 5

    def schedules(self):
        return 0

    def retained(self):
        return 6

    def subscriptions(self):
        return 7

    def journal(self):
        return JournalView(
            bytes=8_192,
            map_bytes=1_048_576,
            entries=9,
            messages=10,
            oldest_sequence=11,
            newest_sequence=20,
        )

    def pending_capture_bytes(self):
        return 12

    def cluster(self):
        return self.node.status()

    def clock_skew_s(self):
        return 0.25

    def uptime_s(self):
        return 13.5

    def ready(self):
        return self.readiness


@pytest.fixture
def view():
    return FixedView()
