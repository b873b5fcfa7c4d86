"""How our clients log in: with every kind of credentials, on every connection, and to whom."""

import asyncio
import logging
import os
import pickle
import threading
import traceback

import pytest

from penstock.access.new_secrets import new_token
from penstock.client import (
    ArgumentError,
    AsyncPublisher,
    AsyncSubscriber,
    Credentials,
    LoginFailedError,
    NotAuthorizedError,
    NotLeaderError,
    Publisher,
    RefusedError,
    SigningKey,
    Subscriber,
    TlsFailedError,
    UnauthenticatedError,
    connect,
    connect_async,
)
from penstock.client.queue.server_pool import ServerPool
from penstock.client.tls import tls_settings
from penstock.commit.completion import FutureCompletion
from penstock.core.commands import KeyStored
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.keys import Key
from penstock.trust.rows import Token
from penstock.trust.signatures import key_pair

SECRET = "a-secret-of-ann-0123456789"
ANN = Credentials("ann", SECRET)
WRONG = Credentials("ann", "not-her-secret")


@pytest.fixture(scope="module")
def broker():
    with Broker(auth={"failures_max": 1_000_000}) as running:
        running.add_user("root", "the secret of root", roles=["admin"])
        running.add_user(
            "ann",
            SECRET,
            rules=["allow publish,subscribe,read,work,manage ann/#", "allow manage jobs"],
        )
        yield running


@pytest.fixture
def password_file(tmp_path):
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file


# ── Logging in ────────────────────────────────────────────────────────────────────────────────


def test_mqtt_logs_in_with_a_password(broker):
    with connect(broker.host, broker.port, credentials=ANN) as client:
        client.publish("ann/mqtt", b"1", qos=1)
        assert client.subscribe([("elsewhere", 0)]) == [0x87]
    with connect(broker.host, broker.port, credentials=ANN, version=4) as client:
        assert client.subscribe([("elsewhere", 0)]) == [0x80]


def test_a_password_file_is_read_for_each_connection(broker, password_file):
    ann = Credentials("ann", password_file=password_file)
    with Publisher(port=broker.port, credentials=ann) as publisher:
        publisher.publish("ann/binary", b"1")
    password_file.write_text("outdated")
    with pytest.raises(LoginFailedError):
        Publisher(port=broker.port, credentials=ann).open()


def test_binary_clients_have_the_rights_of_their_user(broker):
    with Publisher(port=broker.port, credentials=ANN) as publisher:
        publisher.publish("ann/binary", b"1")
        with pytest.raises(RefusedError, match="Not authorized"):
            publisher.publish("elsewhere", b"2")
    with Subscriber("ann-reads", "ann/binary", port=broker.port, credentials=ANN) as subscriber:
        assert subscriber.receive(60).payload == b"1"


@pytest.mark.asyncio
async def test_asyncio_binary_clients_have_the_rights_of_their_user(broker):
    async with AsyncPublisher(port=broker.port, credentials=ANN) as publisher:
        await publisher.publish("ann/async", b"1")
        with pytest.raises(RefusedError, match="Not authorized"):
            await publisher.publish("elsewhere", b"2")
    async with AsyncSubscriber("ann-a", "ann/async", port=broker.port, credentials=ANN) as reader:
        assert (await reader.receive(60)).payload == b"1"


def test_queue_clients_have_the_rights_of_their_user(broker):
    with connect([f"{broker.host}:{broker.port}"], credentials=ANN) as client:
        client.produce("ann/jobs", b"1")
        with pytest.raises(NotAuthorizedError, match="acl check"):
            client.produce("elsewhere", b"2")
        done = threading.Event()
        with client.subscribe("ann/jobs", "work", lambda _job: done.set()):
            assert done.wait(60)


@pytest.mark.asyncio
async def test_asyncio_queue_clients_have_the_rights_of_their_user(broker):
    async with connect_async([f"{broker.host}:{broker.port}"], credentials=ANN) as client:
        await client.produce("ann/async-jobs", b"1")
        with pytest.raises(NotAuthorizedError):
            await client.produce("elsewhere", b"2")
        done = asyncio.Event()

        async def handle(_job):
            done.set()

        async with client.subscribe("ann/async-jobs", "work", handle):
            await asyncio.wait_for(done.wait(), 60)


def clients(broker, credentials):
    """Each kind of client publishes to ``ann/t``."""
    nodes = [f"{broker.host}:{broker.port}"]
    with connect(broker.host, broker.port, credentials=credentials) as client:
        client.publish("ann/t", b"1", qos=1)
    with Publisher(port=broker.port, credentials=credentials) as publisher:
        publisher.publish("ann/t", b"2")
    with connect(nodes, credentials=credentials) as client:
        client.produce("ann/t", b"3")


def test_an_api_token_is_enough_for_every_client(broker, tmp_path):
    token = new_token()
    broker.change_access(put(Token(token.token_id, "ann", token.digest)))
    file = tmp_path / "token"
    file.write_text(token.text + "\n")
    file.chmod(0o600)
    for credentials in (Credentials(token=token.text), Credentials(token_file=file)):
        clients(broker, credentials)
    with pytest.raises(LoginFailedError):
        clients(broker, Credentials(token=token.text[:-1] + "x"))


def store_key(broker, key):
    async def store():
        pipeline, waiter = broker.server.parts.pipeline, FutureCompletion("the key is not stored")
        with pipeline.as_leader():
            pipeline.submit(KeyStored(key.id, key.encode()), waiter, durable=True)
        await waiter.future

    broker._run(store)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_device_logs_in_with_its_key(kind):
    secret, other = key_pair(bytes(range(32))), key_pair(bytes(32))
    with Broker(users={"somebody": "else"}) as broker:
        store_key(broker, Key(7, secret.public_key, "pump", "pump/#", 0))
        key = Credentials(key=SigningKey(7, secret.secret_key))

        async def publish(credentials):
            async with AsyncPublisher(port=broker.port, credentials=credentials) as publisher:
                await publisher.publish("pump/1", b"1")

        def publish_blocking(credentials):
            with Publisher(port=broker.port, credentials=credentials) as publisher:
                publisher.publish("pump/1", b"1")

        run = publish_blocking if kind == "blocking" else lambda who: asyncio.run(publish(who))
        run(key)
        with pytest.raises(LoginFailedError):
            run(Credentials(key=SigningKey(7, other.secret_key)))


# ── Addresses ─────────────────────────────────────────────────────────────────────────────────


def test_an_address_may_be_a_url_without_secrets(broker):
    connect(f"mqtt://{broker.host}:{broker.port}", "an-id", credentials=ANN).close()
    for wrong in (
        f"mqtt://ann:{SECRET}@h",
        "mqtt://ann@h",
        "http://h",
        "mqtt://",
        "mqtt://h:x",
        "mqtt://h/path",
    ):
        with pytest.raises(ArgumentError) as caught:
            connect(wrong)
        assert SECRET not in str(caught.value)


def test_mqtts_is_with_tls(broker):
    with pytest.raises(TlsFailedError):
        connect(f"mqtts://{broker.host}:{broker.port}")
    with pytest.raises(ArgumentError, match="mqtts"):
        connect("mqtt://h", tls=True)


# ── Wrong ones ────────────────────────────────────────────────────────────────────────────────


def openings(broker, credentials):
    nodes, keywords = [f"{broker.host}:{broker.port}"], {"credentials": credentials}

    async def asynchronous(make):
        async with make():
            pass

    return [
        lambda: connect(broker.host, broker.port, **keywords),
        lambda: Publisher(port=broker.port, **keywords).open(),
        lambda: connect(nodes, **keywords),
        lambda: asyncio.run(asynchronous(lambda: AsyncPublisher(port=broker.port, **keywords))),
        lambda: asyncio.run(asynchronous(lambda: connect_async(nodes, **keywords))),
    ]


@pytest.mark.parametrize("way", range(5))
def test_a_wrong_password_is_told_at_once_and_never_repeated(broker, way):
    with pytest.raises(LoginFailedError) as caught:
        openings(broker, WRONG)[way]()
    assert "not-her-secret" not in str(caught.value) + repr(caught.value)


def test_a_queue_client_whose_user_is_removed_gets_a_final_error():
    with Broker() as broker:
        broker.add_user("root", "the secret of root", roles=["admin"])
        broker.add_user("ann", SECRET)
        nodes = [f"{broker.host}:{broker.port}"]
        with connect(nodes, credentials=ANN, timeout_s=60) as client:
            client.produce("jobs", b"1")
            broker.add_user("ann", "another secret of ann")
            broker.restart(kill=True)
            with pytest.raises(UnauthenticatedError):
                client.produce("jobs", b"2")


def test_a_subscription_with_wrong_credentials_ends():
    with Broker() as broker:
        broker.add_user("root", "the secret of root", roles=["admin"])
        broker.add_user("ann", SECRET)
        with connect([f"{broker.host}:{broker.port}"], credentials=ANN) as client:
            client.produce("jobs", b"1")
            taken = threading.Event()
            work = client.subscribe("jobs", "g", lambda _job: taken.set(), on_error=lambda *_: None)
            assert taken.wait(60)
            broker.add_user("ann", "another secret of ann")
            broker.restart(kill=True)
            with pytest.raises(UnauthenticatedError):
                work.wait(60)


def test_a_publisher_with_wrong_credentials_does_not_retry_for_ever():
    with Broker() as broker:
        broker.add_user("root", "the secret of root", roles=["admin"])
        broker.add_user("ann", SECRET)
        with Publisher(port=broker.port, credentials=ANN) as publisher:
            publisher.publish("a", b"1")
            broker.add_user("ann", "another secret of ann")
            broker.restart(kill=True)
            with pytest.raises(LoginFailedError):
                publisher.publish("a", b"2")


# ── Again on every connection ─────────────────────────────────────────────────────────────────


def test_clients_log_in_again_after_a_crash_of_the_broker():
    with Broker() as broker:
        broker.add_user("root", "the secret of root", roles=["admin"])
        broker.add_user("ann", SECRET, rules=["allow publish,read,manage,work ann/#"])
        with (
            Publisher(port=broker.port, credentials=ANN) as publisher,
            connect([f"{broker.host}:{broker.port}"], credentials=ANN, timeout_s=60) as client,
        ):
            publisher.publish("ann/a", b"1")
            client.produce("ann/b", b"1")
            broker.restart(kill=True)
            publisher.publish("ann/a", b"2")
            client.produce("ann/b", b"2")
            with pytest.raises(NotAuthorizedError):
                client.produce("elsewhere", b"3")
            with pytest.raises(RefusedError, match="Not authorized"):
                publisher.publish("elsewhere", b"3")


# ── To whom ───────────────────────────────────────────────────────────────────────────────────


def not_leader(address):
    error = NotLeaderError("not the leader")
    error.leader_addr = address
    return error


@pytest.mark.parametrize(
    ("leader", "tls", "credentials", "is_followed"),
    [
        ("10.0.0.9:1883", None, ANN, False),  # any server could name any other
        ("10.0.0.9:1883", None, None, True),
        ("10.0.0.9:1883", True, ANN, True),
        ("127.0.0.1:1884", None, ANN, True),
        ("b.example:1883", None, ANN, True),
    ],
)
def test_credentials_follow_only_to_a_leader_that_is_trusted(leader, tls, credentials, is_followed):
    pool = ServerPool(
        ["a.example:1883", "b.example:1883"], tls=tls_settings(tls), credentials=credentials
    )
    error = not_leader(leader)
    pool.failed(error, 0.5)
    assert (str(pool.address) == leader) is is_followed or leader == "b.example:1883"
    assert ("use TLS" in str(error)) is not is_followed


# ── Secrets stay secret ───────────────────────────────────────────────────────────────────────


def test_no_log_or_error_of_a_client_has_a_secret(broker, caplog):
    """With all that can be logged, also by asyncio, right and wrong, and over reconnects."""
    canary = Credentials("ann", "canary-of-a-wrong-password")
    said = []
    with caplog.at_level(logging.DEBUG):
        clients(broker, ANN)
        for way in range(5):
            with pytest.raises(LoginFailedError) as caught:
                openings(broker, canary)[way]()
            said += traceback.format_exception(caught.value)
    for text in (caplog.text, *said):
        assert SECRET not in text
        assert canary.secret().decode() not in text


def test_credentials_are_neither_shown_nor_pickled():
    for credentials in (ANN, Credentials(token="pst_abcdefgh_" + SECRET)):
        assert SECRET not in repr(credentials)
        assert SECRET not in f"{credentials}"
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(credentials)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"user": "ann"},
        {"password": "x"},
        {"user": "ann", "password": "x", "token": "y"},
        {"user": "ann", "token": "y"},
    ],
)
def test_incomplete_or_double_credentials_are_refused(arguments):
    with pytest.raises(ArgumentError):
        Credentials(**arguments)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (SECRET, 0o644, "readable by all"),
        ("", 0o600, "not one line"),
        (f"{SECRET}\nmore", 0o600, "not one line"),
        ("x" * 100_000, 0o600, "not one line"),
    ],
)
def test_a_file_that_is_no_secret_is_refused(tmp_path, content, mode, said):
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(LoginFailedError, match=said) as caught:
        Credentials("ann", password_file=file).secret()
    assert SECRET not in str(caught.value)


def test_a_pipe_is_a_file(tmp_path):
    """As in ``password_file=/dev/fd/63`` of a shell."""
    reading, writing = os.pipe()
    os.write(writing, SECRET.encode())
    os.close(writing)
    assert Credentials("ann", password_file=f"/dev/fd/{reading}").secret() == SECRET.encode()
    os.close(reading)


def test_a_key_logs_in_to_the_binary_protocol_only():
    key = Credentials(key=SigningKey(7, bytes(32)))
    with pytest.raises(ArgumentError, match="key"):
        connect(["127.0.0.1:1883"], credentials=key)
    with pytest.raises(ArgumentError, match="key"):
        connect("127.0.0.1", 1883, credentials=key)
