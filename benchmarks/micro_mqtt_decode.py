"""What one packet costs ``MqttServerMachine.receive``, in nanoseconds of CPU time.

Streams are cut into chunks as a busy socket delivers them, so packets are split at the edges. The
figure is the best of several passes: noise only adds time. ``singles`` gives every message its own
chunk, as from clients that write one message at a time.

    python benchmarks/micro_mqtt_decode.py [--passes 15]
"""

import argparse
import platform
import random
import time

from penstock.wire.mqtt import MqttServerMachine, encode

CHUNK_BYTES = 64 * 1024
MESSAGES = 20_000
SEED = 1


def uniform() -> list[bytes]:
    return [encode.publish(b"plant/line/4/heat", bytes(64))] * MESSAGES


def mixed() -> list[bytes]:
    chance = random.Random(SEED)
    topics = [b"plant/line/%d/heat" % number for number in range(100)]
    sizes = [chance.randrange(16, 513) for _ in range(32)]
    return [
        encode.publish(chance.choice(topics), bytes(chance.choice(sizes))) for _ in range(MESSAGES)
    ]


def same_topic() -> list[bytes]:
    chance = random.Random(SEED)
    return [
        encode.publish(b"plant/line/4/heat", bytes(chance.randrange(16, 513)))
        for _ in range(MESSAGES)
    ]


def qos_1() -> list[bytes]:
    return [
        encode.publish(b"plant/line/4/heat", bytes(64), qos=1, packet_id=1 + number % 65_535)
        for number in range(MESSAGES)
    ]


def pubacks() -> list[bytes]:
    return [encode.acks(4, [1 + number % 65_535]) for number in range(MESSAGES)]


def pings() -> list[bytes]:
    return [encode.PINGREQ] * MESSAGES


def in_chunks(packets: list[bytes]) -> list[bytes]:
    stream = b"".join(packets)
    return [stream[at : at + CHUNK_BYTES] for at in range(0, len(stream), CHUNK_BYTES)]


def nanoseconds_per_message(chunks: list[bytes], passes: int) -> float:
    best = float("inf")
    for _ in range(passes):
        machine = MqttServerMachine()
        machine.receive(encode.connect(b"bench"))
        start = time.process_time_ns()
        for chunk in chunks:
            machine.receive(chunk)
        best = min(best, time.process_time_ns() - start)
        assert not machine.closed
        assert not machine.pending_bytes
    return best / MESSAGES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    print(f"{platform.python_implementation()} {platform.python_version()}, best of {passes}")
    for shape in (uniform, mixed, same_topic, qos_1, pubacks, pings):
        cost = nanoseconds_per_message(in_chunks(shape()), passes)
        print(f"{shape.__name__:12} {cost:7.0f} ns per packet")
    print(f"{'singles':12} {nanoseconds_per_message(uniform(), passes):7.0f} ns per packet")


if __name__ == "__main__":
    main()
