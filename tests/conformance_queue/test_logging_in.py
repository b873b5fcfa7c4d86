"""Logging in: who may ask, what a wrong login does, what strangers get."""

import pytest

from penstock.testing import Broker
from penstock.wire.queue.server import STRANGER_BYTES_MAX
from tests.access import LOGIN_REQUIRED, PRESENTED, SECRET, add_with
from tests.conformance_queue.wire_client import request

ANN = {"user": "ann", "secret": SECRET.encode()}
WRONG = {"user": "ann", "secret": b"wrong"}


@pytest.fixture(scope="module")
def broker():
    """A broker with users, whose clients must log in."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        own.add_user("ann", SECRET, rules=["allow publish,read,work jobs/#"])
        yield own


@pytest.fixture(autouse=True)
def _forgiven(broker):
    """Wrong logins of earlier tests are long ago: they would slow down those of the next one."""
    broker.clock.advance(3_600)


@pytest.mark.parametrize(
    "asked",
    [
        {"produce": {"topic": "jobs/1", "payload": b"x"}},
        {"produce": {"topic": "jobs/1", "delay_ms": 1}},
        {"poll": {"topic": "jobs/1", "group": "g"}},
        {"ack": {"topic": "jobs/1", "group": "g", "lease_id": 1}},
        {"nack": {"topic": "jobs/1", "group": "g", "lease_id": 1}},
        {"stats": {}},
        {"list_keys": {}},
        {"bootstrap": {}},
        {"ping": {}},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_a_stranger_is_told_to_log_in(client, asked):
    assert client.refusal(**asked) == "unauthenticated"


def test_every_request_of_a_run_of_a_stranger_is_refused_with_its_id(client):
    produce = {"topic": "jobs/1", "payload": b"x"}
    client.send(*(request(number, produce=produce) for number in range(1, 6)))
    answers = client.receive_many(5)
    assert [(each.request_id, each.error.code) for each in answers] == [
        (number, "unauthenticated") for number in range(1, 6)
    ]


def test_a_user_logs_in_with_its_secret(client):
    client.ok(authenticate=ANN)
    client.produce("jobs/1", b"x")
    assert client.poll("jobs/1")


def test_what_is_sent_behind_a_login_waits_for_it(client):
    client.send(
        request(authenticate=ANN),
        request(produce={"topic": "jobs/2", "payload": b"x"}),
        request(fetch={"topic": "jobs/2"}),
    )
    ok, produced, fetched = client.receive_many(3)
    assert ok.HasField("ok")
    assert produced.HasField("produced")
    assert fetched.fetched.end_offset == 1


@pytest.mark.parametrize("kind", PRESENTED)
def test_whatever_the_credentials_requests_behind_them_wait(broker, client, kind):
    """A chosen password is checked in a thread, and nothing runs before that."""
    secret = add_with(broker, kind, "allow publish,read jobs/#")
    shown = {"token": secret} if kind == "token" else {"user": kind, "secret": secret.encode()}
    client.send(
        request(authenticate=shown),
        request(produce={"topic": "jobs/kinds", "payload": b"x"}),
        request(produce={"topic": "other", "payload": b"x"}),
    )
    ok, produced, denied = client.receive_many(3)
    assert ok.HasField("ok")
    assert produced.HasField("produced")
    assert denied.error.code == "not_authorized"


def test_nothing_runs_behind_a_wrong_login(client):
    """Not even if an earlier login succeeded: the requests meant another user."""
    client.ok(authenticate=ANN)
    produce = request(produce={"topic": "jobs/3", "payload": b"x"})
    client.send(request(authenticate=WRONG), produce, request(authenticate=ANN))
    wrong, refused, right = client.receive_many(3)
    assert wrong.error.code == refused.error.code == "unauthenticated"
    assert right.HasField("ok")
    assert not client.ask(list_topics={"name": "jobs/3"}).topics.topics


@pytest.mark.parametrize("wrong", [WRONG, {"user": "nobody", "secret": b"x"}, {}, {"token": "x"}])
def test_all_wrong_logins_are_answered_alike(client, dial, wrong):
    expected = dial().ask(authenticate=WRONG)
    assert client.ask(authenticate=wrong) == expected


def test_the_third_wrong_login_ends_the_connection(client):
    produce = request(produce={"topic": "jobs/4", "payload": b"x"})
    client.send(*[request(authenticate=WRONG)] * 3, request(authenticate=ANN), produce)
    assert [each.error.code for each in client.receive_many(3)] == ["unauthenticated"] * 3
    client.expect_close()


def test_a_success_forgives_wrong_logins(client):
    for _ in range(4):
        assert client.refusal(authenticate=WRONG) == "unauthenticated"
        client.ok(authenticate=ANN)
    client.ok(ping={})


def test_an_unknown_mechanism_is_refused(client):
    assert client.refusal(authenticate={"mechanism": "PLAIN", "data": b"x"}) == "bad_request"


def test_little_is_kept_for_a_stranger(client):
    large = request(produce={"topic": "jobs/5", "payload": bytes(STRANGER_BYTES_MAX)})
    client.send(large)
    assert client.receive().error.code == "payload_too_large"
    client.ok(authenticate=ANN)
    client.send(large)
    assert client.receive().HasField("produced")


def test_a_stranger_who_goes_on_asking_is_closed(client):
    client.send(*[request(ping={})] * 100)
    assert {each.error.code for each in client.receive_many(64)} == {"unauthenticated"}
    client.expect_close()


def test_a_stranger_has_as_long_as_a_client_that_says_nothing(broker, client):
    assert client.refusal(ping={}) == "unauthenticated"
    broker.clock.advance(11)
    client.expect_close()


def test_every_login_is_welcome_where_there_are_no_users(own_broker, dial):
    """As for MQTT clients: a client with a password may come before there are users."""
    client = dial(at=own_broker())
    client.ok(authenticate=ANN)
    client.produce("jobs/1", b"x")
