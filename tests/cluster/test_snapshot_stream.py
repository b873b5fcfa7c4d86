"""A whole store travels between two nodes: real sockets, and everything that goes wrong."""

import asyncio
import os
import threading

import pytest

from penstock.cluster import handshake, snapshot_draft, snapshot_receiver, snapshot_sender
from penstock.cluster.snapshot_frames import (
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    encode_snapshot_frame,
)
from penstock.errors import StorageError
from penstock.limits import KIB, MIB
from penstock.obs.reasons import PeerReason
from penstock.store.directory import DATA_NAME, snapshot_path
from tests.cluster.courier import Courier, Source, no_copy, pair, reported
from tests.cluster.peer_bench import heartbeat, started, until

pytestmark = pytest.mark.asyncio


@pytest.fixture
def make_source(tmp_path):
    made = []

    def make(**sizes):
        made.append(Source(tmp_path / f"source{len(made)}", **sizes))
        return made[-1]

    yield make
    for source in made:
        source.close()


def contents(source):
    return {number: source.files.file(number).read_bytes() for number in source.files.numbers()}


async def test_the_database_and_every_block_arrive_as_they_are(tmp_path, make_source):
    source = make_source(tail=100_000, blocks=10)
    one, two = pair(tmp_path, source.copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
        assert two.arrivals == 1
        assert two.received_blocks == contents(source)
        assert len(two.received_blocks) == one.blocks_sent == 10
        assert two.file.exists()


async def test_more_blocks_than_are_asked_for_at_a_time_arrive(tmp_path, make_source, monkeypatch):
    monkeypatch.setattr(snapshot_receiver, "WANTED_MAX", 3)
    source = make_source(blocks=10)
    one, two = pair(tmp_path, source.copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
        assert two.received_blocks == contents(source)


async def test_blocks_that_the_sender_removes_meanwhile_arrive(tmp_path, make_source):
    source = make_source(blocks=20)
    one, two = pair(tmp_path, source.copy, rate_bytes=8 * MIB)
    sent = contents(source)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(lambda: two.received_blocks)
        for number in source.files.numbers():
            source.files.remove(number)
        await reported(one, True)
        assert two.received_blocks == sent


async def test_what_was_cut_off_is_resumed(tmp_path, make_source):
    source = make_source(tail=10_000, blocks=20)
    one, two = pair(tmp_path, source.copy, rate_bytes=4 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(lambda: len(two.received_blocks) >= 5)
        await two.transport.stop()
        await reported(one, False)
    assert not two.file.exists()
    kept = two.received_blocks
    assert 5 <= len(kept) < 20
    source.add_blocks(2)
    three = Courier(2, two.data, no_copy)
    four = Courier(1, one.data, source.copy)
    async with started(three, four):
        four.knows(three)
        four.offer(2)
        await reported(four, True)
    assert three.received_blocks == contents(source)
    assert four.blocks_sent == len(contents(source)) - len(kept)


@pytest.mark.parametrize("how", ["other store", "damaged", "cut"])
async def test_kept_blocks_that_are_not_the_senders_are_sent_again(tmp_path, make_source, how):
    source = make_source(blocks=4)
    one, two = pair(tmp_path, source.copy)
    draft = snapshot_path(two.data)
    draft.mkdir()
    with source.copy(lambda: True) as copy:
        copy.write_to(draft)
    (draft / "SOURCE").write_text("another" if how == "other store" else "s1")
    first = source.files.numbers()[0]
    file = draft / "blocks" / source.files.file(first).name
    if how == "damaged":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif how == "cut":
        os.truncate(file, 100)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
    assert one.blocks_sent == (4 if how == "other store" else 1)
    assert two.received_blocks == contents(source)


async def test_kept_blocks_are_removed_when_nobody_goes_on(tmp_path, make_source, monkeypatch):
    monkeypatch.setattr(snapshot_receiver, "KEPT_S", 0.2)
    source = make_source(blocks=20)
    one, two = pair(tmp_path, source.copy, rate_bytes=4 * MIB, time_limit_s=0.8)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(lambda: not snapshot_path(two.data).exists())


async def test_a_block_that_the_sender_has_lost_or_damaged_does_not_keep_a_node_out(
    tmp_path, make_source
):
    source = make_source(blocks=4)
    lost, damaged, *_ = source.files.numbers()
    source.files.file(lost).unlink()
    content = bytearray(source.files.file(damaged).read_bytes())
    content[len(content) // 2] ^= 1
    source.files.file(damaged).write_bytes(content)
    one, two = pair(tmp_path, source.copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
    assert two.received_blocks == {lost: b""} | contents(source)


async def test_heartbeats_go_on_while_a_snapshot_is_on_its_way(tmp_path, make_source):
    one, two = pair(tmp_path, make_source(blocks=32).copy, rate_bytes=4 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(lambda: two.received_blocks)
        for term in range(20):
            one.transport.send(2, heartbeat(1, term))
        await until(lambda: len(two.inbox.frames) == 20, 1.5)
        assert not one.inbox.snapshots
        await reported(one, True)


async def test_the_rate_is_kept(tmp_path, make_source):
    one, two = pair(tmp_path, make_source(blocks=8).copy, rate_bytes=2 * MIB)
    async with started(one, two):
        one.knows(two)
        began = asyncio.get_running_loop().time()
        one.offer(2)
        await reported(one, True)
        assert asyncio.get_running_loop().time() - began > 0.9


async def test_both_sides_tell_how_much_is_done(tmp_path, make_source):
    source = make_source(blocks=16)
    with source.copy(lambda: True) as copy:
        total = copy.total_bytes
    one, two = pair(tmp_path, source.copy, rate_bytes=4 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        sent, received = one.transport.stats.of(2), two.transport.stats
        await until(lambda: 0 < sent.snapshot.blocks < 16)
        await until(lambda: 0 < received.snapshot.blocks < 16)
        for progress in (sent.snapshot, received.snapshot):
            assert (progress.bytes_total, progress.blocks_total) == (total, 16)
            assert 0 < progress.bytes < total
        await reported(one, True)
        assert sent.snapshot.bytes == sent.snapshot.bytes_total == 0
        assert received.snapshot.bytes == received.snapshot.bytes_total == 0


async def test_one_is_sent_at_a_time(tmp_path, make_source):
    one, two = pair(tmp_path, make_source(blocks=8).copy, rate_bytes=8 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        one.offer(2)
        assert not one.inbox.snapshots  # told in a later turn: the sender is in the middle of it
        await reported(one, False, True)
        assert two.arrivals == 1


async def test_once_one_has_arrived_no_other_is_taken(tmp_path, make_source):
    one, two = pair(tmp_path, make_source(tail=100).copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
        content = two.file.read_bytes()
        one.offer(2)
        await reported(one, True, False)
        assert two.file.read_bytes() == content


async def test_one_that_is_not_wanted_is_refused_at_once(tmp_path, make_source):
    one, two = pair(tmp_path, make_source(blocks=1).copy, wants=lambda _n, m: m.term > 1)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        assert not snapshot_path(two.data).exists()


async def test_a_copy_that_fails_is_never_taken_for_whole(tmp_path):
    def copy(_is_wanted):
        raise StorageError("the disk is gone")

    one, two = pair(tmp_path, copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(lambda: not snapshot_path(two.data).exists())
        assert not two.arrivals
        assert "the disk is gone" in one.transport.stats.of(2).snapshot_trouble


async def test_a_copy_that_takes_long_does_not_look_like_silence(
    tmp_path, make_source, monkeypatch
):
    monkeypatch.setattr(snapshot_receiver, "STALL_S", 0.5)
    monkeypatch.setattr(snapshot_sender, "BUSY_S", 0.1)
    source = make_source(blocks=2)
    waited = threading.Event()

    def copy(is_wanted):
        waited.wait(1.5)
        return source.copy(is_wanted)

    one, two = pair(tmp_path, copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)


async def test_a_snapshot_that_takes_too_long_is_given_up_and_so_is_its_copy(tmp_path):
    ended = threading.Event()

    def copy(is_wanted):
        while is_wanted():
            ended.wait(0.01)
        ended.set()
        raise StorageError("nobody wants it")

    one, two = pair(tmp_path, copy, time_limit_s=0.5)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(ended.is_set)
        await until(lambda: not snapshot_path(two.data).exists())


async def test_a_copy_that_comes_too_late_is_closed(tmp_path, make_source):
    source, late, copies = make_source(blocks=2), threading.Event(), []

    def copy(_is_wanted):
        late.wait(20)
        copies.append(source.copy(lambda: True))
        return copies[0]

    one, two = pair(tmp_path, copy, time_limit_s=0.3)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        late.set()
        await until(lambda: copies and not copies[0].blocks)


async def test_a_sender_that_falls_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_receiver, "STALL_S", 0.3)
    go_on = threading.Event()

    def copy(_is_wanted):
        go_on.wait(20)
        raise StorageError("too late")

    one, two = pair(tmp_path, copy)
    try:
        async with started(one, two):
            one.knows(two)
            one.offer(2)
            await until(lambda: two.transport.snapshots.receiver._task is not None)
            await until(lambda: two.transport.snapshots.receiver._task is None)
            assert not go_on.is_set()
            assert not snapshot_path(two.data).exists()
            go_on.set()
            await reported(one, False)
    finally:
        go_on.set()


async def test_a_receiver_that_does_not_answer_is_given_up(tmp_path, make_source, monkeypatch):
    monkeypatch.setattr(snapshot_sender, "STALL_S", 0.5)
    one, two = pair(tmp_path, make_source(tail=100).copy)
    two.transport.snapshots.receiver.received = lambda _link, _payload: None
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)


async def test_a_snapshot_leaves_room_on_the_disk(tmp_path, make_source, monkeypatch):
    monkeypatch.setattr(snapshot_draft.SnapshotDraft, "_room", lambda _draft: MIB)
    one, two = pair(tmp_path, make_source(blocks=8).copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(lambda: not snapshot_path(two.data).exists())
        assert not one.blocks_sent
        assert "no room" in one.transport.stats.of(2).snapshot_trouble


@pytest.mark.parametrize("what", [DATA_NAME, "block"])
async def test_what_differs_from_what_was_sent_is_refused(tmp_path, make_source, monkeypatch, what):
    """The frames are whole, but a file is not: a disk that lies."""
    append = snapshot_draft.DraftFile.append

    def changed(file, data):
        is_database = file.path.name == DATA_NAME
        append(file, b"?" + data[1:] if is_database == (what == DATA_NAME) else data)

    monkeypatch.setattr(snapshot_draft.DraftFile, "append", changed)
    one, two = pair(tmp_path, make_source(tail=100, blocks=2).copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        assert not two.arrivals
        await until(lambda: not snapshot_path(two.data).exists())


async def test_a_node_that_is_not_there_gets_none(tmp_path):
    one, two = pair(tmp_path, no_copy)
    async with started(one, two):
        await two.transport.stop()
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        one.offer(9)  # whose address is unknown
        await until(lambda: (9, False) in one.inbox.snapshots)


async def test_words_that_belong_to_no_snapshot_end_the_connection(
    tmp_path, make_source, monkeypatch
):
    async def rubbish(sending):
        sending._transfer.connection.send([b"\xc1rubbish"])
        await sending._transfer.until(lambda: False)

    monkeypatch.setattr(snapshot_sender._Sending, "run", rubbish)
    one, two = pair(tmp_path, make_source(tail=100).copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        assert two.ends(PeerReason.MALFORMED_FRAME) == 1


async def test_a_node_of_an_earlier_version_gets_no_blocks_and_the_operator_hears_why(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(handshake, "FEATURES", 0)
    one, two = pair(tmp_path, no_copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        assert "earlier version" in one.transport.stats.of(2).snapshot_trouble
        assert not snapshot_path(two.data).exists()


async def test_a_store_from_an_earlier_version_is_taken(tmp_path, make_source, monkeypatch):
    """It sends one database, and neither a size nor blocks."""

    async def send(sender, node, address, message):
        transfer = snapshot_sender._Transfer(node, sender._dialer)
        await transfer.open(address)
        await transfer.send(SnapshotBegin(message))
        with sender._copy(lambda: True) as copy:
            content = os.pread(copy.database, copy.database_bytes, 0)
        for start in range(0, len(content), 256 * KIB):
            await transfer.send(SnapshotChunk(content[start : start + 256 * KIB]))
        digest = snapshot_sender.blake2b(content, digest_size=32).digest()
        await transfer.send(SnapshotEnd(len(content), digest))
        assert await transfer.wanted() is None
        transfer.close()
        return snapshot_sender._Sent()

    assert encode_snapshot_frame(SnapshotChunk(b"x")) == b"\x92\x02\xc4\x01x"
    monkeypatch.setattr(snapshot_sender.SnapshotSender, "_send", send)
    one, two = pair(tmp_path, make_source(tail=MIB).copy)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
        assert two.arrivals == 1
        assert two.file.stat().st_size > MIB
