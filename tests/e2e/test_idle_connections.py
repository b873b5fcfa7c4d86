"""Two thousand idle subscribers while others publish: none is dropped or forgotten."""

import contextlib
import resource

import pytest

from tests.conformance.wire_client import (
    PINGREQ,
    PINGRESP,
    WireClient,
    connack,
    connect_packet,
    publish,
    suback,
    subscribe,
)
from tests.e2e.test_serve import connected

IDLE = 2_000
FILES = IDLE + 500


@pytest.fixture
def many_files():
    """Both processes need a descriptor per connection; the child inherits ours."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"the system allows {hard} open files, this needs {FILES}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_none_of_2_000_idle_connections_is_dropped(many_files, start):
    broker = start()
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(WireClient(broker.host, broker.port)) for _ in range(IDLE)]
        for number, client in enumerate(idle):
            client.send(connect_packet(f"idle-{number}"), subscribe(1, ("all", 0)))
        for client in idle:
            client.expect(connack(), suback(1, 0))
        traffic(broker)
        with connected(broker, "speaker") as speaker:
            speaker.send(publish("all", b"is anybody there?"))
            for client in idle:
                client.expect_publish("all", b"is anybody there?", qos=0)
                client.send(PINGREQ)
        for client in idle:
            client.expect(PINGRESP)
        assert broker.metric("penstock_clients_connected") == IDLE


def traffic(broker):
    """Messages of each QoS that the idle clients do not receive."""
    with connected(broker, "from") as publisher, connected(broker, "to") as subscriber:
        subscriber.subscribe(("t", 2))
        for number in range(60):
            qos = number % 3
            publisher.publish_acknowledged("t", b"%d" % number, qos=qos, packet_id=number + 1)
            subscriber.expect_publish("t", b"%d" % number, qos=qos)
