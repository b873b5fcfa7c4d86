"""An invalid argument is reported before any request is sent, by name."""

import re
from datetime import UTC, datetime
from math import inf, nan

import pytest
from tests.unit.queue_client_link import ScriptedLink

from penstock.client import (
    ArgumentError,
    Client,
    Item,
    PayloadTooLargeError,
    connect,
    connect_async,
)
from penstock.client.errors import queue_refused
from penstock.client.queue import requests
from penstock.client.queue.producer import Producer, batches
from penstock.client.queue.session import QueueSession
from penstock.client.sync import run
from penstock.errors import PenstockError


def produce(topic="t", payload=b"", **settings):
    return requests.produce(topic, payload, "me", 0, **settings).request.produce


def produce_many(items, **settings):
    return run(ScriptedLink([]).operations().produce_many("t", items, **settings))


def poll(topic="t", group="g", wait_s=0.0, **settings):
    return requests.poll(topic, group, wait_s, **settings).request.poll


def settle(jobs):
    return run(ScriptedLink([]).operations().ack(jobs))


WRONG_VALUES = [
    (lambda: produce(priority=8), "priority must be from 0 to 7, not 8"),
    (lambda: produce(priority=-1), "priority must be from 0 to 7, not -1"),
    (lambda: produce(content_type="yaml"), "content_type must be one of \"raw\", .*, not 'yaml'"),
    (lambda: produce(delay_s=-1), "delay_s must be 0 seconds or more, not -1"),
    (lambda: produce(delay_s=inf), "delay_s must be 0 seconds or more, not inf"),
    (lambda: produce(delay_s=nan), "delay_s must be 0 seconds or more, not nan"),
    (lambda: produce(ttl_s=-0.5), "ttl_s must be 0 seconds or more, not -0.5"),
    (lambda: produce_many([Item(b"", priority=9)]), "priority must be from 0 to 7, not 9"),
    (lambda: Producer(None).take("", None), "topic must not be empty"),
    (lambda: Producer("me").take("t", -1), f"seq must be from 0 to {2**64 - 1}, not -1"),
    (lambda: Producer(""), "producer_id must not be empty"),
    (lambda: poll(topic=""), "topic must not be empty"),
    (lambda: poll(group=""), "group must not be empty"),
    (lambda: poll(max=0), "max must be from 1 to .*, not 0"),
    (lambda: poll(wait_s=-1), "wait_s must be 0 seconds or more, not -1"),
    (lambda: poll(visibility_s=-1), "visibility_s must be 0 seconds or more, not -1"),
    (lambda: poll(visibility_s=0), "visibility_s must be more than 0 seconds"),
    (lambda: poll(ack_mode="automatic"), 'ack_mode must be one of "manual", "auto"'),
    (lambda: poll(start="newest"), 'start must be one of "earliest", "latest"'),
    (lambda: poll(start=-1), "start must be from 0"),
    (lambda: poll(start=datetime(1960, 1, 1, tzinfo=UTC)), "start must be 0 seconds or more"),
    (lambda: requests.subscribe("t", "g", 0), "concurrency must be from 1"),
    (lambda: requests.subscribe("t", "", 1), "group must not be empty"),
    (lambda: requests.nack_many("t", "g", [1], delay_s=-1), "delay_s must be 0 seconds or more"),
    (lambda: requests.extend("t", "g", [1], -1), "visibility_s must be 0 seconds or more"),
    (lambda: requests.commit("t", "g", -1), "offset must be from 0"),
    (lambda: requests.fetch("t", -1, 0, 1, 1), "offset must be from 0"),
    (lambda: requests.configure_topic("t", rate_per_sec=-1), "rate_per_sec must be a number"),
    (lambda: requests.configure_topic("t", burst=-1), "burst must be from 0"),
    (lambda: requests.configure_topic("t", max_messages=-1), "max_messages must be from 0"),
    (lambda: requests.configure_topic("t", max_age_s=-1), "max_age_s must be 0 seconds or more"),
    (lambda: requests.configure_topic("t", max_bytes=-1), "max_bytes must be from 0"),
    (lambda: requests.set_rate_limit("t", -1, 1), "rate_per_sec must be a number"),
    (lambda: requests.set_retention("t", -1, 0, 0), "max_messages must be from 0"),
    (lambda: requests.configure_group("t", "g", max_deliveries=-1), "max_deliveries must be"),
    (lambda: requests.configure_group("t", "g", backoff_s=-1), "backoff_s must be 0 seconds"),
    (lambda: requests.configure_group("t", "g", backoff_max_s=-1), "backoff_max_s must be"),
    (lambda: requests.configure_group("t", "g", backoff_s=2, backoff_max_s=1), "backoff_max_s is"),
    (lambda: requests.create_group("", "g", "latest"), "topic must not be empty"),
    (lambda: requests.delete_topic(""), "topic must not be empty"),
    (lambda: requests.find_topic(""), "name must not be empty"),
    (lambda: requests.redrive("t", "g", -1), "max must be from 0"),
    (lambda: QueueSession(0), "timeout_s must be more than 0 seconds"),
]

WRONG_TYPES = [
    (lambda: produce_many(["text"]), "payload must be bytes, not str"),
    (lambda: produce_many(b"text"), "items must be a list, .*, not bytes"),
    (lambda: produce_many(7), "items must be a list, .*, not int"),
    (lambda: produce(priority="high"), "priority must be a whole number, not str"),
    (lambda: produce(priority=1.5), "priority must be a whole number, not float"),
    (lambda: produce(delay_s="1"), "delay_s must be 0 seconds or more, not str"),
    (lambda: produce(ttl_s="1"), "ttl_s must be 0 seconds or more, not str"),
    (lambda: produce(headers="a"), "headers must be a dict of text to bytes, .*, not str"),
    (lambda: produce(headers=7), "headers must be a dict of text to bytes, .*, not int"),
    (lambda: produce(headers={"a": "b"}), r"headers must be a dict .*, not \('a', 'b'\)"),
    (lambda: produce(headers={b"a": b"b"}), "headers must be a dict of text to bytes"),
    (lambda: produce(headers=["ab"]), "headers must be a dict .*, not 'ab'"),
    (lambda: Producer(None).take(b"t", None), "topic must be text, not bytes"),
    (lambda: Producer(None).take([], None), "topic must be text, not list"),
    (lambda: Producer(7), "producer_id must be text, not int"),
    (lambda: Producer("me").take("t", "1"), "seq must be a whole number, not str"),
    (lambda: poll(group=None), "group must be text, not NoneType"),
    (lambda: poll(start=None), "start must be a whole number, not NoneType"),
    (lambda: poll(max="all"), "max must be a whole number, not str"),
    (lambda: poll(visibility_s=None), "visibility_s must be 0 seconds or more, not NoneType"),
    (lambda: requests.nack_many("t", "g", [1], reason=b"why"), "reason must be text, not bytes"),
    (lambda: settle(7), "jobs must be a Job, as poll gives them, or several, not int"),
    (lambda: settle([7]), "jobs must be a Job, as poll gives them, or several, not int"),
]


@pytest.mark.parametrize(("act", "text"), WRONG_VALUES)
def test_a_value_that_is_not_allowed_is_named_with_what_is(act, text):
    with pytest.raises(ValueError, match=f"^{text}") as met:
        act()
    assert isinstance(met.value, PenstockError), "the command line shows it as a line"


@pytest.mark.parametrize(("act", "text"), WRONG_TYPES)
def test_an_argument_of_the_wrong_type_is_named_with_what_it_should_be(act, text):
    with pytest.raises(TypeError, match=f"^{text}"):
        act()


def test_no_time_to_live_is_without_limit_and_the_least_is_a_millisecond():
    assert [produce(ttl_s=ttl_s).ttl_ms for ttl_s in (None, 0, 0.0001, 1.5)] == [0, 0, 1, 1500]


def test_what_is_allowed_is_said_as_it_was_given():
    headers = [("a", bytearray(b"1")), ("a", b"2")]
    asked = produce(priority=7, content_type="msgpack", delay_s=2, headers=headers)
    assert (asked.priority, asked.content_type, asked.delay_ms) == (7, 3, 2000)
    assert [(header.name, header.value) for header in asked.headers] == [("a", b"1"), ("a", b"2")]


def test_empty_items_make_no_batch():
    assert list(batches(iter(()), {})) == []


# ── The list of addresses forgotten ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("address", ["127.0.0.1:1883", "localhost:1883", "[::1]:1883"])
def test_an_address_that_is_not_in_a_list_is_told_where_to_go(address):
    with pytest.raises(ArgumentError, match=re.escape(f'connect(["{address}"])')):
        connect(address)
    with pytest.raises(ArgumentError, match=re.escape(f'connect(["{address}"])')):
        connect_async(address)


def test_addresses_in_one_text_are_told_to_be_a_list():
    """A type checker takes what ``connect`` returns for a text for the client of MQTT."""
    with pytest.raises(ArgumentError, match=re.escape('connect(["a:1", "b:1"])')):
        connect("a:1, b:1")


def test_a_host_of_many_colons_is_a_host():
    """An IPv6 address; that there is no listener shows when connecting."""
    with pytest.raises(PenstockError) as met:
        connect("::1", 1, timeout_s=5)
    assert not isinstance(met.value, ArgumentError)


def test_a_client_of_mqtt_says_who_can_produce():
    client = Client.__new__(Client)
    with pytest.raises(AttributeError, match=re.escape('connect(["127.0.0.1:1883"])')):
        client.produce  # noqa: B018 - that it fails is the point
    with pytest.raises(AttributeError, match=r"no attribute 'prodduce'$"):
        client.prodduce  # noqa: B018 - as above


# ── In the broker's words ─────────────────────────────────────────────────────────────────────


def test_only_a_broker_that_does_not_know_a_request_is_called_old():
    old = queue_refused("bad_request", "a request of no known kind")
    topic = queue_refused("bad_request", "topic a/#: wildcard in a topic name")
    assert "older than this client" in str(old)
    assert str(topic) == "the broker refused (bad_request): topic a/#: wildcard in a topic name"


def test_advice_that_the_broker_gives_is_not_given_twice():
    error = queue_refused("payload_too_large", "a payload may have 9 bytes; store it elsewhere")
    assert isinstance(error, PayloadTooLargeError)
    assert str(error).count("elsewhere") == 1
