"""The blocking client: against a real broker, and against ones that misbehave."""

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import uuid
from time import monotonic

import pytest

from penstock.client import (
    BrokerProtocolError,
    ConnectionLostError,
    RefusedError,
    ReplyTimeoutError,
    UnreachableError,
    Will,
    connect,
)
from penstock.errors import LocalProtocolError
from penstock.testing import Broker
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.properties import NONE

WELCOME = encode.connack(False, 0, NONE)


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        yield own


@pytest.fixture
def name():
    """A topic, or client id, that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=[4, 5], ids=["3.1.1", "5"])
def dial(request, broker):
    """Connect to the broker; all connections end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(
            connect(broker.host, broker.port, *arguments, version=request.param, **options)
        )


@contextlib.contextmanager
def impostor(*answers, then_close=True):
    """Listen, and give one answer to each thing that is said; then close, or be silent."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def converse():
            connection, _ = listening.accept()
            with connection:
                for answer in answers:
                    connection.recv(1 << 16)
                    connection.sendall(answer)
                if not then_close:
                    done.wait(30)

        thread = threading.Thread(target=converse)
        thread.start()
        yield "127.0.0.1", listening.getsockname()[1]
        done.set()
        thread.join()


def payloads(client, count):
    """Take ``count`` messages, and come back for more so that all of them are acknowledged."""
    taken = []
    for delivery in client.messages(timeout_s=10):
        taken.append(delivery.payload)
        if len(taken) == count:
            break
    return taken


# ── Publishing


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_many_messages_arrive_in_order_and_are_confirmed(dial, name, qos):
    consumer, producer = dial(), dial()
    assert consumer.subscribe([(name, 2)]) == [2]
    expected = [b"%d" % number for number in range(2500)]
    count = producer.publish_many(((name, each) for each in expected), qos, window=100)
    assert (count, producer.confirmed) == (2500, 2500 if qos else 0)
    assert payloads(consumer, 2500) == expected


def test_a_client_that_hears_itself_does_not_block(dial, name):
    """Both directions are full at once: it reads while it sends."""
    client = dial()
    client.subscribe([(name, 0)])
    payload = bytes(10_000)
    client.publish_many(((name, payload) for _ in range(2_000)), qos=1)
    assert client.confirmed == 2_000


def test_publish_of_what_mqtt_cannot_say_leaves_the_connection_usable(dial, name):
    client = dial()
    with pytest.raises(LocalProtocolError, match="wildcard"):
        client.publish("a/#", b"")
    client.publish(name, b"", qos=1)
    assert client.confirmed == 1


def test_payload_that_is_text_is_refused_and_the_connection_stays_usable(dial, name):
    client = dial()
    with pytest.raises(TypeError, match="payload must be bytes, not str"):
        client.publish(name, "text")
    client.publish(name, bytearray(b"x"), qos=1)
    assert client.confirmed == 1


def test_answered_ping_means_that_the_broker_took_all_before_it(dial, name):
    client = dial()
    client.publish(name, b"x")
    client.ping()
    with pytest.raises(ConnectionLostError):
        _refused_publish(client)
    client.abandon()


def _refused_publish(client):
    client.publish("$SYS/mine", b"x")
    client.ping()


def test_ping_waits_for_its_own_answer():
    """The answer to an earlier ping, sent to keep the connection alive, says nothing of now."""
    with impostor(WELCOME, encode.PINGRESP) as address:
        client = connect(*address, keep_alive=60, timeout_s=10)
        client._session.ping()
        with pytest.raises(ConnectionLostError):
            client.ping()
        client.abandon()


# ── Receiving


@pytest.mark.parametrize("qos", [1, 2])
def test_delivery_that_was_not_taken_comes_again(broker, dial, name, qos):
    def session():
        return connect(broker.host, broker.port, name, clean_session=False)

    with session() as consumer:
        consumer.subscribe([(name, qos)])
        dial().publish_many([(name, b"1"), (name, b"2"), (name, b"3")], qos)
        assert payloads(consumer, 1) == [b"1"]
    with contextlib.suppress(ZeroDivisionError), session() as consumer:
        assert consumer.session_present
        assert payloads(consumer, 1) == [b"2"]
        raise ZeroDivisionError  # while it processes the second
    with session() as consumer:
        assert payloads(consumer, 2) == [b"2", b"3"]
    with session() as consumer:
        assert list(consumer.messages(timeout_s=0.01)) == []


def test_receive_gives_what_is_there_but_no_more_than_asked_for(dial, name):
    consumer = dial()
    consumer.subscribe([(name, 1)])
    dial().publish_many([(name, b"%d" % number) for number in range(5)], 1)
    taken = []
    while len(taken) < 5:
        batch = consumer.receive(2, timeout_s=10)
        assert 1 <= len(batch) <= 2
        taken += [delivery.payload for delivery in batch]
    assert taken == [b"0", b"1", b"2", b"3", b"4"]


def test_receive_is_woken_by_a_file_descriptor(dial, name):
    consumer = dial()
    consumer.subscribe([(name, 1)])
    reading, writing = os.pipe()
    os.write(writing, b"!")
    assert consumer.receive(wake=[reading]) == []
    consumer.idle(until=reading)
    os.close(reading)
    os.close(writing)


# ── Beginning and end


def test_will_is_published_for_a_client_that_vanishes_and_not_for_one_that_leaves(dial, name):
    watcher = dial()
    watcher.subscribe([(f"{name}/#", 1)])

    def will(cause):
        return Will(f"{name}/{cause}".encode(), b"", 1, retain=False)

    dial(will=will("left")).close()
    with contextlib.suppress(ZeroDivisionError), dial(will=will("failed")):
        raise ZeroDivisionError  # the program's own failure: it still says goodbye
    dial(will=will("vanished")).abandon()
    assert next(watcher.messages(timeout_s=10)).topic == f"{name}/vanished"


def test_nothing_listens():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(UnreachableError) as caught:
        connect("127.0.0.1", port)
    assert str(caught.value) == (
        f"no broker is listening on 127.0.0.1:{port}; start one with `penstock serve`"
    )


def test_unknown_host():
    with pytest.raises(UnreachableError, match=r"no address is known for nowhere\.invalid"):
        connect("nowhere.invalid", 1883)


def test_refused_connection():
    with impostor(encode.connack(False, 5)) as address, pytest.raises(RefusedError):
        connect(*address)
    with impostor(encode.connack(False, 0x87, NONE)) as address, pytest.raises(RefusedError):
        connect(*address)


def test_not_a_broker():
    with impostor(b"220 mail.example.org ESMTP\r\n") as address, pytest.raises(BrokerProtocolError):
        connect(*address)


def test_broker_that_says_nothing():
    with (
        impostor(b"", then_close=False) as address,
        pytest.raises(ReplyTimeoutError, match=r"has not answered for 0\.05 s"),
    ):
        connect(*address, timeout_s=0.05)


def test_broker_that_closes_instead_of_confirming():
    with (
        impostor(WELCOME, b"") as address,
        pytest.raises(ConnectionLostError, match="penstock_disconnects_total"),
        connect(*address) as client,
    ):
        client.publish("t", b"", qos=1)


def test_broker_that_does_not_confirm():
    with (
        impostor(WELCOME, then_close=False) as address,
        pytest.raises(ReplyTimeoutError),
        connect(*address, timeout_s=0.05) as client,
    ):
        client.publish("t", b"", qos=1)


def test_idle_client_pings():
    """Half a second of silence, then the broker gets a ping and closes instead of answering."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def converse():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(WELCOME)
                heard.append(connection.recv(1 << 16))

        thread = threading.Thread(target=converse)
        thread.start()
        address = listening.getsockname()
        with pytest.raises(ConnectionLostError), connect(*address, keep_alive=1) as client:
            client.receive(timeout_s=10)
        thread.join()
    assert heard == [encode.PINGREQ]


def test_answer_that_came_while_the_caller_was_busy_is_an_answer(monkeypatch):
    """The ping goes out in one call, and when the next one is made its time is long over."""
    ahead_s = 0
    monkeypatch.setattr("penstock.client.mqtt.client.monotonic", lambda: monotonic() + ahead_s)
    with impostor(WELCOME, encode.PINGRESP) as address:
        client = connect(*address, keep_alive=60, timeout_s=10)
        ahead_s = 40
        assert client.receive(timeout_s=0) == []
        assert select.select([client._socket], [], [], 10)[0]
        ahead_s = 55
        assert client.receive(timeout_s=0) == []
        client.abandon()


def test_broker_that_did_not_answer_while_the_caller_was_busy_is_lost(monkeypatch):
    ahead_s = 0
    monkeypatch.setattr("penstock.client.mqtt.client.monotonic", lambda: monotonic() + ahead_s)
    with impostor(WELCOME, then_close=False) as address:
        client = connect(*address, keep_alive=60, timeout_s=10)
        ahead_s = 40
        assert client.receive(timeout_s=0) == []
        ahead_s = 55
        with pytest.raises(ReplyTimeoutError):
            client.receive(timeout_s=0)
        client.abandon()


def test_importing_the_client_loads_nothing_heavy():
    heavy = {"lmdb", "starlette", "uvicorn", "structlog", "prometheus_client", "asyncio", "click"}
    program = f"import sys, penstock.client; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"[]\n"


@pytest.mark.timeout(20)
def test_message_larger_than_the_socket_takes_at_once_is_sent_on_as_it_is_read():
    """The client's own time-out is far off, so that only the socket can wake it."""
    payload = bytes(16 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def converse():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(WELCOME)
                left = len(encode.publish(b"t", payload, 1, packet_id=1, block=b""))
                while left:
                    left -= len(connection.recv(min(left, 1 << 20)))
                connection.sendall(encode.acks(4, [1]))
                connection.recv(1 << 16)

        thread = threading.Thread(target=converse, daemon=True)
        thread.start()
        with connect(*listening.getsockname(), timeout_s=1000) as client:
            client.publish("t", payload, qos=1)
            assert client.confirmed == 1
        thread.join()
