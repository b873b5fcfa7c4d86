"""A node that dies between two writes finds all that was decided, and decides nothing twice."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.store.batch import Batch
from penstock.store.entry import decode
from penstock.store.store import Commit, Write, Written
from tests.cluster.cluster_bench import Bench, Node, until

pytestmark = pytest.mark.asyncio


@contextmanager
def disks(node: Node, path: Path, is_meant: Callable[[Write], bool]) -> Iterator[list[Path]]:
    """Copies of a node's disk as it was right after each write that is meant."""
    found: list[Path] = []
    write = node.store.write

    def written(what: Write) -> Written:
        done = write(what)
        if is_meant(what):
            found.append(path / f"copy{len(found)}")
            shutil.copytree(node.path, found[-1])
        return done

    node.store.write = written  # type: ignore[method-assign]
    yield found


def changes_members(write: Write) -> bool:
    return any(entry.kind for entry in write.entries)


async def test_a_lone_node_that_dies_while_another_joins_knows_of_it(
    bench: Bench, tmp_path: Path
) -> None:
    """The entry is on disk before the record that says what followed from it."""
    node = bench.node(1)
    node.replica.bootstrap([node.member], lambda _error: None)
    await until(lambda: node.replica.is_leader)
    await node.write(b"1")
    answers: list[object] = []
    with disks(node, tmp_path, changes_members) as copies:
        node.replica.add(Node(bench.network, 2, tmp_path).member, answers.append)
        await until(lambda: answers)
    assert answers == [None]
    node.kill()
    again = bench.all[1] = Node(bench.network, 1, copies[0])
    again.start()
    await until(lambda: again.replica.is_leader)
    assert sorted(again.replica.record.members) == [1, 2]
    assert again.replica.record.conf.learners == (2,)


async def test_a_node_that_gets_company_and_loses_it_has_all_that_was_acknowledged_at_any_moment(
    bench: Bench, tmp_path: Path
) -> None:
    one, two = bench.node(1), bench.node(2)
    one.replica.bootstrap([one.member], lambda _error: None)
    await until(lambda: one.replica.is_leader)
    acknowledged: list[bytes] = []
    known: list[int] = []

    def is_meant(_write: Write) -> bool:
        known.append(len(acknowledged))
        return True

    async def write(count: int) -> None:
        for _ in range(count):
            payload = b"%d" % len(acknowledged)
            await one.write(payload)
            acknowledged.append(payload)

    with disks(one, tmp_path, is_meant) as copies:
        await write(3)
        assert await changed(one, one.replica.add, two.member) is None
        await write(2)
        await until(lambda: one.replica.record.conf.voters == (1, 2), "for a vote")
        await write(2)
        assert await changed(one, one.replica.remove, 2) is None
        await write(3)
        await until(lambda: one.durable().is_alone())
    assert len(copies) == len(known) > 8
    one.kill()
    two.kill()
    for path, count in zip(copies, known, strict=True):
        await check(bench, path, acknowledged[:count])


async def changed(node: Node, change: Callable[..., None], what: object) -> object:
    answers: list[object] = []
    change(what, answers.append)
    await until(lambda: answers)
    return answers[0]


async def check(bench: Bench, path: Path, acknowledged: list[bytes]) -> None:
    """Start on a copy as a single broker: what was acknowledged is in its log."""
    node = Node(bench.network, 1, path).start()
    store = node.store
    entries = store.log_entries(store.first_index, store.last_index + 1, 1 << 30)
    found = [decode(entry.data) for entry in entries if entry.data and not entry.kind]
    payloads = [message.payload for entry in found for message in entry.messages()]
    assert payloads[: len(acknowledged)] == acknowledged
    if len(node.replica.record.conf.voters) == 1:
        await until(lambda: node.replica.is_leader)
        if len(node.replica.record.conf.voters) == 1:
            assert node.stored() == payloads
            await node.write(b"more")
    node.kill()


async def test_a_node_that_can_not_apply_an_entry_ends_and_does_not_leave_it_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version wrote it, perhaps: to go on would be to have another state than the rest."""
    nodes = await bench.cluster(3)
    leader = await bench.leader()
    follower = next(node for node in nodes if node is not leader)
    await leader.write(b"1")
    await bench.settled(nodes, [b"1"])

    def unreadable(_batch: Batch, _commit: Commit) -> None:
        raise ValueError("an event that nobody here knows")

    with monkeypatch.context() as patch:
        patch.setattr(follower.listener, "foreign", unreadable)
        await leader.write(b"2")
        await until(lambda: follower.failures)
    await leader.write(b"3")
    assert follower.listener.applied == [b"1"]
    assert "nobody here knows" in str(follower.failures[0])
