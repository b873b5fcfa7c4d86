"""Logins as clients see them: real sockets, real hashes, several doors of one broker."""

import base64
import http.client
import socket
from hashlib import sha512

import pytest
import redis
from tests.conformance.wire_client import (
    PINGREQ,
    PINGRESP,
    WireClient,
    connack,
    connect_packet,
    publish,
    wait_until,
)

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.passwords import Cost, hash_password
from penstock.trust.rows import Quotas, Token, User
from penstock.trust.secrets import digest_of, token_text

PASSWORD = "correct horse battery"
TOKEN = token_text("token123", bytes(20))
CHEAP = Cost(8 * 1024 * 1024, 1)
CHEAP_OPTIONS = {"argon2_memory_bytes": CHEAP.memory_bytes, "argon2_passes": CHEAP.passes}


def hashed(password: str, cost: Cost = CHEAP) -> str:
    return hash_password(password.encode(), bytes(16), cost)


@pytest.fixture
def broker():
    """A broker with an administrator, and ``ann``, who has a password and a token."""
    with Broker(auth=CHEAP_OPTIONS) as own:
        own.add_user("root", "a secret of root", roles=("admin",))
        own.change_access(
            put(User("ann", ("client", "monitor"), password=hashed(PASSWORD))),
            put(Token("token123", "ann", digest_of(TOKEN.rpartition("_")[2].encode()))),
        )
        yield own


def code_of(broker: Broker, user: str, password: str, source: str = "127.0.0.1") -> int:
    """Connect by MQTT; return the code of the answer."""
    address = (broker.host, broker.port)
    with socket.create_connection(address, 30, source_address=(source, 0)) as client:
        client.sendall(connect_packet("", username=user, password=password.encode()))
        return client.recv(4)[3]


def status_of(broker: Broker, authorization: str) -> int:
    client = http.client.HTTPConnection(broker.host, broker.port, timeout=30)
    client.request("GET", "/metrics", headers={"Authorization": authorization})
    status = client.getresponse().status
    client.close()
    return status


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def redis_of(broker: Broker, user: str, password: str) -> redis.Redis:
    return redis.Redis(broker.host, broker.port, username=user, password=password, protocol=2)


def test_a_password_opens_every_door(broker):
    assert code_of(broker, "ann", PASSWORD) == 0
    assert status_of(broker, basic("ann", PASSWORD)) == 200
    with redis_of(broker, "ann", PASSWORD) as client:
        assert client.execute_command("ACL", "WHOAMI") == b"ann"
    assert code_of(broker, "ann", "wrong") == 4
    assert status_of(broker, basic("ann", "wrong")) == 401
    with socket.create_connection((broker.host, broker.port), 30) as client:
        client.sendall(b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$5\r\nwrong\r\n")
        assert client.recv(100).startswith(b"-WRONGPASS")
    counted = broker.metrics()
    for door in ("mqtt", "http", "redis"):
        assert counted[f'penstock_logins_total{{door="{door}",outcome="accepted"}}'] >= 1
        assert counted[f'penstock_logins_total{{door="{door}",outcome="bad_credentials"}}'] >= 1
    assert counted['penstock_logins_accepted_total{kind="password"}'] == 3


@pytest.mark.parametrize("user", ["", "ann", "whoever"])
def test_a_token_opens_every_door_whatever_the_user(broker, user):
    assert code_of(broker, user or "-", TOKEN) == 0
    assert status_of(broker, basic(user, TOKEN)) == 200
    assert status_of(broker, f"Bearer {TOKEN}") == 200
    with redis_of(broker, user or "default", TOKEN) as client:
        assert client.execute_command("ACL", "WHOAMI") == b"ann"


def test_an_address_that_guesses_waits_at_all_doors_and_others_do_not(broker):
    assert code_of(broker, "ann", PASSWORD, "127.0.0.9") == 0
    assert [code_of(broker, f"nobody{n}", "guess") for n in range(11)] == [4] * 11
    assert code_of(broker, "ann", PASSWORD) == 3
    assert status_of(broker, basic("ann", PASSWORD)) == 429
    with (
        redis_of(broker, "ann", PASSWORD) as client,
        pytest.raises(redis.RedisError, match="wrong logins"),
    ):
        client.ping()
    assert code_of(broker, "ann", PASSWORD, "127.0.0.9") == 0
    broker.clock.advance(2)
    assert code_of(broker, "ann", PASSWORD) == 0


def test_guessing_from_everywhere_does_not_lock_a_user_out_where_it_is_known(broker):
    assert code_of(broker, "ann", PASSWORD, "127.0.0.9") == 0
    for number in range(12):
        assert code_of(broker, "ann", "guess", f"127.0.1.{number}") in (3, 4)
    assert code_of(broker, "ann", PASSWORD, "127.0.2.1") == 3
    assert code_of(broker, "ann", PASSWORD, "127.0.0.9") == 0


def test_others_are_served_while_passwords_are_hashed():
    """Each hash takes long, and many wait; a ping is answered meanwhile."""
    with Broker(auth={"argon2_memory_bytes": "64MiB", "argon2_passes": 4}) as broker:
        broker.add_user("root", "a secret of root")
        address = (broker.host, broker.port)
        guessers = []
        with WireClient(*address) as witness:
            witness.send(connect_packet("w", username="root", password=b"a secret of root"))
            witness.expect(connack())
            for number in range(20):
                source = (f"127.0.3.{number + 1}", 0)
                guesser = socket.create_connection(address, 30, source_address=source)
                guesser.sendall(connect_packet("", username="x", password=b"guess %d" % number))
                guessers.append(guesser)
            pool = broker.server.parts.logins._pool
            wait_until(lambda: pool.waiting > 5)
            for _ in range(5):
                witness.send(PINGREQ)
                witness.expect(PINGRESP)
            assert pool.waiting > 0
        for guesser in guessers:
            guesser.close()


def test_an_imported_hash_is_replaced_through_the_journal_and_nobody_is_disconnected(broker):
    salt = b"saltsaltsalt"
    digest = sha512(PASSWORD.encode() + salt).digest()
    weak = f"$6${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
    broker.change_access(put(User("bob", ("client",), password=weak)))
    with WireClient(broker.host, broker.port) as client:
        client.send(connect_packet("b", username="bob", password=PASSWORD.encode()))
        client.expect(connack())
        users = broker.server.broker.access
        wait_until(lambda: users.users["bob"].password.startswith("$argon2id$"))
        client.send(PINGREQ)
        client.expect(PINGRESP)
    broker.restart(kill=True)
    assert broker.server.broker.access.users["bob"].password.startswith("$argon2id$")
    assert code_of(broker, "bob", PASSWORD) == 0


def test_a_connection_ends_with_its_token(broker):
    ends_ms = broker.clock.wall_ms() + 20_000
    digest = digest_of(TOKEN.rpartition("_")[2].encode())
    broker.change_access(put(Token("token123", "ann", digest, expires_ms=ends_ms)))
    with WireClient(broker.host, broker.port) as client:
        client.send(connect_packet("t", username="x", password=TOKEN.encode(), keep_alive=0))
        client.expect(connack())
        broker.clock.advance(19)
        client.send(PINGREQ)
        client.expect(PINGRESP)
        broker.clock.advance(2)
        client.expect_close()
    assert broker.server.counters.disconnects[DisconnectReason.CREDENTIALS_REVOKED] == 1
    assert code_of(broker, "x", TOKEN) == 4


def test_quotas_of_connections_and_rates(broker):
    limits = Quotas(connections=1, messages_per_s=5)
    broker.change_access(put(User("ann", ("client",), password=hashed(PASSWORD), quotas=limits)))
    with WireClient(broker.host, broker.port) as client:
        client.send(connect_packet("q", username="ann", password=PASSWORD.encode()))
        client.expect(connack())
        assert code_of(broker, "ann", PASSWORD) == 5
        assert broker.server.counters.disconnects[DisconnectReason.QUOTA] == 1
        client.send(publish("t", b"x") * 20)
        received = broker.server.counters.messages_in_total
        wait_until(lambda: received[0] == 20)
        client.send(publish("t", b"late"), PINGREQ)
        (connection,) = (c for c in broker.server.parts.connections.clients if c.name == b"q")
        assert connection._is_over_quota

        def is_late_one_received() -> bool:
            broker.clock.advance(0.1)
            return received[0] == 21

        wait_until(is_late_one_received)
        client.expect(PINGRESP)


def test_no_secret_is_logged_or_shown(broker, capfd):
    secrets = ["guessed-password-123", PASSWORD, TOKEN]
    for secret in secrets:
        code_of(broker, "ann", secret)
        status_of(broker, basic("ann", secret))
    shown = "".join(capfd.readouterr()) + str(broker.metrics())
    shown += repr(broker.server.parts.logins.__dict__) + repr(broker.server.broker.access.users)
    assert not [secret for secret in secrets if secret in shown]
