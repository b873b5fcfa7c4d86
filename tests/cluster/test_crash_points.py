"""A node that dies between two writes finds all that was decided, and decides nothing twice."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.store.store import Write, Written
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
