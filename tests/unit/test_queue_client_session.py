"""The conversation of the queue client, without a socket and without a clock."""

import pytest

from penstock.client import (
    BrokerProtocolError,
    ConnectionLostError,
    NotLeaderError,
    RateLimitedError,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.client.errors import NoQuorumError, QueueRefusedError, RefusedError, queue_refused
from penstock.client.queue import requests
from penstock.client.queue.session import QueueSession
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2 as wire
from penstock.wire.queue.events import ProduceRun, QueueRequest
from penstock.wire.queue.server import QueueServerMachine

TIMEOUT_S = 10.0


@pytest.fixture
def session():
    made = QueueSession(TIMEOUT_S)
    made.connected(0.0)
    return made


def produce(session, payload=b"", now=0.0):
    call = requests.produce("t", payload, "p", 0)
    session.ask(call, now)
    return call


def poll(session, now=0.0, wait_s=0.0, **settings):
    call = requests.poll("t", "g", wait_s, **settings)
    session.ask(call, now)
    return call


def sent(session, now=0.0):
    """What the session sends: payloads of produces, kinds of others."""
    found = []
    for event in QueueServerMachine().receive(session.data_to_send(now)):
        match event:
            case ProduceRun(payloads=payloads):
                found += payloads
            case QueueRequest(kind=kind):
                found.append(kind)
    return found


def error(call, code, **fields):
    return encode.error(code, "said the broker", request_id=call.number, **fields)


# ── Who is answered ───────────────────────────────────────────────────────────────────────────


def test_answers_find_their_calls_in_any_order(session):
    first, second = produce(session), produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(7, second.number), 1.0)
    assert (first.is_done, second.result()) == (False, 7)
    session.receive(encode.produced(6, first.number), 1.0)
    assert first.result() == 6
    assert session.is_idle


def test_answers_without_a_number_are_for_the_oldest_call(session):
    first, second = produce(session), produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(1) + encode.produced(2), 1.0)
    assert (first.result(), second.result()) == (1, 2)


def test_a_call_that_was_given_up_keeps_its_place_in_the_line(session):
    late = produce(session, now=0.0)
    session.data_to_send(0.0)
    other = produce(session, now=5.0)
    session.data_to_send(5.0)
    session.receive(b"", 9.9)
    session.tick(TIMEOUT_S)
    assert late.is_done
    session.receive(encode.produced(1) + encode.produced(2), 11.0)
    assert other.result() == 2
    with pytest.raises(ReplyTimeoutError):
        late.result()


def test_an_answer_to_a_call_of_long_ago_is_passed_over(session):
    session.receive(encode.produced(1, 99), 1.0)


def test_an_answer_to_nothing_is_not_from_a_broker(session):
    with pytest.raises(BrokerProtocolError):
        session.receive(encode.produced(1), 1.0)


def test_what_is_no_response_is_not_from_a_broker(session):
    with pytest.raises(BrokerProtocolError):
        session.receive(b"\x00\x00\x00\x02\xff\xff", 1.0)


def test_whoever_waits_is_told_once(session):
    told = []
    call = produce(session)
    call.when_done = lambda: told.append(call.result())
    session.data_to_send(0.0)
    session.receive(encode.produced(3, call.number), 1.0)
    session.receive(encode.produced(4, call.number), 1.0)
    assert told == [3]


# ── Over a lost connection ────────────────────────────────────────────────────────────────────


def lost():
    return ConnectionLostError("gone")


def test_what_was_not_answered_is_sent_again_first_and_in_order(session):
    for payload in (b"a", b"b"):
        produce(session, payload)
    assert sent(session) == [b"a", b"b"]
    produce(session, b"c")
    session.disconnected(lost())
    session.connected(1.0)
    assert sent(session) == [b"a", b"b", b"c"]


def test_what_was_answered_is_not_sent_again(session):
    done = produce(session, b"a")
    produce(session, b"b")
    session.data_to_send(0.0)
    session.receive(encode.produced(0, done.number), 0.5)
    session.disconnected(lost())
    assert sent(session) == [b"b"]


def test_what_must_not_be_done_twice_fails_once_it_was_sent(session):
    asked = poll(session, ack_mode="auto")
    session.data_to_send(0.0)
    unsent = poll(session, ack_mode="auto")
    session.disconnected(lost())
    assert sent(session) == ["poll"]
    assert not unsent.is_done
    with pytest.raises(ConnectionLostError, match="more than once"):
        asked.result()


@pytest.mark.parametrize(
    ("call", "repeats"),
    [
        (requests.produce("t", b"", "p", 0), True),
        (requests.produce_many("t", [b""], "p", 0), True),
        (requests.poll("t", "g", 0.0), True),
        (requests.poll("t", "g", 0.0, ack_mode="auto"), False),
        (requests.ack_many("t", "g", [1]), True),
        (requests.redrive("t", "g", 0), True),
        (requests.redrive("t", "g", 5), False),
    ],
)
def test_what_is_as_good_done_twice_repeats(call, repeats):
    assert call.repeats is repeats


def test_half_an_answer_does_not_reach_into_the_next_connection(session):
    call = produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(300, call.number)[:5], 0.5)
    session.disconnected(lost())
    session.connected(1.0)
    session.data_to_send(1.0)
    session.receive(encode.produced(300, call.number), 2.0)
    assert call.result() == 300


# ── Leaders ───────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_does_not_lead_is_left_and_the_call_goes_on(session):
    first, second = produce(session, b"a"), produce(session, b"b")
    session.data_to_send(0.0)
    answers = error(first, "not_leader", leader_addr="x:1") + encode.produced(4, second.number)
    with pytest.raises(NotLeaderError) as met:
        session.receive(answers, 1.0)
    assert met.value.leader_addr == "x:1"
    assert second.result() == 4, "what came behind it is taken too"
    session.disconnected(met.value)
    session.connected(1.0)
    assert sent(session) == [b"a"]


def test_even_what_does_not_repeat_is_asked_of_the_leader(session):
    call = poll(session, ack_mode="auto")
    session.data_to_send(0.0)
    with pytest.raises(NotLeaderError) as met:
        session.receive(error(call, "not_leader"), 1.0)
    session.disconnected(met.value)
    assert sent(session) == ["poll"]


def test_without_a_quorum_what_repeats_is_asked_again_and_the_rest_is_told(session):
    again, once = produce(session, b"a"), poll(session, ack_mode="auto")
    session.data_to_send(0.0)
    with pytest.raises(NoQuorumError) as met:
        session.receive(error(again, "no_quorum") + error(once, "no_quorum"), 1.0)
    with pytest.raises(NoQuorumError, match="penstock cluster status"):
        once.result()
    session.disconnected(met.value)
    assert sent(session) == [b"a"]


# ── Time ──────────────────────────────────────────────────────────────────────────────────────


def test_a_call_fails_with_the_last_trouble_when_its_time_is_over(session):
    call = produce(session, now=0.0)
    session.disconnected(lost())
    session.disconnected(UnreachableError("nobody there"))
    session.tick(TIMEOUT_S - 0.1)
    assert not call.is_done
    session.tick(TIMEOUT_S)
    with pytest.raises(UnreachableError):
        call.result()
    assert session.is_idle


def test_trouble_is_forgotten_once_the_broker_has_answered(session):
    session.disconnected(lost())
    session.connected(0.0)
    answered, call = produce(session), produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(1, answered.number), 1.0)
    session.tick(TIMEOUT_S)
    with pytest.raises(ReplyTimeoutError):
        call.result()


def test_each_caller_gets_an_exception_of_its_own(session):
    first, second = produce(session), produce(session)
    session.disconnected(lost())
    session.tick(TIMEOUT_S)
    assert first.error is not second.error


def test_a_connection_is_dead_when_an_answer_is_overdue_and_nothing_is_heard(session):
    produce(session)
    session.data_to_send(0.0)
    assert session.tick(4.9) is False
    assert session.tick(5.0) is True


def test_a_connection_on_which_others_are_answered_is_not_dead(session):
    produce(session)
    other = produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(1, other.number), 3.0)
    assert session.tick(7.9) is False
    assert session.tick(8.0) is True


def test_a_poll_that_waits_is_no_sign_of_death(session):
    poll(session, wait_s=60.0)
    session.data_to_send(0.0)
    assert session.tick(64.9) is False
    assert session.tick(65.0) is True


def answered_once(session, now=0.0):
    """A session whose broker is known to answer out of order."""
    call = produce(session, now=now)
    session.data_to_send(now)
    session.receive(encode.produced(0, call.number), now)
    return session


def test_broker_that_is_silent_while_answers_are_due_is_asked_and_left(session):
    answered_once(session)
    poll(session, now=100.0, wait_s=60.0)
    assert sent(session, 100.0) == ["poll"]
    assert session.tick(100.9) is False
    assert not session.has_ping
    assert session.tick(101.0) is False
    assert sent(session, 101.0) == ["ping"]
    assert session.tick(103.9) is False
    assert session.tick(104.1) is True, "long before the poll is over"


def test_answer_to_a_ping_is_a_sign_of_life_and_nothing_else(session):
    answered_once(session)
    call = poll(session, now=100.0, wait_s=60.0)
    session.data_to_send(100.0)
    session.tick(101.0)
    (ping,) = QueueServerMachine().receive(session.data_to_send(101.0))
    session.receive(encode.ok_run(1, [ping.request_id]), 101.5)
    assert not call.is_done
    assert session.tick(102.4) is False
    assert not session.has_ping
    session.tick(102.5)
    assert session.has_ping


def test_large_request_on_a_slow_line_gets_its_time():
    session = answered_once(QueueSession(1_000.0))
    produce(session, bytes(1 << 20), now=100.0)
    session.data_to_send(100.0)
    session.tick(101.0)
    assert session.tick(104.0 + 7.9) is False
    assert session.tick(104.0 + 8.1) is True


def test_broker_that_answers_in_order_is_not_judged_by_a_ping_behind_a_poll(session):
    call = produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(0), 0.0)
    assert call.is_done
    poll(session, now=1.0, wait_s=60.0)
    session.data_to_send(1.0)
    assert session.tick(30.0) is False
    assert not session.has_ping


def test_ping_of_a_lost_connection_is_not_sent_on_the_next(session):
    answered_once(session)
    produce(session, b"again", now=100.0)
    session.data_to_send(100.0)
    session.tick(101.0)
    session.disconnected(lost())
    session.connected(102.0)
    assert sent(session, 102.0) == [b"again"]


def test_a_connection_at_rest_is_not_dead(session):
    call = produce(session)
    session.data_to_send(0.0)
    session.receive(encode.produced(1, call.number), 1.0)
    assert session.tick(1e6) is False


def test_closing_fails_all(session):
    in_flight = produce(session)
    session.data_to_send(0.0)
    waiting = produce(session)
    session.close(lost())
    for call in (in_flight, waiting):
        with pytest.raises(ConnectionLostError):
            call.result()
    assert session.is_idle


# ── Refusals ──────────────────────────────────────────────────────────────────────────────────


def test_a_refusal_is_of_the_class_of_its_code(session):
    call = poll(session)
    session.data_to_send(0.0)
    session.receive(error(call, "rate_limited", retry_after_ms=1500), 1.0)
    with pytest.raises(RateLimitedError) as met:
        call.result()
    assert met.value.retry_after_s == 1.5


@pytest.mark.parametrize(
    "code",
    [
        "bad_request",
        "not_leader",
        "rate_limited",
        "payload_too_large",
        "bootstrap_failed",
        "internal",
    ],
)
def test_every_code_has_a_class(code):
    made = queue_refused(code, "no")
    assert type(made) is not QueueRefusedError
    assert isinstance(made, RefusedError)
    assert made.code == code
    assert code in str(made)


@pytest.mark.parametrize("code", ["not_leader", "rate_limited", "bootstrap_failed", "internal"])
def test_what_the_broker_does_not_say_the_client_advises(code):
    assert queue_refused(code, "no").advice


def test_a_code_of_the_future_is_a_refusal_too():
    made = queue_refused("out_of_tea", "no")
    assert (type(made), made.code) == (QueueRefusedError, "out_of_tea")
    assert "out_of_tea" in str(made)


def test_an_answer_of_no_kind_fails_its_call(session):
    call = produce(session)
    session.data_to_send(0.0)
    session.receive(encode.response(wire.Response(request_id=call.number)), 1.0)
    with pytest.raises(BrokerProtocolError, match="nothing instead of produced"):
        call.result()
