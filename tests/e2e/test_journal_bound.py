"""The journal stays within its bound while clients publish at full speed."""

import contextlib
import itertools
import json
import socket
import threading
import urllib.request

from penstock.limits import MIB
from tests.e2e.process import BrokerProcess

TOPICS = 500
TOTAL = 4 * MIB
WINDOW = 100
PAYLOAD = b"%08d" + b"x" * 500


class Publisher:
    """A raw MQTT client that keeps a hundred QoS 1 publishes in flight, to all topics."""

    def __init__(self, broker, number):
        self.prefix = f"p{number}/"
        self.socket = socket.create_connection((broker.host, broker.port), timeout=60)
        name = b"p%d" % number
        body = b"\0\4MQTT\4\2\0\0" + len(name).to_bytes(2, "big") + name
        self.socket.sendall(b"\x10" + bytes((len(body),)) + body)
        self.input = self.socket.makefile("rb")
        assert self.input.read(4) == b"\x20\2\0\0"
        self.sent = 0
        self.counts = [0] * TOPICS

    def publish(self, total, qos):
        """Publish messages; those of QoS 1 are all acknowledged when this returns."""
        for _ in range(0, total, WINDOW):
            self.socket.sendall(b"".join(self.frame(number, qos) for number in range(WINDOW)))
            if qos:
                self.input.read(4 * WINDOW)

    def frame(self, number, qos):
        self.sent += 1
        topic = self.sent * 7 % TOPICS
        name = (self.prefix + str(topic)).encode()
        body = len(name).to_bytes(2, "big") + name
        if qos:
            body += (number + 1).to_bytes(2, "big")
            payload = PAYLOAD % self.counts[topic]
            self.counts[topic] += 1
        else:
            payload = PAYLOAD % 0
        body += payload
        assert 128 <= len(body) < 16_384
        return bytes((0x30 | qos << 1, len(body) & 127 | 128, len(body) >> 7)) + body

    def close(self):
        self.input.close()
        self.socket.close()


def on_disk(data):
    """Of the tail and of all blocks; one may be removed meanwhile."""
    size = (data / "data.mdb").stat().st_size
    for block in (data / "blocks").glob("*.blk"):
        with contextlib.suppress(FileNotFoundError):
            size += block.stat().st_size
    return size


def test_the_journal_keeps_to_its_bound_and_to_what_it_acknowledged(tmp_path):
    """QoS 1 publishers wait for retention. QoS 0 is delivered, not captured, and counted."""
    data = tmp_path / "data"
    with BrokerProcess(data, "--set", f"journal.total_bytes_max={TOTAL}") as broker:
        acknowledged, unacknowledged = Publisher(broker, 1), Publisher(broker, 0)
        sizes = []
        flood = threading.Thread(target=unacknowledged.publish, args=(30_000, 0))
        flood.start()
        for _ in range(80):
            acknowledged.publish(2 * WINDOW, 1)
            sizes.append(on_disk(data))
        flood.join()
        assert max(sizes) <= 1.25 * TOTAL
        assert max(sizes) > TOTAL / 4  # it compresses
        check_kept(broker, acknowledged)
        metrics = broker.page("/metrics")[1]
        assert figure(metrics, 'penstock_dropped_total{reason="capture_overflow"}') > 0
        assert figure(metrics, 'penstock_messages_received_total{qos="0"}') == 30_000
        acknowledged.close()
        unacknowledged.close()
        broker.stop()


def check_kept(broker, publisher):
    """Each topic has everything acknowledged from its first offset on."""
    for topic, count in itertools.islice(enumerate(publisher.counts), 0, TOPICS, 50):
        name = f"{publisher.prefix}{topic}"
        address = f"http://{broker.host}:{broker.http_port}/topics/{name}?offset=0&limit=1000"
        with urllib.request.urlopen(address) as answer:
            found = json.load(answer)
        assert found["next_offset"] == count
        offsets = [message["offset"] for message in found["messages"]]
        assert offsets == list(range(found["first_offset"], count))


def figure(metrics, name):
    lines = [line for line in metrics.splitlines() if line.startswith(name)]
    assert lines, name
    return float(lines[0].rsplit(" ", 1)[1])
