"""Many topics in bulk over the queue protocol: scans, their bounds and rights."""

import itertools
from array import array
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace
from tests.benches.commit_bench import until
from tests.benches.queue_door_bench import Bench, produce

from penstock.doors.queue import scans
from penstock.errors import StorageError
from penstock.limits import SCAN_TOPICS_MAX, SCANS_MAX
from penstock.trust.rights import Rights
from penstock.wire.queue._generated import queue_pb2 as wire

pytestmark = pytest.mark.asyncio

NAMES = [f"device/{number}" for number in range(5)]


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


def many(**fields):
    return wire.Request(fetch_many=wire.FetchMany(**fields))


async def filled(bench, count=3, names=NAMES):
    peer = bench.peer()
    for number in range(count):
        peer.send(*[produce(b"%d" % number, topic=name) for name in names])
        await bench.rest()
    return peer


def u32(column):
    return array("I", column).tolist()


def u64(column):
    return array("Q", column).tolist()


def rows(answer):
    """Topic number, offset, payload."""
    found = []
    for part in answer.slices:
        bounds = u32(part.bounds)
        starts = [*u32(part.group_starts), part.count]
        groups = zip(u32(part.group_topics), u64(part.group_offsets), strict=True)
        for (topic, offset), (start, end) in zip(groups, itertools.pairwise(starts), strict=True):
            for number in range(start, end):
                payload = part.payloads[bounds[number] - bounds[0] : bounds[number + 1] - bounds[0]]
                found.append((topic, offset + number - start, payload))
    return found


async def test_one_request_fetches_many_topics(bench):
    peer = await filled(bench)
    answer = (await peer.ask(many(topics=NAMES))).fetched_many
    assert rows(answer) == [(n, offset, b"%d" % offset) for n in range(5) for offset in range(3)]
    assert answer.last
    assert u64(answer.incarnations) == [bench.store.topic(name.encode()).id for name in NAMES]
    assert (u64(answer.first_offsets), u64(answer.end_offsets)) == ([0] * 5, [3] * 5)
    assert u64(answer.next_offsets) == [3] * 5


async def test_each_topic_has_its_own_range_and_incarnation(bench):
    peer = await filled(bench)
    ids = [bench.store.topic(name.encode()).id for name in NAMES]
    request = many(
        topics=[*NAMES[:3], "none"],
        offsets=[1, 0, 0, 0],
        end_offsets=[2, 0, 0, 0],
        incarnations=[ids[0], 0, ids[2] + 1, 0],
    )
    answer = (await peer.ask(request)).fetched_many
    assert [row[:2] for row in rows(answer)] == [(0, 1), (1, 0), (1, 1), (1, 2)]
    assert u64(answer.incarnations) == [*ids[:3], 0]
    assert u64(answer.next_offsets) == [2, 3, 0, 0]


@pytest.mark.parametrize("bound", [{"max_messages": 4}, {"max_bytes": 4}])
async def test_a_scan_goes_on_until_an_answer_is_the_last(bench, bound):
    peer = await filled(bench)
    answers = [(await peer.ask(many(scan=9, topics=NAMES, **bound))).fetched_many]
    while not answers[-1].last:
        assert not answers[-1].incarnations
        answers.append((await peer.ask(many(scan=9, **bound))).fetched_many)
    assert [len(rows(answer)) for answer in answers] == [4, 4, 4, 3]
    found = [row for answer in answers for row in rows(answer)]
    assert found == [(n, offset, b"%d" % offset) for n in range(5) for offset in range(3)]
    assert (await peer.ask(many(scan=9))).fetched_many.unknown


async def test_a_client_may_ask_ahead(bench):
    peer = await filled(bench)
    before = len(peer.heard())
    peer.send(many(scan=9, topics=NAMES, max_messages=8), many(scan=9, max_messages=8))
    await until(lambda: len(peer.heard()) == before + 2)
    answers = [response.fetched_many for response in peer.heard()[before:]]
    assert [answer.last for answer in answers] == [False, True]
    found = [row for answer in answers for row in rows(answer)]
    assert [row[0] for row in found] == [n for n in range(5) for _ in range(3)]


async def test_without_a_number_one_answer_says_where_each_topic_goes_on(bench):
    peer = await filled(bench)
    answer = (await peer.ask(many(topics=NAMES, max_messages=7))).fetched_many
    assert not answer.last
    assert u64(answer.next_offsets) == [3, 3, 1, 0, 0]


async def test_what_another_client_or_nobody_scans_is_unknown(bench):
    peer = await filled(bench)
    await peer.ask(many(scan=9, topics=NAMES, max_messages=1))
    assert (await bench.peer().ask(many(scan=9))).fetched_many.unknown
    assert (await peer.ask(many(scan=8))).fetched_many.unknown


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "bad_request"),
        ({"topics": ["a", "b"], "offsets": [1]}, "bad_request"),
        ({"topics": ["a"], "end_offsets": [1, 2]}, "bad_request"),
        ({"topics": ["a"], "incarnations": [1, 2]}, "bad_request"),
        ({"topics": ["a"] * (SCAN_TOPICS_MAX + 1)}, "limit"),
        ({"topics": ["a", "$stage/s/1/p"]}, "forbidden"),
        ({"topics": ["a", "$SYS/x"]}, "forbidden"),
    ],
)
async def test_what_makes_no_scan_is_refused(bench, fields, code):
    assert (await bench.peer().ask(many(**fields))).error.code == code


async def test_a_scan_is_forgotten_when_rights_change(bench):
    peer = await filled(bench)
    await peer.ask(many(scan=9, topics=NAMES, max_messages=1))
    peer.connection.principal_changed()
    assert (await peer.ask(many(scan=9))).fetched_many.unknown


async def test_who_may_not_read_one_of_the_topics_reads_none(bench):
    peer = await filled(bench)
    peer.connection.principal = replace(peer.connection.principal, user="ann", rights=Rights([]))
    answer = await peer.ask(many(topics=NAMES))
    assert answer.error.code == "not_authorized"


async def test_a_scan_whose_read_failed_is_forgotten_for_its_positions_may_be_ahead(bench):
    peer = await filled(bench)
    await peer.ask(many(scan=9, topics=NAMES, max_messages=1))
    reading = bench.store.read_raw_many

    def fail(scan, *arguments):
        reading(scan, *arguments)
        raise StorageError("damaged")

    bench.store.read_raw_many = fail
    assert (await peer.ask(many(scan=9, max_messages=1))).error.code == "internal"
    bench.store.read_raw_many = reading
    assert (await peer.ask(many(scan=9))).fetched_many.unknown


async def test_the_scan_that_was_asked_for_longest_ago_is_forgotten_first(bench):
    peer = await filled(bench)
    for number in range(1, SCANS_MAX + 1):
        await peer.ask(many(scan=number, topics=NAMES, max_messages=1))
    await peer.ask(many(scan=1, max_messages=1))
    await peer.ask(many(scan=99, topics=NAMES, max_messages=1))
    assert (await peer.ask(many(scan=2))).fetched_many.unknown
    assert (await peer.ask(many(scan=1))).fetched_many.last


async def test_all_scans_together_have_a_bound(bench, monkeypatch):
    monkeypatch.setattr(scans, "SCANNED_TOPICS_MAX", 12)
    peer, other = await filled(bench), bench.peer()
    await peer.ask(many(scan=1, topics=NAMES, max_messages=1))
    await other.ask(many(scan=1, topics=NAMES, max_messages=1))
    await other.ask(many(scan=2, topics=NAMES, max_messages=1))
    assert (await peer.ask(many(scan=1))).fetched_many.unknown
    assert (await other.ask(many(scan=1))).fetched_many.last


async def test_a_connection_takes_its_scans_with_it(bench):
    peer = await filled(bench)
    await peer.ask(many(scan=1, topics=NAMES, max_messages=1))
    peer.connection.let_go()
    assert bench.door.scans.get(peer.connection.owner, 1) is None
