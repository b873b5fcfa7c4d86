"""TLS of our clients, against that of the broker, and of Python in front of it."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from tests.conformance.wire_client import wait_until
from tests.tls_front import TlsFront

from penstock.cli.dev_certs import make_certificates
from penstock.client import (
    ArgumentError,
    AsyncPublisher,
    AsyncSubscriber,
    Publisher,
    Subscriber,
    TlsFailedError,
    TlsOptions,
    connect,
    connect_async,
)
from penstock.client.errors import ClientError
from penstock.testing import Broker

LARGE = os.urandom(900_000)  # beyond what sockets buffer, and many records


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, ["broker.example"], ["ann"])
    return directory


@pytest.fixture(scope="module")
def broker(certificates):
    files = {"cert": str(certificates / "server.crt"), "key": str(certificates / "server.key")}
    with Broker(tls=files) as running:
        yield running


@pytest.fixture(scope="module", params=["broker", "witness"])
def front(request, certificates, broker):
    """TLS of the broker itself, and of Python in front of it: two that may differ."""
    if request.param == "broker":
        yield broker
        return
    with TlsFront(certificates, broker.port) as serving:
        yield serving


@pytest.fixture
def trusting(certificates):
    return TlsOptions(ca_file=certificates / "ca.crt")


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
def test_mqtt_goes_both_ways(front, trusting, scheme):
    with connect(f"{scheme}://localhost:{front.port}", tls=trusting) as client:
        client.subscribe([("tls/mqtt", 1)])
        assert client.publish_many([("tls/mqtt", LARGE[:200_000])] * 5, qos=1) == 5
        arrived = client.messages(timeout_s=60)
        assert all(next(arrived).payload == LARGE[:200_000] for _ in range(5))


def test_binary_clients_publish_and_subscribe(front, trusting):
    with Publisher(port=front.port, tls=trusting) as publisher:
        assert publisher.publish_many("tls/binary", [LARGE, b"2"] * 3) == [None] * 6
    with Subscriber("tls-reader", "tls/binary", port=front.port, tls=trusting) as subscriber:
        payloads = [subscriber.receive(60).payload for _ in range(6)]
    assert payloads == [LARGE, b"2"] * 3


@pytest.mark.asyncio
async def test_asyncio_binary_clients_publish_and_subscribe(front, trusting):
    async with AsyncPublisher(port=front.port, tls=trusting) as publisher:
        assert await publisher.publish_many("tls/async", [LARGE, b"2"] * 3) == [None] * 6
    async with AsyncSubscriber("tls-async", "tls/async", port=front.port, tls=trusting) as reader:
        payloads = [(await reader.receive(60)).payload for _ in range(6)]
    assert payloads == [LARGE, b"2"] * 3


def test_threads_of_a_queue_client_share_a_connection(front, trusting):
    failures = []

    def work(client, number):
        try:
            topic = f"tls-threads-{front.port}-{number}"
            for _ in range(5):
                client.produce(topic, LARGE[:300_000])
            assert len(list(client.messages(topic))) == 5
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    with connect([f"localhost:{front.port}"], tls=trusting, timeout_s=60) as client:
        threads = [threading.Thread(target=work, args=(client, each)) for each in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_subscription_settles_over_tls(front, trusting):
    done = threading.Semaphore(0)
    with connect([f"localhost:{front.port}"], tls=trusting) as client:
        client.produce_many("tls-jobs", [b"job"] * 20)
        with client.subscribe("tls-jobs", "work", lambda _job: done.release()):
            for _ in range(20):
                assert done.acquire(timeout=60)
        # Behind this front the end of TLS overtakes the last acknowledgements.
        wait_until(lambda: [group.lag for group in client.groups("tls-jobs")] == [0])


@pytest.mark.asyncio
async def test_asyncio_queue_clients_work_over_tls(front, trusting):
    async with connect_async([f"localhost:{front.port}"], tls=trusting) as client:
        await client.produce_many("tls-async-jobs", [LARGE[:100_000]] * 20)
        done = asyncio.Semaphore(0)

        async def handle(job):
            assert job.payload == LARGE[:100_000]
            done.release()

        async with client.subscribe("tls-async-jobs", "work", handle):
            for _ in range(20):
                await asyncio.wait_for(done.acquire(), 60)
    with connect([f"localhost:{front.port}"], tls=trusting) as client:
        wait_until(lambda: [group.lag for group in client.groups("tls-async-jobs")] == [0])


# ── Who is trusted ────────────────────────────────────────────────────────────────────────────


def attempts(port, tls):
    """One attempt with each client; the errors."""

    async def asynchronous(begin):
        async with begin():
            pass

    for begin in (
        lambda: connect("localhost", port, tls=tls),
        lambda: Publisher(host="localhost", port=port, tls=tls).open(),
        lambda: connect([f"localhost:{port}"], tls=tls),
        lambda: asyncio.run(
            asynchronous(lambda: AsyncPublisher(host="localhost", port=port, tls=tls))
        ),
        lambda: asyncio.run(asynchronous(lambda: connect_async([f"localhost:{port}"], tls=tls))),
    ):
        with pytest.raises(ClientError) as caught:
            begin()
        yield caught.value


def test_an_unknown_authority_is_refused_at_once(front):
    for error in attempts(front.port, tls=True):
        assert isinstance(error, TlsFailedError)
        assert "not accepted" in str(error)
        assert "ca_file" in str(error)


def test_another_name_is_refused_unless_it_is_the_expected_one(front, certificates):
    options = TlsOptions(ca_file=certificates / "ca.crt", server_name="elsewhere.example")
    for error in attempts(front.port, options):
        assert "elsewhere.example" in str(error)
    options = TlsOptions(ca_file=certificates / "ca.crt", server_name="broker.example")
    connect("127.0.0.1", front.port, tls=options).close()


def test_a_server_without_tls_is_named_as_such(trusting):
    listener = socket.create_server(("127.0.0.1", 0))

    def greet():
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                held.append(connection)
                connection.sendall(b"220 mail.example\r\n")

    held = []
    greeting = threading.Thread(target=greet, daemon=True)
    greeting.start()
    for error in attempts(listener.getsockname()[1], trusting):
        assert isinstance(error, TlsFailedError)
        assert "does not answer with TLS" in str(error)
    listener.shutdown(socket.SHUT_RDWR)
    greeting.join()
    with Broker() as plain:
        for error in attempts(plain.port, trusting):
            assert isinstance(error, TlsFailedError)
            assert "has the broker a certificate?" in str(error)
    for each in (listener, *held):
        each.close()


def test_a_client_certificate_is_presented(certificates, broker):
    with TlsFront(certificates, broker.port, demands_certificate=True) as front:
        options = TlsOptions(
            ca_file=certificates / "ca.crt",
            cert_file=certificates / "ann.crt",
            key_file=certificates / "ann.key",
        )
        connect("localhost", front.port, tls=options).close()
        assert front.names == ["ann"]
        with pytest.raises(ClientError):
            connect("localhost", front.port, tls=TlsOptions(ca_file=certificates / "ca.crt"))
        assert front.names == ["ann"]


def test_a_demanded_certificate_is_asked_for(certificates):
    files = {"cert": "server.crt", "key": "server.key", "client_ca": "ca.crt"}
    tls = {name: str(certificates / file) for name, file in files.items()}
    ours = TlsOptions(ca_file=certificates / "ca.crt")
    with Broker(tls={**tls, "client_certs": "required"}) as broker:
        for ask in (
            lambda: connect("localhost", broker.port, tls=ours),
            lambda: connect([f"localhost:{broker.port}"], tls=ours, timeout_s=0.5).topics(),
        ):
            with pytest.raises(ClientError, match="cert_file"):
                ask()


def test_a_context_of_the_program_is_used_as_it_is(certificates, front):
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    connect("localhost", front.port, tls=context).close()


@pytest.mark.parametrize(
    "options",
    [
        {"ca_file": "missing.crt"},
        {"cert_file": "only.crt"},
        {"cert_file": "missing.crt", "key_file": "missing.key"},
        {"ca_file": __file__},
    ],
)
def test_files_that_cannot_be_used_are_named(options):
    with pytest.raises(ArgumentError) as caught:
        Publisher(tls=TlsOptions(**options))
    assert any(str(value) in str(caught.value) for value in options.values()) or (
        "both" in str(caught.value)
    )


def test_a_key_with_a_password_does_not_wait_for_a_terminal(certificates, tmp_path):
    key = tmp_path / "encrypted.key"
    command = ["openssl", "pkey", "-in", certificates / "ann.key", "-aes256", "-out", key]
    subprocess.run([*command, "-passout", "pass:secret"], check=True, capture_output=True)
    with pytest.raises(ArgumentError, match="encrypted"):
        Publisher(tls=TlsOptions(cert_file=certificates / "ann.crt", key_file=key))


def test_clients_without_tls_do_not_load_it():
    program = "import sys, penstock.client; print('ssl' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.strip() == b"False"
