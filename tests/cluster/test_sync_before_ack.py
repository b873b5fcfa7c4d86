"""Nothing is promised before it is on disk: seen from outside, by strace on all of three nodes.

Each message carries a marker of its own. In the order of system calls

* a node confirms an append only when its own disk has every marker in it,
* a node gives a vote only when it has committed something since it heard of the term,
* whoever acknowledges to a client, leader or follower, does so when most disks have the marker.
"""

import asyncio
import random
import signal
import subprocess
from pathlib import Path

import pytest

from penstock.cluster.frames import RaftFrame, encode_frame
from penstock.cluster.framing import PeerFrameWriter
from penstock.raft.types import MessageKind, RaftMessage
from penstock.store.lmdb_store import LmdbStore
from tests.chaos.ground import Ground
from tests.cluster.trace import TRACED, NodeTrace
from tests.conformance.wire_client import WireClient, connack, connect_packet, puback, publish
from tests.e2e.test_acknowledgement_order import MARKER, is_traceable, marker

MESSAGES = 40
TIMEOUT_S = 60.0


class Tracer:
    """strace, at a node that runs."""

    def __init__(self, pid: int, path: Path) -> None:
        self._path = path
        self._trace = NodeTrace(_files(pid))
        command = ["strace", "-f", "-ttt", "-xx", "-s", "1000000", "-e", f"trace={TRACED}"]
        self._child = subprocess.Popen(
            [*command, "-o", str(path), "-p", str(pid)], stderr=subprocess.PIPE, text=True
        )
        assert self._child.stderr is not None
        assert "attached" in self._child.stderr.readline()

    def stop(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
        self._child.communicate(timeout=TIMEOUT_S)

    def result(self) -> NodeTrace:
        for line in self._path.read_text().splitlines():
            self._trace.line(line)
        return self._trace


def _files(pid: int) -> list[str]:
    """Descriptors of a process that are files."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return [link.name for link in links if link.readlink().is_absolute()]


def publish_in_bursts(port: int, name: str, first: int, last: int) -> None:
    with WireClient("127.0.0.1", port) as client:
        client.socket.settimeout(TIMEOUT_S)  # a traced process is slow
        client.send(connect_packet(name, clean=True))
        client.expect(connack())
        number, size = first, 1
        while number <= last:
            burst = range(number, min(number + size, last + 1))
            client.send(*(publish("t", marker(n), qos=1, packet_id=n) for n in burst))
            client.expect_in_any_order(*(puback(n) for n in burst))
            number, size = number + len(burst), size % 5 + 1


async def traced_work(ground: Ground, directory: Path) -> dict[int, NodeTrace]:
    """Publish at the leader and at a follower, transfer leadership, publish again."""
    await ground.begin(3)
    leader = await ground.leader()
    follower = next(number for number in ground.nodes if number != leader)
    tracers: dict[int, Tracer] = {}
    ports = ground.nodes[leader].port, ground.nodes[follower].port
    try:
        for number, node in ground.nodes.items():
            assert node.child is not None
            tracers[number] = Tracer(node.child.pid, directory / f"trace-{number}")
        await asyncio.to_thread(publish_in_bursts, ports[0], "one", 1, MESSAGES)
        await asyncio.to_thread(publish_in_bursts, ports[1], "two", MESSAGES + 1, 2 * MESSAGES)
        await ground.transfer(follower)
        await ground.until_healthy()
        await asyncio.to_thread(publish_in_bursts, ports[0], "one", 2 * MESSAGES + 1, 3 * MESSAGES)
    finally:
        for tracer in tracers.values():
            tracer.stop()
    for number in ground.nodes:
        await ground.terminate(number)
    return {number: tracer.result() for number, tracer in tracers.items()}


def places(data: Path) -> dict[int, int]:
    """Marker → index of its entry."""
    store = LmdbStore(data)
    try:
        entries = store.log_entries(store.first_index, store.next_index, 1 << 30)
        return {int(m): entry.index for entry in entries for m in MARKER.findall(entry.data)}
    finally:
        store.close()


async def scenario(directory: Path) -> tuple[dict[int, NodeTrace], dict[int, int]]:
    ground = Ground(directory / "ground", random.Random(1), {"cluster.election_ticks": 100})
    try:
        traces = await traced_work(ground, directory)
        return traces, places(ground.nodes[1].data)
    finally:
        await ground.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not is_traceable(), reason="strace is not installed, or not permitted")
def test_no_promise_leaves_before_the_flush_that_covers_it(tmp_path):
    traces, index_of = asyncio.run(scenario(tmp_path))
    numbers = set(range(1, 3 * MESSAGES + 1))
    assert index_of.keys() == numbers
    acknowledged = [found for trace in traces.values() for found in trace.acknowledged]
    assert sorted(number for number, _ in acknowledged) == sorted(numbers)
    for number, at in acknowledged:
        assert len([t for t in traces.values() if t.committed.get(number, at) < at]) >= 2, number
    for trace in traces.values():
        assert not early_responses(trace, index_of)
        assert not [vote for vote in trace.votes if vote[0] > vote[1]], "a vote before it was noted"
    assert sum(len(trace.responses) for trace in traces.values()) > MESSAGES / 3
    assert any(trace.votes for trace in traces.values())


def early_responses(trace: NodeTrace, index_of: dict[int, int]) -> list[tuple[int, int]]:
    """Confirmed appends, and a marker that was not on disk at that time."""
    return [
        (index, number)
        for index, committed in trace.responses
        for number, place in index_of.items()
        if place <= index and number not in committed
    ]


# ── Would it notice? ──────────────────────────────────────────────────────────────────────────


def hexed(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def framed(message: RaftMessage) -> str:
    return hexed(b"".join(PeerFrameWriter().frame(encode_frame(RaftFrame(message)))))


LINES = {
    "w": f'7 1.0 pwrite64(9, "{hexed(marker(1))}", 4096, 0) = 4096',
    "f": "7 2.0 fdatasync(9 <unfinished ...>",
    "F": "7 3.0 <... fdatasync resumed>) = 0",
    "c": r'7 4.0 pwrite64(9, "\x00", 120, 4128) = 120',
    "g": "7 4.2 fdatasync(9 <unfinished ...>",
    "G": "7 4.5 <... fdatasync resumed>) = 0",
    "a": r'6 5.0 write(5, "\x40\x02\x00\x01", 4) = 4',
    "r": f'6 5.0 write(4, "{framed(RaftMessage(MessageKind.APPEND_RESPONSE, index=8, term=2))}", 9) = 9',
    "V": f'6 0.5 read(3, "{framed(RaftMessage(MessageKind.VOTE, term=3))}", 9) = 9',
    "v": f'6 5.0 write(4, "{framed(RaftMessage(MessageKind.VOTE_RESPONSE, term=3))}", 9) = 9',
}


def traced(order_of_lines: str) -> NodeTrace:
    trace = NodeTrace(["9"])
    for name in order_of_lines:
        trace.line(LINES[name])
    return trace


@pytest.mark.parametrize(
    ("order_of_lines", "is_early"),
    [
        ("wfFcgGr", False),
        ("wfFcgrG", True),
        ("wfFcrgG", True),
        ("wfFrcgG", True),
        ("wfrFcgG", True),
        ("wcfFr", True),
        ("fwFcgGr", True),
        ("rwfFcgG", True),
    ],
)
def test_an_early_response_would_be_noticed(order_of_lines, is_early):
    trace = traced(order_of_lines)
    assert early_responses(trace, {1: 8}) == ([(8, 1)] if is_early else [])
    assert not early_responses(trace, {1: 9})


@pytest.mark.parametrize(
    ("order_of_lines", "is_early"),
    [
        ("VfFcgGv", False),
        ("VfFcgvG", True),
        ("VfFvcgG", True),
        ("fVFcgGv", True),
        ("fFVcgGv", True),
        ("fFcVgGv", True),
    ],
)
def test_an_early_vote_would_be_noticed(order_of_lines, is_early):
    [(term, committed)] = traced(order_of_lines).votes
    assert (term > committed) is is_early


def test_when_a_marker_was_on_disk_and_when_it_was_acknowledged_is_known():
    trace = traced("wfFcgGa")
    assert trace.acknowledged == [(1, 5.0)]
    assert trace.committed == {1: 4.5}
