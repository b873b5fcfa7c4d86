"""What one packet costs ``MqttServerMachine.receive``, in nanoseconds of CPU time.

Streams are cut into chunks as a busy socket delivers them, so packets are split at the edges. The
figure is the best of several passes: noise only adds time. ``singles`` gives every message its own
chunk, as from clients that write one message at a time.

Columns: MQTT 3.1.1; MQTT 5 without properties; with three user properties that are always the same;
with three of which two change with every message, as real devices send them.

    python benchmarks/micro_mqtt_decode.py [--passes 15]
"""

import argparse
import platform
import random
import time
from collections.abc import Callable

from penstock.wire.mqtt import MqttServerMachine, encode
from penstock.wire.mqtt.properties import NONE, Properties, block_of

CHUNK_BYTES = 64 * 1024
MESSAGES = 20_000
SEED = 1


def no_block(_number: int) -> bytes | None:
    """MQTT 3.1.1."""
    return None


def empty_block(_number: int) -> bytes | None:
    return b""


def constant_block(_number: int) -> bytes | None:
    return _user_block(7)


def varying_block(number: int) -> bytes | None:
    """Three user properties, of which two change with every message."""
    return _user_block(number)


def _user_block(number: int) -> bytes:
    trace = b"%016x" % (number * 0x9E3779B97F4A7C15 % 2**64)
    pairs = ((b"device", b"sensor-17"), (b"seq", b"%d" % number), (b"trace", trace))
    return block_of(Properties(user_properties=pairs))


Block = Callable[[int], bytes | None]


def uniform(block: Block) -> list[bytes]:
    return [
        encode.publish(b"plant/line/4/heat", bytes(64), block=block(number))
        for number in range(MESSAGES)
    ]


def mixed(block: Block) -> list[bytes]:
    chance = random.Random(SEED)
    topics = [b"plant/line/%d/heat" % number for number in range(100)]
    sizes = [chance.randrange(16, 513) for _ in range(32)]
    return [
        encode.publish(chance.choice(topics), bytes(chance.choice(sizes)), block=block(number))
        for number in range(MESSAGES)
    ]


def same_topic(block: Block) -> list[bytes]:
    chance = random.Random(SEED)
    return [
        encode.publish(b"plant/line/4/heat", bytes(chance.randrange(16, 513)), block=block(number))
        for number in range(MESSAGES)
    ]


def qos_1(block: Block) -> list[bytes]:
    return [
        encode.publish(
            b"plant/line/4/heat",
            bytes(64),
            qos=1,
            packet_id=1 + number % 65_535,
            block=block(number),
        )
        for number in range(MESSAGES)
    ]


def pubacks(_block: Block) -> list[bytes]:
    return [encode.acks(4, [1 + number % 65_535]) for number in range(MESSAGES)]


def pings(_block: Block) -> list[bytes]:
    return [encode.PINGREQ] * MESSAGES


def in_chunks(packets: list[bytes]) -> list[bytes]:
    stream = b"".join(packets)
    return [stream[at : at + CHUNK_BYTES] for at in range(0, len(stream), CHUNK_BYTES)]


def nanoseconds_per_message(chunks: list[bytes], version: int) -> float:
    machine = MqttServerMachine()
    machine.receive(encode.connect(b"bench", properties=NONE if version == 5 else None))
    start = time.process_time_ns()
    for chunk in chunks:
        machine.receive(chunk)
    spent = time.process_time_ns() - start
    assert not machine.closed
    assert not machine.pending_bytes
    return spent / MESSAGES


COLUMNS: list[tuple[str, int, Block]] = [
    ("3.1.1", 4, no_block),
    ("5", 5, empty_block),
    ("5, same 3", 5, constant_block),
    ("5, other 3", 5, varying_block),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    print(f"{platform.python_implementation()} {platform.python_version()}, best of {passes}")
    print(f"{'ns per packet':13}" + "".join(f"{name:>12}" for name, _, _ in COLUMNS))
    shapes = (uniform, mixed, same_topic, qos_1, pubacks, pings)
    for name, shape, cut in (
        *((shape.__name__, shape, in_chunks) for shape in shapes),
        ("singles", uniform, list),
    ):
        streams = [(cut(shape(block)), version) for _, version, block in COLUMNS]
        passed = [  # interleaved, so that noise meets all columns alike
            [nanoseconds_per_message(chunks, version) for chunks, version in streams]
            for _ in range(passes)
        ]
        best = [min(column) for column in zip(*passed, strict=True)]
        print(f"{name:13}" + "".join(f"{cost:12.0f}" for cost in best))


if __name__ == "__main__":
    main()
