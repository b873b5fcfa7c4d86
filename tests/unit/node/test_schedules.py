"""Scheduled publishes at a running broker whose clock the test moves, asked by the API."""

from datetime import UTC, datetime

import pytest
from tests.access import SECRET
from tests.api_kit import ApiClient

from penstock.client import connect
from penstock.testing import Broker
from penstock.trust.book import put, removed
from penstock.trust.rows import Role, User


def api(broker, user=""):
    return ApiClient(broker.port, user, SECRET if user else "")


def create(broker, name="s", topic="t", user="", **asked):
    answer = api(broker, user).post("schedules", {"name": name, "topic": topic, **asked})
    assert answer.status == 200, answer
    return answer.document["schedule"]


def refused(broker, user="", **asked):
    answer = api(broker, user).post("schedules", {"name": "s", "topic": "t", **asked})
    assert answer.status >= 400
    return answer.status, answer.document["detail"]


def listed(broker, user="", **query):
    answer = api(broker, user).get("schedules", **query)
    assert answer.status == 200, answer
    return answer.document["items"]


def passes(broker, seconds, steps=1):
    for _ in range(steps):
        broker.clock.advance(seconds / steps)
    broker.clock.advance(0)


def messages(broker, topic=b"t"):
    return list(broker.server.store.read_topic(topic, 0, 1_000, 1 << 20).messages())


def dues(broker, topic=b"t"):
    """The firings that messages say they are of, in seconds since the first possible one."""
    start = broker.clock.wall_ms() - round((broker.clock.monotonic() - 1000) * 1000)
    headers = (dict(message.extras.headers) for message in messages(broker, topic))
    texts = (found[b"schedule-due"].decode() for found in headers)
    return [datetime.fromisoformat(text).timestamp() - start / 1000 for text in texts]


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


# ── firing ────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_publishes_its_message_once_per_firing(broker):
    create(broker, every_s=10, text="hello", retain=True, headers=[("a", "b")], priority=3)
    passes(broker, 31, steps=31)
    found = messages(broker)
    assert dues(broker) == [10, 20, 30]
    assert {(m.payload, m.qos, m.retain, m.priority) for m in found} == {(b"hello", 1, True, 3)}
    assert found[0].extras.headers[:2] == ((b"a", b"b"), (b"schedule", b"s"))


def test_once_is_once_and_then_listed_as_done(broker):
    create(broker, in_s=5, text="x")
    passes(broker, 60, steps=60)
    assert dues(broker) == [5]
    [row] = listed(broker)
    assert (row["state"], row["next_firings"], row["published"]) == ("done", [], 1)
    assert row["last"]["result"] == "published"


def test_a_message_expires_counted_from_its_firing(broker):
    create(broker, in_s=5, expires_s=2, content_type="application/json", text="{}")
    passes(broker, 6)
    [message] = messages(broker)
    assert message.extras.expires_ms == message.time_ms + 2_000
    assert message.content_type == 2


def test_what_was_missed_while_the_broker_was_down_is_made_up_for_as_the_policy_says(broker):
    for policy in ("skip", "once", "all"):
        create(broker, policy, topic=policy, every_s=60, missed=policy)
    passes(broker, 61)
    broker.stop()
    broker.clock.advance(170)
    broker.start()
    passes(broker, 0.5)
    assert dues(broker, b"skip") == [60]
    assert dues(broker, b"once") == [60, 180]
    assert dues(broker, b"all") == [60, 120, 180]
    rows = {row["name"]: row for row in listed(broker)}
    assert [rows[name]["skipped"] for name in ("skip", "once", "all")] == [2, 1, 0]
    assert rows["skip"]["last"]["result"] == "missed"
    assert broker.metrics()['penstock_schedule_firings_total{result="skipped"}'] == 3


def test_schedules_and_what_they_did_survive_a_kill(broker):
    create(broker, cron="*/5 * * * *", timezone="Asia/Kolkata", text="x")
    passes(broker, 600, steps=60)
    before = listed(broker)
    assert before[0]["published"] == 2
    broker.restart(kill=True)
    assert listed(broker) == before
    passes(broker, 600, steps=60)
    assert len(messages(broker)) == 4


def test_a_cancelled_schedule_fires_no_more(broker):
    create(broker, every_s=1)
    passes(broker, 1.5)
    assert api(broker).delete("schedules", name="s", dry_run="true").status == 200
    assert api(broker).delete("schedules", name="s").document["state"] == "active"
    passes(broker, 10, steps=10)
    assert len(messages(broker)) == 1
    assert listed(broker) == []
    assert api(broker).delete("schedules", name="s").status == 404


def test_a_clock_that_goes_back_repeats_no_firing(broker):
    create(broker, every_s=1)
    passes(broker, 2, steps=4)
    broker.clock._elapsed_s -= 2
    passes(broker, 3, steps=6)
    assert dues(broker) == [1, 2, 3]


def test_without_schedules_a_turn_looks_at_nothing(broker):
    runner = broker.server.parts.schedules
    passes(broker, 5, steps=5)
    assert (runner._heap, runner._timer) == ([], None)


def test_a_live_subscriber_gets_a_message_of_qos_0(broker):
    with connect("127.0.0.1", broker.port) as client:
        client.subscribe([("t", 0)])
        create(broker, in_s=1, text="live", qos=0)
        passes(broker, 2)
        assert next(client.messages(30)).payload == b"live"


# ── listing ───────────────────────────────────────────────────────────────────────────────────


def test_a_row_has_the_next_five_firings_and_the_timing(broker):
    row = create(broker, cron="0 8 * * mon-fri", timezone="Europe/Paris")
    assert row["timing"] == {"cron": "0 8 * * mon-fri", "timezone": "Europe/Paris"}
    assert row["timing_text"] == "cron 0 8 * * mon-fri, Europe/Paris"
    assert row["next_firings"] == [f"2023-11-{day}T07:00:00.000Z" for day in (15, 16, 17, 20, 21)]
    assert listed(broker) == [row]


def test_a_dry_run_stores_nothing(broker):
    row = create(broker, every_s=60, dry_run=True)
    assert len(row["next_firings"]) == 5
    assert listed(broker) == []


def test_a_preview_needs_no_schedule(broker):
    answer = api(broker).get("schedules/preview", cron="@hourly", count=2).document
    first = datetime.fromtimestamp(broker.clock.wall_ms() // 3_600_000 * 3600 + 3600, UTC)
    assert answer["next_firings"][0] == first.strftime("%Y-%m-%dT%H:00:00.000Z")
    assert len(answer["next_firings"]) == 2


def test_lists_have_pages_and_cut_payloads(broker):
    for name in ("a", "b", "c"):
        create(broker, name, every_s=60, text="é" * 2_000)
    first = api(broker).get("schedules", limit=2).document
    rest = api(broker).get("schedules", limit=2, cursor=first["next"]).document
    assert [row["name"] for row in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next"] is None
    assert (first["items"][0]["cut"], first["items"][0]["payload_bytes"]) == (True, 4_000)
    [whole] = listed(broker, name="b")
    assert whole["payload"]["text"] == "é" * 2_000


@pytest.mark.parametrize(
    ("asked", "status", "detail"),
    [
        ({}, 400, "exactly one of at, in_s, every_s and cron"),
        ({"every_s": 1, "cron": "@daily"}, 400, "exactly one"),
        ({"every_s": 0.5}, 400, ""),
        ({"cron": "61 * * * *"}, 400, "minute 61: it is 0 to 59"),
        ({"cron": "@daily", "timezone": "Mars/Olympus"}, 400, "no time zone 'Mars/Olympus'"),
        ({"at": "tomorrow"}, 400, "is no time"),
        ({"at": "2020-01-01T00:00:00Z"}, 409, "its time has passed"),
        ({"at": "9999-12-31T23:59:59-12:00"}, 400, ""),
        ({"cron": "@daily", "anchor": "2026-01-01T00:00:00Z"}, 400, "only an interval"),
        ({"every_s": 1, "topic": "$SYS/x"}, 403, "reserved"),
        ({"every_s": 1, "topic": "a/#"}, 400, ""),
        ({"every_s": 1, "topic": ""}, 400, ""),
        ({"every_s": 1, "text": "x" * 70_000}, 400, "at most 64 KiB"),
        ({"every_s": 1, "base64": "?"}, 400, "is not base64"),
        ({"every_s": 1, "text": "a", "base64": "YQ=="}, 400, "either text or base64"),
        ({"every_s": 1, "name": "a\nb"}, 400, "printable"),
        ({"every_s": 1, "headers": [["", "x"]]}, 400, "a header has a name"),
        ({"every_s": 1, "headers": [["a", "x" * 20_000]]}, 400, "headers"),
        ({"every_s": 1, "missed": "maybe"}, 400, ""),
    ],
)
def test_what_cannot_be_scheduled_is_refused_with_the_reason(broker, asked, status, detail):
    found = refused(broker, **asked)
    assert found[0] == status
    assert detail in found[1]


def test_a_name_is_taken_while_its_schedule_is_active(broker):
    create(broker, in_s=5)
    assert refused(broker, every_s=1)[0] == 409
    passes(broker, 6)
    create(broker, every_s=1)


# ── rights ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def guarded():
    with Broker() as running:
        running.add_user("root", SECRET, roles=("admin",))
        running.add_user("ann", SECRET, rules=("allow publish t", "allow publish u"))
        running.add_user("bob", SECRET, rules=("allow publish,manage t",))
        running.add_user("eve", SECRET, rules=("allow publish x",))
        yield running


def test_only_who_may_publish_may_schedule(guarded):
    status, detail = refused(guarded, "eve", every_s=1)
    assert (status, detail) == (403, "user eve may not publish to t")


def test_a_firing_has_the_rights_of_its_owner_at_that_time(guarded):
    create(guarded, every_s=1, user="ann", text="x")
    passes(guarded, 1.5)
    guarded.add_user("ann", SECRET, rules=("allow publish u",))
    passes(guarded, 2, steps=2)
    assert len(messages(guarded)) == 1
    [row] = listed(guarded, "ann")
    assert (row["published"], row["refused"], row["state"]) == (1, 2, "active")
    assert row["last"]["reason"] == "not_authorized"
    assert row["last"]["detail"] == "user ann may not publish to t"
    assert guarded.metrics()['penstock_dropped_total{reason="not_authorized"}'] == 2
    assert guarded.metrics()['penstock_schedule_firings_total{result="refused"}'] == 2
    events = api(guarded, "root").get("events", kind="dropped", topic="t").document["items"]
    assert sum(event.get("count", 1) for event in events) == 2
    assert {(event["reason"], event["user"]) for event in events} == {("not_authorized", "ann")}
    why = api(guarded, "root").get("why/topic", topic="t").document
    assert any(fact["code"] == "not_authorized" and fact["is_trouble"] for fact in why["facts"])
    guarded.add_user("ann", SECRET, rules=("allow publish t",))
    passes(guarded, 1)
    assert len(messages(guarded)) == 2


def test_who_sees_and_who_cancels(guarded):
    create(guarded, every_s=60, user="ann", text="secret")
    assert listed(guarded, "eve") == []
    assert listed(guarded, "bob")[0]["payload"] is None
    assert listed(guarded, "ann")[0]["payload"] == {"text": "secret"}
    assert listed(guarded, "root")[0]["owner"] == "ann"
    assert api(guarded, "eve").delete("schedules", name="s").status == 404
    assert api(guarded, "bob").delete("schedules", name="s").status == 200


def test_schedules_of_a_deleted_user_fire_no_more(guarded):
    create(guarded, every_s=1, user="ann")
    guarded.change_access(removed(User("ann")))
    passes(guarded, 5, steps=5)
    assert messages(guarded) == []
    assert listed(guarded, "root")[0]["state"] == "ownerless"


def test_what_was_scheduled_before_there_were_users_is_limited_to_this_machine(broker):
    create(broker, every_s=1)
    broker.add_user("root", SECRET, roles=("admin",))
    passes(broker, 1)
    broker.change_access(put(Role("local", ("deny publish t",))))
    passes(broker, 2, steps=2)
    assert dues(broker) == [1]


def test_a_topic_that_demands_signatures_takes_none():
    with Broker(signing={"required": ["secure/#"]}) as running:
        status, detail = refused(running, every_s=1, topic="secure/t")
    assert status == 403
    assert "sign" in detail


def test_changes_are_recorded(guarded):
    create(guarded, every_s=60, user="ann")
    api(guarded, "ann").delete("schedules", name="s")
    records = [m.payload for m in messages(guarded, b"$audit/access")]
    assert sum(b'"schedule"' in record and b'"user":"ann"' in record for record in records) == 2
