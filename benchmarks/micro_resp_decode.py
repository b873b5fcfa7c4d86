"""What one command costs ``RespServerMachine.receive``, in nanoseconds of CPU time.

Streams are cut into chunks as a busy socket delivers them, so commands are split at the edges. The
figure is the best of several passes: noise only adds time. ``singles`` gives every command its own
chunk, as from clients that wait for each reply.

    python benchmarks/micro_resp_decode.py [--passes 15]
"""

import argparse
import platform
import random
import time

from penstock.wire.resp import RespServerMachine

CHUNK_BYTES = 256 * 1024
COMMANDS = 20_000
SEED = 1


def packed(*args: bytes) -> bytes:
    head = b"*%d\r\n" % len(args)
    return head + b"".join([b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in args])


def uniform() -> list[bytes]:
    return [packed(b"PUBLISH", b"plant/line/4/heat", bytes(64))] * COMMANDS


def channels() -> list[bytes]:
    chance = random.Random(SEED)
    names = [b"plant/line/%d/heat" % number for number in range(100)]
    return [
        packed(b"PUBLISH", chance.choice(names), chance.randbytes(chance.randrange(16, 513)))
        for _ in range(COMMANDS)
    ]


def large() -> list[bytes]:
    chance = random.Random(SEED)
    return [
        packed(b"PUBLISH", b"plant/4", chance.randbytes(chance.randrange(1_024, 8_193)))
        for _ in range(COMMANDS // 10)
    ]


def entry(chance: random.Random, number: int, key: bytes) -> bytes:
    fields = [b"device", b"sensor-%d" % chance.randrange(1_000)]
    fields += [b"temperature", b"%.2f" % (40 * chance.random())]
    fields += [b"humidity", b"%d" % chance.randrange(100), b"seq", b"%d" % number]
    return packed(b"XADD", key, b"*", *fields)


def entries() -> list[bytes]:
    chance = random.Random(SEED)
    return [entry(chance, number, b"readings") for number in range(COMMANDS)]


def entries_of_streams() -> list[bytes]:
    chance = random.Random(SEED)
    return [entry(chance, number, b"readings:%d" % (number % 50)) for number in range(COMMANDS)]


def others() -> list[bytes]:
    return [packed(b"XACK", b"readings", b"workers", b"17-%d" % n) for n in range(COMMANDS)]


def in_chunks(commands: list[bytes]) -> list[bytes]:
    stream = b"".join(commands)
    return [stream[at : at + CHUNK_BYTES] for at in range(0, len(stream), CHUNK_BYTES)]


def nanoseconds_per_command(chunks: list[bytes], count: int) -> float:
    machine = RespServerMachine()
    start = time.process_time_ns()
    for chunk in chunks:
        machine.receive(chunk)
    spent = time.process_time_ns() - start
    assert not machine.closed
    assert not machine.pending_bytes
    return spent / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    print(f"{platform.python_implementation()} {platform.python_version()}, best of {passes}")
    print(f"{'':20}{'ns per command':>16}{'singles':>10}")
    for shape in (uniform, channels, large, entries, entries_of_streams, others):
        commands = shape()
        chunks, count = in_chunks(commands), len(commands)
        together = min(nanoseconds_per_command(chunks, count) for _ in range(passes))
        alone = min(nanoseconds_per_command(commands, count) for _ in range(passes))
        print(f"{shape.__name__:20}{together:16.0f}{alone:10.0f}")


if __name__ == "__main__":
    main()
