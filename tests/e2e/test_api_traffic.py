"""Topics, messages, retained messages and clients, asked of a real broker with real clients."""

import base64
import json
import socket

import paho.mqtt.client as paho
import pytest
import redis
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.api_kit import ApiClient


@pytest.fixture
def broker():
    with Broker(limits={"session_expiry_s": "1h"}) as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


class Client:
    """An MQTT client whose packets are awaited."""

    def __init__(self, broker, client_id, *, version=5, expiry_s=3600, will=None, user=None):
        number = paho.MQTTv5 if version == 5 else paho.MQTTv311
        api = paho.CallbackAPIVersion.VERSION2
        clean = None if version == 5 else False
        self.paho = paho.Client(api, client_id, protocol=number, clean_session=clean)
        if will:
            self.paho.will_set(*will)
        if user:
            self.paho.username_pw_set(*user)
        properties = paho.Properties(paho.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = expiry_s
        self.is_connected = False
        self.is_over = False
        self.granted = 0
        self.paho.on_connect = lambda *_: setattr(self, "is_connected", True)
        self.paho.on_disconnect = lambda *_: setattr(self, "is_over", True)
        self.paho.on_subscribe = lambda *_: setattr(self, "granted", self.granted + 1)
        self.paho.connect("127.0.0.1", broker.port, properties=properties if version == 5 else None)
        self.until(lambda: self.is_connected)

    def until(self, happened):
        while not happened():
            assert self.paho.loop(1) in {0, paho.MQTT_ERR_CONN_LOST}

    def subscribe(self, topic_filter, qos=1, **options):
        before = self.granted
        given = SubscribeOptions(qos, **options) if options else None
        self.paho.subscribe(topic_filter, **({"options": given} if given else {"qos": qos}))
        self.until(lambda: self.granted > before)

    def publish(self, topic, payload, *, retain=False):
        info = self.paho.publish(topic, payload, 1, retain)
        self.until(info.is_published)

    def leave(self):
        self.paho.disconnect()
        self.until(lambda: self.is_over)


def ok(answer):
    assert answer.status == 200, answer
    return answer.document


def items(answer):
    return ok(answer)["items"]


def problem(answer, status, code):
    assert (answer.status, answer.document["code"]) == (status, code), answer
    return answer.document


def left(api, client, name):
    """A client leaves; its session knows."""
    client.leave()
    while not items(api.get("sessions", prefix=name, away="true")):
        pass


def publish(api, topic, text, **more):
    return ok(api.post("messages", {"topic": topic, "text": text, **more}))


def names(answer, field="name"):
    return [item[field] for item in items(answer)]


def pages(ask, **query):
    """All items of a list."""
    found, cursor = [], None
    while True:
        document = ok(ask(cursor=cursor, **query))
        found += document["items"]
        cursor = document["next"]
        if cursor is None:
            return found


# ── topics ────────────────────────────────────────────────────────────────────────────────────


def test_topics_are_listed_by_prefix_and_filter_in_pages(api):
    for topic in ("a", "plant/p7/temp", "plant/p7/vib", "plant/p8/temp", "z"):
        publish(api, topic, "x")
    assert names(api.get("topics")) == ["a", "plant/p7/temp", "plant/p7/vib", "plant/p8/temp", "z"]
    assert names(api.get("topics", prefix="plant/p7/")) == ["plant/p7/temp", "plant/p7/vib"]
    assert names(api.get("topics", filter="plant/+/temp")) == ["plant/p7/temp", "plant/p8/temp"]
    assert names(api.get("topics", prefix="z", filter="plant/#")) == []
    found = pages(lambda **query: api.get("topics", **query), limit=2, filter="plant/#")
    assert [item["name"] for item in found] == ["plant/p7/temp", "plant/p7/vib", "plant/p8/temp"]
    problem(api.get("topics", filter="a/#/b"), 400, "invalid_parameter")
    problem(api.get("topics", cursor="nonsense"), 400, "invalid_cursor")


def test_a_topic_tells_what_it_holds_and_who_gets_it(broker, api):
    session, reader = Client(broker, "ui-1"), redis.Redis(port=broker.port)
    session.subscribe("plant/+")
    listener = reader.pubsub()
    listener.subscribe("plant/p7")
    listener.get_message(timeout=10)
    reader.xgroup_create("plant/p7", "workers", 0, mkstream=True)
    for number in range(3):
        session.publish("plant/p7", f"{number}", retain=True)
    found = ok(api.get("topics/detail", name="plant/p7"))
    assert (found["first_offset"], found["next_offset"], found["messages"]) == (0, 3, 3)
    assert (found["exists"], found["retained"], found["signature_required"]) == (True, True, False)
    assert found["matches"] == {"sessions": 1, "away": 0, "live": 1, "examples": ["ui-1"]}
    assert found["capture"]["reason"] == "captured"
    assert [(one["group"], one["lag"]) for one in found["groups"]] == [("workers", 3)]
    assert found["rate_per_s"] > 0
    assert not ok(api.get("topics/detail", name="never"))["exists"]
    listener.close()
    session.leave()


@pytest.mark.parametrize(
    ("journal", "topic", "reason"),
    [
        ({"capture": False}, "a", "off"),
        ({"capture_exclude": ["vib/#"]}, "vib/1", "excluded"),
        ({}, "$SYS/x", "reserved"),
    ],
)
def test_a_topic_says_why_it_is_not_captured(journal, topic, reason):
    with Broker(journal=journal) as broker:
        found = ok(ApiClient(broker.port).get("topics/detail", name=topic))
    assert (found["capture"]["captured"], found["capture"]["reason"]) == (False, reason)


def test_the_tree_shows_one_level_with_counts_and_values(api):
    for topic in ("a/b", "a/b!", "a/b/c", "a/b/d", "x"):
        publish(api, topic, f'"{topic}"')
    level = ok(api.get("topics/tree", prefix="a/", values="true"))
    assert [(n["label"], n["is_topic"], n["children"]) for n in level["items"]] == [
        ("b", True, 2),
        ("b!", True, 0),
    ]
    assert [node["last"]["payload"]["text"] for node in level["items"]] == ['"a/b"', '"a/b!"']
    assert [n["name"] for n in items(api.get("topics/tree"))] == ["a", "x"]
    found = pages(lambda **query: api.get("topics/tree", **query), limit=1)
    assert [node["label"] for node in found] == ["a", "x"]
    problem(api.get("topics/tree", prefix="a"), 400, "invalid_parameter")
    values = items(api.get("topics/values", topic=["a/b/c", "never", "x"]))
    assert [value["topic"] for value in values] == ["a/b/c", "x"]


def test_busiest_topics_are_those_of_the_newest_messages(api):
    for number in range(6):
        publish(api, "loud" if number % 3 else "quiet", "x" * 10)
    found = ok(api.get("topics/busiest"))
    assert [(one["name"], one["messages"]) for one in found["items"]] == [("loud", 4), ("quiet", 2)]
    assert found["looked_at"] == 6


def test_a_topic_is_deleted_after_a_dry_run_that_changes_nothing(api):
    publish(api, "gone", "12345")
    would = ok(api.delete("topics", {"name": "gone", "dry_run": True}))
    assert (would["messages"], would["bytes"], would["dry_run"]) == (1, 5, True)
    assert names(api.get("topics")) == ["gone"]
    assert ok(api.delete("topics", {"name": "gone"}))["messages"] == 1
    assert names(api.get("topics", filter="#")) == []
    problem(api.delete("topics", {"name": "gone"}), 404, "not_found")
    problem(api.delete("topics", {"name": "$audit/access"}), 400, "topic_reserved")
    assert '"is_deleted":true' in audit(api)


def audit(api):
    found = ok(api.get("messages", topic="$audit/access", payload_max=10_000))
    return "".join(row["payload"]["text"] for row in found["items"])


# ── messages ──────────────────────────────────────────────────────────────────────────────────


def test_messages_are_read_by_offset_time_and_text(broker, api):
    for number in range(10):
        publish(api, "t", f"Message {number}")
        broker.clock.advance(1)
    newest = ok(api.get("messages", topic="t", limit=3))
    assert [row["offset"] for row in newest["items"]] == [9, 8, 7]
    following = ok(api.get("messages", topic="t", limit=3, cursor=newest["next"]))
    assert [row["offset"] for row in following["items"]] == [6, 5, 4]
    oldest = items(api.get("messages", topic="t", order="oldest", offset=8))
    assert [row["offset"] for row in oldest] == [8, 9]
    at = oldest[0]["time"]
    assert items(api.get("messages", topic="t", order="oldest", at=at))[0]["offset"] == 8
    found = ok(api.get("messages", topic="t", find="MESSAGE 4"))
    assert [row["offset"] for row in found["items"]] == [4]
    assert (found["scanned"], found["stopped"], found["next"]) == (10, "", None)
    problem(api.get("messages", topic="never"), 404, "not_found")
    problem(api.get("messages", topic="t", at="noon"), 400, "invalid_parameter")
    other = api.get("messages", topic="u", cursor=newest["next"])
    problem(other, 400, "invalid_cursor")


def test_a_message_comes_back_as_it_was_published(broker, api):
    body = {
        "topic": "jobs",
        "base64": base64.b64encode(b"\xff\x00" * 3_000).decode(),
        "qos": 2,
        "headers": [["origin", "test"]],
        "content_type": "application/octet-stream",
        "priority": 5,
        "delay_s": 60,
        "expires_s": 120.5,
    }
    offset = ok(api.post("messages", body))["offset"]
    (row,) = items(api.get("messages", topic="jobs"))
    headers = [(one["name"], one["value"]) for one in row["headers"]]
    assert headers == [("origin", "test"), ("mqtt-content-type", "application/octet-stream")]
    assert (row["qos"], row["priority"], row["format"], row["cut"]) == (2, 5, "hex", True)
    assert (row["payload_bytes"], row["content_type"]) == (6_000, "application/octet-stream")
    assert row["due"].endswith("22:14:20.000Z")
    assert row["expires"].endswith("22:15:20.500Z")
    whole = api.get("messages/payload", topic="jobs", offset=offset)
    assert whole.document == b"\xff\x00" * 3_000
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"].startswith("attachment;")
    assert whole.headers["x-content-type-options"] == "nosniff"
    problem(api.get("messages/payload", topic="jobs", offset=7), 404, "not_found")
    worker = redis.Redis(port=broker.port)
    assert worker.xlen("jobs") == 1


def test_hostile_names_of_downloads_are_quoted(api):
    topic = 'a"\r\n<svg onload=x>/é;filename=evil'
    publish(api, topic, "x")
    answer = api.get("messages/payload", topic=topic, offset=0)
    value = answer.headers["content-disposition"]
    assert answer.status == 200
    plain, _, name = value.partition("; filename*=UTF-8''")
    assert plain == 'attachment; filename="message-0.bin"'
    assert name
    assert not set(name) & set('"\r\n<>;/ ')


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"qos": 3}, "qos"),
        ({"priority": 8}, "priority"),
        ({"delay_s": -1}, "delay_s"),
        ({"text": "x", "base64": ""}, "base64"),
        ({"base64": "%"}, "base64"),
        ({"topic": "a/#"}, "topic"),
        ({"headers": [["", "x"]]}, "headers"),
        ({"headers": [["a", "x" * 20_000]]}, "headers"),
    ],
)
def test_a_faulty_message_is_refused_by_field(api, change, field):
    found = problem(api.post("messages", {"topic": "t"} | change), 400, "invalid_parameter")
    assert [fault["name"] for fault in found["fields"]] == [field]


def test_a_dry_run_says_what_would_happen_and_publishes_nothing(broker, api):
    away = Client(broker, "ui-1")
    away.subscribe("plant/#")
    left(api, away, "ui-1")
    body = {"topic": "plant/p7", "text": "on", "retain": True, "dry_run": True}
    found = ok(api.post("messages", body))
    assert (found["accepted"], found["offset"], found["payload_bytes"]) == (True, None, 2)
    assert found["receivers"]["sessions"] == found["receivers"]["away"] == 1
    assert found["receivers"]["examples"] == ["ui-1"]
    assert all(check["ok"] for check in found["checks"])
    assert names(api.get("topics")) == []
    reserved = ok(api.post("messages", body | {"topic": "$SYS/x"}))
    assert not reserved["accepted"]
    assert [check["check"] for check in reserved["checks"] if not check["ok"]] == ["topic"]


def test_a_payload_above_the_limit_is_refused(api):
    text = "x" * ((1 << 18) + 1)
    refused = problem(api.post("messages", {"topic": "t", "text": text}), 413, "too_large")
    assert "262,144 bytes: limits.packet_bytes_max" in refused["advice"]
    assert not ok(api.post("messages", {"topic": "t", "text": text, "dry_run": True}))["accepted"]


def test_a_series_has_extremes_of_fields_of_several_topics(broker, api):
    for number in range(20):
        publish(api, "p7", json.dumps({"c": number, "deep": {"v": -number}}))
        publish(api, "p8", "not a number" if number % 2 else f"{number}")
        broker.clock.advance(1)
    found = ok(api.get("messages/series", topic="p7", field=["c", "deep.v"], points=4))
    assert [(line["field"], line["numbers"]) for line in found["items"]] == [
        ("c", 20),
        ("deep.v", 20),
    ]
    points = found["items"][0]["points"]
    assert [(p["min"], p["max"], p["last"], p["count"]) for p in points] == [
        (0, 4, 4, 5), (5, 9, 9, 5), (10, 14, 14, 5), (15, 19, 19, 5),
    ]  # fmt: skip
    assert found["fields"] == ["c", "deep.v"]
    both = ok(api.get("messages/series", topic=["p8", "p7"], last=6))
    assert [(line["topic"], line["numbers"]) for line in both["items"]] == [("p8", 3), ("p7", 0)]
    since = points[2]["at"]
    later = ok(api.get("messages/series", topic="p7", field="c", since=since))
    assert later["items"][0]["numbers"] < 12


# ── retained messages ─────────────────────────────────────────────────────────────────────────


def test_retained_messages_are_cleared_by_filter_and_restored(broker, api):
    for topic in ("plant/1", "plant/2", "other"):
        publish(api, topic, topic, retain=True, headers=[["h", topic]])
    would = ok(api.delete("retained", {"filter": "plant/#", "dry_run": True}))
    assert (would["count"], would["first"], would["undo"]) == (2, ["plant/1", "plant/2"], None)
    assert names(api.get("retained"), "topic") == ["other", "plant/1", "plant/2"]
    cleared = ok(api.delete("retained", {"filter": "plant/#"}))
    assert names(api.get("retained"), "topic") == ["other"]
    late = Client(broker, "late", expiry_s=0)
    received = []
    late.paho.on_message = lambda _client, _data, message: received.append(message.topic)
    late.subscribe("#")
    late.until(lambda: received)
    assert received == ["other"]
    publish(api, "plant/2", "newer", retain=True)
    restored = ok(api.post("retained/undo", {"undo": cleared["undo"]}))
    assert restored == {"restored": 1, "superseded": 1, "expired": 0}
    rows = {row["topic"]: row for row in items(api.get("retained", filter="plant/#"))}
    assert rows["plant/1"]["payload"] == {"text": "plant/1"}
    assert rows["plant/1"]["headers"][0]["value"] == "plant/1"
    assert rows["plant/2"]["payload"] == {"text": "newer"}
    problem(api.post("retained/undo", {"undo": cleared["undo"]}), 404, "not_found")
    log = audit(api)
    assert '"note":"cleared"' in log
    assert '"note":"restored"' in log
    late.leave()


def test_an_undo_ends_after_an_hour_and_a_restart_keeps_what_was_cleared_clear(broker, api):
    publish(api, "a", "x", retain=True)
    cleared = ok(api.delete("retained", {"filter": "#"}))
    broker.clock.advance(3_601)
    problem(api.post("retained/undo", {"undo": cleared["undo"]}), 404, "not_found")
    broker.restart(kill=True)
    assert names(api.get("retained"), "topic") == []


def test_retained_messages_come_in_pages_and_without_those_that_expired(broker, api):
    for number in range(25):
        publish(api, f"r/{number:02}", "x", retain=True, expires_s=60 if number == 3 else 0)
    broker.clock.advance(61)
    found = pages(lambda **query: api.get("retained", **query), limit=7, filter="r/+")
    assert [row["topic"] for row in found] == [f"r/{n:02}" for n in range(25) if n != 3]


# ── clients ───────────────────────────────────────────────────────────────────────────────────


def test_clients_of_every_protocol_are_listed_with_what_is_known_of_them(broker, api):
    will = ("will/pump-7", b"gone", 1, True)
    pump, gone = Client(broker, "pump-7", will=will), Client(broker, "pump-8", version=4)
    pump.subscribe("a")
    gone.subscribe("b")
    left(api, gone, "pump-8")
    with socket.create_connection(("127.0.0.1", broker.port)) as resp:
        resp.sendall(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$5\r\ncache\r\n")
        assert resp.recv(100) == b"+OK\r\n"
        rows = {row["client_id"]: row for row in items(api.get("clients"))}
        assert sorted(rows) == ["cache", "pump-7", "pump-8"]
        assert (rows["cache"]["protocol"], rows["cache"]["keep_alive_s"]) == ("redis", None)
        assert names(api.get("clients", protocol="redis"), "client_id") == ["cache"]
    found = rows["pump-7"]
    assert (found["version"], found["keep_alive_s"], found["subscriptions"]) == ("5", 60, 1)
    assert found["will"]["topic"] == "will/pump-7"
    assert found["bytes_in"] > 20
    assert found["bytes_out"] > 5
    assert not found["away"]
    away = rows["pump-8"]
    assert (away["away"], away["ended"], away["version"]) == (True, "client_disconnect", "3.1.1")
    assert away["expires"].endswith("23:13:20.000Z")
    assert names(api.get("clients", away="true"), "client_id") == ["pump-8"]
    assert names(api.get("clients", prefix="pump", away="false"), "client_id") == ["pump-7"]
    pump.leave()


def test_a_backlog_is_found_at_clients_and_sessions(broker, api):
    for name in ("full", "idle"):
        client = Client(broker, name)
        client.subscribe(f"to/{name}")
        left(api, client, name)
    publish(api, "to/full", "x")
    assert names(api.get("clients", backlog="true"), "client_id") == ["full"]
    assert names(api.get("sessions", backlog="true"), "client_id") == ["full"]
    (session,) = items(api.get("sessions", prefix="fu", away="true"))
    assert (session["queued"], session["ended"], session["connected"]) == (
        1,
        "client_disconnect",
        False,
    )
    assert items(api.get("sessions", away="false")) == []


def test_a_kicked_client_is_told_keeps_its_session_and_is_counted(broker, api):
    pump = Client(broker, "pump-7", will=("will", b"gone", 1, True))
    answer = ok(api.delete("clients", {"client_id": "pump-7"}))
    assert answer == {"client_id": "pump-7", "connections": 1, "incomplete": []}
    pump.until(lambda: pump.is_over)
    assert broker.server.counters.disconnects[DisconnectReason.KICKED] == 1
    (session,) = items(api.get("sessions"))
    assert (session["connected"], session["ended"]) == (False, "kicked")
    assert items(api.get("retained"))[0]["topic"] == "will"
    assert '"note":"kicked"' in audit(api)
    problem(api.delete("clients", {"client_id": "pump-7"}), 404, "not_found")
    problem(api.delete("clients", {"client_id": ""}), 400, "invalid_body")


def test_a_session_is_ended_with_its_connection_and_stays_ended(broker, api):
    pump = Client(broker, "pump-7")
    pump.subscribe("a")
    would = ok(api.delete("sessions", {"client_id": "pump-7", "dry_run": True}))
    assert (would["connected"], would["subscriptions"]) == (True, 1)
    assert names(api.get("sessions"), "client_id") == ["pump-7"]
    ok(api.delete("sessions", {"client_id": "pump-7"}))
    pump.until(lambda: pump.is_over)
    assert items(api.get("sessions")) == []
    assert ok(api.get("topics/detail", name="a"))["matches"]["sessions"] == 0
    broker.restart(kill=True)
    assert items(api.get("sessions")) == []
    problem(api.delete("sessions", {"client_id": "pump-7"}), 404, "not_found")


def test_subscriptions_are_found_by_client_and_by_topic(broker, api):
    one, other = Client(broker, "one"), Client(broker, "other")
    one.subscribe("a/+", 1, noLocal=True)
    one.subscribe("b", 2)
    other.subscribe("a/b", 0)
    other.subscribe("$share/g/a/b", 1)
    rows = items(api.get("subscriptions", client_id="one"))
    assert [(row["filter"], row["qos"], row["no_local"]) for row in rows] == [
        ("a/+", 1, True),
        ("b", 2, False),
    ]
    found = pages(lambda **query: api.get("subscriptions", **query), topic="a/b", limit=1)
    assert [(row["client_id"], row["filter"]) for row in found] == [
        ("one", "a/+"),
        ("other", "a/b"),
    ]
    shared = items(api.get("subscriptions", client_id="other"))[0]
    assert (shared["share"], shared["filter"]) == ("g", "a/b")
    problem(api.get("subscriptions"), 400, "invalid_parameter")
    one.leave()
    other.leave()


def test_pages_of_clients_have_each_once(broker, api):
    sockets = []
    for number in range(30):
        sockets.append(socket.create_connection(("127.0.0.1", broker.port)))
        name = b"c%02d" % (number // 2)  # two of each name
        sockets[-1].sendall(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\n%b\r\n" % name)
        assert sockets[-1].recv(100) == b"+OK\r\n"
    found = pages(lambda **query: api.get("clients", **query), limit=7)
    assert [row["client_id"] for row in found] == [f"c{n // 2:02}" for n in range(30)]
    assert len({row["address"] for row in found}) == 30
    address = found[3]["address"]
    assert ok(api.delete("clients", {"client_id": "c01", "address": address}))["connections"] == 1
    for one in sockets:
        one.close()


# ── who may ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def guarded():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        rules = ("allow read plant/#", "deny read plant/secret/#", "allow publish commands/p7")
        broker.add_user("reader", "reader-secret", rules=rules)
        broker.add_user("keeper", "keeper-secret", rules=("allow manage plant/1",))
        broker.add_user("watcher", "watcher-secret", rules=("allow monitor",))
        root = ApiClient(broker.port, "root", "root-secret")
        for topic in ("plant/1", "plant/secret/key", "elsewhere"):
            publish(root, topic, "x", retain=True)
        yield broker


def as_user(broker, name):
    return ApiClient(broker.port, name, f"{name}-secret")


def test_lists_have_what_the_caller_may_read(guarded):
    reader = as_user(guarded, "reader")
    assert names(reader.get("topics")) == ["plant/1"]
    assert [(n["label"], n["children"]) for n in items(reader.get("topics/tree"))] == [("plant", 1)]
    assert [n["label"] for n in items(reader.get("topics/tree", prefix="plant/"))] == ["1"]
    assert names(reader.get("retained"), "topic") == ["plant/1"]
    busiest = ok(reader.get("topics/busiest"))
    assert ([one["name"] for one in busiest["items"]], busiest["hidden"] > 1) == (["plant/1"], True)


@pytest.mark.parametrize(
    "path",
    [
        "messages?topic=plant/secret/key",
        "messages/payload?topic=elsewhere&offset=0",
        "messages/series?topic=plant/1&topic=elsewhere",
        "topics/values?topic=plant/secret/key",
        "topics/detail?name=elsewhere",
        "messages?topic=$audit/access",
        "clients",
        "sessions",
        "subscriptions?topic=plant/1",
    ],
)
def test_reading_needs_the_right_to_the_topic_or_to_monitor(guarded, path):
    problem(as_user(guarded, "reader").get(path), 403, "forbidden")
    assert as_user(guarded, "root").get(path).status in {200, 404}  # no change was recorded yet


def test_changes_need_their_rights_and_dry_runs_too(guarded):
    reader, keeper, watcher = (as_user(guarded, name) for name in ("reader", "keeper", "watcher"))
    problem(reader.post("messages", {"topic": "elsewhere"}), 403, "not_authorized")
    assert publish(reader, "commands/p7", "x")["offset"] == 0
    found = ok(reader.post("messages", {"topic": "elsewhere", "dry_run": True}))
    assert not found["accepted"]
    problem(reader.delete("topics", {"name": "plant/1", "dry_run": True}), 403, "forbidden")
    would = ok(keeper.delete("retained", {"filter": "#", "dry_run": True}))
    assert (would["count"], would["kept"], would["first"]) == (1, 2, ["plant/1"])
    assert names(as_user(guarded, "root").get("retained"), "topic") != []
    problem(watcher.delete("clients", {"client_id": "x"}), 403, "forbidden")
    problem(watcher.delete("sessions", {"client_id": "x"}), 403, "forbidden")
    assert watcher.get("clients").status == 200
    root = as_user(guarded, "root")
    cleared = ok(root.delete("retained", {"filter": "plant/1"}))
    problem(keeper.post("retained/undo", {"undo": cleared["undo"]}), 403, "forbidden")
    assert ok(root.post("retained/undo", {"undo": cleared["undo"]}))["restored"] == 1


def test_a_message_that_needs_a_signature_is_refused():
    with Broker(signing={"required": ["signed/*"]}) as signing:
        api = ApiClient(signing.port)
        body = {"topic": "signed/1", "text": "x"}
        assert not ok(api.post("messages", body | {"dry_run": True}))["accepted"]
        problem(api.post("messages", body), 403, "signature_refused")
        assert ok(api.get("topics/detail", name="signed/1"))["signature_required"]
