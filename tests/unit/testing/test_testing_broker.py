"""The broker that people test their own programs with: quick, alone, and lord of its time."""

import asyncio
import time
import urllib.request

import pytest
from tests.conformance.wire_client import WireClient, connack, connect_packet, wait_until

from penstock.testing import AsyncBroker, Broker

READY_S_MAX = 0.1  # of processor time: what else runs on the machine does not count


def connected(broker, client_id="", *, session_present=False, **options):
    """A connection that was accepted; close it when done."""
    client = WireClient(broker.host, broker.port)
    client.send(connect_packet(client_id, **options))
    client.expect(connack(session_present=session_present))
    return client


def ready_s():
    started = time.process_time()
    with Broker():
        return time.process_time() - started


async def async_ready_s():
    started = time.process_time()
    async with AsyncBroker():
        return time.process_time() - started


def test_it_is_ready_in_a_tenth_of_a_second():
    assert min(ready_s() for _ in range(5)) < READY_S_MAX


@pytest.mark.asyncio
async def test_it_is_ready_in_a_tenth_of_a_second_in_the_callers_loop():
    assert min([await async_ready_s() for _ in range(5)]) < READY_S_MAX


@pytest.mark.asyncio
async def test_it_serves_in_the_callers_loop():
    async with AsyncBroker() as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(connect_packet("a"))
        assert await reader.readexactly(4) == connack()
        writer.close()
        await writer.wait_closed()


def test_time_passes_only_when_the_test_says_so():
    """Keep-alive 10: at one and a half times that, and not before, the connection ends."""
    with Broker() as broker, connected(broker, "quiet", keep_alive=10) as client:
        broker.clock.advance(14)
        client.ping()
        broker.clock.advance(14)
        client.ping()
        broker.clock.advance(16)
        client.expect_close()


def test_a_connection_that_says_nothing_is_closed_by_the_virtual_clock():
    with Broker() as broker, WireClient(broker.host, broker.port) as client:
        wait_until(lambda: len(broker.server._listener.undetected) == 1)
        broker.clock.advance(11)
        client.expect_close()


@pytest.mark.asyncio
async def test_the_virtual_clock_works_in_the_callers_loop():
    async with AsyncBroker() as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(connect_packet("quiet", keep_alive=10))
        await reader.readexactly(4)
        broker.clock.advance(16)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("kill", [False, True], ids=["in order", "killed"])
def test_a_restart_keeps_port_and_committed_state(kill):
    with Broker() as broker:
        port = broker.port
        with connected(broker, "stays", clean=False) as client:
            client.subscribe(("t", 1))
            client.publish_acknowledged("kept", b"retained", retain=True)
        broker.restart(kill=kill)
        assert broker.port == port
        with connected(broker, "stays", clean=False, session_present=True) as client:
            client.publish_acknowledged("other", b"")
            client.subscribe(("kept", 0))
            client.expect_publish("kept", b"retained", qos=0, retain=True)


@pytest.mark.parametrize("kill", [False, True], ids=["in order", "killed"])
def test_a_restart_leads_to_wills(kill):
    """On a clean stop the old process publishes them; after a kill, the next one does."""
    with Broker() as broker:
        with connected(broker, "mortal", will=("will", b"gone", 1, True)):
            broker.restart(kill=kill)
        with connected(broker) as client:
            client.subscribe(("will", 1))
            client.expect_publish("will", b"gone", qos=1, retain=True)


@pytest.mark.asyncio
async def test_a_restart_in_the_callers_loop_keeps_committed_state():
    async with AsyncBroker() as broker:
        for session_present in (False, True):
            reader, writer = await asyncio.open_connection(broker.host, broker.port)
            writer.write(connect_packet("stays", clean=False))
            assert await reader.readexactly(4) == connack(session_present=session_present)
            writer.close()
            await broker.restart(kill=True)


def test_two_brokers_in_one_process_know_nothing_of_each_other():
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        with connected(one, "same") as here, connected(other, "same") as there:
            here.subscribe(("#", 1))
            there.publish_acknowledged("t", b"x", retain=True)
            here.expect_nothing()
            one.clock.advance(200)
            here.expect_close()
            there.ping()
        assert other.metrics()["penstock_retained_messages"] == 1
        assert one.metrics()["penstock_retained_messages"] == 0


def test_metrics_are_those_of_the_page():
    with Broker() as broker, connected(broker) as client:
        client.publish_acknowledged("t", b"x", qos=1)
        metrics = broker.metrics()
        assert metrics["penstock_clients_connected"] == 1
        assert metrics['penstock_messages_received_total{qos="1"}'] == 1
        with urllib.request.urlopen(f"http://{broker.host}:{broker.port}/metrics") as page:
            lines = page.read().decode().splitlines()
        assert metrics.keys() == {line.rpartition(" ")[0] for line in lines if line[0] != "#"}


@pytest.mark.asyncio
async def test_metrics_are_there_in_the_callers_loop():
    async with AsyncBroker() as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(connect_packet("a"))
        await reader.readexactly(4)
        assert (await broker.metrics())["penstock_clients_connected"] == 1
        writer.close()


def test_sections_of_the_configuration_are_keywords():
    with Broker(limits={"subscriptions_max": 1}) as broker, connected(broker) as client:
        client.subscribe(("a", 0))
        with pytest.raises(AssertionError):
            client.subscribe(("b", 0))


def test_a_directory_of_the_callers_own_is_kept(tmp_path):
    with Broker(data=tmp_path / "data") as broker, connected(broker) as client:
        client.publish_acknowledged("t", b"x", retain=True)
    with Broker(data=tmp_path / "data") as broker, connected(broker) as client:
        client.subscribe(("t", 0))
        client.expect_publish("t", b"x", qos=0, retain=True)
