"""A broker that was paused does not mistake its own silence for that of its clients."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from penstock.client import connect
from tests.conformance.wire_client import PINGREQ, PINGRESP, WireClient, connack, connect_packet
from tests.e2e.process import BrokerProcess

PAUSE_S = 5.0
"""Longer than any time-out below: the pause itself is under test."""

SETTINGS = ("--set", "limits.connect_timeout_s=3")


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """Pause the whole process for a while; the body runs during the pause."""
    os.kill(broker.pid, signal.SIGSTOP)
    ends_at = time.monotonic() + PAUSE_S
    try:
        yield
        while time.monotonic() < ends_at:
            time.sleep(0.05)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.fixture
def broker(tmp_path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", *SETTINGS) as running:
        yield running


def test_clients_are_heard_before_anybody_is_timed_out(broker):
    """Three clients that sent something during the pause, and one that was paused, too."""
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(broker.host, broker.port)) for _ in range(4)]
        _pause_with(broker, *clients)


def _pause_with(broker, alive, silent, late, resp) -> None:
    for client in (alive, silent):
        client.send(connect_packet(f"c{id(client)}", keep_alive=2))
        client.expect(connack())
    packet = connect_packet("late")
    late.send(packet[:5])
    resp.send(b"*1\r\n")
    alive.ping()
    silent.ping()
    with stopped(broker):
        alive.send(PINGREQ)
        late.send(packet[5:])
        resp.send(b"$4\r\nPING\r\n")
    alive.expect(PINGRESP)
    late.expect(connack())
    assert resp.socket.recv(100) == b"+PONG\r\n"
    silent.ping()


def test_a_job_that_was_finished_during_the_pause_is_not_handed_out_again(broker):
    """Its lease expired meanwhile, and another worker waits; but the ack arrived in time."""
    address = f"{broker.host}:{broker.port}"
    with (
        connect([address], timeout_s=60) as worker,
        connect([address], timeout_s=60) as rival,
        ThreadPoolExecutor(2) as threads,
    ):
        worker.produce("jobs", b"a")
        (job,) = worker.poll("jobs", "workers", visibility_s=3)
        waiting = threads.submit(rival.poll, "jobs", "workers", wait_s=PAUSE_S + 3)
        with stopped(broker):
            acknowledged = threads.submit(worker.ack, job)
        acknowledged.result()
        assert waiting.result() == []
