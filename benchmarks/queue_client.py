"""Our own queue client as the driver, instead of the generator.

``python -m benchmarks.queue_client -p PORT --op produce`` runs a load with
``penstock.client.connect_async`` and prints one line of JSON, with the generator's field names.
Broker and client are both Python, each on its own core, so the client is often the bottleneck: the
figure is the client's, to be compared with that of the generator for the same load.

produce
    single messages, ``-w`` tasks with one call each.
many
    batches of 256, ``-w`` tasks with one call each.
subscribe
    a backlog of ``-n`` is produced first; then a handler that does nothing consumes all of it.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median

import uvloop

from penstock.client import AsyncQueueClient, Job, connect_async

HOST = "127.0.0.1"
TOPIC, GROUP = "bench/t0", "g"
BATCH = 256
NOISE_BYTES = 1 << 20
BACKLOG = 30_000
CONCURRENCY = 64

Figures = dict[str, float]
Step = Callable[[], Awaitable[int]]
"""A call that returns the number of its messages."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse those options of the generator that apply here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_client")
    parser.add_argument("-p", dest="port", type=int, required=True)
    parser.add_argument(
        "-B", dest="broker", type=int, required=True, help="process id of the broker"
    )
    parser.add_argument("-e", dest="seed", help="ignored: nothing is random here")
    parser.add_argument("-W", dest="wall", type=float, default=60.0)
    parser.add_argument("-d", dest="seconds", type=float, default=2.0)
    parser.add_argument("-n", dest="messages", type=int, default=BACKLOG)
    parser.add_argument("-s", dest="size", type=int, default=100)
    parser.add_argument("-w", dest="window", type=int, default=32)
    parser.add_argument("--op", choices=("produce", "many", "subscribe"), default="produce")
    return parser.parse_args(arguments)


def varied(size: int) -> Iterator[bytes]:
    """Yield payloads that differ from message to message, as real ones do."""
    noise = random.Random(1).randbytes(NOISE_BYTES + size)
    for lap in count():
        for at in range(lap % size, NOISE_BYTES, size):
            yield noise[at : at + size]


async def repeat(step: Step, tasks: int, seconds: float) -> tuple[int, list[float]]:
    """Repeat the call in ``tasks`` tasks; return the number of messages and the latencies."""
    end = time.monotonic() + seconds
    latencies: list[float] = []

    async def work() -> int:
        done = 0
        while (start := time.monotonic()) < end:
            done += await step()
            latencies.append(time.monotonic() - start)
        return done

    return sum(await asyncio.gather(*(work() for _ in range(tasks)))), latencies


async def produce(client: AsyncQueueClient, options: argparse.Namespace) -> Figures:
    """Produce single messages, or batches."""
    payloads = varied(options.size)

    async def one() -> int:
        await client.produce(TOPIC, next(payloads))
        return 1

    async def many() -> int:
        results = await client.produce_many(TOPIC, list(islice(payloads, BATCH)))
        return sum(result.error is None for result in results)

    step = one if options.op == "produce" else many
    start = time.monotonic()
    acked, latencies = await repeat(step, options.window, options.seconds)
    seconds = time.monotonic() - start
    stored = await stored_messages(client)
    return {
        "sent": acked,
        "acked": acked,
        "acked_per_s": acked / seconds,
        "p50_us": median(latencies) * 1e6,
        "seconds": seconds,
        "lost": acked - stored,
    }


async def stored_messages(client: AsyncQueueClient) -> int:
    """Return the number of messages that the broker has."""
    return (await client.stats()).messages


async def subscribe(client: AsyncQueueClient, options: argparse.Namespace) -> Figures:
    """Consume a backlog with a handler that does nothing."""
    payloads = varied(options.size)
    for _ in range(0, options.messages, BATCH):
        await client.produce_many(TOPIC, list(islice(payloads, BATCH)))
    wanted = await stored_messages(client)
    done: set[int] = set()
    is_over = asyncio.Event()

    async def handle(job: Job) -> None:
        done.add(job.offset)
        if len(done) == wanted:
            is_over.set()

    start = time.monotonic()
    async with client.subscribe(TOPIC, GROUP, handle, concurrency=CONCURRENCY):
        await asyncio.wait_for(is_over.wait(), options.wall)
        seconds = time.monotonic() - start
    return {
        "delivered": len(done),
        "settled": len(done),
        "settled_per_s": len(done) / seconds,
        "seconds": seconds,
        "lost": wanted - len(done),
    }


def cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


async def measure(options: argparse.Namespace) -> Figures:
    """Run, and add the CPU time of both processes."""
    async with connect_async([f"{HOST}:{options.port}"]) as client:
        broker, ours = cpu_s(options.broker), time.process_time()
        figures = await (subscribe if options.op == "subscribe" else produce)(client, options)
        used = cpu_s(options.broker) - broker
    messages = max(figures.get("settled", 0), figures.get("acked", 0), 1)
    return figures | {
        "broker_cpu_s": used,
        "generator_cpu_s": time.process_time() - ours,
        "broker_us_per_message": used * 1e6 / messages,
    }


def main(arguments: list[str]) -> None:
    """Run one load and print its result."""
    options = parse_arguments(arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(measure(options))))


if __name__ == "__main__":
    main(sys.argv[1:])
