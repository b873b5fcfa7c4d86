"""Data directories of earlier versions are read, and nothing in them is lost.

Each was left by a broker that was killed. ``before_work_queues`` is from the version before groups
had leases: pending messages were in the row of the group. It had

* a stream of 50 entries, of which a group's consumer had taken ten and acknowledged three,
* a queue of 20 jobs, of which a PULL had taken five and acknowledged none,
* ten messages, of which a durable subscriber had acknowledged four, and a retained one.
"""

import tarfile
from pathlib import Path

import pytest
import redis

from penstock.client import Subscriber, connect
from penstock.testing import Broker

EARLIER = Path(__file__).parent / "earlier"


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of our own. Debian 12's Python 3.11.2 has no ``filter`` yet."""
    for member in archive.getmembers():
        path = folder / member.name
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif (source := archive.extractfile(member)) is not None:
            path.write_bytes(source.read())


@pytest.fixture
def broker(tmp_path):
    with tarfile.open(EARLIER / "before_work_queues.tar.xz") as archive:
        _extract(archive, tmp_path)
    with Broker(data=tmp_path) as started:
        yield started


@pytest.fixture
def client(broker):
    with redis.Redis(port=broker.port) as opened:
        yield opened


def entry_offsets(entries):
    return [int(entry_id.partition(b"-")[2]) for entry_id, _ in entries]


def test_a_group_of_a_stream_goes_on_where_it_was(client):
    assert client.xpending("s/one", "g")["pending"] == 7
    ((_, pending),) = client.xreadgroup("g", "c1", {"s/one": "0"})
    assert entry_offsets(pending) == [3, 4, 5, 6, 7, 8, 9]
    ((_, new),) = client.xreadgroup("g", "c2", {"s/one": ">"}, count=2)
    assert entry_offsets(new) == [10, 11]


def test_jobs_of_a_worker_that_died_with_the_broker_go_to_the_next(client):
    jobs = []
    while found := client.execute_command("PULL", "jobs", "COUNT", 30):
        jobs += found
    assert jobs == [b"j%d" % number for number in range(20)]


def test_a_durable_subscriber_gets_what_it_has_not_acknowledged(broker):
    with Subscriber("billing", "plant/a", port=broker.port) as subscriber:
        left = [message.payload for message in subscriber.messages(idle_s=0.3)]
    assert left == [b"%d" % number for number in range(4, 10)]


def test_what_was_retained_is_there(broker):
    with connect(broker.host, broker.port) as client:
        client.subscribe([("ret/#", 1)])
        assert next(client.messages()).payload == b"R"


def test_what_is_pending_is_written_anew_and_found_by_the_next_start(broker, client):
    client.xreadgroup("g", "c2", {"s/one": ">"}, count=2)
    broker.restart(kill=True)
    with redis.Redis(port=broker.port) as again:
        assert again.xpending("s/one", "g")["pending"] == 9


def test_clients_of_the_queue_protocol_can_work_in_groups_that_are_there(broker):
    with connect([f"{broker.host}:{broker.port}"]) as client:
        assert [job.offset for job in client.poll("s/one", "g", max=2)] == [10, 11]
