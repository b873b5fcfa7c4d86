"""Brokers and leaders that are killed in the middle of what clients do, and lossy networks.

Moments come from a seed: the broker is killed after so many answers, a connection is cut after so
many bytes. Few seeds run with the suite, many by ``make nightly``.

What must hold: what was acknowledged is stored; what is stored is handled, and nothing twice. A
client may send again what was not answered, so a payload may be stored twice, unless the client
numbers its publishes (``hello``).
"""

from collections import Counter
from random import Random

import pytest

from penstock.client import Publisher, connect
from tests.clients.proxy import LossyProxy, faults
from tests.e2e.cluster_processes import nodes

pytestmark = pytest.mark.slow

UNDER_WAY = 4
PUBLISHES_MAX = 20_000  # only a failing test needs so many
PATIENCE_S = 120.0  # for a client that waits before it connects again


def stored(address):
    with connect([address], timeout_s=60) as client:
        return [(record.sequence, record.payload) for record in client.messages("t")]


class Stream:
    """A publisher that always has some messages under way, and what became of them."""

    def __init__(self, driver):
        self._driver = driver
        self._requests = []
        self.payloads = []
        self.answered = 0

    def keep_publishing(self, answers):
        """Publish until so many more are answered."""
        for _ in range(answers):
            while len(self._requests) < UNDER_WAY:
                payload = b"%d" % len(self.payloads)
                self.payloads.append(payload)
                self._requests.append(self._driver.begin_publish("t", payload))
            self._driver.end(self._requests.pop(0), PATIENCE_S)
            self.answered += 1

    def finish(self):
        while self._requests:
            self._driver.end(self._requests.pop(0), PATIENCE_S)


def check(driver_of_stream, stream, found, reader):
    """Nothing that was acknowledged is lost, nothing that is stored is missed or handled twice."""
    times = Counter(payload for _, payload in found)
    assert set(times) == set(stream.payloads)
    if "hello" in driver_of_stream.abilities:
        assert set(times.values()) == {1}
    handled = [message["sequence"] for message in reader.messages(len(found))]
    assert handled == [sequence for sequence, _ in found]
    reader.flush()
    assert reader.waiting("message") == 0


# ── The broker is killed ──────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # twenty starts of a broker, on a machine that is busy
@pytest.mark.parametrize(
    ("seed", "kills"), [(1, 3), *(pytest.param(seed, 20, marks=pytest.mark.nightly) for seed in range(2, 5))]
)  # fmt: skip
def test_nothing_is_lost_or_handled_twice_over_kill_9(drive, start, seed, kills):
    chance = Random(seed)
    broker = start()
    listen = ("--listen", f"127.0.0.1:{broker.port}", "--http-listen", "127.0.0.1:0")
    driver, reader = drive("publish", "subscribe"), drive("subscribe")
    driver.connect(broker.port, client_id="writer")
    reader.connect(broker.port, client_id="reader")
    reader.do("subscribe", topic="t")
    stream = Stream(driver)
    for _ in range(kills):
        stream.keep_publishing(chance.randrange(1, 60))
        broker.kill()
        broker.wait_killed()
        broker = start(*listen, listen=False)
    stream.keep_publishing(20)
    stream.finish()
    check(driver, stream, stored(f"127.0.0.1:{broker.port}"), reader)


def meet_all(stream, *proxies, reader=None):
    """Publish until all faults were met; no faster than a reader that pauses between can follow."""
    for _ in range(PUBLISHES_MAX // UNDER_WAY):
        stream.keep_publishing(UNDER_WAY)
        if reader is not None:
            reader.wait_events("message", stream.answered, PATIENCE_S)
        if not any(proxy.left for proxy in proxies):
            return
    raise AssertionError(f"faults that were not met: {[proxy.left for proxy in proxies]}")


# ── The network is lossy ──────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # sixty connections, and the pauses between them
@pytest.mark.parametrize(
    ("seed", "cuts"), [(1, 8), *(pytest.param(seed, 30, marks=pytest.mark.nightly) for seed in range(2, 6))]
)  # fmt: skip
def test_exactly_once_over_a_network_that_cuts(drive, broker, seed, cuts):
    """Both ways: the stream and the reader each have a lossy network of their own."""
    kinds = ("cut", "reset", "crumbs")
    with (
        LossyProxy(broker.port, faults(seed, cuts, kinds)) as of_stream,
        LossyProxy(broker.port, faults(-seed, cuts, kinds)) as of_reader,
    ):
        driver, reader = drive("publish", "subscribe"), drive("subscribe")
        driver.connect(of_stream.port, client_id="writer", wait=False)
        reader.connect(of_reader.port, client_id="reader", wait=False)
        subscribed = reader.begin("subscribe", topic="t")
        stream = Stream(driver)
        meet_all(stream, of_stream, of_reader, reader=reader)
        reader.end(subscribed, PATIENCE_S)
        stream.finish()
        check(driver, stream, stored(f"127.0.0.1:{broker.port}"), reader)


@pytest.mark.parametrize("kind_of_fault", ["blackhole", "slow"])
def test_a_network_that_falls_silent_is_noticed(drive, broker, kind_of_fault):
    """The broker's clock stands still, so it is the client that must notice."""
    planned = faults(7, 2, [kind_of_fault], most=400)
    with LossyProxy(broker.port, planned) as proxy:
        driver = drive("publish")
        driver.connect(proxy.port, client_id="writer", wait=False, keep_alive=1)
        stream = Stream(driver)
        meet_all(stream, proxy)
        stream.finish()
    assert {payload for _, payload in stored(f"127.0.0.1:{broker.port}")} == set(stream.payloads)


# ── The leader is killed ──────────────────────────────────────────────────────────────────────


def test_a_client_of_a_cluster_goes_on_when_the_leader_is_killed(drive, tmp_path):
    """Connected to a node that stays; one that knows more nodes, to the leader itself."""
    with nodes(tmp_path, 3) as cluster:
        options = [word for number in (1, 2, 3) for word in ("--node", cluster.as_option(number))]
        assert cluster.command(1, "init", *options)[0] == 0
        leader = cluster.leader()
        others = [number for number in (1, 2, 3) if number != leader]
        driver, reader = drive("publish", "subscribe"), drive("subscribe")
        order = [leader, *others] if "nodes" in driver.abilities else others
        pairs = [cluster.address(number).rsplit(":", 1) for number in order]
        known = {"nodes": [[host, int(port)] for host, port in pairs]}
        driver.connect(int(pairs[0][1]), client_id="writer", **known)
        reader.connect(int(cluster.address(others[0]).rsplit(":", 1)[1]), client_id="reader")
        reader.do("subscribe", topic="t")
        stream = Stream(driver)
        stream.keep_publishing(30)
        cluster.kill(leader)
        stream.keep_publishing(30)
        stream.finish()
        check(driver, stream, stored(cluster.address(others[0])), reader)


def test_the_proxy_does_what_its_faults_say(broker):
    """Else the scenarios above would prove nothing."""
    planned = faults(3, 12, ("cut", "reset", "crumbs"), most=100)
    with LossyProxy(broker.port, planned) as proxy, Publisher(port=proxy.port) as publisher:
        for _ in range(PUBLISHES_MAX):
            publisher.publish("t", b"x" * 50)
            if not proxy.left:
                break
    assert sorted(proxy.met) == sorted(planned)
