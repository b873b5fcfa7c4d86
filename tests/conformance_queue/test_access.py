"""What users may do: each operation needs its action on the topic that it touches."""

from contextlib import contextmanager

import pytest

from penstock.core.commands import AccessChanged
from penstock.doors.queue.operations import OPERATIONS
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Role, User
from penstock.wire.queue._generated.queue_pb2 import Request, StagedBlock, StagedLot
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance_queue.wire_client import GROUP, QueueClient, request, wait_until

ACTIONS = ("publish", "subscribe", "read", "work", "manage", "monitor", "admin")


def on_topic(**fields):
    return {"topic": "own/1", **fields}


def in_group(**fields):
    return on_topic(group=GROUP, **fields)


def block(*topics):
    lots = [StagedLot(topic=topic, payloads=[b"x"]) for topic in topics]
    return StagedBlock(lots=lots).SerializeToString()


# operation, its fields, the actions that allow it; None: every user may
MATRIX = [
    ("produce", on_topic(payload=b"x"), "publish"),
    ("produce", on_topic(payload=b"x", headers=[{"name": "a"}]), "publish"),
    ("produce_many", on_topic(payloads=[b"x"]), "publish"),
    ("stage", {"sink": "s", "epoch": 1, "part": "p", "block": block("own/1")}, "publish"),
    ("poll", in_group(), "work"),
    ("subscribe", on_topic(group="pushed"), "work"),
    ("ack", in_group(lease_id=1), "work"),
    ("nack", in_group(lease_id=1), "work"),
    ("nack", in_group(lease_id=1, delay_ms=1), "work"),
    ("ack_many", in_group(lease_ids=[1]), "work"),
    ("nack_many", in_group(lease_ids=[1]), "work"),
    ("extend", in_group(lease_ids=[1]), "work"),
    ("commit", in_group(offset=0), "work"),
    ("commit", on_topic(group="reader", offset=0), "read"),
    ("create_group", in_group(), "work manage"),
    ("create_group", on_topic(group="reader", reader=True), "read"),
    ("create_group", in_group(seek=True), "manage"),
    ("delete_group", on_topic(group="gone"), "manage"),
    ("configure_group", in_group(max_deliveries=5), "manage"),
    ("redrive", in_group(), "manage"),
    ("create_topic", on_topic(), "manage publish"),
    ("set_rate_limit", on_topic(rate_per_sec=0), "manage"),
    ("set_retention", on_topic(max_messages=0), "manage"),
    ("configure_topic", on_topic(max_messages=0), "manage"),
    ("delete_topic", {"topic": "own/gone"}, "manage"),
    ("fetch", on_topic(), "read"),
    ("fetch", on_topic(columns=1), "read"),
    ("fetch_many", {"topics": ["own/1"]}, "read"),
    ("fetch_many", {"topics": ["own/1", "own/none"], "scan": 1, "columns": 1}, "read"),
    ("locate", on_topic(times_ms=[0]), "read"),
    ("changes", {"filters": ["own/#"]}, "read"),
    ("changes", {"filters": ["#"]}, "read"),
    ("fetch", {"topic": "$dlq/own/1/g"}, "manage"),
    ("fetch_many", {"topics": ["$dlq/own/1/g"]}, "manage"),
    ("poll", {"topic": "$dlq/own/1/g", "group": "g"}, "manage"),
    ("delete_topic", {"topic": "$dlq/own/1/g"}, "manage"),
    ("bootstrap", {}, "admin"),
    ("commit_stage", {"sink": "none", "epoch": 1}, None),
    ("abort_stage", {"sink": "none", "epoch": 1}, None),
    ("list_sinks", {}, None),
    ("forget_sink", {"name": "none"}, None),
    ("list_topics", {}, None),
    ("list_groups", {}, None),
    ("list_keys", {}, None),
    ("stats", {}, None),
    ("ping", {}, None),
    ("authenticate", {"user": "root", "secret": SECRET.encode()}, None),
]


@contextmanager
def _with_users():
    """A broker with a user for each action, allowed on own/# and no other topic."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        roles = [Role(action, (f"allow {action} own/#",)) for action in ACTIONS[:5]]
        own.change_access(
            *map(put, roles), put(Role("global-monitor", ("allow monitor",))),
            put(Role("global-admin", ("allow admin",))),
        )  # fmt: skip
        own.add_user("root", SECRET, roles=["admin"])
        for action in ACTIONS:
            role = action if action in ACTIONS[:5] else f"global-{action}"
            own.add_user(action, SECRET, roles=[role])
        own.add_user("client", SECRET, rules=["allow publish,subscribe,read,work own/#"])
        yield own


def _fill(broker):
    """Something to see: topics, groups, a reader."""
    with _connect(broker, "root") as root:
        root.produce("own/1", b"a", b"b")
        root.produce("other/1", b"secret")
        for topic in ("own/1", "other/1"):
            root.ok(create_group={"topic": topic, "group": GROUP})
        root.ok(create_group={"topic": "own/1", "group": "reader", "reader": True})


@pytest.fixture(scope="module")
def filled():
    with _with_users() as own:
        _fill(own)
        yield own


def _connect(broker, user):
    client = QueueClient(broker.host, broker.port)
    client.ok(authenticate={"user": user, "secret": SECRET.encode()})
    return client


@pytest.fixture
def log_in(filled):
    """Connect as a user."""
    opened = []

    def connect(user):
        opened.append(_connect(filled, user))
        return opened[-1]

    yield connect
    for client in opened:
        client.close()


def test_the_matrix_has_every_operation():
    kinds = {field.name for field in Request.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert {kind for kind, _, _ in MATRIX} == kinds
    assert {*OPERATIONS, "ack"} == kinds
    assert all(callable(operation.access) for operation in OPERATIONS.values())


@pytest.mark.parametrize("user", ACTIONS)
def test_an_operation_needs_its_action_on_its_topic(log_in, user):
    """Each user has one action; every operation is tried, each with an id to tell them apart."""
    client = log_in(user)
    for kind, fields, actions in MATRIX:
        if kind == "authenticate":
            continue
        is_allowed = actions is None or user in actions.split()
        if kind == "stage":
            fields = {**fields, "sink": user}  # noqa: PLW2901 - which are not shared
        if kind == "subscribe" and is_allowed:
            channel = log_in(user)
            channel.subscribe(**fields)
            assert len(channel.pushed(1)) == 1
            channel.close()
            continue
        answer = client.ask(1, **{kind: fields})
        is_denied = answer.error.code == "not_authorized"
        assert is_denied is not is_allowed, (user, kind, fields, answer)


def test_an_action_on_one_topic_is_none_on_another(log_in):
    client = log_in("client")
    for kind, fields, actions in MATRIX:
        if actions and "topic" in fields:
            elsewhere = {**fields, "topic": fields["topic"].replace("own/", "other/")}
            assert client.refusal(**{kind: elsewhere}) == "not_authorized", kind
    staged = {"sink": "s", "epoch": 1, "part": "q", "block": block("own/1", "other/1")}
    assert client.refusal(stage=staged) == "not_authorized"
    assert client.refusal(changes={"filters": ["other/#"]}) == "not_authorized"


def test_history_needs_more_than_subscribe(log_in):
    assert log_in("subscribe").refusal(fetch={"topic": "own/1"}) == "not_authorized"


def test_a_refusal_names_user_action_and_topic(log_in):
    error = log_in("read").ask(poll={"topic": "own/1", "group": "g"}).error
    assert error.message == "user read may not work on own/1"


@pytest.fixture(scope="module")
def untouched():
    """A broker like ``filled`` in which no other test leaves topics."""
    with _with_users() as own:
        _fill(own)
        yield own


def test_lists_have_what_the_user_may_see(untouched):
    with _connect(untouched, "client") as client, _connect(untouched, "subscribe") as other:
        _check_lists(client)
        assert not other.ask(list_topics={}).topics.topics


def _check_lists(client):
    assert [one.name for one in client.ask(list_topics={}).topics.topics] == ["own/1"]
    assert not client.ask(list_topics={"name": "other/1"}).topics.topics
    listed = client.ask(list_groups={}).groups.groups
    assert {one.topic for one in listed} == {"own/1"}
    assert {one.name for one in listed} >= {GROUP, "reader"}
    assert not client.ask(list_groups={"topic": "other/1"}).groups.groups
    assert [one.name for one in client.ask(changes={}).changed.topics] == ["own/1"]


@pytest.mark.parametrize(
    ("user", "topics"), [("client", 1), ("subscribe", 0), ("monitor", 2), ("root", 2)]
)
def test_figures_of_the_broker_need_monitor(untouched, user, topics):
    with _connect(untouched, user) as client:
        assert client.stats().topics == topics


def test_logging_in_as_another_user_changes_rights_at_once(log_in):
    client = log_in("root")
    other = {"topic": "other/1", "payload": b"x"}
    client.send(
        request(produce=other),
        request(authenticate={"user": "publish", "secret": SECRET.encode()}),
        request(produce=other),
        request(produce={"topic": "own/1", "payload": b"x"}),
    )
    as_root, ok, denied, allowed = client.receive_many(4)
    assert as_root.HasField("produced")
    assert ok.HasField("ok")
    assert denied.error.code == "not_authorized"
    assert allowed.HasField("produced")


def test_a_waiting_poll_is_judged_again_when_the_user_changes(log_in):
    client = log_in("root")
    client.send(request(1, poll={"topic": "other/2", "group": "g", "wait_ms": 60_000}))
    client.send(request(2, authenticate={"user": "work", "secret": SECRET.encode()}))
    answers = {each.request_id: each for each in client.receive_many(2)}
    assert answers[1].error.code == "not_authorized"
    assert answers[2].HasField("ok")


def test_changes_leave_out_what_another_user_may_not_read(log_in):
    client, writer = log_in("root"), log_in("root")
    sequence = client.ask(changes={}).changed.sequence
    wait = {"after_sequence": sequence, "wait_ms": 60_000}
    client.send(request(1, changes=wait))
    client.send(request(2, authenticate={"user": "read", "secret": SECRET.encode()}))
    assert client.receive().request_id == 2
    writer.produce("other/1", b"x")
    writer.produce("own/1", b"x")
    answer = client.receive()
    assert [topic.name for topic in answer.changed.topics] == ["own/1"]


def test_a_sink_belongs_to_who_staged_for_it_first(log_in):
    """Its name is taken for all others; an administrator may step in."""
    staged = {"sink": "mine", "epoch": 1, "part": "p", "block": block("own/1")}
    commit = {"sink": "mine", "epoch": 1, "parts": [{"part": "p", "blocks": 1}]}
    owner, other, root = log_in("publish"), log_in("client"), log_in("root")
    owner.ok(stage=staged)
    for asked in (
        {"stage": staged}, {"stage": {**staged, "part": "q"}}, {"commit_stage": commit},
        {"abort_stage": {"sink": "mine", "epoch": 1}}, {"forget_sink": {"name": "mine"}},
    ):  # fmt: skip
        assert other.refusal(**asked) == "not_authorized", asked
    assert not other.ask(list_sinks={"name": "mine"}).sinks.sinks
    assert log_in("monitor").ask(list_sinks={"name": "mine"}).sinks.sinks
    assert owner.ask(list_sinks={"name": "mine"}).sinks.sinks[0].staged_parts == 1
    assert root.ask(commit_stage=commit).stage_committed.messages == 1
    assert other.refusal(forget_sink={"name": "mine"}) == "not_authorized"
    owner.ok(forget_sink={"name": "mine"})
    other.ok(stage={**staged, "epoch": 2})


def test_nobody_who_may_not_publish_takes_the_name_of_a_sink(log_in):
    staged = {"sink": "free", "epoch": 1, "part": "p", "block": block("own/1")}
    assert log_in("read").refusal(stage=staged) == "not_authorized"
    log_in("client").ok(stage=staged)


def test_who_staged_may_commit(log_in):
    client = log_in("publish")
    client.ok(stage={"sink": "own", "epoch": 1, "part": "p", "block": block("own/1")})
    commit = {"sink": "own", "epoch": 1, "parts": [{"part": "p", "blocks": 1}]}
    assert client.ask(commit_stage=commit).stage_committed.messages == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_staged_rows_are_judged_again_when_they_are_committed(tmp_path, is_restarted):
    commit = {"sink": "s", "epoch": 1, "parts": [{"part": "0", "blocks": 1}]}
    with Broker(data=tmp_path, auth=LOGIN_REQUIRED) as broker:
        broker.add_user("a", SECRET, rules=["allow publish,read a/#"])
        with _connect(broker, "a") as client:
            client.ok(stage={"sink": "s", "epoch": 1, "part": "0", "block": block("a/1", "a/2")})
        if is_restarted:
            broker.restart(kill=True)
        broker.change_access(put(Role("a", ("allow publish,read a/1",))))
        with _connect(broker, "a") as client:
            assert client.refusal(commit_stage=commit) == "not_authorized"
            assert not client.ask(fetch={"topic": "a/1"}).fetched.end_offset
        broker.change_access(put(Role("a", ("allow publish,read a/#",))))
        with _connect(broker, "a") as client:
            assert client.ask(commit_stage=commit).stage_committed.messages == 2


# ── what lasts, when rights change


def test_a_poll_that_waits_ends_when_the_right_to_work_does(filled, log_in):
    filled.add_user("poller", SECRET, rules=["allow work own/#"])
    client = log_in("poller")
    client.send(request(poll={"topic": "own/empty", "group": "g", "wait_ms": 60_000}))
    wait_until(lambda: filled.call(_is_polling, filled))
    filled.add_user("poller", SECRET, rules=["allow read own/#"])
    assert client.receive().error.code == "not_authorized"
    assert client.refusal(poll={"topic": "own/empty", "group": "g"}) == "not_authorized"


def test_a_lease_that_was_taken_before_is_settled_by_nobody_without_the_right(filled, log_in):
    filled.add_user("leaser", SECRET, rules=["allow work,publish own/#"])
    client, root = log_in("leaser"), log_in("root")
    client.produce("own/leased", b"a")
    client.ok(create_group={"topic": "own/leased", "group": GROUP})
    lease = client.poll("own/leased")[0].lease_id
    filled.add_user("leaser", SECRET, rules=["allow read own/#"])
    named = {"topic": "own/leased", "group": GROUP}
    settling = (
        {"ack": {**named, "lease_id": lease}},
        {"nack": {**named, "lease_id": lease}},
        {"ack_many": {**named, "lease_ids": [lease]}},
        {"extend": {**named, "lease_ids": [lease]}},
        {"commit": {**named, "offset": 1}},
    )
    for asked in settling:
        assert client.refusal(**asked) == "not_authorized", asked
    assert root.group("own/leased", GROUP).in_flight == 1


def _is_polling(broker):
    clients = broker.server.parts.connections.clients
    return any(one.principal.user == "poller" and one.polls for one in clients)


def test_a_push_channel_ends_when_the_right_to_work_does(filled, log_in):
    filled.add_user("pushed", SECRET, rules=["allow work own/#"])
    channel = log_in("pushed")
    channel.subscribe("own/1", "pushes", prefetch=1)
    channel.pushed(1)
    filled.add_user("pushed", SECRET, rules=["allow read own/#"])
    assert channel.receive().error.code == "not_authorized"
    channel.expect_close()
    root = log_in("root")
    wait_until(lambda: root.group("own/1", "pushes").in_flight == 0)


def test_a_user_that_is_disabled_is_gone(filled, log_in):
    filled.add_user("gone", SECRET, rules=["allow work own/#"])
    client = log_in("gone")
    filled.change_access(put(User("gone", ("gone",), is_disabled=True)))
    client.expect_close()


@pytest.fixture
def fresh():
    """A broker without other tests' topics."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        own.add_user("root", SECRET, roles=["admin"])
        yield own


def test_a_push_channel_that_waits_for_a_poll_is_judged_when_it_begins(fresh):
    """A Subscribe begins when all before it is answered, which may take a minute."""
    fresh.add_user("poller", SECRET, rules=["allow work own/#"])
    with _connect(fresh, "poller") as client, _connect(fresh, "root") as root:
        root.produce("own/1", b"denied")
        client.send(
            request(poll={"topic": "own/idle", "group": "g", "wait_ms": 60_000}),
            request(subscribe={"topic": "own/1", "group": "behind", "prefetch": 1}),
        )
        wait_until(lambda: fresh.call(_is_polling, fresh))
        groups = fresh.server.parts.broker.groups
        wait_until(lambda: fresh.call(groups.get, b"own/1", b"behind"))
        fresh.add_user("poller", SECRET, rules=["allow work own/idle"])
        root.produce("own/idle", b"x")
        assert client.receive().HasField("polled")
        assert client.receive().error.code == "not_authorized"
        client.expect_close()


@pytest.mark.parametrize(("columns", "count"), [(0, 20), (1, 200)])
def test_reads_that_wait_for_the_client_are_judged_when_they_begin(fresh, columns, count):
    """Responses are made when the client has read most of those before."""
    fresh.add_user("reader", SECRET, rules=["allow read own/#"])
    with _connect(fresh, "root") as root:
        root.produce("own/large", *[b"x" * 900_000] * 8)
    with _connect(fresh, "reader") as client:
        asked = {"topic": "own/large", "columns": columns}
        client.send(*[request(number, fetch=asked) for number in range(1, count + 1)])
        client.send(request(count + 1, list_topics={}))
        assert client.receive().HasField("fetched")
        fresh.add_user("reader", SECRET, rules=["allow read own/1"])
        codes = [answer.error.code for answer in client.receive_many(count - 1)]
        assert codes[-1] == "not_authorized"
        assert codes == sorted(codes)  # from then on all of them
        assert not client.receive().topics.topics


def test_a_commit_that_waits_for_another_is_judged_when_it_begins(fresh):
    fresh.add_user("sinker", SECRET, rules=["allow publish,read own/#"])
    with _connect(fresh, "sinker") as client:
        for epoch in (1, 2):
            staged = {"sink": "s", "epoch": epoch, "part": "p", "block": block("own/1")}
            client.ok(stage=staged)

        def overtake():
            """Both commits are asked for, then the right is lost before the first has ended."""
            parts = fresh.server.parts
            (connection,) = [c for c in parts.connections.clients if c.principal.user == "sinker"]
            for epoch in (1, 2):
                named = [{"part": "p", "blocks": 1}]
                asked = {"sink": "s", "epoch": epoch, "parts": named}
                connection.data_received(request(commit_stage=asked))
            change = put(Role("sinker", ("allow publish,read own/2",)))
            with parts.pipeline.as_leader():
                parts.pipeline.submit(AccessChanged([change], "", "", "", 0), None, durable=True)

        fresh.call(overtake)
        first, second = client.receive_many(2)
    assert first.stage_committed.messages == 1
    assert second.error.code == "not_authorized"
