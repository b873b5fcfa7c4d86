"""Readers and sinks, made by the protocol that Spark speaks."""

import pytest
from tests.api_kit import ApiClient

from penstock.client import Credentials, Subscriber, connect
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import StagedBlock


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


@pytest.fixture
def client(broker):
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        yield client


def done(answer):
    assert answer.status == 200, answer
    return answer.document


def block(*payloads, topic="t"):
    return StagedBlock(lots=[{"topic": topic, "payloads": payloads}]).SerializeToString()


def reader_of(api, **which):
    (found,) = done(api.get("readers", **which))["items"]
    return found


def test_stream_tells_how_many_rows_and_seconds_it_is_behind(broker, api, client):
    client.create_groups("query/1", {"t": 0}, reader=True)
    for number in range(4):
        client.produce("t", b"%d" % number)
        broker.clock.advance(10)
    client.commit("t", "query/1", 1)
    found = reader_of(api)
    assert (found["name"], found["kind"], found["topic"]) == ("query/1", "reader_group", "t")
    assert (found["position"], found["end_offset"], found["lag"]) == (1, 4, 3)
    assert found["lag_s"] == 30.0, "the row at its position is thirty seconds old"
    assert (found["rows_per_s"], found["not_kept"]) == (None, ["committed"])
    broker.clock.advance(2)
    client.commit("t", "query/1", 3)
    found = reader_of(api)
    assert (found["lag"], found["rows_per_s"], found["eta_s"]) == (1, 1.0, 1.0)
    client.commit("t", "query/1", 4)
    assert (reader_of(api)["lag"], reader_of(api)["lag_s"]) == (0, 0.0)


def test_stream_that_stands_still_is_marked(broker, api, client):
    client.create_groups("query/1", {"t": 0}, reader=True)
    client.produce("t", b"x")
    broker.clock.advance(3600)
    (mark,) = reader_of(api)["attention"]
    assert (mark["code"], "1 messages and 60 min behind" in mark["text"]) == ("behind", True)


def test_groups_of_workers_are_no_readers(api, client):
    client.create_group("t", "g")
    assert done(api.get("readers"))["items"] == []


def test_durable_subscriber_is_a_reader_and_tells_its_last_acknowledgement(broker, api, client):
    for number in range(3):
        client.produce("t", b"%d" % number)
    with Subscriber("dash", "t", port=broker.port, auto_ack=False) as follower:
        next(follower.messages()).ack()
        follower.flush()
    found = reader_of(api)
    assert (found["name"], found["kind"], found["lag"]) == ("dash", "durable_subscriber", 2)
    assert found["committed"] is not None
    assert found["not_kept"] == []


def test_readers_come_in_pages(api, client):
    for number in range(5):
        client.create_groups("query", {f"t{number}": 0}, reader=True)
    first = done(api.get("readers", limit=3))
    rest = done(api.get("readers", limit=3, cursor=first["next"]))
    assert [r["topic"] for r in first["items"] + rest["items"]] == [f"t{n}" for n in range(5)]


def test_sink_tells_what_it_has_published_and_staged(broker, api, client):
    client.stage("job/7", 0, "p0", 0, block(b"a", b"b"))
    client.commit_stage("job/7", 0, [("p0", 1)], b"first")
    client.stage("job/7", 1, "p0", 0, block(b"c"))
    broker.clock.advance(5)
    (found,) = done(api.get("sinks"))["items"]
    assert (found["sink"], found["epoch"], found["rows"], found["epoch_rows"]) == ("job/7", 0, 2, 2)
    assert (found["note"], found["committed_s"], found["committing_epoch"]) == ("first", 5, None)
    assert found["staged_parts"] == 1
    assert found["staged_bytes"] > 0
    broker.clock.advance(4000)
    (found,) = done(api.get("sinks"))["items"]
    assert [mark["code"] for mark in found["attention"]] == ["staged_for_long"]


def test_sink_is_forgotten_after_telling_what_goes(api, client):
    client.stage("job/7", 0, "p0", 0, block(b"a"))
    client.commit_stage("job/7", 0, [("p0", 1)])
    client.stage("job/7", 1, "p1", 0, block(b"b"))
    told = done(api.delete("sinks", sink="job/7", dry_run=1))
    assert (told["epoch"], told["rows"], told["staged_parts"], told["dry_run"]) == (0, 1, 1, True)
    assert len(done(api.get("sinks"))["items"]) == 1
    done(api.delete("sinks", sink="job/7"))
    assert done(api.get("sinks"))["items"] == []
    assert api.delete("sinks", sink="job/7").status == 404
    assert done(api.get("audit", action="sink"))["items"][0]["changes"][0]["name"] == "job/7"


@pytest.fixture(scope="module")
def guarded():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("etl", "etl-secret", rules=("allow publish #", "allow work #"))
        broker.add_user("other", "other-secret", rules=("allow publish #",))
        yield broker


def test_sink_of_somebody_is_seen_and_forgotten_by_them_and_administrators(guarded):
    login = Credentials(user="etl", password=b"etl-secret")
    with connect([f"127.0.0.1:{guarded.port}"], credentials=login) as client:
        client.stage("own", 0, "p", 0, block(b"a"))
        client.commit_stage("own", 0, [("p", 1)])
    etl, other, root = (
        ApiClient(guarded.port, user, f"{user}-secret") for user in ("etl", "other", "root")
    )
    assert [sink["user"] for sink in done(etl.get("sinks"))["items"]] == ["etl"]
    assert done(other.get("sinks"))["items"] == []
    assert other.delete("sinks", sink="own").status == 404
    assert len(done(root.get("sinks"))["items"]) == 1
    done(etl.delete("sinks", sink="own"))
