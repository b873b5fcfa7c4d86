"""Topics, groups and reading in bulk: what both queue clients ask, and what they make of answers."""

from datetime import UTC, datetime

import pytest
from tests.unit.queue_client_broker import Blocking, Looped, broker, ok

from penstock.client import BrokerProtocolError, ClientError
from penstock.wire.queue._generated import queue_pb2 as wire


@pytest.fixture(params=[Blocking, Looped], ids=["blocking", "async"])
def clients(request):
    made = request.param()
    yield made
    made.close()


# ── Topics and groups ─────────────────────────────────────────────────────────────────────────


def asked_of(clients, scene, **answer):
    """What a scene asks of a broker that gives every request the same answer."""
    seen = []

    def converse(peer):
        for request in peer.requests():
            seen.append(request)
            peer.say(request, **(answer or ok()))

    with broker(converse) as address, clients.connect(address) as client:
        scene(client)
    return seen


def test_only_what_is_given_of_a_topic_or_group_is_changed(clients):
    def scene(client):
        client.create_topic("t", rate_per_sec=0.5, max_age_s=60, keep=False)
        client.configure_group("t", "g", max_deliveries=0, backoff_s=0.25)

    topic, group = asked_of(clients, scene)
    assert {field.name: value for field, value in topic.configure_topic.ListFields()} == {
        "topic": "t",
        "rate_per_sec": 0.5,
        "max_age_ms": 60_000,
        "keep": False,
    }
    assert {field.name: value for field, value in group.configure_group.ListFields()} == {
        "topic": "t",
        "group": "g",
        "max_deliveries": 0,
        "backoff_ms": 250,
    }


def test_a_setting_that_does_not_exist_is_an_error_at_once(clients):
    def scene(client):
        for act in (
            lambda: client.create_topic("t", max_mesages=3),
            lambda: client.produce("t", b"", prio=3),
            lambda: client.poll("t", "g", maximum=3),
        ):
            with pytest.raises(TypeError):
                act()

    assert asked_of(clients, scene) == []


def test_a_group_begins_and_moves_where_it_is_told(clients):
    def scene(client):
        client.create_group("t", "g", start="latest")
        client.seek("t", "g", 17)
        client.seek("t", "g", datetime(2030, 1, 1, tzinfo=UTC))

    asked = [request.create_group for request in asked_of(clients, scene)]
    assert [(one.start, one.start_value, one.seek) for one in asked] == [
        (wire.LATEST, 0, False),
        (wire.OFFSET, 17, True),
        (wire.TIME, 1_893_456_000_000, True),
    ]


def test_plain_requests_say_what_they_are_given(clients):
    def scene(client):
        client.delete_topic("t")
        client.set_rate_limit("t", 0.5, burst=2)
        client.set_retention("t", max_messages=3, max_age_s=4, max_bytes=5)
        client.delete_group("t", "g")

    delete, rate, retention, group = asked_of(clients, scene)
    assert delete.delete_topic.topic == "t"
    assert (rate.set_rate_limit.rate_per_sec, rate.set_rate_limit.burst) == (0.5, 2)
    asked = retention.set_retention
    assert (asked.max_messages, asked.max_age_ms, asked.max_bytes) == (3, 4000, 5)
    assert (group.delete_group.topic, group.delete_group.group) == ("t", "g")


def test_lists_are_read_page_by_page(clients):
    seen = []

    def converse(peer):
        for request in peer.requests():
            seen.append(request)
            if request.HasField("list_groups"):
                more = not request.list_groups.after_group
                groups = wire.Groups(groups=[wire.Group(topic="t", name="g", lag=9)], more=more)
                peer.say(request, groups=groups)
            else:
                more = not request.list_topics.after
                peer.say(request, topics=wire.Topics(topics=[wire.Topic(name="a")], more=more))

    with broker(converse) as address, clients.connect(address) as client:
        assert [topic.name for topic in client.topics("a")] == ["a", "a"]
        assert [group.lag for group in client.groups("t")] == [9, 9]
        assert client.topic("a").name == "a"
    assert [request.list_topics.prefix for request in seen[:2]] == ["a", "a"]
    assert [request.list_topics.after for request in seen[:2]] == ["", "a"]
    assert [request.list_groups.after_group for request in seen[2:4]] == ["", "g"]
    assert seen[4].list_topics.name == "a"


def test_a_topic_that_is_not_there_is_none(clients):
    asked_of(clients, lambda client: check_none(client.topic("t")), topics=wire.Topics())


def check_none(found):
    assert found is None


def test_stats_and_redrive_tell_what_the_broker_says(clients):
    def converse(peer):
        peer.say(peer.read(), stats=wire.StatsResult(is_leader=True, messages=12))
        peer.say(peer.read(), redriven=wire.Redriven(count=4))

    with broker(converse) as address, clients.connect(address) as client:
        assert (client.stats().is_leader, client.redrive("t", "g")) == (True, 4)


def test_an_answer_of_the_wrong_kind_is_an_error(clients):
    def scene(client):
        with pytest.raises(BrokerProtocolError, match="ok instead of produced"):
            client.produce("t", b"")

    asked_of(clients, scene)


# ── Reading in bulk ───────────────────────────────────────────────────────────────────────────


def numbers(*values):
    return b"".join(value.to_bytes(4, "little") for value in values)


def stretch(first_offset, payloads, **fields):
    """Messages of one run."""
    bounds = [sum(map(len, payloads[:index])) for index in range(len(payloads) + 1)]
    return wire.Slice(
        first_offset=first_offset,
        count=len(payloads),
        base_sequence=1000,
        time_ms=50_000,
        bounds=numbers(*bounds),
        payloads=b"".join(payloads),
        run_starts=numbers(0),
        run_positions=numbers(7),
        run_times=numbers(20),
        run_flags=bytes([0x30]),
        **fields,
    )


def test_a_topic_is_read_to_where_it_ended_when_the_reading_began(clients):
    asked = []

    def converse(peer):
        for request in peer.requests():
            if request.HasField("list_groups"):  # up to where letters were sent back
                redrive = wire.Group(topic="$dlq/t/g", name="redrive", position=3)
                peer.say(request, groups=wire.Groups(groups=[redrive]))
                continue
            asked.append((request.fetch.topic, request.fetch.offset, request.fetch.end_offset))
            offset = max(request.fetch.offset, 5)
            peer.say(
                request,
                fetched=wire.Fetched(
                    incarnation=1,
                    first_offset=5,
                    end_offset=9 if offset == 5 else 90,
                    next_offset=offset + 2,
                    slices=[stretch(offset, [b"a%d" % offset, b"b"])],
                ),
            )

    with broker(converse) as address, clients.connect(address) as client:
        slices = list(client.fetch("t"))
        records = list(client.dead_letters("t", "g"))
    assert asked == [
        ("t", 0, 0),
        ("t", 7, 9),
        ("$dlq/t/g", 3, 0),
        ("$dlq/t/g", 7, 9),
    ]
    assert [(part.first_offset, len(part), part.end_offset) for part in slices] == [
        (5, 2, 7),
        (7, 2, 9),
    ]
    assert [(record.offset, record.payload) for record in records] == [
        (5, b"a5"),
        (6, b"b"),
        (7, b"a7"),
        (8, b"b"),
    ]
    last = records[-1]
    assert (last.sequence, last.ts_ms, last.priority, last.content_type) == (1008, 50_020, 3, "raw")


def test_columns_become_messages_with_all_they_carry(clients):
    def converse(peer):
        extra = wire.Extra(
            number=1, headers=[wire.Header(name="why", value=b"x")], due_ms=5, expires_ms=6
        )
        part = stretch(3, [b"a", b"b"], run_types=bytes([2]), extras=[extra])
        peer.say(peer.read(), fetched=wire.Fetched(end_offset=5, next_offset=5, slices=[part]))

    with broker(converse) as address, clients.connect(address) as client:
        plain, full = client.messages("t", 3)
    assert (plain.content_type, plain.headers, plain.due_ms) == ("json", (), 0)
    assert (full.headers, full.due_ms, full.expires_ms) == ((("why", b"x"),), 5, 6)


def test_a_topic_that_is_made_anew_is_not_read_on(clients):
    def converse(peer):
        for number, request in enumerate(peer.requests()):
            peer.say(
                request,
                fetched=wire.Fetched(
                    incarnation=number,
                    end_offset=9,
                    next_offset=number + 1,
                    slices=[stretch(number, [b"x"])],
                ),
            )

    with broker(converse) as address, clients.connect(address) as client:
        reading = client.messages("t")
        assert next(reading).offset == 0
        with pytest.raises(ClientError, match="created again"):
            next(reading)
