"""The blocking client in MQTT 5: by TCP and by WebSocket, and against Mosquitto.

That a test holds with another broker, too, shows that it is not our own idea of MQTT 5.
"""

import contextlib
import shutil
import socket
import subprocess
import threading
import uuid

import pytest
from tests.unit.access.login_setup import CHEAP

from penstock.access.new_secrets import new_hashes, with_hashes
from penstock.client import (
    ArgumentError,
    ConnectionLostError,
    Credentials,
    LoginFailedError,
    PublishProperties,
    RefusedError,
    ReplyTimeoutError,
    TakenOverError,
    UnreachableError,
    Will,
    connect,
)
from penstock.client.handlers import HandlerMismatchError
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Role, User
from penstock.trust.scram_verifier import ITERATIONS_MIN
from penstock.wire.mqtt import MqttServerMachine, encode
from penstock.wire.mqtt.events import Connect
from penstock.wire.mqtt.properties import NONE

FULL = PublishProperties(
    expiry_s=60,
    content_type="application/json",
    response_topic="answers/7",
    correlation_data=b"\x00\xff",
    user_properties=[("unit", "bar"), ("unit", "psi")],
    payload_format=1,
)
SECRET = "a-secret-of-ann-0123456789"


@pytest.fixture(scope="module")
def broker():
    with Broker(limits={"receive_maximum": 20}) as own:
        yield own


@pytest.fixture
def name():
    """A topic, or client id, that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


MOSQUITTO = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/bin")
PATIENCE_S = 20


@pytest.fixture(scope="module")
def mosquitto():
    """The port of a Mosquitto."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([MOSQUITTO, "-p", str(port)], stderr=subprocess.PIPE) as process:
        while not (line := process.stderr.readline()).endswith(b" running\n"):
            assert line, "mosquitto does not start"
        yield port
        process.terminate()


@pytest.fixture(params=["mqtt", "ws", "mosquitto"])
def dial(request, broker):
    """Connect to the broker; all connections end with the test."""
    if request.param == "mosquitto":
        url = f"mqtt://127.0.0.1:{request.getfixturevalue('mosquitto')}"
    else:
        url = f"{request.param}://{broker.host}:{broker.port}"
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(
            connect(url, *arguments, **{"version": 5, **options})
        )


def next_of(client):
    return next(client.messages(timeout_s=PATIENCE_S))


# ── Messages


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_message_arrives_with_all_its_properties(dial, name, qos):
    consumer, producer = dial(), dial()
    assert consumer.subscribe([(name, 2)]) == [2]
    producer.publish(name, b"{}", qos, properties=FULL)
    delivery = next_of(consumer)
    left_s = delivery.properties.expiry_s
    assert 0 < left_s <= 60
    assert delivery.properties == PublishProperties(
        expiry_s=left_s,
        content_type="application/json",
        response_topic="answers/7",
        correlation_data=b"\x00\xff",
        user_properties=[("unit", "bar"), ("unit", "psi")],
        payload_format=1,
    )
    assert delivery.qos == qos


def test_message_that_is_passed_on_keeps_its_properties(dial, name):
    client = dial()
    client.subscribe([(f"{name}/#", 1)])
    client.publish(f"{name}/a", b"x", 1, properties=FULL)
    first = next_of(client)
    client.publish(f"{name}/b", first.payload, 1, properties=first.properties)
    second = next_of(client)
    assert second.topic == f"{name}/b"
    assert second.properties.user_properties == (("unit", "bar"), ("unit", "psi"))


def test_many_messages_stay_within_the_receive_maximum_of_the_broker(dial, name):
    """One too many in flight would end the connection."""
    client = dial()
    assert client._session.limits.receive_maximum == 20
    assert client.publish_many([(name, b"%d" % number) for number in range(200)], 2) == 200
    assert client.confirmed == 200


@pytest.mark.parametrize("dial", ["mqtt", "ws"], indirect=True)
def test_consumer_with_a_receive_maximum_gets_everything(dial, name):
    """Mosquitto 2.0 sends more than it may."""
    consumer, producer = dial(receive_maximum=2), dial()
    consumer.subscribe([(name, 1)])
    producer.publish_many([(name, b"%d" % number) for number in range(20)], 1)
    taken = [next_of(consumer).payload for _ in range(20)]
    assert taken == [b"%d" % number for number in range(20)]


def test_topics_may_be_named_by_aliases_both_ways(dial, name):
    client = dial(topic_aliases=True)
    client.subscribe([(f"{name}/#", 1)])
    topics = [f"{name}/{number % 3}" for number in range(9)]
    client.publish_many([(topic, b"") for topic in topics], 1)
    assert [next_of(client).topic for _ in topics] == topics


def test_refused_message_leaves_the_connection_usable(dial, name):
    client = dial()
    with pytest.raises(RefusedError, match="the broker refused the message: ") as caught:
        client.publish("$SYS/mine", b"x", 1)
    assert caught.value.reason_code == 0x87
    with pytest.raises(RefusedError, match="the broker refused 1 of 3 messages: "):
        client.publish_many([(name, b"1"), ("$SYS/mine", b"2"), (name, b"3")], 1)
    client.publish(name, b"x", 1)
    assert client.confirmed == 3


def test_message_that_the_broker_would_not_take_is_not_sent(broker, name):
    client = connect(broker.host, broker.port)
    with pytest.raises(RefusedError, match="and the broker takes 262,144 at most"):
        client.publish(name, bytes(300_000), 1)
    client.publish(name, b"", 1)
    client.close()


@pytest.mark.parametrize("websocket", [None, "/mqtt"])
def test_broker_says_why_it_closes(broker, websocket):
    client = connect(broker.host, broker.port, websocket=websocket)
    with pytest.raises(ConnectionLostError, match="the broker closed the connection: ") as caught:
        _publish_and_ping(client)
    assert caught.value.reason_code == 0x87
    client.abandon()


def _publish_and_ping(client):
    client.publish("$SYS/mine", b"x")
    client.ping()


# ── Subscriptions


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_delivery_names_the_subscriptions_it_came_by(dial, name, qos):
    client = dial()
    client.subscribe([(f"{name}/+", 2)], subscription_id=7)
    client.publish(f"{name}/a", b"", qos)
    assert next_of(client).subscription_ids == (7,)


@pytest.mark.parametrize("version", [4, 5])
def test_history_comes_before_what_is_new(broker, name, version):
    with connect(broker.host, broker.port, version=version) as client:
        client.publish_many([(name, b"%d" % number) for number in range(5)], 1)
        client.subscribe([(name, 1)], replay="last=3")
        client.publish(name, b"new", 1)
        assert [next_of(client).payload for _ in range(4)] == [b"2", b"3", b"4", b"new"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_spares_us_our_own_messages(dial, name, qos):
    client, other = dial(), dial()
    client.subscribe([(name, 2)], no_local=True)
    client.publish(name, b"mine", qos)
    client.ping()
    other.publish(name, b"theirs", qos)
    assert next_of(client).payload == b"theirs"


def test_retained_messages_come_as_asked(dial, name):
    client = dial()
    client.publish(name, b"kept", 1, retain=True, properties=FULL)
    client.subscribe([(name, 1)], retain_handling=2)
    client.publish(name, b"new", 1, retain=True)
    assert payload_and_retain(next_of(client)) == (b"new", False)
    client.unsubscribe([name])
    client.subscribe([(name, 1)], retain_as_published=True)
    assert payload_and_retain(next_of(client)) == (b"new", True)
    client.publish(name, b"newer", 1, retain=True)
    assert payload_and_retain(next_of(client)) == (b"newer", True)


def payload_and_retain(delivery):
    return delivery.payload, delivery.retain


def test_unsubscribe_tells_whether_there_was_a_subscription(dial, name):
    client = dial()
    client.subscribe([(name, 1)])
    assert client.unsubscribe([name, f"{name}/other"]) == [0, 0x11]
    client.publish(name, b"x", 1)
    assert list(client.messages(timeout_s=0.01)) == []


def test_refused_filter_has_a_code_and_words(guarded):
    ann = Credentials("ann", SECRET)
    with connect(guarded.host, guarded.port, credentials=ann) as client:
        assert client.subscribe([("ann/x", 1), ("elsewhere", 1)]) == [1, 0x87]
        assert client.reason_string
        with pytest.raises(RefusedError, match="refused to subscribe to 'responses/"):
            client.request("ann/x", b"")


# ── Sessions


def test_session_lives_as_long_as_asked(dial, name):
    def client(**options):
        return dial(name, **options)

    client(session_expiry_s=60).close()
    first = client(clean_session=False, session_expiry_s=60)
    assert first.session_present
    first.close(session_expiry_s=0)
    assert not client(clean_session=False, session_expiry_s=60).session_present


def test_client_without_an_id_gets_one_and_may_come_back_with_it(dial):
    client = dial(session_expiry_s=60)
    client.close()
    assert client.client_id
    assert dial(client.client_id, clean_session=False, session_expiry_s=0).session_present


def test_keep_alive_of_the_broker_holds():
    with Broker(limits={"keep_alive_s_max": 10}) as broker:  # noqa: SIM117
        with connect(broker.host, broker.port, keep_alive=60, version=5) as client:
            assert client._keep_alive._idle_s == 5


@pytest.mark.parametrize("websocket", [None, "/mqtt"])
def test_taken_over_client_learns_of_it(broker, name, websocket):
    """Mosquitto 2.0 does not tell."""
    client = connect(broker.host, broker.port, name, websocket=websocket)
    with connect(broker.host, broker.port, name), pytest.raises(TakenOverError):
        client.receive(timeout_s=PATIENCE_S)
    client.abandon()


def test_will_has_properties_and_may_be_asked_for(dial, name):
    watcher = dial()
    watcher.subscribe([(name, 1)])
    dial(will=Will(name, b"gone", 1, properties=FULL)).abandon()
    assert next_of(watcher).properties.content_type == "application/json"
    dial(will=Will(name, b"left", 1)).close(with_will=True)
    assert next_of(watcher).payload == b"left"


@pytest.mark.parametrize("dial", ["mqtt", "ws"], indirect=True)
def test_delayed_will_of_a_session_that_ends_comes_at_once(dial, name):
    """Its delay is longer than its session lives. Mosquitto 2.0 waits all the same."""
    watcher = dial()
    watcher.subscribe([(name, 1)])
    dial(will=Will(name, b"gone", 1, delay_s=3600), session_expiry_s=0).abandon()
    assert next_of(watcher).payload == b"gone"


# ── Requests


@pytest.fixture
def responder(dial, name):
    """Answers in a thread: with the payload in capitals, until the test is over."""
    client = dial()
    is_ready = threading.Event()

    def respond():
        client.subscribe([(name, 1)])
        is_ready.set()
        with contextlib.suppress(ConnectionLostError, ValueError):
            client.respond(name, lambda request: request.payload.upper())

    thread = threading.Thread(target=respond)
    thread.start()
    is_ready.wait(20)
    yield
    client._socket.shutdown(socket.SHUT_RDWR)
    thread.join()
    client.abandon()


@pytest.mark.usefixtures("responder")
def test_request_returns_its_answer_and_leaves_other_messages_alone(dial, name):
    client = dial()
    client.subscribe([(f"{name}/other", 1)])
    client.publish(f"{name}/other", b"meanwhile", 1)
    assert client.request(name, b"one").payload == b"ONE"
    assert client.request(name, b"two").payload == b"TWO"
    assert next_of(client).payload == b"meanwhile"


@pytest.mark.usefixtures("responder")
def test_requests_of_two_clients_are_told_apart(dial, name):
    one, other = dial(), dial()
    assert (one.request(name, b"a").payload, other.request(name, b"b").payload) == (b"A", b"B")


def test_request_that_nobody_answers_ends(dial, name):
    with pytest.raises(ReplyTimeoutError, match=f"answered the request to {name} within 0.05 s"):
        dial().request(name, b"", timeout_s=0.05)


def test_request_expires_with_the_patience_of_who_asks(dial, name):
    watcher = dial()
    watcher.subscribe([(name, 1)])
    with pytest.raises(ReplyTimeoutError):
        dial().request(name, b"", timeout_s=0.05)
    assert next_of(watcher).properties.expiry_s == 1


def test_answer_that_comes_late_is_dropped(dial, name):
    client, responder = dial(), dial()
    responder.subscribe([(name, 1)])
    with pytest.raises(ReplyTimeoutError):
        client.request(name, b"1", timeout_s=0.05)
    responder.reply(next_of(responder), b"late")
    client.ping()
    assert list(client.messages(timeout_s=0.01)) == []


def test_message_without_a_response_topic_cannot_be_answered(dial, name):
    client = dial()
    client.subscribe([(name, 1)])
    client.publish(name, b"", 1)
    with pytest.raises(ArgumentError, match="names no response topic"):
        client.reply(next_of(client), b"")


def test_responder_with_an_async_handler_is_refused(dial, name):
    async def handler(request): ...

    with pytest.raises(HandlerMismatchError):
        dial().respond(name, handler)


def test_request_needs_mqtt_5(broker, name):
    with connect(broker.host, broker.port, version=4) as client:  # noqa: SIM117
        with pytest.raises(RefusedError, match="a request: that needs MQTT 5"):
            client.request(name, b"")


# ── Logging in


@pytest.fixture(scope="module")
def guarded():
    auth = {"failures_max": 1_000_000, "scram_iterations": ITERATIONS_MIN}
    with Broker(auth=auth) as running:
        running.add_user("root", "the secret of root", roles=["admin"])
        cost = CHEAP._replace(scram_iterations=ITERATIONS_MIN)
        ann = with_hashes(User("ann", ("ann",)), new_hashes("ann", SECRET, cost, bytes(24)))
        running.change_access(put(Role("ann", ("allow publish,subscribe ann/#",))), put(ann))
        yield running


def test_scram_logs_in_and_proves_itself_again(guarded):
    ann = Credentials("ann", SECRET)
    with connect(guarded.host, guarded.port, scram=True, credentials=ann) as client:
        assert client.version == 5
        client.publish("ann/x", b"", 1)
        client.reauthenticate()
        client.reauthenticate(Credentials("ann", SECRET))
        client.publish("ann/x", b"", 1)
        assert client.confirmed == 2


def test_scram_with_a_wrong_password_is_refused(guarded):
    wrong = Credentials("ann", "not-her-secret")
    with pytest.raises(LoginFailedError):
        connect(guarded.host, guarded.port, scram=True, credentials=wrong)


def test_scram_as_another_user_later_ends_the_connection(guarded):
    ann = Credentials("ann", SECRET)
    client = connect(guarded.host, guarded.port, scram=True, credentials=ann)
    with pytest.raises(ConnectionLostError) as caught:
        client.reauthenticate(Credentials("root", "the secret of root"))
    assert caught.value.reason_code == 0x87
    client.abandon()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scram": True}, "scram needs credentials"),
        ({"scram": True, "credentials": Credentials(token="x")}, "SCRAM needs a user"),
        ({"version": 3}, "version is 3"),
        ({"version": 4, "session_expiry_s": 5}, "session_expiry_s needs MQTT 5"),
        ({"version": 4, "will": Will("t", b"", delay_s=1)}, "a will with properties or a delay"),
        ({"session_expiry_s": -1}, "session_expiry_s is -1"),
        ({"receive_maximum": 0}, "receive_maximum is 0"),
        ({"packet_bytes_max": 0}, "packet_bytes_max is 0"),
        ({"websocket": "mqtt"}, "it is a path"),
        ({"websocket": "/a b"}, "it is a path"),
    ],
)
def test_argument_that_cannot_be_meant_is_refused_before_anything_is_sent(options, words):
    with pytest.raises(ArgumentError, match=words):
        connect("nowhere.invalid", **options)


# ── Other brokers


class OldBroker:
    """A broker of 3.1.1 that refuses MQTT 5 in the given form, and notes what it was asked."""

    def __init__(self, refusal):
        self._refusal = refusal
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.versions = []
        self.address = self._listening.getsockname()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection:
                    self._converse(connection)

    def _converse(self, connection):
        machine = MqttServerMachine()
        [packet] = machine.receive(connection.recv(1 << 16))
        assert isinstance(packet, Connect)
        self.versions.append(packet.version)
        is_old = packet.version == 4
        connection.sendall(encode.connack(False, 0) if is_old else self._refusal)
        if is_old:
            connection.recv(1 << 16)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@pytest.mark.parametrize("refusal", [encode.connack(False, 1), encode.connack(False, 0x84, NONE)])
def test_broker_without_mqtt_5_is_spoken_to_in_3_1_1(refusal):
    with OldBroker(refusal) as old:
        with connect(*old.address) as client:
            assert client.version == 4
        with pytest.raises(RefusedError, match="does not speak MQTT 5"):
            connect(*old.address, version=5)
        with pytest.raises(RefusedError, match="does not speak MQTT 5"):
            connect(*old.address, session_expiry_s=5)
    assert old.versions == [5, 4, 5, 5], "what only 5 can say is not dropped in silence"


def test_no_websocket_where_there_is_none(broker):
    with pytest.raises(
        UnreachableError, match=r"no WebSocket with .*/elsewhere: it answered .*404"
    ):
        connect(f"ws://{broker.host}:{broker.port}/elsewhere")


def test_broker_s_silence_instead_of_a_websocket_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UnreachableError, match="no WebSocket with"):
            connect(f"ws://127.0.0.1:{port}", timeout_s=0.05)
