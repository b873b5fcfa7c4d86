"""Client certificates: whose they are, and which are refused."""

import ssl

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.tls.authority import Authority, client_context, needs_openssl
from tests.tls.wire import connect

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def revoked(authority):
    files = authority.sign("eve")
    authority.revoke(files)
    return files


@pytest.fixture(scope="module")
def options(authority, server_files, revoked):
    lists = authority.revocation_list()
    return {**server_files._asdict(), "client_ca": authority.cert, "crl": lists}


@pytest.fixture(scope="module")
def broker(options):
    with Broker(tls=options) as running:
        yield running


@pytest.fixture(scope="module")
def strict_broker(options):
    with Broker(tls={**options, "client_certs": "required"}) as running:
        yield running


def origin_of(broker, context):
    """What the broker knows of a client that has connected with this context."""
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
        port = client.getsockname()[1]
        (known,) = [c for c in broker.server.parts.connections.clients if c.origin.port == port]
        return known.origin


def is_refused(broker, context):
    """Whether the broker closes, during the handshake or (TLS 1.3) right after it."""
    try:
        with connect(broker, context) as client:
            client.sendall(b"PING\r\n")
            return client.recv(64) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_the_common_name_is_the_user(broker, authority):
    origin = origin_of(broker, client_context(authority, authority.sign("ann")))
    assert origin.certificate == "ann"
    assert origin.is_encrypted
    end = ssl.cert_time_to_seconds("Dec 31 23:59:59 2049 GMT")
    assert origin.certificate_expires_ms == end * 1000


def test_without_a_certificate_a_client_has_no_name(broker, authority):
    origin = origin_of(broker, client_context(authority))
    assert (origin.certificate, origin.is_encrypted) == ("", True)


@pytest.mark.parametrize("name", ["node-3", r"a\/b", "+", "-ann", "", "Ä"])
def test_a_name_that_no_user_can_have_is_nobody(broker, authority, name):
    assert origin_of(broker, client_context(authority, authority.sign(name))).certificate == ""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
class TestRefused:
    """By both versions, and counted."""

    @pytest.fixture
    def contexts(self, broker, authority, version):
        def make(own):
            context = client_context(authority, own)
            context.maximum_version = version
            return context

        before = broker.server.counters.disconnects[DisconnectReason.TLS_FAILED]
        yield make
        now = broker.call(broker.server.counters.disconnects.get, DisconnectReason.TLS_FAILED)
        assert now == before + 1

    def test_a_certificate_of_another_authority(self, broker, contexts, tmp_path):
        assert is_refused(broker, contexts(Authority(tmp_path, "other").sign("ann")))

    def test_one_of_an_authority_that_only_has_the_same_name(self, broker, contexts, tmp_path):
        assert is_refused(broker, contexts(Authority(tmp_path, "authority").sign("ann")))

    def test_a_revoked_certificate(self, broker, contexts, revoked):
        assert is_refused(broker, contexts(revoked))

    def test_an_expired_certificate(self, broker, contexts, authority):
        assert is_refused(broker, contexts(authority.sign("ann", end="20210101000000Z")))

    def test_a_certificate_of_the_future(self, broker, contexts, authority):
        assert is_refused(broker, contexts(authority.sign("ann", start="20480101000000Z")))


def test_where_one_is_required_nobody_connects_without(strict_broker, authority):
    assert is_refused(strict_broker, client_context(authority))
    assert origin_of(strict_broker, client_context(authority, authority.sign("ann"))).certificate


@pytest.mark.parametrize(
    ("identity", "names", "user"),
    [
        ("dns", "DNS:ann", "ann"),
        ("dns", "DNS:ann,DNS:bob", ""),
        ("dns", "IP:127.0.0.1", ""),
        ("uri", "URI:urn:penstock:user:ann", "ann"),
        ("uri", "URI:spiffe://example/ann,URI:urn:penstock:user:ann", "ann"),
        ("uri", "URI:urn:penstock:user:ann,URI:urn:penstock:user:bob", ""),
        ("uri", "URI:urn:other:user:ann", ""),
    ],
)
def test_other_places_of_the_name(options, authority, identity, names, user):
    with Broker(tls={**options, "identity": identity}) as broker:
        own = authority.sign("cn-is-ignored", names)
        assert origin_of(broker, client_context(authority, own)).certificate == user


def test_a_session_is_never_resumed_by_a_ticket(broker, authority):
    """Threat 25: a ticket would let a client in whose certificate was revoked since."""
    context = client_context(authority, authority.sign("ann"))
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64)
        session = client.session
    assert not session.has_ticket
    with connect(broker, context, session=session) as client:
        assert not client.session_reused


def test_without_client_certificates_a_session_is_resumed(server_files, authority):
    """So that the test above can fail."""
    context = client_context(authority)
    with Broker(tls=server_files._asdict()) as broker:
        with connect(broker, context) as client:
            client.sendall(b"PING\r\n")
            assert client.recv(64)
            session = client.session
        with connect(broker, context, session=session) as client:
            assert client.session_reused


def test_a_session_of_tls_1_2_ends_with_a_new_revocation_list(options, authority):
    """It is resumed by its number, which only the context knows that made it."""
    own = authority.sign("mallory")
    context = client_context(authority, own)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Broker(tls=options) as broker:
        with connect(broker, context) as client:
            client.sendall(b"PING\r\n")
            assert client.recv(64)
            session = client.session
        authority.revoke(own)
        authority.revocation_list()
        assert broker.call(broker.server.certificates.reload) == [
            "tls.crl: 1 revocation list, next update 2049-12-31 23:59 UTC"
        ]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(broker, context, session=session)


def test_a_certificate_logs_in_as_its_user_and_only_while_there_is_one(options, authority):
    """Threat 24: certificates of users that do not exist, and of nodes, give no rights."""
    with Broker(tls=options, auth={"anonymous": "deny"}) as broker:
        broker.add_user("ann")

        def answer(name):
            with connect(broker, client_context(authority, authority.sign(name))) as client:
                client.sendall(b"ACL WHOAMI\r\n")
                return client.recv(256)

        assert answer("ann") == b"$3\r\nann\r\n"
        assert answer("bob").startswith(b"-NOAUTH")
        assert answer("node-3").startswith(b"-NOAUTH")
