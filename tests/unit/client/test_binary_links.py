"""The two drivers of the binary clients, with impostors at the other end of the socket."""

import asyncio
import contextlib
import inspect
import socket
import subprocess
import sys
import threading

import pytest

from penstock import client
from penstock.client import (
    Backoff,
    BrokerProtocolError,
    ConnectionLostError,
    UnreachableError,
)
from penstock.client.binary.inbox import ARRIVED_MAX
from penstock.errors import LocalProtocolError
from penstock.wire.binary import encode
from penstock.wire.binary.client import ping
from penstock.wire.binary.frame import HEADER, BinaryCommand

FAST = Backoff(first_s=0.01, longest_s=0.02, give_up_s=10)


@contextlib.contextmanager
def impostor(*conversations):
    """Listen; each connection gets its own conversation, a function of the socket; then be gone."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)

    def serve():
        with listening:
            for converse in conversations:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(20)
                    if knows_no_hello(connection):
                        converse(connection)

    options = {"port": listening.getsockname()[1], "backoff": FAST}
    thread = threading.Thread(target=serve)
    thread.start()
    yield options
    thread.join()


def knows_no_hello(connection):
    """Answer HELLO as a broker of version 1; false if the client has gone."""
    header = connection.recv(HEADER.size, socket.MSG_WAITALL)
    if len(header) < HEADER.size:
        return False
    _, command, _, topic_len, payload_len = HEADER.unpack(header)
    assert command == BinaryCommand.HELLO
    connection.recv(topic_len + payload_len, socket.MSG_WAITALL)
    connection.sendall(encode.error("Unknown command"))
    return True


def says(*answers):
    """Give one answer to each thing that is said, then hang up."""

    def converse(connection):
        for answer in answers:
            connection.recv(1 << 16)
            connection.sendall(answer)

    return converse


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture(params=["", "Async"])
def play(request):
    """Use a client as a blocking one: ``play(kind, arguments, options, scene)``."""

    def blocking(kind, arguments, options, scene):
        with getattr(client, kind)(*arguments, **options) as made:
            return scene(made)

    def asynchronous(kind, arguments, options, scene):
        async def main():
            made = getattr(client, f"Async{kind}")(*arguments, **options)
            async with made:
                found = scene(made)
                return await found if inspect.isawaitable(found) else found

        return asyncio.run(main())

    return asynchronous if request.param else blocking


def test_nothing_listens(play):
    port = unused_port()
    with pytest.raises(UnreachableError, match=f"no broker is listening on 127.0.0.1:{port}"):
        play("Publisher", (), {"port": port}, lambda made: None)


def test_not_a_broker(play):
    with (
        impostor(says(b"-ERR unknown command\r\n")) as options,
        pytest.raises(BrokerProtocolError, match="binary protocol"),
    ):
        play("Publisher", (), options, lambda made: made.publish("t", b""))


def test_a_publish_without_an_answer_is_sent_again_on_the_next_connection(play):
    heard = []

    def deaf(connection):
        heard.append(connection.recv(1 << 16))

    def answering(connection):
        heard.append(connection.recv(1 << 16))
        connection.sendall(encode.ack(1))

    with impostor(deaf, answering) as options:
        play("Publisher", (), options, lambda made: made.publish("t", b"x"))
    assert heard[0] == heard[1]


def test_a_publisher_gives_up_in_the_end_and_says_what_the_broker_said(play):
    stopping = says(encode.error("The broker is stopping"))
    with impostor(stopping) as options:
        options["backoff"] = Backoff(first_s=0.01, longest_s=0.02, give_up_s=0.1)
        with pytest.raises(ConnectionLostError) as caught:
            play("Publisher", (), options, lambda made: made.publish("t", b"x"))
    assert str(caught.value) == (
        "the connection was lost (The broker is stopping), and reconnecting failed for 0.1 s;"
        " the outcome of unconfirmed publishes is unknown; retry"
    )


def test_an_idle_subscriber_pings(play):
    heard = []

    def listening(connection):
        connection.recv(1 << 16)  # SUBSCRIBE
        connection.sendall(encode.ack(1))
        heard.append(connection.recv(1 << 16))
        connection.sendall(encode.pongs(1) + encode.message(b"t", b"x", 5))
        while data := connection.recv(1 << 16):
            connection.sendall(encode.pongs(data.count(ping())))

    with impostor(listening) as options:
        options["keep_alive_s"] = 0.05
        message = play("Subscriber", ("c", "t"), options, lambda made: made.receive(20))
    assert (heard, message.payload) == ([ping()], b"x")


def test_a_silent_connection_is_given_up_after_three_intervals_and_made_anew(play):
    heard = []

    def silent(connection):
        while data := connection.recv(1 << 16):
            heard.append(data)

    def speaking(connection):
        connection.recv(1 << 16)
        connection.sendall(encode.message(b"t", b"x", 5) + encode.ack(1))
        while data := connection.recv(1 << 16):
            connection.sendall(encode.pongs(data.count(ping())))

    with impostor(silent, speaking) as options:
        options["keep_alive_s"] = 0.05
        message = play("Subscriber", ("c", "t"), options, lambda made: made.receive(20))
    assert message.payload == b"x"
    assert 2 <= b"".join(heard).count(ping()) <= 3


def test_a_client_that_is_not_open_says_so():
    with pytest.raises(ConnectionLostError, match="`with` statement"):
        client.Publisher(port=1).publish("t", b"")
    closed = client.Subscriber("c", port=1)
    closed.close()
    with pytest.raises(ConnectionLostError, match="closed"):
        closed.receive()


def test_an_asynchronous_client_that_is_not_open_says_so():
    async def main():
        with pytest.raises(ConnectionLostError, match="`async with` statement"):
            await client.AsyncPublisher(port=1).publish("t", b"")
        closed = client.AsyncSubscriber("c", port=1)
        await closed.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            await closed.receive()

    asyncio.run(main())


def test_closing_an_asynchronous_publisher_ends_those_who_wait():
    async def main():
        publisher = await client.AsyncPublisher(**options).open()
        waiting = asyncio.create_task(publisher.publish("t", b"x"))
        await asyncio.sleep(0)
        await publisher.abandon()
        with pytest.raises(ConnectionLostError, match="closed"):
            await waiting

    with impostor(lambda connection: connection.recv(1 << 16)) as options:
        asyncio.run(main())


def test_a_report_that_raises_reaches_whoever_receives(play):
    """It is the application's own error: it must not vanish in a task."""

    def complain(lost):
        raise ZeroDivisionError

    notice = encode.error("5 messages of 't' were removed by retention unread")
    with impostor(says(notice)) as options, pytest.raises(ZeroDivisionError):
        play(
            "Subscriber",
            ("c", "t"),
            {**options, "on_lost": complain},
            lambda made: made.receive(20),
        )


def test_a_subscriber_needs_a_client_id():
    with pytest.raises(LocalProtocolError, match="client id"):
        client.Subscriber("", "t")


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="prot"):
        client.Publisher(prot=1883)


def test_an_asynchronous_subscriber_that_is_slow_stops_reading():
    """A hundred thousand messages wait at the broker; a bounded number of them here."""
    count = 100_000
    frames = encode.messages(b"t", [b"x"] * count, range(1, count + 1))

    def flooding(connection):
        connection.recv(1 << 16)
        with contextlib.suppress(OSError):
            connection.sendall(encode.ack(1) + frames)
            while data := connection.recv(1 << 16):
                connection.sendall(encode.pongs(data.count(ping())))

    async def main():
        subscriber = await client.AsyncSubscriber("c", "t", **options).open()
        assert (await subscriber.receive(20)).sequence == 1
        for _ in range(100):
            await asyncio.sleep(0)
        waiting = len(subscriber._inbox.arrived)
        taken = [message.sequence async for message in _first(subscriber, count - 1)]
        assert taken == list(range(2, count + 1))
        await subscriber.abandon()
        return waiting

    with impostor(flooding) as options:
        assert 0 < asyncio.run(main()) < 30_000


async def _first(subscriber, count):
    for _ in range(count):
        yield await subscriber.receive(20)


def test_a_blocking_client_loads_neither_asyncio_nor_the_library_that_signs():
    program = "import sys, penstock.client; print(sorted({'asyncio', 'nacl'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"[]\n"
    assert set(client.__all__) <= {*dir(client), *(n for n in client.__all__ if n[:5] == "Async")}
    with pytest.raises(AttributeError):
        client.AsyncNothing  # noqa: B018 - looking it up is the point


def test_an_application_that_takes_its_time_does_not_lose_its_connection():
    ended = threading.Event()
    pings = []

    def converse(connection):
        connection.recv(1 << 16)
        messages = [encode.message(b"t", b"", number) for number in range(1, 3 * ARRIVED_MAX)]
        connection.sendall(b"".join(messages) + encode.acks([1]))
        while data := connection.recv(1 << 16):
            pings.append(data.count(ping()))
            connection.sendall(encode.pongs(pings[-1]))
        ended.set()

    async def main(options):
        made = client.AsyncSubscriber("c", "t", auto_ack=False, keep_alive_s=0.1, **options)
        async with made as subscriber:
            await subscriber.receive()
            async with asyncio.timeout(30):
                while sum(pings) <= 3:  # noqa: ASYNC110 - a thread counts them
                    await asyncio.sleep(0.01)
            return ended.is_set()

    with impostor(converse) as options:
        assert not asyncio.run(main(options))
