"""Streams and the journal: what is stored, what is refused, what a reply may hold."""

import pytest
import redis
from redis.exceptions import ResponseError

from penstock.core.commands import ConsumerGone, ConsumerMade
from penstock.doors.resp.streams import groups, reader
from penstock.doors.resp.streams.ids import id_replies
from penstock.errors import StorageFull
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(signing={"required": ["secure/#"]}) as broker:
        yield broker


@pytest.fixture
def topic(request):
    return request.node.name


@pytest.fixture
def client(broker):
    with redis.Redis(port=broker.port, protocol=2, decode_responses=True) as client:
        yield client


def pipelined(client, *commands):
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return pipe.execute(raise_on_error=False)


# ── XADD ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", [0, 7, 95, 999_998])
def test_ids_of_a_run_are_those_of_its_entries(first):
    expected = [b"123-%d" % offset for offset in range(first, first + 20)]
    assert id_replies(123, first, 20) == b"".join(b"$%d\r\n%b\r\n" % (len(i), i) for i in expected)


def test_a_run_is_one_publish_with_an_answer_for_each(broker, client, topic):
    added = pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(100)))
    assert [entry.split("-")[1] for entry in added] == [str(number) for number in range(100)]
    assert [found["n"] for _, found in client.xrange(topic)] == [str(n) for n in range(100)]


def test_runs_of_two_clients_keep_their_own_ids(broker, client, topic):
    with redis.Redis(port=broker.port, protocol=2, decode_responses=True) as other:
        pipes = [(c, c.pipeline(transaction=False)) for c in (client, other)]
        for c, pipe in pipes:
            for number in range(50):
                pipe.xadd(topic, {str(c is client): number})
        for c, pipe in pipes:
            for number, entry in enumerate(pipe.execute()):
                assert client.xrange(topic, entry, entry) == [
                    (entry, {str(c is client): str(number)})
                ]


def test_a_stream_that_is_being_made_is_there_for_what_comes_behind(client, topic):
    answers = pipelined(
        client,
        ["XADD", topic, "NOMKSTREAM", "*", "a", 1],
        ["XADD", topic, "*", "a", 2],
        ["XADD", topic, "NOMKSTREAM", "*", "a", 3],
    )
    assert answers[0] is None
    assert [found["a"] for _, found in client.xrange(topic)] == ["2", "3"]


@pytest.mark.parametrize("entry", ["1-1", "5", "1-*", "0-0"])
def test_an_id_of_the_clients_own_is_refused(client, topic, entry):
    with pytest.raises(ResponseError, match="The broker assigns the IDs"):
        client.xadd(topic, {"a": 1}, id=entry)
    assert client.xlen(topic) == 0


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a" * 1_025, "topic_invalid"),
        ("", "topic_invalid"),
        ("$SYS/x", "topic_reserved"),
        ("secure/x", "requires signed messages"),
    ],
)
def test_topics_are_as_closed_to_xadd_as_to_any_publisher(client, name, error):
    with pytest.raises(ResponseError, match=error):
        client.xadd(name, {"a": 1})
    assert client.xlen(name) == 0


def test_an_entry_that_the_disk_refuses_is_answered_with_an_error(broker, client, topic):
    store = broker.server.store.whole
    commit = store.commit

    def full(_batch):
        store.commit = commit
        raise StorageFull("no room")

    store.commit = full
    answers = pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(3)))
    assert [str(answer) for answer in answers] == [
        "storage_full: the disk refused, nothing was stored"
    ] * 3
    assert client.xadd(topic, {"n": 3})
    assert client.xlen(topic) == 1


@pytest.mark.parametrize("command", ["XACK", "XREADGROUP", "XGROUP"])
def test_a_group_command_that_the_disk_refuses_is_answered_with_an_error(
    broker, client, topic, command
):
    entry = client.xadd(topic, {"a": 1})
    client.xgroup_create(topic, "g", "0")
    store = broker.server.store.whole
    commit = store.commit

    def full(_batch):
        store.commit = commit
        raise StorageFull("no room")

    store.commit = full
    words = {
        "XACK": ["XACK", topic, "g", entry],
        "XREADGROUP": ["XREADGROUP", "GROUP", "g", "c", "STREAMS", topic, ">"],
        "XGROUP": ["XGROUP", "CREATE", topic, "h", "0"],
    }[command]
    with pytest.raises(ResponseError, match="storage_full"):
        client.execute_command(*words)
    client.execute_command(*words)


# ── XTRIM, XDEL ───────────────────────────────────────────────────────────────────────────────


def test_approximate_trimming_removes_whole_hundreds(client, topic):
    pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(350)))
    assert client.xtrim(topic, maxlen=50, approximate=True, limit=250) == 200
    assert client.xtrim(topic, maxlen=50, approximate=True) == 100
    assert client.xtrim(topic, maxlen=50, approximate=True) == 0
    assert client.xlen(topic) == 50


def test_trimming_by_length_does_not_count_what_was_deleted(client, topic):
    added = pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(10)))
    client.xdel(topic, *added[1:9:2])
    assert client.xtrim(topic, maxlen=3, approximate=False) == 3
    assert [found["n"] for _, found in client.xrange(topic)] == ["6", "8", "9"]


def test_trimming_by_time_is_exact(broker, client, topic):
    client.xadd(topic, {"n": 0})
    broker.clock.advance(10)
    kept = client.xadd(topic, {"n": 1})
    assert client.xtrim(topic, minid=kept.split("-")[0], approximate=False) == 1
    assert [entry for entry, _ in client.xrange(topic)] == [kept]


def test_adding_with_a_bound_keeps_the_stream_short(client, topic):
    add = ["XADD", topic, "MAXLEN", "3", "*", "n"]
    pipelined(client, *([*add, number] for number in range(40)))
    assert [found["n"] for _, found in client.xrange(topic)] == ["37", "38", "39"]


# ── what a reply may hold ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def small():
    limits = {"outbound_bytes_max": "64KiB", "packet_bytes_max": "32KiB"}
    with (
        Broker(limits=limits) as broker,
        redis.Redis(port=broker.port, protocol=2, decode_responses=True) as client,
    ):
        yield client


def filled(client, count):
    return [client.xadd("s", {"n": number, "x": "x" * 10_000}) for number in range(count)]


def test_a_range_too_large_is_an_error_and_never_a_part(small):
    added = filled(small, 10)
    for read in (small.xrange, small.xrevrange):
        with pytest.raises(ResponseError, match="larger than 65536 bytes, use a smaller COUNT"):
            read("s")
        assert len(read("s", count=5)) == 5
    assert [entry for entry, _ in small.xrevrange("s", count=5)] == added[:4:-1]


def test_a_read_gives_what_fits_and_goes_on_behind_it(small):
    added = filled(small, 10)
    seen, last = [], "0"
    while answer := small.xread({"s": last}):
        seen += [entry for entry, _ in answer[0][1]]
        last = seen[-1]
    assert seen == added


def test_a_group_hands_out_what_fits_and_goes_on_behind_it(small):
    added = filled(small, 10)
    small.xgroup_create("s", "g", "0")
    seen = []
    while answer := small.xreadgroup("g", "c", {"s": ">"}):
        seen += [entry for entry, _ in answer[0][1]]
    assert seen == added
    with pytest.raises(ResponseError, match="use a smaller COUNT"):
        small.xreadgroup("g", "c", {"s": "0"})
    with pytest.raises(ResponseError, match="use a smaller COUNT"):
        small.xclaim("s", "g", "d", 0, added)
    assert small.xpending("s", "g")["consumers"] == [{"name": "c", "pending": 10}]


def test_idle_entries_are_claimed_as_far_as_they_fit(small):
    added = filled(small, 10)
    small.xgroup_create("s", "g", "0")
    while small.xreadgroup("g", "c", {"s": ">"}):
        pass
    cursor, claimed = "0-0", []
    while True:
        cursor, entries, _ = small.xautoclaim("s", "g", "d", 0, cursor)
        claimed += [entry for entry, _ in entries]
        if cursor == "0-0":
            break
    assert claimed == added


def test_one_entry_is_never_too_large(small):
    limit = "x" * 32_000
    small.xadd("s", {"payload": limit})
    small.xadd("s", {"payload": limit})
    small.xadd("s", {"payload": limit})
    assert small.xrange("s", count=1)[0][1] == {"payload": limit}
    assert small.xrevrange("s", count=1)[0][1] == {"payload": limit}


def test_reading_goes_on_over_many_lots(client, topic, monkeypatch):
    monkeypatch.setattr(reader, "READ_COUNT_MAX", 3)
    pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(20)))
    numbers = [str(number) for number in range(20)]
    assert [found["n"] for _, found in client.xrange(topic)] == numbers
    assert [found["n"] for _, found in client.xrevrange(topic)] == numbers[::-1]
    assert len(client.xrange(topic, count=7)) == 7
    assert len(client.xread({topic: "0"}, count=7)[0][1]) == 7


def test_ranges_by_time_hold_the_entries_of_that_time(broker, client, topic):
    early = client.xadd(topic, {"n": 0})
    broker.clock.advance(5)
    late = [client.xadd(topic, {"n": number}) for number in (1, 2)]
    time_ms = late[0].split("-")[0]
    assert [entry for entry, _ in client.xrange(topic, time_ms, time_ms)] == late
    assert [entry for entry, _ in client.xrange(topic, "-", str(int(time_ms) - 1))] == [early]
    assert [entry for entry, _ in client.xread({topic: time_ms})[0][1]] == late
    client.xgroup_create(topic, "g", time_ms)
    assert [entry for entry, _ in client.xreadgroup("g", "c", {topic: ">"})[0][1]] == late


def test_a_run_of_acknowledgements_answers_each(client, topic):
    added = pipelined(client, *(["XADD", topic, "*", "n", number] for number in range(3)))
    client.xgroup_create(topic, "g", "0")
    client.xreadgroup("g", "c", {topic: ">"})
    ids = [added[0], added[0], "foo", added[2], "9-9"]
    answers = pipelined(client, *(["XACK", topic, "g", entry] for entry in ids))
    assert [answers[0], answers[1], answers[3], answers[4]] == [1, 0, 1, 0]
    assert isinstance(answers[2], ResponseError)


def test_a_consumer_that_is_removed_while_it_is_made_has_nothing(client, topic, monkeypatch):
    """Its group may be deleted and recreated in the same commit, too."""
    submitted = groups.submitted

    async def undone(pipeline, command):
        value = await submitted(pipeline, command)
        if isinstance(command, ConsumerMade):
            await submitted(pipeline, ConsumerGone(command.topic, command.group, command.consumer))
        return value

    monkeypatch.setattr(groups, "submitted", undone)
    client.xgroup_create(topic, "g", 0, mkstream=True)
    assert client.xreadgroup("g", "c", {topic: "0"}) == [[topic, []]]


def test_deliveries_are_counted_on_from_the_most_that_a_client_may_say(client, topic):
    entry = client.xadd(topic, {"n": 0})
    client.xgroup_create(topic, "g", 0)
    client.xreadgroup("g", "c", {topic: ">"})
    client.xclaim(topic, "g", "c", 0, [entry], retrycount=2**63 - 1)
    client.xclaim(topic, "g", "c", 0, [entry])
    [pending] = client.xpending_range(topic, "g", "-", "+", 1)
    assert pending["times_delivered"] == 2**31 + 1
