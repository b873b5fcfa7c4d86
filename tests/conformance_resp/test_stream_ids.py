"""Both parts of an id count: an entry is found, removed and acknowledged by its whole id."""

import pytest
import redis

from penstock.doors.resp.streams import ids, known_ids
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.testing import Broker


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with redis.Redis(port=broker.port, decode_responses=True, protocol=2) as client:
        yield client


@pytest.fixture
def added(broker, client):
    """Ten entries, each of another time."""
    names = []
    for number in range(10):
        broker.clock.advance(0.005)
        names.append(client.xadd("s", {"n": number}))
    return names


def time_of(entry_id):
    return entry_id.partition("-")[0]


def names(entries):
    return [name for name, _ in entries]


def test_trimming_below_an_early_id_removes_nothing(client, added):
    assert client.xtrim("s", minid="1-5", approximate=False) == 0
    assert client.xlen("s") == 10


def test_trimming_below_a_time_with_a_zero_removes_what_is_older(client, added):
    for number in (4, 7):  # the first one removes the entry with offset 0 itself
        client.xtrim("s", minid=f"{time_of(added[number])}-0", approximate=False)
        assert names(client.xrange("s")) == added[number:]


def test_a_range_begins_and_ends_at_the_time_in_an_id(client, added):
    start, end = f"{time_of(added[3])}-0", f"{time_of(added[6])}-99"
    assert names(client.xrange("s", start, end)) == added[3:7]
    assert names(client.xrevrange("s", end, start)) == added[6:2:-1]


def test_a_read_and_a_group_go_on_behind_the_time_in_an_id(client, added):
    behind = f"{time_of(added[6])}-99"
    assert names(client.xread({"s": behind})[0][1]) == added[7:]
    client.xgroup_create("s", "g", behind)
    assert names(client.xreadgroup("g", "c", {"s": ">"})[0][1]) == added[7:]


def test_an_id_with_a_wrong_time_acknowledges_claims_and_deletes_nothing(client, added):
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    assert client.xack("s", "g", *(f"1-{number}" for number in range(10))) == 0
    assert client.xclaim("s", "g", "d", 0, ["1-3"]) == []
    assert client.xdel("s", "1-3") == 0
    assert client.xpending("s", "g")["pending"] == client.xlen("s") == 10


def test_ids_that_nobody_was_given_lately_are_looked_up(broker, client, added):
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    broker.restart()
    assert client.xack("s", "g", "1-4", added[4], added[5]) == 2
    assert client.xpending("s", "g")["pending"] == 8


def test_a_pending_entry_that_is_gone_can_be_acknowledged_by_the_id_that_is_shown(
    broker, client, added
):
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    client.xdel("s", *added)
    shown = [entry["message_id"] for entry in client.xpending_range("s", "g", "-", "+", 10)]
    broker.restart()
    assert client.xack("s", "g", *shown) == 10


def test_claiming_on_from_an_entry_that_is_gone_misses_none(broker, client, added):
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    client.xdel("s", added[3], added[5], added[9])
    cursor, claimed, lost = "0-0", [], []
    while True:
        cursor, taken, gone = client.xautoclaim("s", "g", "d", 0, cursor, count=1)
        claimed += names(taken)
        lost += gone
        if cursor == "0-0":
            break
    assert claimed == [name for name in added if name not in {added[3], added[5], added[9]}]
    assert lost == ["0-3", "0-5", "0-9"]


def test_an_id_beyond_all_offsets_harms_nobody_else(client, added):
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    pipeline = client.pipeline(transaction=False)
    pipeline.xack("s", "g", f"1-{2**64 - 1}")
    pipeline.xadd("s", {"n": "beside it"})
    acknowledged, name = pipeline.execute()
    assert acknowledged == 0
    assert client.xrange("s", name)


def test_a_reader_whose_last_entry_was_deleted_goes_on_behind_it(broker, client, added):
    broker.clock.advance(-0.004)  # as the clock of another node may be
    later = client.xadd("s", {"n": "from a slower clock"})
    client.xdel("s", added[9])
    assert names(client.xread({"s": added[9]})[0][1]) == [later]
    assert names(client.xread({"s": added[8]})[0][1]) == [later]


def test_a_reader_of_a_stream_that_was_deleted_and_made_again_gets_all_of_it(broker, client, added):
    (_, entries), *_ = client.xread({"s": "0"})
    last, _ = entries[-1]
    client.delete("s")
    broker.clock.advance(1)
    again = [client.xadd("s", {"n": number}) for number in range(3)]
    assert names(client.xread({"s": last})[0][1]) == again


def test_reading_on_behind_what_was_read_looks_nothing_up(broker, client, added, monkeypatch):
    looked_up = []
    look_up = ids.offset_of_entry
    monkeypatch.setattr(
        ids,
        "offset_of_entry",
        lambda *of, **how: looked_up.append(of) or look_up(*of, **how),
    )
    last, seen = "0", []
    while found := client.xread({"s": last}, count=3):
        seen += names(found[0][1])
        last = seen[-1]
    assert (seen, looked_up) == (added, [])
    client.xread({"s": added[1]})
    assert len(looked_up) == 1


def test_few_ids_are_remembered(monkeypatch):
    monkeypatch.setattr(known_ids, "KNOWN_MAX", 8)
    monkeypatch.setattr(known_ids, "FORGOTTEN_AT_ONCE", 2)
    store = MemoryStore()
    batch = Batch()
    batch.append(b"s", [b"x"] * 20, 5, 1)
    store.commit(batch)
    known = known_ids.KnownIds(store)
    for number in range(20):
        known.note(b"s", [b"*2\r\n$%d\r\n5-%d\r\n*0\r\n" % (len(str(number)) + 2, number)])
    assert known.covers(b"s", [b"5-19", b"5-13"])
    assert not known.covers(b"s", [b"5-11"])
    assert not known.covers(b"other", [b"5-19"])
