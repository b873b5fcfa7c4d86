"""A whole store travels between two nodes: real sockets, and everything that goes wrong."""

import asyncio
import os
import threading

import pytest

from penstock.cluster import snapshot_receiver, snapshot_sender
from penstock.errors import StorageError
from penstock.limits import MIB
from penstock.obs.reasons import PeerReason
from penstock.store.directory import snapshot_path
from tests.cluster.courier import no_copy, pair, reported
from tests.cluster.peer_bench import heartbeat, started, until

pytestmark = pytest.mark.asyncio


def writes(content, then=None):
    """A copy that is these bytes; ``then`` may fail."""

    def copy(file):
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
        if then is not None:
            raise then

    return copy


async def test_heartbeats_go_on_while_a_snapshot_is_on_its_way(tmp_path):
    one, two = pair(tmp_path, writes(bytes(8 * MIB)), rate_bytes=4 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(two.file.exists)
        for term in range(20):
            one.transport.send(2, heartbeat(1, term))
        await until(lambda: len(two.inbox.frames) == 20, 1.5)
        assert not one.inbox.snapshots
        await reported(one, True)


async def test_the_rate_is_kept(tmp_path):
    one, two = pair(tmp_path, writes(bytes(2 * MIB)), rate_bytes=2 * MIB)
    async with started(one, two):
        one.knows(two)
        began = asyncio.get_running_loop().time()
        one.offer(2)
        await reported(one, True)
        assert asyncio.get_running_loop().time() - began > 0.9


async def test_both_sides_tell_how_much_is_done(tmp_path):
    one, two = pair(tmp_path, writes(bytes(4 * MIB)), rate_bytes=4 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        sent, received = one.transport.stats, two.transport.stats
        await until(lambda: 0 < sent.of(2).snapshot_bytes < 4 * MIB)
        await until(lambda: 0 < received.snapshot_bytes < 4 * MIB)
        await reported(one, True)
        assert sent.of(2).snapshot_bytes == received.snapshot_bytes == 0


async def test_one_is_sent_at_a_time(tmp_path):
    one, two = pair(tmp_path, writes(bytes(4 * MIB)), rate_bytes=8 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        one.offer(2)
        assert not one.inbox.snapshots  # told in a later turn: the sender is in the middle of it
        await reported(one, False, True)
        assert two.arrivals == 1


async def test_once_one_has_arrived_no_other_is_taken(tmp_path):
    one, two = pair(tmp_path, writes(b"x" * 100))
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, True)
        one.offer(2)
        await reported(one, True, False)
        assert two.file.read_bytes() == b"x" * 100


async def test_one_that_is_not_wanted_is_refused_at_once(tmp_path):
    one, two = pair(tmp_path, writes(bytes(MIB), then=None), wants=lambda _n, m: m.term > 1)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        assert not snapshot_path(two.data).exists()


async def test_a_copy_that_fails_is_never_taken_for_whole(tmp_path):
    one, two = pair(tmp_path, writes(bytes(MIB), then=StorageError("the disk is gone")))
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(lambda: not snapshot_path(two.data).exists())
        assert not two.arrivals


async def test_a_snapshot_that_takes_too_long_is_given_up_and_its_copy_ends(tmp_path):
    ended = threading.Event()

    def copy(file):
        try:
            writes(bytes(64 * MIB))(file)
        finally:
            ended.set()

    one, two = pair(tmp_path, copy, rate_bytes=MIB, time_limit_s=0.5)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(ended.is_set)
        await until(lambda: not snapshot_path(two.data).exists())


async def test_a_receiver_that_stops_half_way_leaves_nothing(tmp_path):
    one, two = pair(tmp_path, writes(bytes(64 * MIB)), rate_bytes=8 * MIB)
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await until(lambda: two.file.exists() and two.file.stat().st_size > MIB)
        await two.transport.stop()
        await reported(one, False)
        assert not snapshot_path(two.data).exists()


async def test_a_sender_that_falls_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_receiver, "STALL_S", 0.3)
    go_on = threading.Event()

    def copy(file):
        os.write(file, b"a beginning")
        go_on.wait(20)

    one, two = pair(tmp_path, copy)
    try:
        async with started(one, two):
            one.knows(two)
            one.offer(2)
            await reported(one, False)
            assert not go_on.is_set()
            assert not snapshot_path(two.data).exists()
    finally:
        go_on.set()


async def test_a_receiver_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_sender, "STALL_S", 0.5)
    one, two = pair(tmp_path, writes(bytes(100)))
    two.transport.snapshots.receiver.received = lambda _link, _payload: None
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)


async def test_a_snapshot_leaves_room_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_receiver, "_room", lambda _path: MIB)
    one, two = pair(tmp_path, writes(bytes(2 * MIB)))
    async with started(one, two):
        one.knows(two)
        one.offer(2)
        await reported(one, False)
        await until(lambda: not snapshot_path(two.data).exists())


async def test_what_differs_from_what_was_sent_is_refused(tmp_path, monkeypatch):
    """The frames are whole, but the file is not: a disk that lies."""
    append = snapshot_receiver._File.append
    monkeypatch.setattr(
        snapshot_receiver._File, "append", lambda file, data: append(file, b"?" + data[1:])
    )
    one, two = pair(tmp_path, writes(bytes(2 * MIB)))
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


async def test_words_that_belong_to_no_snapshot_end_the_connection(tmp_path):
    one, two = pair(tmp_path, writes(bytes(100)))
    async with started(one, two):
        one.knows(two)
        one.transport.snapshots.sender._send_copy = lambda _copy, transfer, _stats: _rubbish(
            transfer
        )
        one.offer(2)
        await reported(one, False)
        assert two.ends(PeerReason.MALFORMED_FRAME) == 1


async def _rubbish(transfer):
    transfer.connection.send([b"\xc1rubbish"])
    await transfer.until(lambda: False)
