"""Brokers of a page: doors of four protocols that keep all in memory, and can be told to cheat.

The generator must notice every cheat: a benchmark that believes whatever it is told measures how
fast a broker lies.
"""

import socketserver
import struct
import threading
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import accumulate

from penstock.wire.queue._generated.queue_pb2 import Request, Response

HEADER = struct.Struct("!BBQHI")
SUBSCRIBE, PUBLISH, MESSAGE, ACK, PING, PONG, ERROR = 1, 3, 4, 5, 6, 7, 8
SIGNED_PUBLISH, SIGNED_MESSAGE, HELLO, WELCOME = 0x10, 0x11, 0x20, 0x21
TRAILER_BYTES = 68
SPOILED = 7
"""The number of the message that a cheat spoils."""


class Door(socketserver.StreamRequestHandler):
    """One connection; everything that connections share is on the server."""

    disable_nagle_algorithm = True

    def handle(self):
        try:
            while self.serve_one():
                pass
        except (ConnectionError, ValueError):
            pass  # the generator has gone

    def cheats(self, how):
        return how == self.server.cheat and self.server.sequence == SPOILED


class BinaryDoor(Door):
    client_id = topic = b""

    def serve_one(self):
        head = self.rfile.read(HEADER.size)
        if len(head) < HEADER.size:
            return False
        _, command, sequence, topic, payload = HEADER.unpack(head)
        body = self.rfile.read(topic + payload)
        trailer = self.rfile.read(TRAILER_BYTES) if command == SIGNED_PUBLISH else b""
        with self.server.lock:
            self.on_frame(command, sequence, body[:topic], body[topic:], trailer)
        return True

    def send(self, command, sequence, topic=b"", payload=b"", trailer=b""):
        header = HEADER.pack(1, command, sequence, len(topic), len(payload))
        self.wfile.write(header + topic + payload + trailer)

    def on_frame(self, command, sequence, topic, payload, trailer):
        if command == PING:
            self.send(PONG, 0)
        elif command == HELLO:
            features = 0 if self.server.cheat == "number nothing" else 2
            self.send(WELCOME, 0, payload=struct.pack(">BHQBHI", 5, 8, 7, 1, 4, features))
        elif command == SUBSCRIBE:
            self.on_subscribe(sequence, topic)
        elif command == ACK and self.server.cheat != "forget acknowledgements":
            self.server.acknowledged.add((self.client_id, sequence))
        elif command in (PUBLISH, SIGNED_PUBLISH):
            self.on_publish(sequence, topic, payload, trailer)

    def on_subscribe(self, sequence, name):
        self.client_id, _, self.topic = name.rpartition(b"\0")
        for message in self.server.log:
            if (self.client_id, message[0]) not in self.server.acknowledged:
                self.deliver(message)
        self.server.subscribers.append(self)
        self.send(ACK, sequence)

    def on_publish(self, sequence, topic, payload, trailer):
        message_id = self.server.next_sequence()
        if self.cheats("refuse"):
            return self.send(ERROR, 0, payload=b"not today")
        message = (message_id, topic, self.spoiled(payload), trailer)
        for _ in range(0 if self.cheats("lose") else 2 if self.cheats("double") else 1):
            for subscriber in self.server.subscribers:
                subscriber.deliver(message)
            self.server.log.append(message)
        return self.send(ACK, sequence + self.cheats("answer another"))

    def spoiled(self, payload):
        return payload[:-1] + b"!" if self.cheats("damage") else payload

    def deliver(self, message):
        sequence, topic, payload, trailer = message
        if self.topic != topic and not self.topic.endswith(b"#"):
            return
        trailer = bytes(len(trailer)) if self.server.cheat == "strip signatures" else trailer
        self.send(SIGNED_MESSAGE if trailer else MESSAGE, sequence, topic, payload, trailer)


class RespDoor(Door):
    def serve_one(self):
        line = self.rfile.readline()
        if not line:
            return False
        words = []
        for _ in range(int(line[1:])):
            length = int(self.rfile.readline()[1:])
            words.append(self.rfile.read(length + 2)[:-2])
        with self.server.lock:
            self.wfile.write(getattr(self, f"on_{words[0].decode().lower()}")(*words[1:]))
        return True

    def on_ping(self):
        return b"+PONG\r\n"

    def on_subscribe(self, topic):
        return self.subscribe(b"subscribe", topic)

    def on_psubscribe(self, pattern):
        return self.subscribe(b"psubscribe", pattern)

    def subscribe(self, kind, name):
        self.server.subscribers.append((self, kind, name))
        return b"*3\r\n" + bulk(kind) + bulk(name) + b":1\r\n"

    def on_publish(self, topic, payload):
        self.server.next_sequence()
        count = int(self.cheats("boast"))
        for subscriber, kind, name in self.server.subscribers:
            by_pattern = kind == b"psubscribe" and fnmatchcase(topic.decode(), name.decode())
            if not by_pattern and name != topic:
                continue
            count += 1
            pushed = [b"pmessage", name] if by_pattern else [b"message"]
            if not self.cheats("lose"):
                subscriber.wfile.write(array([*pushed, topic, payload]))
        return b":%d\r\n" % count

    def on_xadd(self, _key, _id, *words):
        number = self.server.next_sequence()
        if self.cheats("damage"):
            words = (words[0], words[1][:-1] + b"!", *words[2:])
        if not self.cheats("lose"):
            self.server.log.append((number, words))
        return bulk(b"1-%d" % (1 if self.cheats("repeat an id") else number))

    def on_xrange(self, _key, first, _last, _count, count):
        after = int(first.partition(b"-")[2] or 0)
        page = [entry for entry in self.server.log if entry[0] > after][: int(count)]
        entries = [b"*2\r\n" + bulk(b"1-%d" % number) + array(words) for number, words in page]
        return b"*%d\r\n" % len(page) + b"".join(entries)


class NatsDoor(Door):
    """Core NATS: the broker speaks first, and answers nothing but PING."""

    def handle(self):
        self.wfile.write(b'INFO {"server_id":"fake"}\r\n')
        super().handle()

    def serve_one(self):
        words = self.rfile.readline().split()
        if not words:
            return False
        payload = self.rfile.read(int(words[2]) + 2) if words[0] == b"PUB" else b""
        with self.server.lock:
            if words[0] == b"PING":
                self.wfile.write(b"PONG\r\n")
            elif words[0] == b"SUB":
                self.on_sub(words[1], words[2])
            elif words[0] == b"PUB":
                self.on_pub(words[1], payload)
        return True

    def on_sub(self, subject, number):
        self.server.subscribers.append((self, subject, number))

    def on_pub(self, subject, payload):
        self.server.next_sequence()
        if self.cheats("refuse"):
            self.wfile.write(b"-ERR 'not today'\r\n")
        if self.cheats("damage"):
            payload = payload[:-3] + b"!\r\n"
        times = 0 if self.cheats("lose") else 2 if self.cheats("double") else 1
        for subscriber, name, number in self.server.subscribers * times:
            if name in (subject, subject.partition(b".")[0] + b".>"):
                line = b"MSG %s %s %d\r\n" % (subject, number, len(payload) - 2)
                subscriber.wfile.write(line + payload)


class QueueDoor(Door):
    """Groups with leases that never end. Messages are pushed as long as there is room for them."""

    group = None
    room = 0

    def serve_one(self):
        length = self.rfile.read(4)
        if len(length) < 4:
            return False
        request = Request.FromString(self.rfile.read(int.from_bytes(length, "big")))
        kind = request.WhichOneof("kind")
        with self.server.lock:
            getattr(self, f"on_{kind}")(getattr(request, kind))
            for worker in self.server.subscribers:
                worker.push()
        return True

    def send(self, **kind):
        body = Response(**kind).SerializeToString()
        self.wfile.write(len(body).to_bytes(4, "big") + body)

    def on_stats(self, _):
        self.send(stats={"in_flight": len(self.server.leases)})

    def on_produce(self, produce):
        offset = self.append(produce.payload)
        if self.cheats("refuse"):
            self.send(error={"code": "internal", "message": "not today"})
        else:
            self.send(produced={"offset": 0 if self.cheats("answer another") else offset})

    def on_produce_many(self, many):
        first, *_ = [self.append(payload) for payload in many.payloads]
        count = len(many.payloads) - (self.server.cheat == "answer for less")
        self.send(produced_many={"stretches": [{"offset": first, "count": count}]})

    def append(self, payload):
        offset = self.server.next_sequence() - 1
        if self.cheats("damage"):
            payload = payload[:-1] + b"!"
        self.server.log += [payload] * (0 if self.cheats("lose") else 1 + self.cheats("double"))
        return offset

    def on_fetch(self, fetch):
        """In columns, two slices at most: a reader must be able to put them together."""
        page = self.server.log[fetch.offset : fetch.offset + 60]
        half = len(page) // 2
        slices = [columns(part) for part in (page[:half], page[half:]) if part]
        place = {"next_offset": fetch.offset + len(page), "end_offset": len(self.server.log)}
        self.send(fetched={**place, "slices": slices})

    def take(self, group, count):
        """Items of a group, from where it stands."""
        server, start = self.server, self.server.positions.get(group, 0)
        payloads = server.log[start : start + count]
        server.positions[group] = start + len(payloads)
        first = server.next_lease
        server.next_lease += len(payloads)
        server.leases.update(range(first, server.next_lease))
        return [
            {"lease_id": first + n, "offset": start + n, "payload": payload, "ts_ms": 1}
            for n, payload in enumerate(payloads)
        ]

    def on_poll(self, poll):
        self.send(polled={"items": self.take(poll.group, poll.max)})

    def on_subscribe(self, subscribe):
        self.group, self.room = subscribe.group, subscribe.prefetch
        self.server.subscribers.append(self)

    def push(self):
        for item in self.take(self.group, self.room):
            self.room -= 1
            self.send(polled={"items": [item]})

    def on_ack(self, ack):
        self.settle([ack.lease_id])

    def on_ack_many(self, many):
        self.settle(many.lease_ids)

    def settle(self, leases):
        if self.server.cheat != "forget acknowledgements":
            self.server.leases.difference_update(leases)
        if self.group is None:
            self.send(ok={})
        self.room += len(leases)


def columns(payloads):
    """Payloads as a slice of Fetched has them; bounds may begin anywhere."""
    bounds = accumulate(map(len, payloads), initial=SPOILED)
    bounds = struct.pack(f"<{len(payloads) + 1}I", *bounds)
    return {"count": len(payloads), "bounds": bounds, "payloads": b"".join(payloads)}


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(words):
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


class FakeBroker(socketserver.ThreadingTCPServer):
    """What all connections of a door share."""

    daemon_threads = True

    def __init__(self, door, cheat):
        super().__init__(("127.0.0.1", 0), door)
        self.cheat = cheat
        self.lock = threading.Lock()
        self.log = []
        self.subscribers = []
        self.acknowledged = set()
        self.positions = {}
        self.leases = set()
        self.next_lease = 0
        self.sequence = 0

    @property
    def port(self):
        return self.server_address[1]

    def next_sequence(self):
        self.sequence += 1
        return self.sequence


@contextmanager
def serving(door, cheat=None):
    """A broker that listens while entered."""
    with FakeBroker(door, cheat) as broker:
        threading.Thread(target=broker.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield broker
        finally:
            broker.shutdown()
