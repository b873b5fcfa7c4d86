"""A replay that is interrupted by kill -9, or goes on at another node: no gap and no double."""

import pytest

from tests.conformance.wire_client import (
    WireClient,
    connect_packet,
    puback,
    publish,
    suback,
    subscribe,
)
from tests.e2e.cluster_processes import nodes
from tests.e2e.process import BrokerProcess

COUNT = 3_000
FIRST = 700  # messages that are received before the kill


def connected(port, client_id="", *, clean=True):
    client = WireClient("127.0.0.1", port)
    client.send(connect_packet(client_id, clean=clean))
    assert client.receive()[:2] == b"\x20\x02"
    return client


def fill(client, first, end):
    for number in range(first, end):
        client.send(publish(f"t/{number % 7}", b"%d" % number, qos=1, packet_id=number + 1))
    for number in range(first, end):
        client.expect(puback(number + 1))


def take(client, received, until):
    """Acknowledge messages until so many are known; one that comes again has the DUP flag."""
    while len(received) < until:
        first_byte, packet_id, _, payload = client.receive_publish()
        client.send(puback(packet_id))
        number = int(payload)
        if first_byte & 8:
            received.setdefault(number)
        else:
            assert number not in received, "it came twice, and not as a repetition"
            received[number] = None


def test_a_killed_broker_goes_on_with_the_history_where_it_was(tmp_path):
    received = {}
    with (
        BrokerProcess(tmp_path / "data") as broker,
        connected(broker.port) as publisher,
        connected(broker.port, "s", clean=False) as one,
    ):
        fill(publisher, 0, COUNT)
        one.send(subscribe(1, ("$replay/offset=0/t/#", 1)))
        one.expect(suback(1, 1))
        take(one, received, FIRST)
        fill(publisher, COUNT, COUNT + 100)
        broker.kill()
        broker.wait_killed()
    with (
        BrokerProcess(tmp_path / "data") as again,
        connected(again.port) as publisher,
        connected(again.port, "s", clean=False) as two,
    ):
        fill(publisher, COUNT + 100, COUNT + 200)
        take(two, received, COUNT + 200)
    assert list(received) == sorted(received)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_goes_on_with_its_history_at_another_node(tmp_path):
    received = {}
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        code, said = made.command(1, "init", *options)
        assert code == 0, said
        leader = made.leader()
        here, there = [number for number in made.running if number != leader]
        ports = {number: int(made.address(number).split(":")[1]) for number in made.running}
        with connected(ports[leader]) as publisher:
            fill(publisher, 0, COUNT)
            with connected(ports[here], "s", clean=False) as one:
                one.send(subscribe(1, ("$replay/offset=0/t/#", 1)))
                one.expect(suback(1, 1))
                take(one, received, FIRST)
                made.kill(here)
            fill(publisher, COUNT, COUNT + 100)
            with connected(ports[there], "s", clean=False) as two:
                fill(publisher, COUNT + 100, COUNT + 200)
                take(two, received, COUNT + 200)
    assert list(received) == sorted(received)
