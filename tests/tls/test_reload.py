"""Replacing certificates while clients are connected: all or nothing, and nobody is cut off."""

import contextlib
import resource
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import paho.mqtt.client as paho
import pytest
import structlog.testing
from paho.mqtt.enums import CallbackAPIVersion

from penstock.config.schema import Tls
from penstock.errors import ConfigError
from penstock.net.certificates import DAY_S, Certificates
from penstock.testing import Broker
from tests.tls.authority import Authority, Files, client_context, needs_openssl
from tests.tls.wire import TIMEOUT_S, connect

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def other_files(authority):
    return authority.sign("other", "DNS:localhost,DNS:other,IP:127.0.0.1")


@pytest.fixture
def files(server_files, tmp_path):
    """Copies, which a test may replace."""
    own = Files(str(tmp_path / "server.crt"), str(tmp_path / "server.key"))
    install(server_files, own)
    return own


def install(new, place):
    shutil.copy(new.cert, place.cert)
    shutil.copy(new.key, place.key)


@pytest.fixture
def broker(files, authority, tmp_path):
    lists = shutil.copy(authority.revocation_list(), tmp_path / "crl.pem")
    options = {**files._asdict(), "client_ca": authority.cert, "crl": str(lists)}
    with Broker(tls=options) as running:
        yield running


def serial_shown(broker, context):
    """Which certificate a client is shown, and that the connection works."""
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
        return client.getpeercert()["serialNumber"]


def reload(broker):
    return broker.call(broker.server.certificates.reload)


def test_new_connections_see_the_new_certificate_and_old_ones_go_on(
    broker, context, files, other_files
):
    before = serial_shown(broker, context)
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
        install(other_files, files)
        (change,) = reload(broker)
        assert change.startswith("certificate for localhost, valid until 2049-12-31")
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
    assert serial_shown(broker, context) != before
    assert broker.server.certificates.reloads["applied"] == 1


def test_reloading_what_has_not_changed_says_so(broker):
    assert reload(broker) == []
    assert broker.server.certificates.reloads["unchanged"] == 1


def test_a_reload_under_traffic_loses_nothing(broker, authority, files, server_files, other_files):
    count, received, is_done = 300, [], threading.Event()
    is_subscribed = threading.Event()
    subscriber = paho.Client(CallbackAPIVersion.VERSION2, "reload-sub")
    publisher = paho.Client(CallbackAPIVersion.VERSION2, "reload-pub")

    def on_message(_client, _userdata, message):
        received.append(int(message.payload[:8]))
        if len(received) >= count:
            is_done.set()

    subscriber.on_message = on_message
    subscriber.on_connect = lambda *_a: subscriber.subscribe("reload", 1)
    subscriber.on_subscribe = lambda *_a: is_subscribed.set()
    for client in (subscriber, publisher):
        client.tls_set(authority.cert)
        client.connect("localhost", broker.port)
        client.loop_start()
    try:
        assert is_subscribed.wait(TIMEOUT_S)
        for number in range(count):
            publisher.publish("reload", b"%08d" % number + bytes(2_000), 1)
            if number % 50 == 0:
                install(other_files if number % 100 else server_files, files)
                reload(broker)
        assert is_done.wait(TIMEOUT_S)
    finally:
        for client in (subscriber, publisher):
            client.disconnect()
            client.loop_stop()
    assert received == list(range(count))


class TestRefused:
    """Threat 34: the fault is named, the old certificate stays."""

    @pytest.fixture
    def refused(self, broker, context):
        before = serial_shown(broker, context)

        def reload_and_expect(text):
            with structlog.testing.capture_logs() as logs, pytest.raises(ConfigError, match=text):
                reload(broker)
            assert [entry["event"] for entry in logs] == ["certificate_refused"]
            assert serial_shown(broker, context) == before
            assert broker.server.certificates.reloads == {
                "applied": 0, "unchanged": 0, "refused": 1,
            }  # fmt: skip

        return reload_and_expect

    def test_a_key_of_another_certificate(self, refused, files, other_files):
        shutil.copy(other_files.cert, files.cert)
        refused(r"tls\.key: .*server\.key does not belong to the certificate")

    def test_a_file_that_is_gone(self, refused, files):
        Path(files.cert).unlink()
        refused(r"tls\.cert: .*server\.crt cannot be read: No such file")

    def test_a_key_that_all_users_can_read(self, refused, files):
        Path(files.key).chmod(0o644)
        refused(r"tls\.key: .*server\.key is readable by all users")

    def test_a_file_that_is_no_certificate(self, refused, files):
        Path(files.cert).write_text("nothing")
        refused(r"tls\.cert, tls\.key: .* cannot be used")

    def test_an_expired_certificate(self, refused, authority, files):
        install(authority.server(end="20210101000000Z"), files)
        refused(r"has expired on 2021-01-01")

    def test_a_certificate_of_the_future(self, refused, authority, files):
        install(authority.server(start="20480101000000Z"), files)
        refused(r"is not valid before 2048-01-01")

    def test_a_stale_revocation_list(self, refused, authority, broker):
        stale = authority.revocation_list("stale.pem", end="20210101000000Z")
        shutil.copy(stale, broker.server.config.tls.crl)
        refused(r"tls\.crl: .* is out of date since 2021-01-01")

    def test_an_empty_revocation_list(self, refused, broker):
        Path(broker.server.config.tls.crl).write_text("")
        refused(r"tls\.crl: .* has no revocation list")

    def test_a_damaged_revocation_list(self, refused, broker):
        path = Path(broker.server.config.tls.crl)
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([lines[0], lines[1][:32] + "\n", lines[-1]]))
        refused(r"tls\.crl: ")


def loaded(files, host="", now_s=1_700_000_000.0, **options):
    settings = Tls(cert=files.cert, key=files.key, **options)
    clock = [now_s]
    return Certificates(settings, host, wall_ms=lambda: int(clock[0] * 1000)), clock


def test_without_descriptors_the_old_certificate_stays(files):
    certificates, _ = loaded(files)
    before = certificates.loaded
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(ConfigError, match="Too many open files"):
            certificates.reload()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert certificates.loaded is before
    assert certificates.reload() == []


def test_a_certificate_must_be_for_the_advertised_host(files, other_files):
    certificates, _ = loaded(other_files, host="other")
    with pytest.raises(ConfigError, match="is for localhost, not for other"):
        certificates.reload(Tls(cert=files.cert, key=files.key))


def test_a_key_with_a_pass_phrase_is_refused_and_not_asked_for(files, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", files.key, "-aes256", "-passout", "pass:x", "-out", locked],
        check=True,
    )
    locked.chmod(0o600)
    with pytest.raises(ConfigError, match="cannot be used"):
        loaded(Files(files.cert, str(locked)))


def test_expiry_is_warned_of_thirty_seven_and_one_days_ahead(authority):
    soon = authority.server(end="20260101000000Z")
    end = ssl.cert_time_to_seconds("Jan  1 00:00:00 2026 GMT")
    certificates, clock = loaded(soon, now_s=end - 31 * DAY_S)
    warned = []
    for days in (31, 30, 29, 8, 7, 6.9, 2, 1, 0.5):
        clock[0] = end - days * DAY_S
        with structlog.testing.capture_logs() as logs:
            certificates.turn()
        warned += [days] * len(logs)
    assert warned == [30, 7, 1]
    assert certificates.expires_s() == 0.5 * DAY_S


def test_an_expired_certificate_does_not_keep_the_broker_from_starting(authority):
    """At night, the clients of this machine would pay for it."""
    old = authority.server(end="20210101000000Z")
    with structlog.testing.capture_logs() as logs:
        loaded(old)
    assert [entry["event"] for entry in logs] == ["certificate_unfit"]


@pytest.mark.parametrize("key", ["ec", "rsa"])
def test_both_kinds_of_keys_work(authority, key, tmp_path):
    with Broker(tls=authority.server(key=key)._asdict()) as broker:
        assert serial_shown(broker, client_context(authority))


def test_a_new_authority_takes_the_place_of_the_old_one(broker, authority, tmp_path):
    new = Authority(tmp_path / "new", "new authority")
    theirs = client_context(authority, new.sign("ann"))
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        assert not serial_shown(broker, theirs)
    settings = broker.server.config.tls
    changed = Tls(cert=settings.cert, key=settings.key, client_ca=new.cert)
    changes = broker.call(broker.server.certificates.reload, changed)
    assert [change.partition(":")[0] for change in changes] == ["tls.client_ca", "tls.crl"]
    assert serial_shown(broker, theirs)


def test_a_node_rotates_the_secret_of_its_cluster_while_it_runs(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the first secret of the cluster".replace(" ", "-"))
    secret.chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    cluster = {"node_id": 1, "peer_listen": address, "secret_file": str(secret)}
    with Broker(cluster=cluster) as broker:
        node = broker.server.node

        def reload_node():
            prepared = node.prepare_security()
            assert prepared is not None
            return node.replace_security(prepared)

        assert broker.call(reload_node) == []
        secret.write_text("the-second-secret-of-the-cluster\nthe-first-secret-of-the-cluster\n")
        assert broker.call(reload_node) == ["the cluster's secret"]
        secret.write_text("short")
        with pytest.raises(ConfigError, match="16 to 256"):
            broker.call(reload_node)
