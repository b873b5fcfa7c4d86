"""Strangers cannot make the broker grow: floods of input that costs the sender nothing.

The broker is a separate process, and its resident memory is measured. Each flood is several times
the allowed growth, if any of it were kept; a first, smaller one warms up what is allocated once.
"""

import threading
from pathlib import Path

import pytest

from tests.conformance_binary.wire_client import ack, frame, ping, publish, subscribe

GROWTH_MIB_MAX = 32
"""Bounds are a few MiB for each connection, and there is noise."""

BATCHES_MIB_MAX = 128
"""What may wait for the disk, of all publishers: an in-flight batch and an open batch."""

pytestmark = pytest.mark.slow


def resident_mib(broker):
    """Memory that is not file-backed: the system manages the pages of the journal."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the broker is gone")


def send_all_it_takes(client, data):
    """Send without ever reading; the broker may stop reading, or close."""
    client.socket.settimeout(1.0)
    try:
        client.socket.sendall(data)
    except (TimeoutError, ConnectionError):
        return False
    return True


UNREAD = {
    "unknown commands": frame(0x77, 1, b"t", b"p") * 1_000,
    "pings": ping() * 1_000,
    "publishes": publish(b"t", b"m") * 1_000,
    "refused publishes": publish(b"secure/t", b"m") * 1_000,
    "mixed": (publish(b"t", b"m") + frame(0x77) + ping()) * 500,
    "subscribes": subscribe(b"t", b"name") * 1_000,
    "unsubscribes": frame(2, 1, b"t") * 1_000,
}


@pytest.mark.parametrize("kind", UNREAD)
def test_a_client_that_never_reads_costs_no_more_than_its_bound(start, dial, kind):
    broker = start(
        "--set", "limits.outbound_bytes_max=1MiB", "--set", "limits.packet_bytes_max=1MiB"
    )
    witness = dial(at=broker)
    dial(at=broker).send(UNREAD[kind])
    witness.expect_nothing()
    before = resident_mib(broker)
    for _ in range(3):
        send_all_it_takes(dial(at=broker), UNREAD[kind] * 300)
        witness.expect_nothing()
    growth_mib_max = GROWTH_MIB_MAX + BATCHES_MIB_MAX * (kind == "publishes")
    assert resident_mib(broker) - before < growth_mib_max


def garbage(number):
    return [ack((number * 7_919 + place * 104_729) % 2**64) for place in range(20_000)]


@pytest.mark.parametrize("kind", ["existing", "future", "the same"])
def test_acknowledging_garbage_at_full_speed_costs_nothing(start, dial, kind):
    broker = start()
    dial(at=broker).publish(b"t", *[b"x" * 200] * 5_000)
    witness, client = dial(at=broker), dial(at=broker)
    client.subscribe(b"other", b"name")
    acks = {
        "existing": b"".join(ack(1 + place * 7 % 5_000) for place in range(20_000)),
        "future": b"".join(garbage(1)),
        "the same": ack(77) * 20_000,
    }[kind]
    client.send(acks)
    client.socket.settimeout(20)
    client.expect_nothing()
    before = resident_mib(broker)
    for _ in range(20):
        client.send(acks)
        witness.expect_nothing()
    client.expect_nothing()
    assert resident_mib(broker) - before < GROWTH_MIB_MAX


def test_a_subscriber_that_never_acknowledges_costs_nothing_per_message(start, dial):
    broker = start()
    subscriber, publisher = dial(at=broker), dial(at=broker)
    subscriber.socket.settimeout(20)
    subscriber.subscribe(b"t", b"name")
    reading = threading.Thread(target=subscriber.receive_messages, args=(60_000,))
    reading.start()
    publisher.publish(b"t", *[b"m"] * 20_000)
    before = resident_mib(broker)
    for _ in range(4):
        publisher.publish(b"t", *[b"m"] * 10_000)
    reading.join()
    assert resident_mib(broker) - before < GROWTH_MIB_MAX


def test_jobs_wait_on_disk_and_not_in_memory(start, dial):
    broker = start()
    worker, producer = dial(at=broker), dial(at=broker)
    worker.subscribe(b"q:jobs", b"w")
    producer.publish(b"q:jobs", *[b"x" * 20_000] * 200)
    worker.receive_messages(64)
    before = resident_mib(broker)
    for _ in range(20):
        producer.publish(b"q:jobs", *[b"x" * 20_000] * 200)
    assert resident_mib(broker) - before < GROWTH_MIB_MAX
