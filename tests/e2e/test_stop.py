"""SIGTERM and SIGINT: a clean stop under load, within seconds; a restart on the same data."""

import signal

import pytest

from tests.conformance.wire_client import WireClient, publish, wait_until
from tests.e2e.load import Load
from tests.e2e.test_kill import ROOMY
from tests.e2e.test_serve import connected

STOP_S_MAX = 3.0
"""If every client reads; clients that do not are given the shutdown time-out (30 s)."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_stop_under_load_loses_nothing(start, number):
    load = Load(publishers=4)
    broker = start(*ROOMY)
    load.subscribe(broker.port)
    for acknowledgements in (200, 900):
        load.after(acknowledgements, lambda broker=broker: broker.signal(number))
        load.run(broker.port)
        load.pause()  # every client sees its connection end
        status, output, seconds = broker.wait_stopped()
        assert (status, seconds < STOP_S_MAX) == (0, True)
        assert "Stopping" in output
        assert "All acknowledged messages are on disk" in output
        broker = start(*ROOMY)
        load.check_retained(broker.port)
    load.finish(broker.port)
    load.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_stop_publishes_wills(start, number):
    broker = start()
    with connected(broker, "away", clean=False) as client:
        client.subscribe(("will/#", 1))
    with (
        connected(broker, "mortal", will=("will/queued", b"gone", 1, False)) as mortal,
        connected(broker, "watched", will=("will/kept", b"gone too", 1, True)) as watched,
    ):
        broker.signal(number)
        mortal.expect_close()
        watched.expect_close()
        assert broker.wait_stopped()[0] == 0
    broker = start()
    with connected(broker, "away", clean=False, session_present=True) as client:
        arrived = {client.receive_publish()[2:] for _ in range(2)}
        assert arrived == {(b"will/queued", b"gone"), (b"will/kept", b"gone too")}
        client.subscribe(("will/kept", 0))
        client.expect_publish("will/kept", b"gone too", qos=0, retain=True)


def test_a_stop_closes_connections_that_never_said_anything(start):
    broker = start()
    with WireClient(broker.host, broker.port) as stranger:
        assert broker.page("/health")[0] == 200  # accepted after the stranger
        broker.signal(signal.SIGTERM)
        stranger.expect_close()
        assert broker.wait_stopped()[0] == 0


def test_no_new_client_is_taken_while_stopping(start):
    """The port is immediately free for the next broker."""
    broker = start()
    address = ("--listen", f"127.0.0.1:{broker.port}", "--http-listen", "127.0.0.1:0")
    with connected(broker, "a"):
        broker.stop()
    again = start(*address, listen=False)
    assert again.port == broker.port
    with connected(again, "a") as client:
        client.publish_acknowledged("t", b"x")


def test_a_client_that_does_not_read_cannot_hold_up_the_stop(start):
    """Megabytes wait for it; the shutdown time-out, here one second, ends that."""
    broker = start("--set", "shutdown.timeout_s=1")
    with connected(broker, "deaf") as deaf, connected(broker, "loud") as loud:
        deaf.subscribe(("t", 0))
        sample = 'penstock_messages_received_total{qos="0"}'
        for _ in range(200):
            loud.send(publish("t", b"x" * 100_000))
        wait_until(lambda: broker.metric(sample) == 200)
        broker.signal(signal.SIGTERM)
        status, _, seconds = broker.wait_stopped()
        assert status == 0
        assert seconds < STOP_S_MAX


def test_a_stop_that_waits_for_a_reader_says_for_whom(start):
    broker = start()
    with connected(broker, "deaf") as deaf, connected(broker, "loud") as loud:
        deaf.subscribe(("t", 0))
        sample = 'penstock_messages_received_total{qos="0"}'
        for _ in range(200):
            loud.send(publish("t", b"x" * 100_000))
        wait_until(lambda: broker.metric(sample) == 200)
        broker.signal(signal.SIGTERM)
        assert broker.wait_stopped()[0] == 0
    (told,) = [line for line in broker.log_path.read_text().splitlines() if "stop_waits" in line]
    assert "deaf" in told
