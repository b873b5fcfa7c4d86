"""AUTH: logins by SCRAM-SHA-256 in CONNECT, again later, and everything that ends them."""

from base64 import b64encode
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from penstock.access.new_secrets import new_hashes, with_hashes
from penstock.limits import MIB
from penstock.testing import Broker
from penstock.trust.book import Change, put
from penstock.trust.passwords import Cost, hash_password
from penstock.trust.rows import Ban, Quotas, User
from penstock.trust.scram import ScramClient
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.conformance.packets5 import Packet
from tests.conformance.wire_client import wait_until

METHOD = "SCRAM-SHA-256"
PASSWORD = "correct horse battery"
NONCE = b"nonce-of-a-client"
CHEAP = Cost(8 * MIB, 1, 4_096)
SALT_KEY = bytes(range(24))
CONTINUE, AGAIN = 0x18, 0x19


def user(name: str, password: str = PASSWORD, roles=("client",), **fields: object) -> Change:
    hashes = new_hashes(name, password, CHEAP, SALT_KEY)
    return put(with_hashes(User(name, roles, **fields), hashes))


def rows() -> list[Change]:
    bare = hash_password(PASSWORD.encode(), bytes(16), CHEAP)
    return [
        user("ann"),
        user("bob"),
        user("disabled", is_disabled=True),
        user("banned"),
        user("alone", quotas=Quotas(connections=1)),
        put(User("unprepared", ("client",), password=bare)),
        put(Ban("user:banned")),
    ]


@pytest.fixture(scope="module")
def broker():
    """Clients of this machine must log in, too."""
    with Broker(auth={**LOGIN_REQUIRED, "failures_max": 100_000}) as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.change_access(*rows())
        yield own


class Exchange:
    """The client's part of one login."""

    def __init__(self, client: Client5, name: str = "ann", password: str = PASSWORD) -> None:
        self.client = client
        self._scram = ScramClient(name, password, NONCE)

    def connect_packet(self, client_id: str, **options: object) -> bytes:
        return v5.connect(client_id, auth_method=METHOD, auth_data=self._scram.first, **options)

    def connect(self, client_id: str, **options: object) -> "Exchange":
        self.client.send(self.connect_packet(client_id, **options))
        return self

    def again(self) -> "Exchange":
        self.client.send(auth(AGAIN, self._scram.first))
        return self

    def final(self) -> bytes:
        """The answer to the challenge that is expected now."""
        challenge = self.client.take()
        assert (challenge.kind, challenge.code) == (v5.AUTH, CONTINUE), challenge
        return auth(CONTINUE, self._scram.final(data_of(challenge)))

    def answer(self) -> None:
        self.client.send(self.final())

    def check(self, packet: Packet) -> None:
        """The broker has proved itself, too."""
        self._scram.check(data_of(packet))


def echo(client: Client5, topic: str, payload: bytes) -> None:
    """The client publishes to itself."""
    client.send(v5.publish(topic, payload))
    client.expect_publish(topic, payload)


def auth(code: int, data: bytes, method: str = METHOD) -> bytes:
    return v5.auth(code, auth_method=method, auth_data=data)


def data_of(packet: Packet) -> bytes:
    assert packet.properties["auth_method"] == [METHOD], "[MQTT-4.12.0-5]"
    (data,) = packet.properties["auth_data"]
    return data


@pytest.fixture
def log_in(dial, unique) -> Callable[..., Client5]:
    """Connect by SCRAM, and be accepted."""

    def connected(name: str = "ann", client_id: str = unique, **options: object) -> Client5:
        client = dial(at=options.pop("at", None))
        exchange = Exchange(client, name).connect(client_id, **options)
        exchange.answer()
        exchange.check(client.expect_connack())
        return client

    return connected


# ── in CONNECT ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-4.12.0-2", "MQTT-4.12.0-3", "MQTT-4.12.0-5", "MQTT-3.15.2-1")
def test_a_client_and_the_broker_prove_each_other_that_they_know_the_password(
    broker, dial, unique, log_in
):
    client = log_in()
    client.subscribe((unique, 0))
    echo(client, unique, b"x")
    assert broker.metrics()['penstock_logins_accepted_total{kind="scram"}'] >= 1


@pytest.mark.proves5("MQTT-3.15.2-1", "MQTT-3.15.2-2", "MQTT-3.15.2-3")
def test_auth_of_the_broker_carries_what_the_exchange_needs_and_no_more(dial, unique):
    client = dial()
    Exchange(client).connect(unique, user=("a", "b"))
    challenge = client.take()
    assert (challenge.kind, challenge.code) == (v5.AUTH, CONTINUE)
    assert set(challenge.properties) == {"auth_method", "auth_data"}


@pytest.mark.proves5("MQTT-3.1.2-24")
def test_a_challenge_too_large_for_the_client_is_not_sent(dial, unique):
    client = dial()
    Exchange(client).connect(unique, maximum_packet_size=40)
    received = client.receive()
    assert len(received) <= 40
    assert not received or v5.parse(received).kind == v5.CONNACK
    client.expect_close()


@pytest.mark.proves5("MQTT-3.1.2-24")
@pytest.mark.parametrize("size", [100, 104, 108, 109])
def test_a_client_without_room_for_the_proof_in_connack_is_refused_at_once(dial, size):
    """CONNACK that names the client and proves the broker is larger than the challenge."""
    client = dial()
    exchange = Exchange(client).connect("", maximum_packet_size=size)
    if size < 109:
        client.expect_refusal(0x95)
    else:
        exchange.answer()
        exchange.check(client.expect_connack())


def test_a_user_name_and_password_beside_the_method_are_not_looked_at(log_in):
    log_in(username="root", password=b"wrong").ping()


@pytest.mark.proves5("MQTT-4.12.0-4", "MQTT-3.2.2-6")
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong horse battery"),
        ("nobody", PASSWORD),
        ("disabled", PASSWORD),
        ("unprepared", PASSWORD),
        ("root", SECRET),
        ("a/b,c=d", PASSWORD),
    ],
)
def test_all_wrong_logins_get_a_challenge_and_the_same_refusal(dial, unique, name, password):
    client = dial()
    Exchange(client, name, password).connect(unique).answer()
    refusal = client.expect_refusal(0x86)
    assert not {"auth_method", "auth_data"} & refusal.properties.keys()


@pytest.mark.parametrize(
    "first",
    [
        None,
        b"",
        b"\xff\x00",
        b"n,,n=ann",
        b"p=tls-unique,,n=ann,r=abcdefgh",
        b"n,a=root,n=ann,r=abcdefgh",
        b"n,,n=ann,r=" + b"x" * 4_000,
    ],
)
def test_a_first_message_that_is_none_is_refused(dial, unique, first):
    client = dial()
    data = {} if first is None else {"auth_data": first}
    client.send(v5.connect(unique, auth_method=METHOD, **data))
    client.expect_refusal(0x86)


@pytest.mark.parametrize("last", [None, b"", b"\xff", b"c=biws,r=other,p=" + b64encode(bytes(32))])
def test_a_last_message_that_is_none_is_refused(dial, unique, last):
    client = dial()
    Exchange(client).connect(unique).final()
    data = {} if last is None else {"auth_data": last}
    client.send(v5.auth(CONTINUE, auth_method=METHOD, **data))
    client.expect_refusal(0x86)


@pytest.mark.proves5("MQTT-4.12.0-1")
@pytest.mark.parametrize("method", ["", "SCRAM-SHA-1", "scram-sha-256", "PLAIN", "SCRAM-SHA-256 "])
def test_another_method_is_refused(dial, unique, method):
    client = dial()
    client.send(v5.connect(unique, auth_method=method, auth_data=b"n,,n=ann,r=abcdefgh"))
    client.expect_refusal(0x8C)


@pytest.mark.parametrize("settings", [{}, {"scram": False}])
def test_without_users_or_if_turned_off_the_method_is_refused(dial, unique, settings):
    with Broker(auth=settings) as own:
        if settings:
            own.change_access(user("ann"))
        client = dial(at=own)
        Exchange(client).connect(unique)
        client.expect_refusal(0x8C)


def test_authentication_data_without_a_method_is_a_protocol_error(dial, unique):
    client = dial()
    client.send(v5.connect(unique, auth_data=b"x"))
    client.expect_refusal(0x82)


@pytest.mark.proves5("MQTT-3.1.2-30")
@pytest.mark.parametrize(
    "early",
    [
        v5.PINGREQ,
        v5.publish("t", b"x"),
        v5.publish("t", b"x", qos=1, packet_id=1),
        v5.subscribe(1, ("t", 0)),
        v5.unsubscribe(1, "t"),
        v5.puback(1),
        v5.connect("again"),
        v5.auth(0x00, auth_method=METHOD),
        v5.auth(AGAIN, auth_method=METHOD, auth_data=b"n,,n=ann,r=abcdefgh"),
        v5.auth(CONTINUE, auth_method="PLAIN", auth_data=b"x"),
        v5.auth(CONTINUE),
        v5.auth(),
    ],
)
def test_before_connack_nothing_else_may_come(dial, unique, early):
    client = dial()
    Exchange(client).connect(unique).final()
    client.send(early)
    client.expect_refusal(0x82)


def test_what_comes_right_behind_the_last_message_is_too_early(dial, unique):
    client = dial()
    exchange = Exchange(client).connect(unique)
    client.send(exchange.final(), v5.publish(unique, b"x"))
    client.expect_refusal(0x82)


@pytest.mark.proves5("MQTT-3.15.1-1")
@pytest.mark.parametrize("flags", [1, 2, 4, 8])
def test_flags_of_auth_are_malformed(dial, unique, flags):
    client = dial()
    exchange = Exchange(client).connect(unique)
    final = exchange.final()
    client.send(bytes([final[0] | flags]) + final[1:])
    client.expect_refusal(0x81)


@pytest.mark.proves5("MQTT-3.15.2-1")
@pytest.mark.parametrize("code", [0x01, 0x17, 0x1A, 0x86, 0xFF])
def test_other_codes_of_auth_are_refused(dial, unique, code):
    client = dial()
    Exchange(client).connect(unique).final()
    client.send(auth(code, b"x"))
    client.expect_refusal(0x82)


def test_a_client_may_give_up_before_connack(broker, dial, unique):
    client = dial()
    Exchange(client).connect(unique).final()
    client.disconnect()
    assert unique.encode() not in broker.server.broker.sessions


# ── limits ────────────────────────────────────────────────────────────────────────────────────


def test_no_packet_of_an_exchange_extends_the_connect_time_out(dial, unique):
    with Broker(auth=LOGIN_REQUIRED, limits={"connect_timeout_s": 10}) as own:
        own.change_access(user("ann"))
        client = dial(at=own)
        exchange = Exchange(client)
        packet = exchange.connect_packet(unique)
        client.send(packet[:-1])
        wait_until(lambda: own.server.parts.connections.clients)
        own.clock.advance(9)
        client.send(packet[-1:])
        exchange.final()
        own.clock.advance(2)
        client.expect_close()


def test_a_packet_is_as_large_as_connect_until_connack(dial, unique):
    with Broker(auth=LOGIN_REQUIRED, limits={"connect_bytes_max": 1024}) as own:
        own.change_access(user("ann"))
        client = dial(at=own)
        Exchange(client).connect(unique).final()
        client.send(auth(CONTINUE, b"x" * 2_000))
        client.expect_refusal(0x95)


@pytest.mark.proves5("MQTT-3.1.2-24", "MQTT-3.15.2-2", "MQTT-3.15.2-3")
def test_auth_says_nothing_but_the_exchange_and_is_not_sent_if_the_client_takes_less(dial, unique):
    client = dial()
    Exchange(client).connect(unique)
    packet = client.receive()
    assert v5.parse(packet).properties.keys() == {"auth_method", "auth_data"}
    client.abort()
    for size, is_enough in ((len(packet), True), (len(packet) - 1, False)):
        client = dial()
        exchange = Exchange(client).connect(unique, maximum_packet_size=size)
        if is_enough:
            exchange.final()
        else:
            client.expect_refusal(0x95)


def test_guessing_is_slowed_down(dial, unique):
    with Broker(auth={**LOGIN_REQUIRED, "failures_max": 2}) as own:
        own.change_access(user("ann"))
        for _ in range(3):
            client = dial(at=own)
            Exchange(client, "ann", "wrong horse battery").connect(unique).answer()
            client.expect_refusal(0x86)
        client = dial(at=own)
        Exchange(client).connect(unique)
        client.expect_refusal(0x9F)


def test_bans_hold(dial, unique):
    client = dial()
    Exchange(client, "banned").connect(unique).answer()
    client.expect_refusal(0x8A)


def test_an_administrator_in_clear_text_from_elsewhere_is_told_so(unique):
    """The listener is behind a proxy, which says where clients come from."""
    listener = {"address": "127.0.0.1:0", "proxy": True, "trusted": ["127.0.0.1/32"]}
    with Broker(listeners=[listener], allow_anonymous=True) as own:
        own.change_access(user("root", roles=("admin",)))
        port = own.server.addresses[-1].port
        for name, code in (("root", 0x87), ("nobody", 0x86)):
            with Client5("127.0.0.1", port) as client:
                client.send(b"PROXY TCP4 192.0.2.9 127.0.0.1 4711 1883\r\n")
                Exchange(client, name).connect(unique).answer()
                client.expect_refusal(code)


# ── without a method ──────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-4.12.0-6", "MQTT-4.12.0-7")
@pytest.mark.parametrize(
    "packet", [auth(AGAIN, b"n,,n=root,r=abcdefgh"), auth(CONTINUE, b"x"), auth(0, b"")]
)
def test_without_a_method_in_connect_there_is_no_auth(connect, unique, packet):
    client = connect(unique, username="root", password=SECRET.encode())
    assert not {"auth_method", "auth_data"} & client.connack.properties.keys()
    client.send(packet)
    client.expect_disconnect(0x82)


# ── again ─────────────────────────────────────────────────────────────────────────────────────


def test_traffic_goes_on_while_a_client_authenticates_again(log_in, unique):
    client = log_in("alone")
    client.subscribe((unique, 0))
    for _ in range(2):
        exchange = Exchange(client, "alone").again()
        final = exchange.final()
        echo(client, unique, b"meanwhile")
        client.send(final)
        success = client.take()
        assert (success.kind, success.code) == (v5.AUTH, 0)
        exchange.check(success)
        echo(client, unique, b"after")


@pytest.mark.proves5("MQTT-4.12.1-2")
def test_who_fails_to_authenticate_again_is_disconnected_and_its_will_is_sent(log_in, unique):
    witness = log_in("bob", f"{unique}-witness")
    witness.subscribe((f"{unique}/will", 0))
    client = log_in(will=v5.Will(f"{unique}/will", b"gone"))
    Exchange(client, "ann", "wrong horse battery").again().answer()
    client.expect_disconnect(0x87)
    witness.expect_publish(f"{unique}/will", b"gone")


@pytest.mark.parametrize("name", ["bob", "root", "nobody"])
def test_a_connection_stays_its_users(log_in, name):
    client = log_in()
    Exchange(client, name).again()
    client.expect_disconnect(0x87)


@pytest.mark.parametrize("data", [b"", b"n,,n=ann", b"\xff"])
def test_a_message_that_is_none_ends_the_connection(log_in, data):
    client = log_in()
    client.send(auth(AGAIN, data))
    client.expect_disconnect(0x87)


@pytest.mark.proves5("MQTT-4.12.1-1")
@pytest.mark.parametrize(
    "packet",
    [
        auth(AGAIN, b"n,,n=ann,r=abcdefgh", "SCRAM-SHA-1"),
        v5.auth(AGAIN, auth_data=b"n,,n=ann,r=abcdefgh"),
        auth(CONTINUE, b"x"),
        auth(0x00, b""),
        v5.auth(),
        auth(0x42, b""),
    ],
)
def test_auth_at_the_wrong_time_or_of_another_method_is_a_protocol_error(log_in, packet):
    client = log_in()
    client.send(packet)
    client.expect_disconnect(0x82)


def test_an_authentication_ends_before_the_next_begins(log_in):
    client = log_in()
    Exchange(client).again().final()
    Exchange(client).again()
    client.expect_disconnect(0x82)


# ── where the verifier comes from ─────────────────────────────────────────────────────────────


def test_one_login_with_the_password_makes_scram_work_and_it_survives_a_restart(
    connect, dial, unique, tmp_path
):
    with Broker(data=tmp_path / "data", auth=LOGIN_REQUIRED) as own:
        own.change_access(*rows())
        connect(unique, at=own, username="unprepared", password=PASSWORD.encode())
        wait_until(lambda: own.server.broker.access.users["unprepared"].scram)
        challenges = [challenge(dial(at=own), name) for name in ("unprepared", "nobody")]
        own.restart()
        assert challenges == [challenge(dial(at=own), name) for name in ("unprepared", "nobody")]
        client = dial(at=own)
        exchange = Exchange(client, "unprepared").connect(unique)
        exchange.answer()
        exchange.check(client.expect_connack())


def challenge(client: Client5, name: str) -> bytes:
    """What the broker shows to who begins with this name, without the nonce."""
    Exchange(client, name).connect("")
    return data_of(client.take()).partition(b",")[2]


# ── the end of rights ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_again", [False, True])
def test_who_is_disabled_or_given_another_password_is_disconnected(
    broker, log_in, unique, is_again
):
    for name, change in (("eve", {"is_disabled": True}), ("mallory", {"password": "x" * 12})):
        broker.change_access(user(name))
        client = log_in(name, f"{unique}-{name}")
        if is_again:
            exchange = Exchange(client, name).again()
            exchange.answer()
            exchange.check(client.take())
        broker.change_access(user(name, **change))
        client.expect_disconnect(0x98)


def test_rights_that_were_lost_do_not_come_back_by_authenticating_again(broker, log_in, unique):
    broker.change_access(user("trent"))
    client = log_in("trent")
    client.subscribe((f"{unique}/a", 1))
    row = broker.server.broker.access.users["trent"]
    broker.change_access(put(replace(row, roles=())))
    exchange = Exchange(client, "trent").again()
    exchange.answer()
    exchange.check(client.take())
    client.send(v5.subscribe(2, (f"{unique}/b", 1)))
    client.expect_suback(2, 0x87)
