"""Staged commits: rows are invisible until one decision publishes all of them, once."""

import threading
from itertools import pairwise

import pytest

from penstock.limits import (
    HEADERS_MAX,
    SINK_NOTE_BYTES_MAX,
    STAGED_BLOCK_BYTES_MAX,
    STAGED_BLOCK_COST,
    STAGED_LOTS_MAX,
    STAGED_MESSAGES_MAX,
)
from penstock.model.stages import Stage
from penstock.net import turns
from penstock.testing import Broker
from penstock.trust.principal import ANYONE
from penstock.wire.queue._generated.queue_pb2 import StagedBlock
from tests.conformance_queue.wire_client import QueueClient, request, wait_until

DAY_S = 24 * 3600


@pytest.fixture
def broker():
    """A broker for each test, so that the test sees only its own sinks and topics."""
    with Broker() as own:
        yield own


def lot(topic="t", *payloads, **fields):
    return {"topic": topic, "payloads": payloads, **fields}


def block(*lots):
    return StagedBlock(lots=lots).SerializeToString()


def stage(part="0", number=0, *lots, sink="s", epoch=0, content=None):
    content = block(*lots) if content is None else content
    return {"sink": sink, "epoch": epoch, "part": part, "number": number, "block": content}


def parts(**blocks):
    return [{"part": part, "blocks": count} for part, count in blocks.items()]


def commit(client, blocks, *, sink="s", epoch=0, **fields):
    asked = {"sink": sink, "epoch": epoch, "parts": parts(**blocks), **fields}
    response = client.ask(commit_stage=asked)
    assert response.HasField("stage_committed"), response
    return response.stage_committed


def read(client, topic="t"):
    """All payloads of a topic."""
    response = client.ask(fetch={"topic": topic})
    return [payload for part in response.fetched.slices for payload in payloads(part)]


def payloads(part):
    bounds = [bound - part_start(part) for bound in memoryview(part.bounds).cast("I")]
    return [part.payloads[a:b] for a, b in pairwise(bounds)]


def part_start(part):
    return memoryview(part.bounds).cast("I")[0]


def sink_of(client, name="s"):
    found = client.ask(list_sinks={"name": name}).sinks.sinks
    return found[0] if found else None


# ── out of sight ──────────────────────────────────────────────────────────────────────────────


def test_staged_rows_become_messages_only_when_committed(client):
    client.ok(stage=stage("0", 0, lot("t", b"a", b"b")))
    assert read(client) == []
    done = commit(client, {"0": 1})
    assert (done.epoch, done.is_repetition, done.messages) == (0, False, 2)
    assert read(client) == [b"a", b"b"]


def test_no_list_and_no_read_shows_what_is_staged(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    name = "$stage/s/0/0"
    assert not client.ask(list_topics={}).topics.topics
    assert not client.ask(list_topics={"prefix": "$stage/"}).topics.topics
    assert not client.ask(list_topics={"name": name}).topics.topics
    assert client.refusal(fetch={"topic": name}) == "forbidden"
    assert client.refusal(poll={"topic": name, "group": "g"}) == "forbidden"
    assert client.refusal(produce={"topic": name, "payload": b"x"}) == "forbidden"
    assert client.refusal(delete_topic={"topic": name}) == "forbidden"
    changed = client.ask(changes={"filters": ["$stage/#", name]}).changed
    assert not changed.topics


def test_a_failed_epoch_creates_no_topics(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    client.ok(abort_stage={"sink": "s", "epoch": 0})
    assert not client.ask(list_topics={}).topics.topics


# ── order and form ────────────────────────────────────────────────────────────────────────────


def test_parts_are_published_in_the_order_given_and_blocks_in_that_of_their_numbers(client):
    client.ok(stage=stage("1", 0, lot("t", b"c")))
    client.ok(stage=stage("0", 0, lot("t", b"a"), lot("u", b"x")))
    client.ok(stage=stage("0", 1, lot("t", b"b")))
    commit(client, {"0": 2, "1": 1})
    assert read(client) == [b"a", b"b", b"c"]
    assert read(client, "u") == [b"x"]


def test_messages_have_the_priority_type_headers_and_time_of_their_rows(client):
    headers = [{"name": "k", "value": b"v"}]
    row = lot("t", b"a", b"b", priority=9, content_type=2, headers=headers, times_ms=[7, 8])
    client.ok(stage=stage("0", 0, row))
    commit(client, {"0": 1})
    first, second = client.poll("t", maximum=2)
    assert (first.priority, first.content_type) == (7, 2)
    pairs = [[(h.name, h.value) for h in item.headers] for item in (first, second)]
    assert pairs == [[("k", b"v"), ("time", b"7")], [("k", b"v"), ("time", b"8")]]


def test_a_large_epoch_is_published_in_pieces_in_its_order(client):
    rows = [b"%d" % number for number in range(30_000)]
    for number in range(3):
        some = rows[number * 10_000 : (number + 1) * 10_000]
        client.ok(stage=stage("0", number, lot("t", *some)))
    commit(client, {"0": 3})
    found = []
    while len(found) < len(rows):
        response = client.ask(fetch={"topic": "t", "offset": len(found)})
        found += [one for part in response.fetched.slices for one in payloads(part)]
    assert found == rows


# ── once ──────────────────────────────────────────────────────────────────────────────────────


def test_a_block_that_is_sent_again_is_stored_once(client):
    asked = stage("0", 0, lot("t", b"a"))
    client.send(*(request(stage=asked) for _ in range(3)))
    assert all(response.HasField("ok") for response in client.receive_many(3))
    client.ok(stage=asked)
    commit(client, {"0": 1})
    assert read(client) == [b"a"]


def test_a_committed_epoch_is_not_published_again(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    commit(client, {"0": 1}, note=b"first")
    client.ok(stage=stage("1", 0, lot("t", b"b")))
    again = commit(client, {"1": 1}, note=b"second")
    assert (again.epoch, again.is_repetition, again.messages) == (0, True, 1)
    assert read(client) == [b"a"]
    assert sink_of(client).note == b"first"


def test_an_epoch_below_the_last_is_not_published(client):
    client.ok(stage=stage("0", 0, lot("t", b"early"), epoch=3))
    client.ok(stage=stage("0", 0, lot("t", b"late"), epoch=5))
    commit(client, {"0": 1}, epoch=5)
    again = commit(client, {"0": 1}, epoch=3)
    assert (again.epoch, again.is_repetition, again.messages) == (5, True, 0)
    assert read(client) == [b"late"]
    wait_until(lambda: not sink_of(client).staged_parts)


def test_two_concurrent_commits_of_an_epoch_publish_it_once(broker, client):
    with QueueClient(broker.host, broker.port) as other:
        for number in range(4):
            some = [b"%d" % row for row in range(number * 10_000, number * 10_000 + 10_000)]
            client.ok(stage=stage("0", number, lot("t", *some)))
        client.ok(stage=stage("1", 0, lot("t", b"other")))
        client.send(request(commit_stage={"sink": "s", "parts": parts(**{"0": 4})}))
        other.send(request(commit_stage={"sink": "s", "parts": parts(**{"1": 1})}))
        outcomes = [one.receive().stage_committed for one in (client, other)]
        assert sorted(outcome.is_repetition for outcome in outcomes) == [False, True]
        [winner] = [outcome for outcome in outcomes if not outcome.is_repetition]
        [topic] = client.ask(list_topics={"name": "t"}).topics.topics
        assert topic.end_offset == winner.messages
        wait_until(lambda: not sink_of(client).staged_parts)


def test_a_repetition_is_answered_only_when_the_first_commit_is_on_disk(own_broker, monkeypatch):
    """Also where it is applied earlier: a client that gets the answer continues, and never asks again."""
    monkeypatch.setattr("penstock.staging.sink_commits.WAIT_S", 0.2)
    broker = own_broker(durability="interval", durability_interval_ms=10)
    address, store, is_open = (
        (broker.host, broker.port),
        broker.server.store.whole,
        threading.Event(),
    )
    real = store.commit
    with QueueClient(*address) as one, QueueClient(*address) as other:
        one.ok(stage=stage("0", 0, lot("t", b"row")))
        monkeypatch.setattr(store, "commit", lambda batch: (is_open.wait(5), real(batch))[1])
        one.send(request(commit_stage={"sink": "s", "parts": parts(**{"0": 1})}))
        wait_until(lambda: sink_of(other).committed_ms)
        early = commit(other, {"0": 1})
        is_open.set()
        assert (early.is_under_way, early.is_repetition) == (True, False)
        wait_until(lambda: commit(other, {"0": 1}).is_repetition)


def test_the_next_epoch_waits_for_the_one_in_progress(client):
    for epoch in (0, 1):
        rows = [b"%d" % epoch] * 20_000
        client.ok(stage=stage("0", 0, lot("t", *rows), epoch=epoch))
    for epoch in (0, 1):
        asked = {"sink": "s", "epoch": epoch, "parts": parts(**{"0": 1})}
        client.send(request(commit_stage=asked))
    first, second = client.receive_many(2)
    assert (first.stage_committed.epoch, second.stage_committed.epoch) == (0, 1)
    assert not second.stage_committed.is_repetition


# ── the end ───────────────────────────────────────────────────────────────────────────────────


def test_staged_blocks_are_deleted_after_the_commit(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    client.ok(stage=stage("failed", 0, lot("t", b"b")))
    assert (sink_of(client).staged_parts, sink_of(client).committed_ms) == (2, 0)
    commit(client, {"0": 1})
    wait_until(lambda: not sink_of(client).staged_parts)
    found = sink_of(client)
    assert (found.epoch, found.messages, found.staged_bytes) == (0, 1, 0)
    assert found.committed_ms


def test_an_aborted_part_cannot_be_committed(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    client.ok(stage=stage("1", 0, lot("t", b"b")))
    client.ok(abort_stage={"sink": "s", "epoch": 0, "parts": ["0"]})
    asked = {"sink": "s", "epoch": 0, "parts": parts(**{"0": 1})}
    assert client.refusal(commit_stage=asked) == "bad_request"
    commit(client, {"1": 1})
    assert read(client) == [b"b"]


def test_blocks_in_flight_are_aborted_too(client):
    rows = [b"x" * 100] * 5_000
    client.send(
        *(request(stage=stage("0", number, lot("t", *rows))) for number in range(3)),
        request(abort_stage={"sink": "s", "epoch": 0}),
    )
    client.receive_many(4)
    wait_until(lambda: sink_of(client) is None)


def test_an_abort_after_the_decision_is_ignored(client):
    rows = [b"x"] * 30_000
    client.ok(stage=stage("0", 0, lot("t", *rows)))
    client.send(
        request(commit_stage={"sink": "s", "parts": parts(**{"0": 1})}),
        request(abort_stage={"sink": "s", "epoch": 0}),
    )
    done, aborted = client.receive_many(2)
    assert (done.stage_committed.messages, aborted.HasField("ok")) == (30_000, True)
    client.ok(abort_stage={"sink": "s", "epoch": 0, "parts": ["0"]})
    assert not commit(client, {}, epoch=1).is_repetition


def test_uncommitted_blocks_expire_after_a_day(broker, client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    broker.clock.advance(DAY_S / 2)
    client.ok(stage=stage("1", 0, lot("t", b"a")))
    broker.clock.advance(DAY_S / 2 + 5)
    wait_until(lambda: sink_of(client).staged_parts == 1)
    broker.clock.advance(DAY_S / 2)
    wait_until(lambda: sink_of(client) is None)
    assert broker.metrics()["penstock_stages_expired_total"] == 2


def test_a_forgotten_sink_starts_over(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    commit(client, {"0": 1})
    client.ok(stage=stage("0", 0, lot("t", b"z"), epoch=1))
    client.ok(forget_sink={"name": "s"})
    wait_until(lambda: sink_of(client) is None)
    client.ok(stage=stage("1", 0, lot("t", b"b")))
    assert not commit(client, {"1": 1}).is_repetition
    assert read(client) == [b"a", b"b"]
    client.ok(forget_sink={"name": "never/was"})


def test_a_sink_cannot_be_forgotten_during_a_commit(client):
    rows = [b"x"] * 30_000
    client.ok(stage=stage("0", 0, lot("t", *rows)))
    client.send(
        request(commit_stage={"sink": "s", "parts": parts(**{"0": 1})}),
        request(forget_sink={"name": "s"}),
    )
    done, refused = client.receive_many(2)
    assert (done.stage_committed.messages, refused.error.code) == (30_000, "bad_request")


def test_an_epoch_without_rows_can_be_committed(client):
    assert commit(client, {}, epoch=4, note=b"n").messages == 0
    found = sink_of(client)
    assert (found.epoch, found.note) == (4, b"n")
    assert commit(client, {"empty": 0}, epoch=5).epoch == 5


def test_sinks_are_listed_by_pages(client):
    for name in ("b", "a/x", "c"):
        commit(client, {}, sink=name)
    page = client.ask(list_sinks={"max": 2}).sinks
    assert ([sink.name for sink in page.sinks], page.more) == (["a/x", "b"], True)
    page = client.ask(list_sinks={"max": 2, "after": "b"}).sinks
    assert ([sink.name for sink in page.sinks], page.more) == (["c"], False)


def test_a_page_has_fewer_sinks_if_their_notes_are_large(client):
    names, note = [f"{number:02}" for number in range(40)], b"x" * SINK_NOTE_BYTES_MAX
    for name in names:
        commit(client, {}, sink=name, note=note)
    found, more, pages = [], True, 0
    while more:
        response = client.ask(list_sinks={"after": found[-1] if found else ""})
        assert response.ByteSize() < 512 * 1024
        found += [sink.name for sink in response.sinks.sinks]
        more, pages = response.sinks.more, pages + 1
    assert (found, pages) == (names, 3)


# ── refused ───────────────────────────────────────────────────────────────────────────────────

CROWD = [{"name": "h"}] * (HEADERS_MAX + 1)
BAD_BLOCKS = {
    "no block": b"junk",
    "wildcard": block(lot("a/+", b"x")),
    "empty topic": block(lot("", b"x")),
    "reserved": block(lot("$SYS/x", b"x")),
    "staged": block(lot("$stage/x/0/0", b"x")),
    "times": block(lot("t", b"x", times_ms=[1, 2])),
    "headers": block(lot("t", b"x", headers=CROWD)),
    "header bytes": block(lot("t", b"x", headers=[{"name": "h", "value": b"x" * 17_000}])),
    "lots": block(*[lot("t", b"x")] * (STAGED_LOTS_MAX + 1)),
    "messages": block(lot("t", *[b""] * (STAGED_MESSAGES_MAX + 1))),
    "many headers": block(lot("t", b"x", headers=[{}] * 400_000)),
    "large": block(lot("t", b"x" * STAGED_BLOCK_BYTES_MAX)),
    "no bytes": b"",
    "no message": block(lot("t")),
    "headers of all messages": block(
        lot("t", *[b""] * 1_100, headers=[{"name": "h", "value": b"x" * 16_000}])
    ),
}


@pytest.mark.parametrize("content", BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_an_invalid_block_is_refused_when_staged_and_leaves_nothing(client, content):
    assert client.refusal(stage=stage(content=content)) in {"bad_request", "forbidden"}
    assert sink_of(client) is None


def test_rows_for_a_topic_that_requires_signatures_are_refused(own_broker, dial):
    client = dial(at=own_broker(signing={"required": ["safe/#"]}))
    rows = (lot("t", b"x"), lot("safe/1", b"x"))
    assert client.refusal(stage=stage("0", 0, *rows)) == "forbidden"
    assert sink_of(client) is None


def test_blocks_after_an_invalid_one_are_refused_and_those_before_it_kept(client):
    good, bad = block(lot("t", b"a")), block(lot("a/#", b"b"))
    contents = [good, bad, good]
    client.send(*(request(stage=stage("0", n, content=c)) for n, c in enumerate(contents)))
    outcomes = [response.WhichOneof("kind") for response in client.receive_many(3)]
    assert outcomes == ["ok", "error", "error"]
    client.ok(stage=stage("0", 1, lot("t", b"b")))
    commit(client, {"0": 2})
    assert read(client) == [b"a", b"b"]


def test_blocks_must_arrive_in_order(client):
    assert client.refusal(stage=stage("0", 1, lot("t", b"b"))) == "bad_request"
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    client.ok(stage=stage("0", 1, lot("t", b"b")))


@pytest.mark.parametrize("blocks", [{"0": 1}, {"0": 3}, {"0": 2, "other": 1}])
def test_a_commit_must_name_existing_parts(client, blocks):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    client.ok(stage=stage("0", 1, lot("t", b"b")))
    asked = {"sink": "s", "epoch": 0, "parts": parts(**blocks)}
    assert client.refusal(commit_stage=asked) == "bad_request"
    assert read(client) == []
    commit(client, {"0": 2})


def test_a_commit_must_not_name_a_part_twice(client):
    client.ok(stage=stage("0", 0, lot("t", b"a")))
    twice = {"sink": "s", "epoch": 0, "parts": parts(**{"0": 1}) * 2}
    assert client.refusal(commit_stage=twice) == "bad_request"


@pytest.mark.parametrize("name", ["", "a//b", "/a", "a/", "a/+", "#", "a\0b", "x" * 201, "é" * 101])
def test_invalid_sink_names_are_refused(client, name):
    assert client.refusal(stage=stage(sink=name, content=b"")) == "bad_request"
    assert client.refusal(commit_stage={"sink": name}) == "bad_request"
    assert client.refusal(abort_stage={"sink": name}) == "bad_request"
    assert client.refusal(forget_sink={"name": name}) == "bad_request"


@pytest.mark.parametrize("part", ["", "a/b", "+", "x" * 129])
def test_invalid_part_names_are_refused(client, part):
    assert client.refusal(stage=stage(part, content=b"")) == "bad_request"


def test_large_notes_are_refused(client):
    asked = {"sink": "s", "note": b"x" * (SINK_NOTE_BYTES_MAX + 1)}
    assert client.refusal(commit_stage=asked) == "limit"


def test_a_sink_that_stages_too_much_is_refused(own_broker, dial):
    content = block(lot("t", *[b"x" * 1_000] * 900))
    client = dial(at=own_broker(limits={"staged_bytes_max": 1 << 20}))
    client.ok(stage=stage(content=content))
    assert client.refusal(stage=stage(number=1, content=content)) == "limit"
    client.ok(stage=stage(sink="other", content=content))
    commit(client, {"0": 1})
    wait_until(lambda: not sink_of(client).staged_parts)
    client.ok(stage=stage(epoch=1, content=content))


def test_tiny_blocks_count_with_their_overhead_in_the_journal(own_broker, dial):
    """Otherwise a million of them would count as a mebibyte, and retention can remove none."""
    client = dial(at=own_broker(limits={"staged_bytes_max": 1 << 20}))
    content, count = block(lot("t", b"")), (1 << 20) // STAGED_BLOCK_COST
    for first in range(0, count, 512):
        numbers = range(first, first + 512)
        client.send(*[request(stage=stage(number=number, content=content)) for number in numbers])
        outcomes = [response.WhichOneof("kind") for response in client.receive_many(512)]
    assert outcomes[-1] == "error"
    assert (
        client.refusal(stage=stage(number=outcomes.count("ok") + first, content=content)) == "limit"
    )


def test_the_number_of_sinks_is_limited(own_broker, dial):
    client = dial(at=own_broker(limits={"sinks_max": 1}))
    commit(client, {}, sink="a")
    commit(client, {}, sink="a", epoch=1)
    assert client.refusal(commit_stage={"sink": "b"}) == "limit"
    client.ok(forget_sink={"name": "a"})
    commit(client, {}, sink="b")


# ── others have their turn ────────────────────────────────────────────────────────────────────


def test_a_block_of_many_topics_is_validated_in_slices(broker, client, monkeypatch):
    taken = []
    real = turns.Turns.run

    def run(self, work):
        taken.append(work)
        real(self, work)

    monkeypatch.setattr(turns, "TURN_S", -1)
    monkeypatch.setattr(turns.Turns, "run", run)
    topics = [f"t/{number}" for number in range(300)]
    client.ok(stage=stage("0", 0, *[lot(topic, b"x") for topic in topics]))
    assert len(taken) >= len(topics) - 1, "it has kept the loop"
    assert commit(client, {"0": 1}).messages == 300


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_many_parts_are_deleted_in_slices_and_unusable_immediately(
    client, monkeypatch, is_forgotten
):
    parts = [f"{number}" for number in range(200)]
    client.send(*[request(stage=stage(part, 0, lot("t", b"x"))) for part in parts])
    assert all(response.HasField("ok") for response in client.receive_many(len(parts)))
    taken, real = [], turns.Turns.run

    def run(self, work):
        taken.append(work)
        real(self, work)

    monkeypatch.setattr(turns, "TURN_S", -1)
    monkeypatch.setattr(turns.Turns, "run", run)
    end = {"forget_sink": {"name": "s"}} if is_forgotten else {"abort_stage": {"sink": "s"}}
    refused = {"sink": "s", "parts": [{"part": "199", "blocks": 1}]}
    client.send(request(**end), request(commit_stage=refused))
    assert [client.receive().WhichOneof("kind") for _ in range(2)] == ["ok", "error"]
    wait_until(lambda: sink_of(client) is None)
    assert len(taken) >= len(parts) - 1, "it has kept the loop"
    client.ok(stage=stage("0", 0, lot("t", b"y")))
    commit(client, {"0": 1})
    assert read(client) == [b"y"]


class _Next:
    """Stages the next block as soon as its own is confirmed."""

    def __init__(self, stages, number, then=None):
        self.stages, self.number, self.then, self.told = stages, number, then, []

    def stage(self):
        place = Stage(b"s", 0, b"0")
        content = block(lot("t", b"%d" % self.number))
        self.stages.stage(ANYONE, place, self.number, content, self)

    def done(self, _value):
        self.told.append(self.stages.get(Stage(b"s", 0, b"0")).stored > self.number)
        if self.then:
            self.then.stage()

    def fail(self, fault):
        self.told.append(fault)


def test_the_next_block_may_be_staged_as_soon_as_one_is_confirmed(broker, client):
    """Blocks 1 and 2 are stored together, and 3 arrives before 2 is confirmed."""
    stages = broker.server.parts.sinks.stages
    last = _Next(stages, 3)
    blocks = [_Next(stages, 0), _Next(stages, 1, last), _Next(stages, 2)]
    broker.call(lambda: [each.stage() for each in blocks])
    wait_until(lambda: last.told)
    assert [each.told for each in (*blocks, last)] == [[True]] * 4
    commit(client, {"0": 4})
    assert read(client) == [b"0", b"1", b"2", b"3"]
