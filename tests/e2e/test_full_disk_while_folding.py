"""The disk has no room for another block: commits go on, and folding resumes when there is room."""

import os
import resource
from pathlib import Path

from penstock.client import connect
from penstock.limits import KIB
from tests.e2e.cluster_processes import until

OPTIONS = ("--set", f"journal.block_bytes={256 * KIB}", "--set", "journal.compression=none")
PAYLOAD = os.urandom(20_000)


def publish(client, count):
    for _ in range(count):
        client.produce("t", PAYLOAD)


def test_a_fold_without_room_loses_nothing_and_is_tried_again(start):
    """The process that folds may write no more; the broker itself may."""
    broker = start(*OPTIONS)
    with connect([f"{broker.host}:{broker.port}"]) as client:
        publish(client, 40)
        until(lambda: broker.metric("penstock_journal_blocks") >= 1)
        (folder,) = children(broker.pid)
        resource.prlimit(folder, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        until(lambda: publish(client, 20) or failures(broker))
        failed = failures(broker)
        publish(client, 40)
        blocks = broker.metric("penstock_journal_blocks")
        assert failures(broker) <= failed + 3, "it is not tried with every commit"
        assert broker.json("/ready")[0] == 200
        resource.prlimit(folder, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        until(lambda: publish(client, 1) or broker.metric("penstock_journal_blocks") > blocks)
        written = [record.offset for record in client.messages("t")]
    assert written == list(range(len(written)))
    assert broker.metric("penstock_journal_damage") == 0
    assert broker.metric("penstock_disk_free_bytes") > 0
    assert broker.metric("penstock_journal_block_bytes") > 256 * KIB
    assert broker.metric("penstock_journal_tail_bytes") > 256 * KIB
    broker.kill()
    broker.wait_killed()
    again = start(*OPTIONS)
    with connect([f"{again.host}:{again.port}"]) as client:
        found = [(record.offset, record.payload) for record in client.messages("t")]
    assert found == [(offset, PAYLOAD) for offset in written]
    again.stop()


def children(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def failures(broker):
    return broker.log_path.read_text().count("fold_failed")
