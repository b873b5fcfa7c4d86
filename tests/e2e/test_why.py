"""Each situation that ``why`` explains, made for real: clients over sockets, a journal on disk."""

import contextlib
import socket

import pytest

from penstock.client import connect
from penstock.testing import Broker
from penstock.wire.mqtt.envelope import sealed
from tests.api_kit import ApiClient
from tests.e2e.cluster_processes import until
from tests.signing.kit import advance_ms, now_ms, register

LIMIT = 5
ROOT = "root", "root-secret"


@pytest.fixture(scope="module")
def broker():
    """One broker for all tests of the file that leave its clock alone; names are never reused."""
    with Broker(limits={"queue_messages_max": LIMIT}) as own:
        yield own


@pytest.fixture
def own_broker():
    with contextlib.ExitStack() as stack:
        yield lambda **config: stack.enter_context(Broker(**config))


def explain(broker, kind, login=("", ""), **query):
    client = ApiClient(broker.port, *login)
    if kind == "publish":
        answer = client.post("why/publish", query)
    else:
        answer = client.get(f"why/{kind}", **query)
    assert answer.status == 200, answer.document
    return answer.document


def receiver(found, name):
    return next(one for one in found["receivers"] if one["name"] == name)


def line(found, code):
    return next(fact for fact in found["facts"] if fact["code"] == code)


def client_of(broker, name, **options):
    options.setdefault("keep_alive", 0)
    return connect(broker.host, broker.port, name, **options)


def persistent(broker, name, *filters):
    """A session with subscriptions, whose client is away."""
    with client_of(broker, name, clean_session=False, version=4) as client:
        client.subscribe([(one, 1) for one in filters])


def publish(broker, topic, *payloads, qos=1, retain=False):
    with client_of(broker, "") as client:
        for payload in payloads:
            client.publish(topic, payload, qos=qos, retain=retain)
        client.ping()


def queues(broker):
    return connect([f"{broker.host}:{broker.port}"])


# ── what became of a message ──────────────────────────────────────────────────────────────────


def test_nobody_subscribes_and_a_filter_almost_matches(broker):
    with client_of(broker, "ui") as ui:
        ui.subscribe([("plant/+/temp", 1)])
        publish(broker, "plant/p7/tmp", b"1")
        found = explain(broker, "message", topic="plant/p7/tmp", offset=0)
    assert found["fate"] == "no_match"
    assert found["near"] == ["plant/+/temp"]
    assert "plant/+/temp" in found["summary"]
    assert line(found, "taken")["certainty"] == "recorded"
    assert line(found, "no_match")["certainty"] == "derived"
    assert "publisher" in found["not_kept"]


def test_a_clean_session_that_was_away_has_nothing_kept(own_broker):
    broker = own_broker()
    with client_of(broker, "ui-1") as ui:
        ui.subscribe([("away/t", 1)])
    broker.clock.advance(60)
    publish(broker, "away/t", b"1")
    broker.clock.advance(60)
    with client_of(broker, "ui-1") as ui:
        ui.subscribe([("away/t", 1)])
        found = explain(broker, "message", topic="away/t", offset=0)
    assert found["fate"] == "not_kept_offline"
    assert "clean session" in receiver(found, "ui-1")["text"]
    assert "persistent" in found["advice"][0]["text"]


def test_the_oldest_give_way_when_a_queue_is_full(broker):
    persistent(broker, "pump-8", "full/t")
    publish(broker, "full/t", *[b"%d" % number for number in range(LIMIT + 3)])
    dropped = explain(broker, "message", topic="full/t", offset=0)
    assert dropped["fate"] == "dropped"
    assert receiver(dropped, "pump-8")["reason"] == "queue_full_oldest"
    assert receiver(dropped, "pump-8")["certainty"] == "recorded"
    kept = explain(broker, "message", topic="full/t", offset=LIMIT + 2)
    assert (kept["fate"], receiver(kept, "pump-8")["ahead"]) == ("queued", LIMIT - 1)
    told = explain(broker, "client", client_id="pump-8")
    assert f"{LIMIT} messages wait" in told["summary"]
    assert "3 queue_full_oldest" in told["summary"]
    assert any("queue_messages_max" in advice["text"] for advice in told["advice"])


def test_a_message_is_in_flight_and_then_delivered(broker):
    with client_of(broker, "reader", clean_session=False, version=4) as reader:
        reader.subscribe([("flight/t", 1)])
        publish(broker, "flight/t", b"1")
        assert explain(broker, "message", topic="flight/t", offset=0)["fate"] == "in_flight"
        assert reader.receive(timeout_s=10)[0].payload == b"1"
    asked = {"topic": "flight/t", "offset": 0}  # leaving has acknowledged it
    assert until(lambda: explain(broker, "message", **asked)["fate"] != "in_flight")
    found = explain(broker, "message", **asked)
    assert (found["fate"], receiver(found, "reader")["fate"]) == ("delivered", "delivered")


def test_a_subscription_that_came_later_is_told_from_one_that_was_there(broker):
    persistent(broker, "early", "birth/t")
    publish(broker, "birth/t", b"1")
    persistent(broker, "late", "birth/t")
    found = explain(broker, "message", topic="birth/t", offset=0)
    assert receiver(found, "early")["fate"] == "queued"
    assert receiver(found, "late")["fate"] == "no_match"
    assert "after" in receiver(found, "late")["text"]


def test_a_worker_has_a_lease_then_the_job_is_done(broker):
    with queues(broker) as client:
        client.produce("mail/out", b"job")
        (job,) = client.poll("mail/out", "send", visibility_s=60)
        found = explain(broker, "message", topic="mail/out", offset=0)
        held = receiver(found, "send")
        assert (found["fate"], held["attempts"]) == ("leased", 1)
        assert "127.0.0.1:" in held["holder"]
        assert held["until"].endswith("Z")
        client.ack(job)
        assert explain(broker, "message", topic="mail/out", offset=0)["fate"] == "done"


def test_a_job_backs_off_and_becomes_a_dead_letter_with_its_reason(own_broker):
    broker = own_broker()
    with queues(broker) as client:
        client.create_group("mail/out", "send")
        client.configure_group("mail/out", "send", max_deliveries=2, backoff_s=30)
        client.produce("mail/out", b"job")
        client.nack(client.poll("mail/out", "send"), reason="smtp 450")
        waiting = explain(broker, "message", topic="mail/out", offset=0)
        assert waiting["fate"] == "backing_off"
        assert "smtp 450" in receiver(waiting, "send")["text"]
        broker.clock.advance(120)
        client.nack(client.poll("mail/out", "send", wait_s=5), reason="smtp 550")
        while not client.topics("$dlq/"):
            broker.clock.advance(1)
    found = explain(broker, "message", topic="mail/out", offset=0)
    dead = receiver(found, "send")
    assert (found["fate"], dead["attempts"], dead["reason"]) == ("dead_lettered", 2, "smtp 550")
    assert "penstock dlq redrive mail/out send" in found["advice"][0]["command"]
    returned = [fact for fact in found["facts"] if fact["code"] == "returned"]
    assert ["smtp 450" in returned[0]["text"], "smtp 550" in returned[1]["text"]] == [True, True]


def test_scheduled_limited_and_waiting_jobs_say_what_they_wait_for(broker):
    with queues(broker) as client:
        client.create_group("later/q", "g")
        client.produce("later/q", b"job", delay_s=3_600)
        assert explain(broker, "message", topic="later/q", offset=0)["fate"] == "not_due"
        client.create_topic("slow/q", rate_per_sec=0.001, burst=1)
        client.create_group("slow/q", "g")
        client.produce_many("slow/q", [b"1", b"2", b"3"])
        found = explain(broker, "message", topic="slow/q", offset=2)
        assert (found["fate"], receiver(found, "g")["ahead"]) == ("rate_limited", 2)
        client.create_group("idle/q", "g")
        client.produce("idle/q", b"1")
        found = explain(broker, "message", topic="idle/q", offset=0)
        assert (found["fate"], found["advice"][0]["command"]) == (
            "queued",
            "penstock groups list idle/q",
        )


def test_a_job_whose_time_to_live_is_over_is_dropped_not_done(own_broker):
    broker = own_broker()
    with queues(broker) as client:
        client.create_group("ttl/q", "g")
        client.produce("ttl/q", b"1", ttl_s=30)
        broker.clock.advance(60)
        client.produce("ttl/q", b"2")
        (job,) = client.poll("ttl/q", "g", wait_s=5)
        assert job.payload == b"2"
        found = explain(broker, "message", topic="ttl/q", offset=0)
    assert (found["fate"], receiver(found, "g")["reason"]) == ("dropped", "expired")
    assert "30 s" in receiver(found, "g")["text"]


def test_a_retained_message_is_replaced_by_the_next(broker):
    publish(broker, "state/t", b"on", retain=True)
    assert explain(broker, "message", topic="state/t", offset=0)["fate"] == "retained"
    publish(broker, "state/t", b"off", retain=True)
    found = explain(broker, "message", topic="state/t", offset=0)
    assert found["fate"] == "retained_replaced"
    assert "offset 1 replaced it" in found["summary"]


def test_what_retention_removed_was_deleted_or_never_came_is_told_apart(own_broker):
    broker = own_broker(retention={"messages_max": 3, "age_s_max": 0})
    publish(broker, "gone/t", *[b"%d" % number for number in range(10)])
    while (
        ApiClient(broker.port).get("why/message", topic="gone/t", offset=0).document["fate"]
        != "removed"
    ):
        broker.clock.advance(1.1)
    found = explain(broker, "message", topic="gone/t", offset=0)
    assert "at most 3 messages" in found["summary"]
    assert explain(broker, "message", topic="gone/t", offset=99)["fate"] == "unknown"


def test_a_message_that_was_deleted_leaves_a_place(broker):
    redis = pytest.importorskip("redis")
    with redis.Redis(port=broker.port) as client:
        first = client.xadd("stream", {"a": "1"})
        client.xadd("stream", {"a": "2"})
        client.xadd("stream", {"a": "3"})
        second = client.xrange("stream")[1][0]
        assert first
        assert client.xdel("stream", second) == 1
    assert explain(broker, "message", topic="stream", offset=1)["fate"] == "deleted"


# ── what became of a client ───────────────────────────────────────────────────────────────────


def test_two_devices_that_share_an_id_are_noticed(broker):
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(contextlib.suppress(Exception))
            client = client_of(broker, "pump-7")
            stack.callback(client.abandon)
        found = explain(broker, "client", client_id="pump-7")
    assert found["fate"] == "session_taken_over"
    assert "share the id pump-7" in found["summary"]
    assert "4 times in the last hour" in found["summary"]
    assert "127.0.0.1" in found["summary"]


def test_a_silent_client_is_told_its_silence_in_figures(own_broker):
    broker = own_broker()
    with socket.create_connection((broker.host, broker.port)) as raw:
        raw.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x1e\x00\x04mute")  # keep-alive 30 s
        assert raw.recv(4) == b"\x20\x02\x00\x00"
        while raw_is_open(raw):
            broker.clock.advance(15)
    found = explain(broker, "client", client_id="mute")
    assert found["fate"] == "keep_alive_timeout"
    assert "keep-alive 30 s" in found["summary"]
    assert line(found, "keep_alive_timeout")["certainty"] == "recorded"
    assert found["advice"][0]["text"].startswith("The client or its link failed")


def raw_is_open(raw):
    raw.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return raw.recv(1) != b""
    return True


def test_a_wrong_password_is_told_of_the_client(own_broker):
    broker = own_broker()
    broker.add_user("root", "root-secret", rules=["allow all"])
    with contextlib.suppress(Exception):
        client_of(broker, "thief", username="root", password=b"wrong")
    found = explain(broker, "client", ROOT, client_id="thief")
    assert found["fate"] == "bad_credentials"
    assert "refused" in found["summary"]


def test_who_was_kicked_is_told_that_an_administrator_did_it(broker):
    persistent(broker, "unruly", "kick/t")
    with contextlib.suppress(Exception), client_of(broker, "unruly", clean_session=False) as client:
        answer = ApiClient(broker.port).ask("DELETE", "clients", {"client_id": "unruly"})
        assert answer.status == 200, answer
        client.receive(timeout_s=30)  # until it is told
    found = explain(broker, "client", client_id="unruly")
    assert found["fate"] == "kicked"
    assert "an administrator ended it" in found["summary"]
    assert line(found, "kicked")["certainty"] == "recorded"


def test_a_client_that_does_not_read_is_told_what_it_lost(own_broker):
    broker = own_broker(limits={"outgoing_bytes_max": 1 << 20})
    with socket.create_connection((broker.host, broker.port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x00\x00\x04deaf")
        assert deaf.recv(4) == b"\x20\x02\x00\x00"
        deaf.sendall(b"\x82\x0b\x00\x01\x00\x06loud/t\x00")
        assert deaf.recv(5) == b"\x90\x03\x00\x01\x00"
        publish(broker, "loud/t", *[b"x" * 100_000] * 100, qos=0)
        asked = {"client_id": "deaf"}
        assert until(lambda: "slow_reader" in explain(broker, "client", **asked)["summary"])
        found = explain(broker, "client", **asked)
    assert line(found, "slow_reader")["certainty"] == "recorded"
    assert "the client reads too slowly" in line(found, "slow_reader")["text"]


def test_nothing_is_known_of_a_stranger(broker):
    found = explain(broker, "client", client_id="nobody")
    assert found["fate"] == "unknown"
    assert line(found, "events")["certainty"] == "not_kept"


# ── what became of a topic, and what would of a publish ───────────────────────────────────────


def test_who_may_not_publish_is_told_the_role_and_the_rule(own_broker):
    broker = own_broker()
    broker.add_user("root", "root-secret", rules=["allow all"])
    rules = ["allow publish sensors/#", "allow publish plant/#", "deny publish plant/cmd/#"]
    broker.add_user("alice", "alice-secret", rules=rules)
    found = explain(broker, "publish", ROOT, topic="plant/cmd/7", user="alice")
    assert found["fate"] == "not_authorized"
    assert "rule 3: deny publish plant/cmd/#" in found["summary"]
    (advice,) = found["advice"]
    assert advice["text"].startswith("A deny wins wherever it stands")
    assert advice["command"] == "penstock acl check alice publish plant/cmd/7"
    silent = explain(broker, "publish", ROOT, topic="other", user="alice")
    assert silent["advice"][0]["text"].startswith("Add a rule that allows it")
    stranger = explain(broker, "publish", ROOT, topic="other", user="bob")
    assert stranger["advice"][0]["command"] == "penstock users add bob"
    with (
        contextlib.suppress(Exception),
        client_of(broker, "dev", username="alice", password=b"alice-secret") as client,
    ):
        client.publish("plant/cmd/7", b"1", qos=1)
    told = explain(broker, "topic", ROOT, topic="plant/cmd/7")
    assert line(told, "not_authorized")["certainty"] == "recorded"
    assert "alice" not in str(explain(broker, "publish", ROOT, topic="ok/t", user="root"))


def test_somebody_else_is_tried_by_administrators_alone(own_broker):
    broker = own_broker()
    broker.add_user("root", "root-secret", rules=["allow all"])
    broker.add_user("eye", "eye-secret", rules=["allow monitor"])
    client = ApiClient(broker.port, "eye", "eye-secret")
    assert client.post("why/publish", {"topic": "a", "user": "root"}).status == 403
    assert client.post("why/publish", {"topic": "a", "user": "eye"}).status == 200
    assert client.get("why/client", client_id="x").status == 200


def test_a_publish_that_would_pass_says_who_gets_it(broker):
    with client_of(broker, "listener") as listener:
        listener.subscribe([("dry/#", 1)])
        found = explain(broker, "publish", topic="dry/run", qos=1)
    assert found["fate"] == "delivered"
    assert "listener" in found["summary"]
    assert all(check["passes"] for check in found["checks"])
    codes = [check["code"] for check in found["checks"]]
    assert codes == [
        "topic", "access", "signature", "size", "quota", "disk", "quorum", "receivers",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "fate"),
    [
        ({"topic": "$SYS/x"}, "topic_reserved"),
        ({"topic": "a/#"}, "topic_invalid"),
        ({"topic": "a", "payload_bytes": 1 << 40}, "packet_too_large"),
        ({"topic": "nobody/there"}, "no_match"),
    ],
)
def test_a_publish_that_would_fail_says_at_which_question(broker, question, fate):
    assert explain(broker, "publish", **question)["fate"] == fate


def test_a_signature_that_is_too_old_says_how_old(own_broker):
    broker = own_broker(signing={"required": ["secure/#"], "window_s": 300})
    device = register(broker)
    envelope = sealed(device.sign_2(b"secure/t", b"1", now_ms(broker)), b"1")
    advance_ms(broker, 540_000)
    with contextlib.suppress(Exception), client_of(broker, "dev") as client:
        client.publish("$signed/secure/t", envelope, qos=1)
    found = explain(broker, "topic", topic="secure/t")
    refused = line(found, "signature_refused")
    assert f"key {device.key_id} signed 540 s ago, the window is 300 s" in refused["text"]
    assert explain(broker, "publish", topic="secure/t")["fate"] == "signature_refused"


def test_a_topic_of_which_qos_0_is_not_captured_says_why(own_broker):
    broker = own_broker(journal={"capture_exclude": ["noise/#"]})
    publish(broker, "noise/t", b"1", qos=0)
    found = explain(broker, "topic", topic="noise/t")
    assert "not captured" in found["summary"]
    assert "capture_exclude" in line(found, "not_captured")["text"]


def test_a_topic_that_nothing_was_published_to_has_delivered_nothing(broker):
    with client_of(broker, "early") as early:
        early.subscribe([("early/#", 1)])
        found = explain(broker, "topic", topic="early/t")
        assert found["fate"] == "nothing_published"
        assert "would go to 1 client (early)" in found["summary"]
        publish(broker, "early/t", b"1")
        assert explain(broker, "topic", topic="early/t")["fate"] == "delivered"


def test_a_browser_that_has_what_it_asked_for_was_not_refused(own_broker):
    broker = own_broker(limits={"connect_timeout_s": 1})
    with socket.create_connection((broker.host, broker.port)) as browser:
        browser.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while browser.recv(4096):  # the broker ends it when it has asked for nothing more
            pass
    assert ApiClient(broker.port).get("events", kind="refused").document["items"] == []
    assert "http_idle" in ApiClient(broker.port).get("overview").document["ends"]


def test_a_flood_that_the_disk_did_not_take_is_delivered_and_counted(own_broker):
    journal = {"capture_pending_bytes_max": 1 << 16, "capture_interval_ms": 10_000}
    broker = own_broker(journal=journal)
    publish(broker, "flood/t", *[b"x" * 30_000] * 10, qos=0)
    asked = {"topic": "flood/t"}
    assert until(lambda: "capture_overflow" in str(explain(broker, "topic", **asked)["facts"]))
    told = line(explain(broker, "topic", **asked), "capture_overflow")
    assert "delivered but not journaled" in told["text"]
    assert told["certainty"] == "recorded"


# ── the list of events ────────────────────────────────────────────────────────────────────────


def test_events_are_listed_newest_first_and_filtered(broker):
    for name in ("visitor", "second", "third"):
        with client_of(broker, name):
            pass
    client = ApiClient(broker.port)
    answer = client.get("events", client_id="visitor").document
    assert [event["kind"] for event in answer["items"]] == ["ended", "connected"]
    assert answer["items"][0]["reason"] == "client_disconnect"
    first = client.get("events", limit=3).document
    rest = client.get("events", limit=3, cursor=first["next"]).document
    ids = [event["id"] for event in first["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert client.get("events", kind="nonsense").status == 400
    drops = client.get("events", kind="dropped").document["items"]
    assert all(event["advice"] for event in drops)
