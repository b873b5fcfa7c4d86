"""A node joins a cluster with many blocks: killed and resumed, while everybody goes on."""

import json
import random
import threading

import pytest

from penstock.client import connect
from penstock.store.blocks.files import BlockFiles
from penstock.store.directory import snapshot_path
from tests.e2e.cluster_processes import PATIENCE_S, nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = (
    *("--set", "journal.block_bytes=4KiB"),
    *("--set", "cluster.log_kept_entries=10"),
    *("--set", "log.format=json"),
)
SLOW = ("--set", "cluster.snapshot_rate_bytes=192KiB")
MESSAGES = 600
NOT_YET = {"is_learner": True, "snapshot_blocks": 0}
SIZE = 1000


def payload(number):
    """Bytes that cannot be compressed, so that there is something to send."""
    return b"%d " % number + random.Random(number).randbytes(SIZE)


def fill(made, first=0, count=MESSAGES):
    """Publish one by one. One of them waits until a long tail is folded, into dozens of blocks."""
    host, port = made.address(1).split(":")
    with connect(host, int(port), timeout_s=PATIENCE_S) as client:
        for number in range(first, first + count):
            client.publish("t", payload(number), qos=1)


def payloads(address):
    with connect([address]) as client:
        return [record.payload for record in client.messages("t")]


def blocks(node):
    return BlockFiles(node.data).numbers()


def received(node):
    """Blocks of a snapshot that have arrived: each is whole. What was sent may still be on its way."""
    return BlockFiles(snapshot_path(node.data)).numbers()


def logged(node, event):
    """What a node has logged under a name, oldest first."""
    lines = node.log_path.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def alone_with_blocks(made):
    """Node 1 as a cluster of one, with what it wrote in blocks."""
    assert made.command(1, "init")[0] == 0
    fill(made)
    until(lambda: len(blocks(made.running[1])) > 20)


def member(made, number):
    members = made.running[1].json("/cluster")[1]["members"]
    return next((found for found in members if found["id"] == number), NOT_YET)


def join(made, number):
    """Have a node join; the command is not waited for, lest it outlast the transfer."""
    command = (number, "join", "--to", made.address(1), "--timeout", "1s")
    threading.Thread(target=made.command, args=command, daemon=True).start()


def until_it_has_everything(made, number, count=MESSAGES):
    until(lambda: not member(made, number)["is_learner"])
    expected = [payload(n) for n in range(count)]
    until(lambda: payloads(made.address(number)) == expected)


def test_a_node_that_joins_gets_all_blocks_and_progress_is_shown(tmp_path):
    with nodes(tmp_path, 2, *SETTINGS, *SLOW) as made:
        alone_with_blocks(made)
        join(made, 2)
        found = until(lambda: (m := member(made, 2))["snapshot_blocks"] > 2 and m)
        assert found["snapshot_blocks"] < found["snapshot_blocks_total"] > 20
        assert found["snapshot_bytes"] < found["snapshot_bytes_total"] > 100_000
        code, said = made.command(1, "status")
        assert code == 0
        assert f"of {found['snapshot_blocks_total']} blocks) sent" in said
        told = made.running[2].json("/cluster")[1]
        assert told["snapshot_blocks_total"] == found["snapshot_blocks_total"]
        fill(made, MESSAGES, 20)  # the leader goes on
        until_it_has_everything(made, 2, MESSAGES + 20)
        assert len(blocks(made.running[2])) > 20
        assert member(made, 2)["snapshot_bytes_total"] == 0


@pytest.mark.parametrize("killed", ["receiver", pytest.param("sender", marks=pytest.mark.nightly)])
def test_a_snapshot_goes_on_where_it_was_cut_off(tmp_path, killed):
    with nodes(tmp_path, 2, *SETTINGS, *SLOW) as made:
        alone_with_blocks(made)
        join(made, 2)
        begun = until(lambda: len(received(made.running[2])) >= 6 and member(made, 2))
        victim = 2 if killed == "receiver" else 1
        made.kill(victim)
        made.start(victim, *SETTINGS, *SLOW)
        until_it_has_everything(made, 2)
        (arrived,) = logged(made.running[2], "snapshot_arrived")
        assert arrived["blocks_kept"] >= 6
        (sent,) = logged(made.running[1], "snapshot_sent")
        assert sent["blocks"] == arrived["blocks"] - arrived["blocks_kept"]
        assert sent["bytes"] < begun["snapshot_bytes_total"]


@pytest.mark.nightly
def test_retention_and_compaction_at_the_sender_do_not_disturb_it(tmp_path):
    bounds = ("--set", f"retention.messages_max={MESSAGES}")
    with nodes(tmp_path, 2, *SETTINGS, *SLOW, *bounds) as made:
        assert made.command(1, "init")[0] == 0
        fill(made)
        until(lambda: len(blocks(made.running[1])) > 20)
        join(made, 2)
        until(lambda: member(made, 2)["snapshot_blocks"] > 2)
        old = blocks(made.running[1])[5]
        fill(made, MESSAGES, MESSAGES)
        until(lambda: old not in blocks(made.running[1]))
        until(lambda: not member(made, 2)["is_learner"])
        until(lambda: payloads(made.address(2)) == payloads(made.address(1)))
        assert payloads(made.address(2))[-1] == payload(2 * MESSAGES - 1)
        assert not logged(made.running[2], "block_damaged")
