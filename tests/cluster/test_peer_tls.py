"""Mutual TLS between nodes: a certificate is that of one node, and of this cluster's authority."""

import asyncio
import socket
import ssl

import pytest

from penstock.cluster.security import PeerSecurity, TlsFiles
from penstock.config.address import Address
from penstock.errors import ConfigError
from penstock.obs.reasons import PeerReason
from tests.cluster.certificates import Authority, needs_openssl
from tests.cluster.peer_bench import SECRET, Node, forward, heartbeat, started, until

pytestmark = [pytest.mark.asyncio, needs_openssl]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def security(authority, name, secret=b"", *, alternative=False):
    return PeerSecurity(secret, authority.files(name, alternative=alternative))


async def never_meet(one, two, reason):
    one.knows(two)
    for count in (1, 2):  # nor when it is tried again
        one.transport.send(2, heartbeat(1))
        await until(lambda count=count: max(one.ends(reason), two.ends(reason)) >= count)
    assert not two.inbox.frames
    assert not one.transport.is_connected(2)


@pytest.mark.parametrize("secret", [b"", SECRET])
@pytest.mark.parametrize("alternative", [False, True], ids=["common name", "alternative name"])
async def test_nodes_with_certificates_of_their_own_meet(authority, secret, alternative):
    nodes = [
        Node(n, security=security(authority, f"node-{n}", secret, alternative=alternative))
        for n in (1, 2)
    ]
    async with started(*nodes) as (one, two):
        one.knows(two)
        one.transport.send(2, forward(3_000_000))
        one.transport.send(2, heartbeat(1))
        await until(lambda: len(two.inbox.frames) == 2)


@pytest.mark.parametrize("wrong", [1, 2], ids=["of the dialer", "of the answerer"])
async def test_the_certificate_of_another_node_is_refused(authority, wrong):
    names = {1: "node-1", 2: "node-2"} | {wrong: "node-3"}
    nodes = [Node(n, security=security(authority, names[n], SECRET)) for n in (1, 2)]
    async with started(*nodes) as (one, two):
        await never_meet(one, two, PeerReason.WRONG_CERTIFICATE)


async def test_a_certificate_of_another_authority_is_refused(authority, tmp_path):
    foreign = Authority(tmp_path, "foreign")
    nodes = [
        Node(1, security=security(foreign, "node-1", SECRET)),
        Node(2, security=security(authority, "node-2", SECRET)),
    ]
    async with started(*nodes) as (one, two):
        await never_meet(one, two, PeerReason.WRONG_CERTIFICATE)


async def test_certificates_do_not_stand_for_the_secret_where_both_are_asked(authority):
    nodes = [
        Node(1, security=security(authority, "node-1")),
        Node(2, security=security(authority, "node-2", SECRET)),
    ]
    async with started(*nodes) as (one, two):
        await never_meet(one, two, PeerReason.WRONG_SECRET)


async def test_who_shows_no_certificate_is_refused(authority):
    async with started(Node(2, security=security(authority, "node-2"))) as (two,):
        context = ssl.create_default_context(cafile=authority.certificate)
        context.check_hostname = False
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # from Python 3.13 on it would refuse us
        with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: PT012 - TLS 1.3 tells late
            _, writer = await asyncio.open_connection(
                two.listening.host, two.listening.port, ssl=context
            )
            writer.write(b"hello")
            await writer.drain()
            await asyncio.wait_for(_.read(1), 5)
            raise ConnectionError("closed without a word")
        await until(lambda: sum(two.transport.stats.ends.values()) == 1)
        assert two.ends(PeerReason.WRONG_CERTIFICATE) == 1


async def test_who_does_not_speak_tls_is_a_stranger_with_little_time(authority, monkeypatch):
    monkeypatch.setattr("penstock.cluster.peer_listener.HANDSHAKE_S", 0.2)
    async with started(Node(2, security=security(authority, "node-2"))) as (two,):
        with socket.create_connection((two.listening.host, two.listening.port)):
            await until(lambda: sum(two.transport.stats.ends.values()) == 1)


async def test_with_certificates_any_address_may_be_listened_on(authority):
    security(authority, "node-1").check(Address("0.0.0.0", 7700))


async def test_certificates_that_are_not_there_are_said(authority, tmp_path):
    files = authority.files("node-1")
    missing = TlsFiles(tmp_path / "missing.pem", files.key, files.authority)
    with pytest.raises(ConfigError, match="tls_cert"):
        PeerSecurity(b"", missing)


OTHER_SECRET = b"another secret of at least sixteen bytes"


@pytest.mark.parametrize(("dialing", "answering"), [(b"", OTHER_SECRET), (OTHER_SECRET, b"")])
async def test_while_the_secret_is_rotated_both_are_accepted_by_every_node(dialing, answering):
    """Each node uses the first of its secrets and accepts both, whatever their order."""
    first, second = dialing or SECRET, answering or SECRET
    nodes = [
        Node(1, security=PeerSecurity(first, other_secrets=(second,))),
        Node(2, security=PeerSecurity(second, other_secrets=(first,))),
    ]
    async with started(*nodes) as (one, two):
        one.knows(two)
        two.knows(one)
        one.transport.send(2, heartbeat(1))
        two.transport.send(1, heartbeat(2))
        await until(lambda: one.inbox.frames and two.inbox.frames)


async def test_a_secret_that_was_rotated_out_is_refused():
    """Threat 38."""
    nodes = [Node(1, security=PeerSecurity(SECRET)), Node(2, security=PeerSecurity(OTHER_SECRET))]
    async with started(*nodes) as (one, two):
        await never_meet(one, two, PeerReason.WRONG_SECRET)


async def test_a_replaced_certificate_is_used_for_the_next_connection(authority, tmp_path):
    """Two nodes change to a new authority; the third, which has not, is refused by then."""
    new = Authority(tmp_path, "new")
    old = [security(authority, f"node-{n}", SECRET) for n in (1, 2, 3)]
    async with started(*(Node(n, security=old[n - 1]) for n in (1, 2, 3))) as (one, two, three):
        for number in (2, 3):
            fresh = security(new, f"node-{number}", SECRET)
            changes = old[number - 1].replace(fresh, number)
            assert changes == ["the certificate for other nodes"]
        three.knows(two)
        three.transport.send(2, heartbeat(3))
        await until(lambda: len(two.inbox.frames) == 1)
        two.inbox.frames.clear()
        await never_meet(one, two, PeerReason.WRONG_CERTIFICATE)


@pytest.mark.parametrize(
    ("name", "fault"), [("node-2", "certificate for node-2"), ("node-1", None)]
)
async def test_a_node_does_not_take_a_certificate_that_others_would_refuse(authority, name, fault):
    own = security(authority, "node-1", SECRET)
    contexts = own.server_tls, own.client_tls
    if fault is None:
        assert own.replace(security(authority, name, SECRET), 1)
        return
    with pytest.raises(ConfigError, match=fault):
        own.replace(security(authority, name, SECRET), 1)
    assert (own.server_tls, own.client_tls) == contexts


async def test_a_node_does_not_give_up_its_certificate_while_it_runs(authority):
    own = security(authority, "node-1", SECRET)
    with pytest.raises(ConfigError, match="while they run"):
        own.replace(PeerSecurity(SECRET), 1)
    assert own.server_tls is not None
