"""``penstock backup`` beside a broker under load, ``penstock restore``, and a broker on the result."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from penstock.client import connect
from tests.conformance.wire_client import puback
from tests.e2e.cluster_processes import nodes, until
from tests.e2e.process import BrokerProcess
from tests.e2e.test_serve import connected

TOPICS = [f"plant/{number}" for number in range(20)]
SMALL_BLOCKS = ("--set", "journal.total_bytes_max=64MiB")  # of 4 MiB
PAYLOAD_BYTES = 40_000


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def told(*arguments: object) -> dict:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Publishing:
    """A client that publishes until it is told to stop, and keeps what was acknowledged."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.acknowledged: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}
        self.count = 0
        self.stop = threading.Event()
        self._client = connect([f"{broker.host}:{broker.port}"])
        self.thread = threading.Thread(target=self._publish)

    def _publish(self) -> None:
        while not self.stop.is_set():
            for topic in TOPICS:
                payload = b"%d " % self.count + os.urandom(PAYLOAD_BYTES)
                self._client.produce(topic, payload)
                self.acknowledged[topic].append(payload)
                self.count += 1
        self._client.close()

    def until(self, count: int) -> None:
        until(lambda: self.count >= count or not self.thread.is_alive())
        assert self.thread.is_alive()


@contextmanager
def publishing(broker):
    load = Publishing(broker)
    load.thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        load.thread.join()


def stored(address):
    with connect([address]) as client:
        return {topic: [(r.offset, r.payload) for r in client.messages(topic)] for topic in TOPICS}


def check_stored(address, before, acknowledged):
    """Each topic has what was acknowledged before the backup, and nothing out of place."""
    for topic, found in stored(address).items():
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert len(found) >= before[topic]
        payloads = [payload for _, payload in found]
        assert payloads[: len(acknowledged[topic])] == acknowledged[topic][: len(payloads)]


def test_a_chain_of_backups_of_a_broker_under_load(start, tmp_path):
    broker = start(*SMALL_BLOCKS)
    files = [tmp_path / f"{name}.backup" for name in ("monday", "tuesday", "wednesday")]
    with connected(broker, "away", clean=False) as away:
        away.subscribe(("alarm", 1))
        away.disconnect()
    with connected(broker, "publisher") as publisher:
        publisher.publish_acknowledged("alarm", b"fire")
    reports = []
    with publishing(broker) as load:
        for number, file in enumerate(files):
            load.until(160 * (number + 1))
            until(lambda number=number: len(list(broker.data.glob("blocks/*.blk"))) > number)
            before = {topic: len(payloads) for topic, payloads in load.acknowledged.items()}
            since = ("--since", files[number - 1]) if number else ()
            reports.append(told("backup", file, "--data", broker.data, *since))
    broker.kill()
    broker.wait_killed()
    assert reports[0]["blocks"] == reports[0]["blocks_written"] > 0
    assert reports[2]["blocks_written"] < reports[2]["blocks"]

    target = tmp_path / "restored"
    told("restore", files[2], "--data", target)
    assert told("store", "verify", target)["sound"]
    with BrokerProcess(target, *SMALL_BLOCKS, log_name="restored.log") as restored:
        address = f"{restored.host}:{restored.port}"
        check_stored(address, before, load.acknowledged)
        with connected(restored, "away", clean=False, session_present=True) as away:
            away.send(puback(away.expect_publish("alarm", b"fire", qos=1)))
        restored.stop()
    check_refusals(files, target)


def check_refusals(files, target):
    """What was restored is not overwritten; damage and a missing file are named."""
    done = run("restore", files[2], "--data", target)
    assert done.returncode == 1
    assert "never overwrites" in done.stderr
    content = bytearray(files[2].read_bytes())
    content[len(content) // 2] ^= 1
    files[2].write_bytes(content)
    done = run("restore", files[2], "--data", f"{target}2")
    assert done.returncode == 1
    assert "wednesday.backup is damaged: " in done.stderr
    files[0].unlink()
    done = run("restore", files[1], "--data", f"{target}2")
    assert done.returncode == 1
    assert "these are missing: monday.backup" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_node_of_a_cluster_does_not_come_back_as_itself_by_accident(tmp_path):
    file = tmp_path / "node.backup"
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        assert made.command(1, "init", *options)[0] == 0
        leader = made.leader()
        with connect(made.addresses) as client:
            for number in range(20):
                client.produce("t", b"%d" % number)
        until(lambda: all(m["lag"] == 0 for m in made.status(leader)["members"]))
        data = made.running[2].data
        told("backup", file, "--data", data)
        for number in (1, 2, 3):
            made.kill(number)
        data.rename(tmp_path / "gone")
        done = run("restore", file, "--data", data)
        assert done.returncode == 1
        assert "node 2 of a cluster" in done.stderr
        assert not data.exists()
        told("restore", file, "--data", data, "--new-cluster")
        node = made.start(2)
        until(lambda: node.json("/ready")[0] == 200)
        with connect([made.address(2)]) as client:
            assert len(list(client.messages("t"))) == 20
        assert [member["id"] for member in made.status(2)["members"]] == [2]
        told("restore", file, "--data", tmp_path / "same", "--same-cluster")
