"""The binary client's conversation: with a scripted broker, and with one behind a bad network."""

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.binary.ack_tracker import CONFIRM_EVERY
from penstock.client.binary.session import BinarySession, Lost
from penstock.client.binary.signing import SigningKey
from penstock.client.errors import BrokerProtocolError, ClientError, RefusedError, TakenOverError
from penstock.errors import LocalProtocolError
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Remedy
from penstock.wire.binary.events import (
    BinaryAcks,
    BinaryHello,
    BinaryPublishRun,
    BinarySubscribe,
    Ping,
    SignedPublish,
)
from penstock.wire.binary.fields import HelloFields, WelcomeFields
from penstock.wire.binary.server import BinaryServerMachine

REFUSED = b"refused"


def heard(session):
    """What a broker makes of what the session has to say now."""
    return BinaryServerMachine().receive(session.data_to_send())


def opened(client_id="c"):
    session = BinarySession(client_id)
    session.connected()
    return session


# ── Replies


def test_replies_answer_requests_in_their_order():
    session = opened()
    requests = [session.publish("t", b"%d" % number) for number in range(4)]
    barrier = session.barrier()
    session.data_to_send()
    session.receive(encode.acks([1, 2]) + encode.error("no") + encode.ack(4) + encode.pongs(1))
    assert all(request.is_done for request in [*requests, barrier])
    assert [str(request.refusal) for request in requests] == [
        "None",
        "None",
        "the broker refused: no",
        "None",
    ]
    assert (session.unanswered, session.unanswered_bytes) == (0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        encode.ack(7),  # of another request
        encode.pongs(1),
        encode.acks([1, 2]),  # one too many
        b"HTTP/1.1 400 Bad Request\r\n",
        encode.frame(0x01, 1, b"t"),  # a command that only clients send
    ],
)
def test_an_answer_that_no_broker_would_give_is_an_error(answer):
    session = opened()
    session.publish("t", b"")
    session.data_to_send()
    with pytest.raises(BrokerProtocolError, match="not in the binary protocol"):
        session.receive(answer)


def test_an_ack_does_not_answer_a_ping():
    session = opened()
    session.barrier()
    session.data_to_send()
    with pytest.raises(BrokerProtocolError, match="out of turn"):
        session.receive(encode.ack(1))


def test_a_loss_is_told_and_answers_nothing():
    session = opened()
    barrier = session.barrier()
    session.data_to_send()
    notice = encode.error("25 messages of 'it's here' were removed by retention unread")
    assert session.receive(notice) == [Lost("it's here", 25)]
    assert not barrier.is_done


def test_a_farewell_is_remembered_until_the_next_connection_and_answers_nothing():
    session = opened()
    request = session.publish("t", b"")
    session.data_to_send()
    session.receive(encode.error("The broker is stopping"))
    assert (request.is_done, session.farewell) == (False, "The broker is stopping")
    session.connected()
    assert session.farewell == ""


@pytest.mark.parametrize("code", [code for code in ErrorCode if not code.is_answer])
def test_an_error_that_answers_no_request_refuses_none(code):
    """Of all errors that the broker can send; the texts have places, which are filled."""
    session = opened("meter-1")
    request = session.publish("t", b"")
    session.data_to_send()
    text = re.sub(r"\{\w+\}", "7", code.text)
    with contextlib.nullcontext() if not ends_session(code) else pytest.raises(ClientError):
        session.receive(encode.error(text))
    assert not request.is_done
    assert session.farewell == (text if code.remedy is Remedy.RECONNECT else "")


def ends_session(code):
    return code.remedy is Remedy.STOP or code is ErrorCode.WITHDRAWN


@pytest.mark.parametrize("code", [code for code in ErrorCode if code.is_answer])
def test_every_answer_refuses_the_oldest_request(code):
    session = opened("meter-1")
    requests = [session.publish("t", b""), session.publish("t", b"")]
    session.data_to_send()
    session.receive(encode.error(re.sub(r"\{\w+\}", "7", code.text)))
    assert [request.is_done for request in requests] == [True, False]
    assert isinstance(requests[0].refusal, RefusedError)


def test_a_taken_over_client_id_ends_the_session():
    session = opened("meter-1")
    with pytest.raises(TakenOverError, match="client id meter-1"):
        session.receive(encode.error("Another connection uses this client id"))


def test_a_subscription_granted_once_and_refused_later_ends_the_session():
    session = opened()
    request = session.subscribe("t")
    session.data_to_send()
    session.receive(encode.ack(1))
    assert request.is_done
    session.connected()
    session.data_to_send()
    with pytest.raises(RefusedError, match="choose another topic"):
        session.receive(encode.error("Cannot subscribe to 't': 9 subscriptions"))


def test_what_no_broker_would_take_is_refused_before_it_is_sent():
    session = opened()
    with pytest.raises(LocalProtocolError, match="1025 bytes"):
        session.publish("t" * 1_025, b"")
    with pytest.raises(LocalProtocolError, match="client id"):
        session.subscribe("t" * 1_024)
    assert "the limit of 16777216" in str(session.try_publish("t", bytes(16 << 20)).refusal)
    assert session.data_to_send() == b""
    assert session.publish("t", b"").sequence == 1


def test_payload_that_is_text_is_refused_and_takes_no_number():
    session = opened()
    for publish in (session.publish, session.try_publish):
        with pytest.raises(TypeError, match="payload must be bytes, not str"):
            publish("t", "text")
    assert session.publish("t", b"").sequence == 1


# ── The next connection


def test_a_new_connection_resumes_then_acknowledges_then_repeats_what_was_not_answered():
    session = opened()
    for topic in ("a", "b"):
        session.subscribe(topic)
    session.publish("t", b"answered")
    session.publish("t", b"lost")
    session.data_to_send()
    session.receive(encode.message(b"a", b"", 9) + encode.acks([1, 2, 3]))
    session.acks.handled(9)
    session.publish("t", b"never sent")
    session.connected()
    events = heard(session)
    assert [type(event) for event in events] == [
        BinarySubscribe,
        BinarySubscribe,
        BinaryAcks,
        BinaryPublishRun,
    ]
    assert [(event.client_id, event.topic) for event in events[:2]] == [(b"c", b"a"), (b"c", b"b")]
    assert events[0].accepts_version_2
    assert events[2].sequences == [9]
    assert events[3].payloads == [b"lost", b"never sent"]


def test_a_subscription_that_waits_for_its_connection_is_sent_once():
    session = BinarySession("c")
    session.subscribe("t")
    session.follow("u")
    session.connected()
    assert [event.topic for event in heard(session)] == [b"t", b"u"]


def test_unsubscribe_is_done_by_the_end_of_the_connection():
    session = opened()
    session.subscribe("t")
    request = session.unsubscribe("t")
    session.connected()
    assert request.is_done
    assert heard(session) == []


def test_acknowledgements_are_sent_again_until_a_pong_confirms_them():
    session = opened()
    session.acks.handled(5)
    assert heard(session) == [BinaryAcks([5])]
    session.connected()
    session.barrier()
    assert heard(session) == [BinaryAcks([5]), Ping(1)]
    session.acks.handled(6)
    session.data_to_send()
    session.receive(encode.pongs(1))  # of the PING before 6 was acknowledged
    session.connected()
    assert heard(session) == [BinaryAcks([6])]


def test_a_repetition_is_not_given_out_and_acknowledged_again_if_it_was_handled():
    session = opened()
    message = encode.message(b"t", b"", 5)
    assert len(session.receive(message + message)) == 1
    session.connected()
    assert session.receive(message) == []
    assert heard(session) == []  # still in flight
    session.acks.handled(5)
    assert heard(session) == [BinaryAcks([5])]
    assert session.receive(message) == []
    assert heard(session) == [BinaryAcks([5])]


def test_messages_that_the_journal_does_not_keep_are_never_repetitions_nor_acknowledged():
    session = opened()
    message = encode.message(b"t", b"", 0)
    assert len(session.receive(message + message)) == 2
    session.acks.handled(0)
    assert session.data_to_send() == b""


def test_many_acknowledgements_ask_for_confirmation_by_themselves_once():
    session = opened()
    for sequence in range(1, CONFIRM_EVERY + 2):
        session.acks.handled(sequence)
    assert [type(event) for event in heard(session)] == [BinaryAcks, Ping]
    session.acks.handled(CONFIRM_EVERY + 2)
    assert heard(session) == [BinaryAcks([CONFIRM_EVERY + 2])]
    session.receive(encode.pongs(1))
    session.connected()
    assert heard(session) == [BinaryAcks([CONFIRM_EVERY + 2])]


def test_a_publish_that_is_repeated_is_signed_anew():
    session = BinarySession(sign=SigningKey(7, bytes(32)).sign)
    session.connected()
    session.publish("t", b"x")
    (first,) = heard(session)
    session.connected()
    (second,) = heard(session)
    assert isinstance(second, SignedPublish)
    assert first.signature.nonce != second.signature.nonce
    assert (first.payload, first.sequence) == (second.payload, second.sequence)


# ── HELLO


def greeted(*answer, client_id="c"):
    session = BinarySession(client_id, hello=HelloFields(3, epoch=bytes(8)))
    session.connected()
    request = session.publish("t", b"x")
    session.data_to_send()
    session.receive(b"".join(answer))
    return session, request


def test_hello_goes_first_and_nothing_waits_for_its_answer():
    session = BinarySession("c", hello=HelloFields(3, epoch=bytes(8)))
    session.follow("t")
    session.connected()
    session.publish("t", b"x")
    assert [type(event) for event in heard(session)] == [
        BinaryHello,
        BinarySubscribe,
        BinaryPublishRun,
    ]
    assert session.granted == WelcomeFields()


def test_what_a_broker_grants_counts_for_its_connection():
    session, request = greeted(encode.welcome(0, WelcomeFields(3, 100, 90, 5)), encode.ack(1))
    assert (request.is_done, session.granted.features) == (True, 3)
    session.connected()
    assert session.granted == WelcomeFields()


@pytest.mark.parametrize("text", ["Unknown command", "Client id refused: not yours"])
def test_a_broker_that_grants_nothing_is_one_of_version_1(text):
    session, request = greeted(encode.error(text), encode.ack(1))
    assert (request.is_done, request.refusal, session.granted) == (True, None, WelcomeFields())


def test_a_coded_refusal_has_its_code():
    welcome = encode.welcome(0, WelcomeFields(1))
    _, request = greeted(welcome, encode.coded_error("not_authorized", 1, "no"))
    assert request.refusal.code == "not_authorized"


@pytest.mark.parametrize("sequence", [0, 1])
def test_a_code_of_a_newer_broker_is_an_answer_if_it_names_a_request(sequence):
    welcome = encode.welcome(0, WelcomeFields(1))
    session, request = greeted(welcome, encode.coded_error("out_of_coffee", sequence, "no coffee"))
    assert request.is_done == bool(sequence)
    assert session.farewell == ("" if sequence else "no coffee")


def test_a_welcome_that_was_not_asked_for_is_an_error():
    session = opened()
    with pytest.raises(BrokerProtocolError, match="WELCOME"):
        session.receive(encode.welcome(0, WelcomeFields()))


def test_a_signed_message_cannot_be_retained():
    session = BinarySession(sign=SigningKey(7, bytes(32)).sign)
    with pytest.raises(LocalProtocolError, match="retained"):
        session.publish("t", b"", retain=True)


# ── A bad network


class Disk:
    """What a broker keeps over everything: messages of one topic, and what was acknowledged."""

    def __init__(self):
        self.messages = []
        self.acknowledged = set()
        self.numbers = set()


class BrokerModel:
    """One connection of a broker that does what the protocol says, at once.

    ``version`` 1 knows no HELLO; 2 stores numbered publishes once.
    """

    def __init__(self, disk, version):
        self._disk = disk
        self._version = version
        self._producer = None
        self._machine = BinaryServerMachine()
        self._is_subscribed = False

    def receive(self, data):
        return b"".join(self._answer(event) for event in self._machine.receive(data))

    def _answer(self, event):
        match event:
            case BinaryHello(sequence) if self._version == 1:
                return encode.error("Unknown command")
            case BinaryHello(sequence, client_id, fields):
                self._producer = client_id, fields.epoch
                return encode.welcome(sequence, WelcomeFields(fields.features))
            case BinaryPublishRun(topic, payloads, sequences):
                return b"".join(map(self._publish, [topic] * len(payloads), payloads, sequences))
            case BinarySubscribe(sequence):
                self._is_subscribed = True
                missing = enumerate(self._disk.messages, 1)
                unacked = [(n, p) for n, p in missing if n not in self._disk.acknowledged]
                history = b"".join(encode.message(b"t", p, n) for n, p in unacked)
                return history + encode.ack(sequence)
            case BinaryAcks(sequences):
                self._disk.acknowledged.update(sequences)
                return b""
            case Ping(count):
                return encode.pongs(count)
        raise AssertionError(event)

    def _publish(self, topic, payload, sequence):
        if topic == REFUSED:
            coded = encode.coded_error("not_authorized", sequence, "no")
            return coded if self._producer else encode.error("no")
        if self._producer:
            number = (*self._producer, sequence)
            if number in self._disk.numbers:
                return encode.ack(sequence)
            self._disk.numbers.add(number)
        self._disk.messages.append(payload)
        live = encode.message(b"t", payload, len(self._disk.messages))
        return (live if self._is_subscribed else b"") + encode.ack(sequence)


class Cable:
    """Both directions of a connection; what is in it when it is cut is gone."""

    def __init__(self, session, disk, version=1):
        self.session = session
        self.version = version
        self.disk = disk
        self.given = []
        self.reconnect()

    def reconnect(self):
        self.session.connected()
        self.broker = BrokerModel(self.disk, self.version)
        self.upward = bytearray()
        self.downward = bytearray()

    def up(self, share):
        self.upward += self.session.data_to_send()
        size = int(len(self.upward) * share)
        self.downward += self.broker.receive(bytes(self.upward[:size]))
        del self.upward[:size]

    def down(self, share):
        size = int(len(self.downward) * share)
        events = self.session.receive(bytes(self.downward[:size]))
        del self.downward[:size]
        self.given += [event.sequence for event in events]

    def settle(self):
        """Let a quiet network bring everything home."""
        barrier = self.session.barrier()
        while not barrier.is_done:
            self.up(1)
            self.down(1)


shares = st.sampled_from([0.3, 0.7, 1.0])
steps = st.one_of(
    st.tuples(st.just("publish"), st.booleans()),
    st.tuples(st.just("up"), shares),
    st.tuples(st.just("down"), shares),
    st.tuples(st.just("handle"), st.integers(0, 5)),
    st.tuples(st.just("cut"), st.none()),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=60), st.sampled_from([None, 1, 2]))
def test_over_a_bad_network_each_message_is_given_out_once_and_each_request_gets_its_own_answer(
    script, version
):
    """Of brokers of version 1, with and without a HELLO; with one of version 2 it is stored once."""
    hello = HelloFields(3, epoch=bytes(8)) if version else None
    cable = Cable(BinarySession("c", hello=hello), Disk(), version or 1)
    cable.session.follow("t")
    requests, handled = [], 0
    for step, argument in script:
        match step:
            case "publish":
                topic = REFUSED.decode() if argument else "t"
                payload = b"%d" % len(requests)
                requests.append((topic, payload, cable.session.publish(topic, payload)))
            case "up":
                cable.up(argument)
            case "down":
                cable.down(argument)
            case "handle":
                for sequence in cable.given[handled : handled + argument]:
                    cable.session.acks.handled(sequence)
                handled = min(handled + argument, len(cable.given))
            case "cut":
                cable.reconnect()
    cable.reconnect()
    cable.settle()
    for sequence in cable.given[handled:]:
        cable.session.acks.handled(sequence)
    cable.settle()
    stored = range(1, len(cable.disk.messages) + 1)
    assert sorted(cable.given) == list(stored), "each message once, none left out"
    assert cable.disk.acknowledged == set(stored)
    for topic, payload, request in requests:
        assert request.is_done
        assert (request.refusal is None) == (topic == "t")
        assert (payload in cable.disk.messages) == (topic == "t")
    firsts = list(dict.fromkeys(cable.disk.messages))
    assert version != 2 or firsts == cable.disk.messages, "stored once"
    assert firsts == [payload for topic, payload, _ in requests if topic == "t"], "in their order"
