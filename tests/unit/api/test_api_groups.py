"""Queues and groups, asked of a real broker with real workers."""

from contextlib import contextmanager
from threading import Event

import pytest
from tests.api_kit import ApiClient

from penstock.client import connect
from penstock.testing import Broker

MAIL = {"topic": "mail/out", "group": "send"}


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


@pytest.fixture
def worker(broker):
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        yield client


def done(answer, status=200):
    assert answer.status == status, answer
    return answer.document


def group_of(api, **which):
    (found,) = done(api.get("groups", **which))["items"]
    return found


@contextmanager
def at_work(broker):
    """A worker that has a job and does not finish it."""
    has_one, may_end = Event(), Event()

    def work(_job):
        has_one.set()
        may_end.wait(30)

    with connect([f"127.0.0.1:{broker.port}"]) as client:
        client.produce("mail/out", b"x")
        with client.subscribe("mail/out", "send", work, concurrency=1):
            assert has_one.wait(30)
            try:
                yield
            finally:
                may_end.set()


def test_group_tells_what_waits_what_is_in_flight_and_who_works(broker, api, worker):
    for number in range(5):
        worker.produce("mail/out", b"%d" % number)
    worker.poll("mail/out", "send", max=2)
    broker.clock.advance(840)
    found = group_of(api)
    assert (found["topic"], found["group"]) == ("mail/out", "send")
    assert (found["lag"], found["in_flight"], found["position"], found["end_offset"]) == (
        5,
        2,
        0,
        5,
    )
    assert found["oldest_s"] == 840
    assert [mark["code"] for mark in found["attention"]] == ["no_workers"]


def test_a_rate_is_known_from_the_second_look_on(broker, api, worker):
    for number in range(10):
        worker.produce("mail/out", b"%d" % number)
    jobs = worker.poll("mail/out", "send", max=6)
    assert group_of(api)["rate_per_s"] is None
    worker.ack(jobs)
    broker.clock.advance(3)
    found = group_of(api)
    assert (found["rate_per_s"], found["eta_s"]) == (2.0, 2.0)


def test_worker_that_waits_is_counted_and_old_messages_are_marked(broker, api):
    with at_work(broker):
        broker.clock.advance(400)
        found = group_of(api, **MAIL)
        assert found["workers"] == 1
        assert [mark["code"] for mark in found["attention"]] == ["oldest_waits"]
        assert "7 min" in found["attention"][0]["text"]


def test_lists_go_on_where_they_ended(api, worker):
    for number in range(5):
        worker.create_group(f"t{number}", "g")
    first = done(api.get("groups", limit=3))
    rest = done(api.get("groups", limit=3, cursor=first["next"]))
    assert [g["topic"] for g in first["items"] + rest["items"]] == [f"t{n}" for n in range(5)]
    assert rest["next"] is None


def test_a_pending_message_names_its_holder_until_when_and_why_it_came_back(broker, api, worker):
    for number in range(3):
        worker.produce("mail/out", b"%d" % number)
    jobs = worker.poll("mail/out", "send", max=2, visibility_s=60)
    worker.nack(jobs[:1], delay_s=30, reason="smtp 550")
    returned, held = done(api.get("groups/pending", **MAIL))["items"]
    assert (returned["offset"], returned["state"], returned["last_reason"]) == (
        0,
        "delayed",
        "smtp 550",
    )
    assert (returned["holder"], returned["not_kept"]) == ("", [])
    assert (held["offset"], held["state"], held["attempts"]) == (1, "in_flight", 1)
    assert held["worker"].startswith("queue#")
    assert held["address"].startswith("127.0.0.1:")
    assert held["node"] == 1
    assert held["until"] > held["taken"]
    broker.clock.advance(25)
    assert done(api.get("groups/pending", **MAIL))["items"][1]["held_s"] == 25


def test_who_holds_a_lease_is_not_kept_over_a_restart_and_that_is_said(broker, worker):
    worker.produce("mail/out", b"x")
    worker.poll("mail/out", "send")
    broker.restart()
    (held,) = done(ApiClient(broker.port).get("groups/pending", **MAIL))["items"]
    assert (held["holder"], held["not_kept"]) == ("", ["holder"])


def test_pending_messages_come_in_pages(api, worker):
    for number in range(7):
        worker.produce("mail/out", b"%d" % number)
    worker.poll("mail/out", "send", max=7)
    seen, cursor = [], None
    while True:
        page = done(api.get("groups/pending", **MAIL, limit=3, cursor=cursor))
        seen += [item["offset"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == list(range(7))


def test_what_waits_is_told_by_priority_with_the_next_in_order(api, worker):
    for priority in (0, 0, 7, 3):
        worker.produce("mail/out", b"p%d" % priority, priority=priority)
    worker.produce("mail/out", b"later", delay_s=3600)
    worker.create_group("mail/out", "send")
    found = done(api.get("groups/waiting", **MAIL))
    assert [depth["priority"] for depth in found["depths"]] == list(range(7, -1, -1))
    depths = {depth["priority"]: depth for depth in found["depths"]}
    assert (depths[7]["waiting"], depths[3]["waiting"], depths[0]["waiting"]) == (1, 1, 3)
    assert depths[0]["not_due"] == 1
    assert [each["payload"]["text"] for each in found["next"]] == ["p7", "p3", "p0", "p0"]
    assert found["complete"]


def test_what_was_handed_out_does_not_wait_and_what_came_back_does(api, worker):
    for priority in (0, 5, 5):
        worker.produce("mail/out", b"p%d" % priority, priority=priority)
    jobs = worker.poll("mail/out", "send", max=2)
    worker.nack(jobs[:1])
    found = done(api.get("groups/waiting", **MAIL))
    depths = {depth["priority"]: depth for depth in found["depths"]}
    assert (depths[5]["waiting"], depths[5]["returned"], depths[0]["waiting"]) == (0, 1, 1)
    assert [(each["offset"], each["attempts"]) for each in found["next"]] == [(1, 1), (0, 0)]


def test_seek_tells_what_it_skips_or_repeats_before_it_is_done(api, worker):
    for number in range(10):
        worker.produce("mail/out", b"%d" % number)
    worker.ack(worker.poll("mail/out", "send", max=4))
    ahead = done(api.ask("PATCH", "groups", MAIL | {"seek": "latest", "dry_run": True}))
    assert (ahead["skipped"], ahead["repeated"], ahead["seek_to"]) == (6, 0, 10)
    back = done(api.ask("PATCH", "groups", MAIL | {"seek": "earliest", "dry_run": True}))
    assert back["seek_to"] >= 0
    assert group_of(api)["lag"] == 6, "nothing has moved"
    moved = done(api.ask("PATCH", "groups", MAIL | {"seek": 8}))
    assert (moved["skipped"], moved["dry_run"]) == (4, False)
    assert group_of(api)["lag"] == 2


def test_seek_back_in_a_log_repeats_what_was_done(api, worker):
    worker.create_topic("log", keep=True)
    for number in range(10):
        worker.produce("log", b"%d" % number)
    worker.ack(worker.poll("log", "g", max=4))
    asked = {"topic": "log", "group": "g", "seek": 1}
    told = done(api.ask("PATCH", "groups", asked | {"dry_run": True}))
    assert (told["repeated"], told["skipped"]) == (3, 0)
    done(api.ask("PATCH", "groups", asked))
    assert len(worker.poll("log", "g", max=20)) == 9


def test_a_lower_limit_of_deliveries_tells_what_becomes_a_dead_letter(api, worker):
    worker.produce("mail/out", b"x")
    for _ in range(2):
        worker.nack(worker.poll("mail/out", "send"), reason="no")
    changed = MAIL | {"max_deliveries": 2}
    assert done(api.ask("PATCH", "groups", changed | {"dry_run": True}))["exhausted"] == 1
    assert group_of(api)["max_deliveries"] == 0
    done(api.ask("PATCH", "groups", changed))
    assert group_of(api)["max_deliveries"] == 2


def test_a_group_is_made_once_and_deleted_when_nobody_works(api, worker):
    made = done(api.post("groups", MAIL | {"start": "latest", "max_deliveries": 5}))
    assert made["max_deliveries"] == 5
    assert api.post("groups", MAIL).status == 409
    told = done(api.delete("groups", **MAIL, dry_run="true"))
    assert told["dry_run"]
    assert group_of(api)["group"] == "send"
    done(api.delete("groups", **MAIL))
    assert done(api.get("groups"))["items"] == []
    assert api.delete("groups", **MAIL).document["code"] == "not_found"


def test_a_group_with_workers_is_not_deleted(broker, api):
    with at_work(broker):
        refused = api.delete("groups", **MAIL)
        assert (refused.status, refused.document["code"]) == (409, "conflict")


def test_queues_are_configured_and_deleted(api, worker):
    made = done(api.ask("PATCH", "queues", {"topic": "mail/out", "rate_per_s": 2.5, "burst": 7}))
    assert (made["rate_per_s"], made["burst"], made["keep"]) == (2.5, 7, False)
    worker.produce("mail/out", b"x")
    worker.create_group("mail/out", "send")
    (found,) = done(api.get("queues"))["items"]
    assert (found["topic"], found["messages"], found["lag"], found["groups"]) == (
        "mail/out",
        1,
        1,
        1,
    )
    told = done(api.delete("queues", topic="mail/out", dry_run=1))
    assert (told["messages"], told["groups"]) == (1, ["send"])
    assert len(done(api.get("queues"))["items"]) == 1
    done(api.delete("queues", topic="mail/out"))
    assert done(api.get("queues"))["items"] == []


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "__proto__", "a\u202eb", "ä/ö"])
def test_odd_names_are_told_as_they_are(api, worker, name):
    worker.produce(name, b"x")
    worker.create_group(name, name)
    found = group_of(api, topic=name, group=name)
    assert (found["topic"], found["group"]) == (name, name)
    assert done(api.get("groups/pending", topic=name, group=name))["items"] == []


# ── rights ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def guarded():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("watch", "watch-secret", rules=("allow monitor",))
        broker.add_user(
            "mailer", "mailer-secret", rules=("allow manage mail/#", "allow work mail/#")
        )
        broker.add_user("nobody", "nobody-secret", rules=("allow publish x",))
        root = ApiClient(broker.port, "root", "root-secret")
        for topic in ("mail/out", "post/out"):
            done(root.post("groups", {"topic": topic, "group": "g"}))
        yield broker


def asked_by(broker, user):
    return ApiClient(broker.port, user, f"{user}-secret")


def test_who_monitors_sees_all_and_changes_nothing(guarded):
    watch = asked_by(guarded, "watch")
    assert len(done(watch.get("groups"))["items"]) == 2
    refused = watch.ask("PATCH", "groups", {"topic": "mail/out", "group": "g", "seek": 0})
    assert refused.status == 403
    assert refused.document["code"] == "forbidden"


def test_who_manages_some_topics_sees_and_changes_those(guarded):
    mailer = asked_by(guarded, "mailer")
    assert [group["topic"] for group in done(mailer.get("groups"))["items"]] == ["mail/out"]
    done(mailer.ask("PATCH", "groups", {"topic": "mail/out", "group": "g", "seek": 0}))
    other = {"topic": "post/out", "group": "g"}
    assert mailer.get("groups/pending", **other).status == 403
    assert mailer.delete("groups", **other).status == 403


def test_who_may_do_neither_is_told_so(guarded):
    for path in ("groups", "queues", "dlq", "readers"):
        assert asked_by(guarded, "nobody").get(path).status == 403


def test_a_change_is_audited_with_who_made_it(guarded):
    mailer, root = asked_by(guarded, "mailer"), asked_by(guarded, "root")
    done(mailer.ask("PATCH", "groups", {"topic": "mail/out", "group": "g", "max_deliveries": 4}))
    latest = done(root.get("audit", action="group"))["items"][0]
    assert (latest["user"], latest["note"]) == ("mailer", "configured")
    assert latest["changes"][0]["name"] == "g"
