"""What Redis clients, queue clients and HTTP callers do to topics and groups, in the audit log."""

import json
import urllib.request
from base64 import b64encode

import pytest
from tests.access import SECRET
from tests.conformance_queue.wire_client import QueueClient
from tests.conformance_resp.wire import ask

from penstock.access.audit import broken_links, latest
from penstock.access.client_changes import DISTINCT_MAX
from penstock.testing import Broker

RULES = ("allow publish,subscribe,read,work,manage #",)


@pytest.fixture
def broker():
    with Broker() as own:
        own.add_user("root", SECRET, roles=("admin",))
        own.add_user("ann", SECRET, rules=RULES)
        yield own


def tell(broker, *commands):
    answer = ask(broker.port, f"AUTH ann {SECRET}", *commands)
    assert b"\r\n-" not in answer, answer


def queue(broker):
    client = QueueClient(broker.host, broker.port)
    client.ok(authenticate={"user": "ann", "secret": SECRET.encode()})
    return client


def records(broker):
    broker._run(broker.server.parts.pipeline.drain)
    found = latest(broker.server.parts.store, 1_000)
    assert broken_links(found) == []
    return [one.record for one in found]


def told(broker):
    """What the records say: action, names and note."""
    return [(one.action, [row["name"] for row in one.changes], one.note) for one in records(broker)]


def test_what_a_redis_client_deletes_trims_and_configures_is_recorded(broker):
    tell(broker, *["XADD s * a b"] * 3, "XGROUP CREATE s g 0")
    assert told(broker) == []  # streams and groups come into being by use
    tell(broker, "XTRIM s MAXLEN 1", "EXPIRE s 100", "XGROUP SETID s g 0", "PERSIST s")
    tell(broker, "XGROUP DESTROY s g", "DEL s", "DEL s", "XTRIM s MAXLEN 0")
    assert told(broker) == [
        ("topic", ["s"], "trimmed"),
        ("topic", ["s"], "configured"),
        ("group", ["g"], "moved"),
        ("group", ["g"], "deleted"),
        ("topic", ["s"], "deleted"),
    ]
    first = records(broker)[0]
    assert (first.user, first.door, first.address[:10]) == ("ann", "redis", "127.0.0.1:")


def test_what_a_queue_client_deletes_moves_and_configures_is_recorded(broker):
    with queue(broker) as client:
        client.produce("jobs", b"1")
        client.ok(create_topic={"topic": "jobs"})
        client.ok(create_group={"topic": "jobs", "group": "g"})
        assert told(broker) == []
        client.ok(set_retention={"topic": "jobs", "max_messages": 10})
        client.ok(configure_group={"topic": "jobs", "group": "g", "max_deliveries": 5})
        client.ok(create_group={"topic": "jobs", "group": "g", "seek": True})
        client.ok(delete_group={"topic": "jobs", "group": "g"})
        client.ok(delete_group={"topic": "jobs", "group": "g"})
        client.ok(delete_topic={"topic": "jobs"})
        client.ok(delete_topic={"topic": "jobs"})
    assert told(broker) == [
        ("topic", ["jobs"], "configured"),
        ("group", ["g"], "configured"),
        ("group", ["g"], "moved"),
        ("group", ["g"], "deleted"),
        ("topic", ["jobs"], "deleted"),
    ]
    assert records(broker)[0].changes[0]["after"]["max_messages"] == 10


def test_a_change_and_its_record_are_one_commit(broker):
    tell(broker, "XADD s * a b", "XADD s * a b")
    tell(broker, "EXPIRE other 1")  # nothing: there is no such topic
    before = broker.server.parts.store.next_index
    tell(broker, "XTRIM s MAXLEN 1")
    assert broker.server.parts.store.next_index == before + 1
    assert told(broker) == [("topic", ["s"], "trimmed")]


def test_repetitions_are_counted_and_told_after_a_minute(broker):
    for _ in range(5):
        tell(broker, "XADD s * a b", "XTRIM s MAXLEN 0")
    assert told(broker) == [("topic", ["s"], "trimmed")]
    broker.clock.advance(61)
    found = records(broker)
    assert [(one.count, one.note) for one in found] == [(0, "trimmed"), (4, "trimmed, again")]
    tell(broker, "XADD s * a b", "XTRIM s MAXLEN 0")
    assert told(broker)[-1] == ("topic", ["s"], "trimmed")


def test_a_user_cannot_fill_the_log(broker):
    numbers = range(DISTINCT_MAX + 30)
    tell(broker, *(f"XADD s{number} * a b" for number in numbers))
    tell(broker, *(f"DEL s{number}" for number in numbers))
    assert len(records(broker)) == DISTINCT_MAX
    broker.clock.advance(61)
    *_, last = records(broker)
    assert (last.user, last.count, last.note) == ("ann", 30, "others, again")


def test_nothing_of_clients_is_recorded_without_users():
    with Broker() as broker:
        ask(broker.port, "XADD s * a b", "XTRIM s MAXLEN 0", "DEL s")
        assert records(broker) == []


def test_changes_of_groups_by_http_are_recorded(broker):
    with queue(broker) as client:
        client.produce("jobs", b"1")
        client.ok(create_group={"topic": "jobs", "group": "g"})
    page = f"http://127.0.0.1:{broker.port}/groups"
    body = json.dumps({"topic": "jobs", "group": "g", "max_deliveries": 3}).encode()
    login = {"authorization": "Basic " + b64encode(f"root:{SECRET}".encode()).decode()}
    for asked in (
        urllib.request.Request(page, body, login, method="PUT"),
        urllib.request.Request(f"{page}?topic=jobs&group=g", None, login, method="DELETE"),
    ):
        with urllib.request.urlopen(asked, timeout=20):
            pass
    assert [one[1:] for one in told(broker)] == [(["g"], "configured"), (["g"], "deleted")]
