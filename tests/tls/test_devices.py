"""Devices log in: kinds of credentials by verdicts, with ordinary MQTT clients and our own.

In clear text and over TLS. Clients of this machine must log in, too.
"""

import queue
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple, Self

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from penstock.access.new_secrets import NewSecret, new_token
from penstock.client import Credentials, LoginFailedError, Publisher, SigningKey, Subscriber
from penstock.errors import PenstockError
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.key_logins import key_password
from penstock.trust.rows import Role, Token, User
from tests.access import LOGIN_REQUIRED, SECRET
from tests.signing.kit import Signer, register
from tests.tls.authority import Authority, Files, client_context, needs_openssl

pytestmark = needs_openssl
TIMEOUT_S = 30
RULES = ("allow publish,subscribe,read dev/#", "deny publish dev/secret")
needs_mosquitto = pytest.mark.skipif(
    not shutil.which("mosquitto_pub"), reason="needs mosquitto_pub"
)


@pytest.fixture(scope="module")
def token() -> NewSecret:
    return new_token()


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Files:
    return authority.sign("bob")


class Site(NamedTuple):
    """A broker with users and the key of a device."""

    broker: Broker
    signer: Signer


@pytest.fixture(scope="module")
def site(server_files: Files, authority: Authority, token: NewSecret) -> Iterator[Site]:
    options = {**server_files._asdict(), "client_ca": authority.cert}
    with Broker(tls=options, auth=LOGIN_REQUIRED) as own:
        signer = register(own, topics="dev/*")
        own.change_access(put(Role("devices", RULES)), put(Role("keys", RULES)))
        own.add_user("bob", SECRET, roles=("devices",))
        own.change_access(
            put(User("carl", ("devices",), is_disabled=True)),
            put(Token(token.token_id, "bob", token.digest)),
        )
        yield Site(own, signer)


@pytest.fixture(scope="module")
def broker(site: Site) -> Broker:
    return site.broker


@pytest.fixture(scope="module")
def signer(site: Site) -> Signer:
    return site.signer


# ── mosquitto_pub and mosquitto_sub


def mosquitto(broker: Broker, name: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [f"mosquitto_{name}", "-h", "localhost", "-p", str(broker.port), *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)


@needs_mosquitto
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("kind", ["password", "token"])
def test_mosquitto_publishes_with(broker, authority, token, kind, is_encrypted):
    secret = SECRET if kind == "password" else token.text
    tls = ("--cafile", authority.cert) if is_encrypted else ()
    login = ("-u", "bob", "-P", secret, *tls)
    topic = f"dev/mosquitto/{kind}/{is_encrypted}"
    published = mosquitto(broker, "pub", *login, "-t", topic, "-m", "hello", "-q", "1", "-r")
    assert published.returncode == 0, published.stderr
    found = mosquitto(broker, "sub", *login, "-t", topic, "-C", "1", "-q", "1")
    assert found.stdout == b"hello\n"


@needs_mosquitto
def test_mosquitto_publishes_with_a_certificate_alone(broker, authority, certificate):
    files = ("--cafile", authority.cert, "--cert", certificate.cert, "--key", certificate.key)
    for more in ((), ("-u", "whatever")):
        topic = ("-t", "dev/certificate", "-q", "1", *files, *more)
        published = mosquitto(broker, "pub", *topic, "-m", "hello", "-r")
        assert published.returncode == 0, published.stderr
        assert mosquitto(broker, "sub", *topic, "-C", "1").stdout == b"hello\n"


@needs_mosquitto
@pytest.mark.parametrize(
    ("login", "code", "words"),
    [
        (("-u", "bob", "-P", "wrong"), 4, b"bad user name or password"),
        (("-u", "carl", "-P", SECRET), 4, b"bad user name or password"),
        (("-u", "nobody", "-P", SECRET), 4, b"bad user name or password"),
        ((), 5, b"not authori"),
        (
            ("-u", "bob", "-P", SECRET, "--will-topic", "other", "--will-payload", "x"),
            5,
            b"not authori",
        ),
    ],
    ids=["wrong password", "disabled", "unknown", "none", "denied will"],
)
def test_mosquitto_is_told_why_it_may_not_connect(broker, login, code, words):
    refused = mosquitto(broker, "pub", *login, "-t", "dev/x", "-m", "x", "-q", "1")
    assert refused.returncode == code, refused
    assert words in refused.stderr.lower()


@needs_mosquitto
def test_mosquitto_is_told_which_filter_is_denied(broker):
    login = ("-u", "bob", "-P", SECRET)
    denied = mosquitto(broker, "sub", *login, "-t", "other/#", "-E")
    assert b"all subscription requests were denied" in (denied.stdout + denied.stderr).lower()


# ── paho


class Paho:
    """A client of paho in its own thread; what it is told comes in order."""

    def __init__(self, broker: Broker, client_id: str, user: str, secret: str, **tls: str) -> None:
        self.told: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
        self.client = client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, reconnect_on_failure=False
        )
        client.username_pw_set(user, secret)
        if tls:
            client.tls_set(**tls)
        tell = self.told.put
        client.on_connect = lambda _c, _u, _f, code, _p: tell(("connect", code.value))
        client.on_disconnect = lambda *_arguments: tell(("disconnect", None))
        client.on_publish = lambda _c, _u, mid, *_rest: tell(("publish", mid))
        client.on_subscribe = lambda _c, _u, _m, codes, _p: tell(
            ("subscribe", [code.value for code in codes])
        )
        client.on_message = lambda _c, _u, message: tell(("message", message.payload))
        client.connect("localhost", broker.port)
        client.loop_start()

    def next(self) -> tuple[str, object]:
        return self.told.get(timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_paho_sees_each_verdict(broker):
    with Paho(broker, "paho", "bob", SECRET) as client:
        assert client.next() == ("connect", 0)
        filters = ("dev/secret", "dev/open", "other/#", "$share/g/dev/x")
        client.client.subscribe([(topic_filter, 1) for topic_filter in filters])
        assert client.next() == ("subscribe", [1, 1, 0x80, 0x80])
        client.client.publish("dev/secret", b"dropped", 0)
        client.client.publish("dev/open", b"kept", 1)
        told = [client.next() for _ in range(3)]
        assert [one for one in told if one[0] == "message"] == [("message", b"kept")]
        client.client.publish("dev/secret", b"denied", 1)
        assert client.next() == ("disconnect", None)


@pytest.mark.parametrize(("user", "secret"), [("bob", "wrong"), ("nobody", SECRET)])
def test_paho_is_told_that_credentials_are_wrong(broker, user, secret):
    with Paho(broker, "paho-wrong", user, secret) as client:
        assert client.next() == ("connect", 0x86)  # what paho makes of code 4


def test_paho_logs_in_with_a_device_key_over_tls_and_only_there(broker, authority, signer):
    def password(client_id: str) -> str:
        return key_password(
            signer.seed,
            signer.key_id,
            client_id=client_id.encode(),
            cluster_id=bytes.fromhex(broker.server.parts.cluster.status().cluster_id),
            signed_ms=broker.server.parts.wall_ms(),
            nonce=client_id.encode()[:8].ljust(8, b"."),
        )

    name, tls = f"key:{signer.key_id}", {"ca_certs": authority.cert}
    with Paho(broker, "device-1", name, password("device-1"), **tls) as client:
        assert client.next() == ("connect", 0)
        client.client.publish("dev/by-key", b"m", 1)
        assert client.next()[0] == "publish"
    for client_id, proof, options in (
        ("device-2", password("another"), tls),
        ("device-3", password("device-3"), {}),
        ("device-1", password("device-1"), tls),  # used before
    ):
        with Paho(broker, client_id, name, proof, **options) as client:
            assert client.next() == ("connect", 0x86)


# ── our client of the binary protocol


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("kind", ["password", "token", "key"])
def test_our_binary_clients_log_in_with(broker, authority, signer, token, kind, is_encrypted):
    credentials = {
        "password": lambda: Credentials("bob", SECRET),
        "token": lambda: Credentials(token=token.text),
        "key": lambda: Credentials(key=SigningKey(signer.key_id, signer.seed)),
    }[kind]()
    options = {
        "host": "localhost",
        "port": broker.port,
        "credentials": credentials,
        "tls": client_context(authority) if is_encrypted else None,
    }
    topic = f"dev/binary/{kind}/{is_encrypted}"
    with Publisher(**options) as publisher:
        publisher.publish(topic, b"m")
        with pytest.raises(PenstockError, match="Not authorized for topic 'dev/secret'"):
            publisher.publish("dev/secret", b"m")
    with Subscriber(f"{kind}-{is_encrypted}", topic, **options) as subscriber:
        assert next(iter(subscriber)).payload == b"m"


def test_our_binary_client_is_told_that_credentials_are_wrong(broker):
    credentials = Credentials("bob", "wrong")
    with (
        pytest.raises(LoginFailedError),
        Publisher(host="localhost", port=broker.port, credentials=credentials) as publisher,
    ):
        publisher.publish("dev/x", b"m")
