"""``python -m benchmarks.logins``: a fleet that comes back at once, and guessing beside other work.

* ``secrets``: all clients connect at once, each with its own generated secret.
* ``cold``: the same with chosen passwords that the broker has not seen since its start. "Busy"
  is tried again; "wrong" would be a fault.
* ``cached``: the same clients again.
* ``open``: the same number of clients without credentials, at a broker without users.
* ``guess``: how long a bystander's QoS 1 publish takes while 1,000 wrong logins come each second,
  from one address and from many, next to a quiet broker, in turn.

Clients, guessers and the bystander are processes of their own. Guessers of ``many`` have source
addresses 127.0.0.0/8, each of which the broker takes for another machine. The kernel chooses the
cores: hashing threads have a lower priority than everything else.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.brokers import HOST, Broker, PenstockBroker
from penstock.testing import Broker as TestBroker
from penstock.trust.book import put
from penstock.trust.passwords import hash_password
from penstock.trust.rows import User
from penstock.trust.secrets import device_secret, digest_of

HERE = Path(__file__).parent
ACCEPTED, BUSY, WRONG = 0, 3, 4  # return codes of CONNACK
AT_ONCE = 1_000  # connections under way at one time; the broker asks the kernel to queue 1,024
GUESSES_PER_S = 1_000
PUBLISHES_PER_S = 200
GOALS = {"secrets": 2.0, "cached": 3.0}
GUESS_GOAL = 2.0


class Client(NamedTuple):
    """Who connects; without a name, nobody."""

    id: str
    user: str = ""
    secret: str = ""
    source: str = HOST


# ── the broker ────────────────────────────────────────────────────────────────────────────────


class FleetBroker(PenstockBroker):
    """A broker that knows ``users``."""

    users: tuple[User, ...] = ()

    def start(self, cpu: int | None) -> None:
        if self.users:
            with TestBroker(data=self.directory / "data") as prepared:
                prepared.change_access(*map(put, self.users))
        super().start(cpu)


@contextmanager
def broker_with(users: list[User], data: Path) -> Iterator[Broker]:
    kind = type("Fleet", (FleetBroker,), {"users": tuple(users)})
    with kind.running(data, settings={"limits.clients_max": "20000"}) as broker:
        yield broker


def devices(count: int) -> tuple[list[User], list[Client]]:
    secrets = [device_secret(number.to_bytes(20, "big")) for number in range(count)]
    users = [
        User(f"device{number}", ("client",), secrets=(digest_of(secret.encode()),))
        for number, secret in enumerate(secrets)
    ]
    return users, [
        Client(user.name, user.name, secret) for user, secret in zip(users, secrets, strict=True)
    ]


def people(count: int) -> tuple[list[User], list[Client]]:
    """Users with passwords of the default cost; hashing them takes longer than the measurement."""
    with multiprocessing.Pool() as pool:
        hashes = pool.starmap(
            hash_password, [(b"password %d" % n, n.to_bytes(16, "big")) for n in range(count)]
        )
    users = [User(f"person{n}", ("client",), password=text) for n, text in enumerate(hashes)]
    return users, [Client(user.name, user.name, f"password {n}") for n, user in enumerate(users)]


# ── clients ───────────────────────────────────────────────────────────────────────────────────


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2, "big") + data


def packet(first: int, body: bytes) -> bytes:
    length, head = len(body), bytearray([first])
    while True:
        length, digit = divmod(length, 128)
        head.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(head) + body


def connect(client: Client) -> bytes:
    flags = 2 | (0xC0 if client.user else 0)
    named = text(client.user) + text(client.secret) if client.user else b""
    return packet(0x10, text("MQTT") + bytes([4, flags, 0, 0]) + text(client.id) + named)


async def knock(port: int, client: Client) -> tuple[int, asyncio.StreamWriter]:
    """Connect once; return the code of the answer."""
    source = (client.source, 0) if client.source != HOST else None
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=source)
    writer.write(connect(client))
    try:
        return (await reader.readexactly(4))[3], writer
    except (asyncio.IncompleteReadError, ConnectionError):
        return -1, writer


async def come_back(port: int, clients: list[Client]) -> dict[str, float]:
    """Connect all; return how long it took until the last one was in, and what else was said."""
    answers: Counter[int] = Counter()
    places = asyncio.Semaphore(AT_ONCE)
    writers = []

    async def one(client: Client) -> None:
        while True:
            async with places:
                code, writer = await knock(port, client)
            answers[code] += 1
            if code in (ACCEPTED, WRONG):
                writers.append(writer)
                return
            writer.close()
            await asyncio.sleep(1)

    started = time.perf_counter()
    await asyncio.gather(*map(one, clients))
    took_s = time.perf_counter() - started
    for writer in writers:
        writer.write(b"\xe0\x00")
        writer.close()
    return {
        "seconds": took_s,
        "accepted": answers[ACCEPTED],
        "busy": answers[BUSY],
        "wrong": answers[WRONG],
    }


async def guess(port: int, seconds: float, sources: int) -> dict[str, float]:
    """Send wrong logins at a fixed rate; return how they were answered."""
    answers: Counter[int] = Counter()
    under_way: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        place = number % sources
        source = (
            HOST
            if sources == 1
            else f"127.{1 + place // 62_500}.{place // 250 % 250}.{1 + place % 250}"
        )
        client = Client(f"g{number}", f"device{number % 1000}", f"guess {number}", source)
        code, writer = await knock(port, client)
        answers[code] += 1
        writer.close()

    started = time.perf_counter()
    for number in range(int(seconds * GUESSES_PER_S)):
        due = started + number / GUESSES_PER_S
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        if len(under_way) < 5 * GUESSES_PER_S:
            task = asyncio.create_task(one(number))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    took_s = time.perf_counter() - started
    sent = sum(answers.values()) + len(under_way)
    await asyncio.wait(under_way, timeout=20) if under_way else None
    return {
        "per_s": sent / took_s,
        "wrong": answers[WRONG],
        "busy": answers[BUSY],
        "cut": answers[-1],
    }


async def publish(port: int, client: Client, seconds: float) -> dict[str, float]:
    """Publish at a fixed rate, each timed from when it was due; return quantiles in ms."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(connect(client))
    await reader.readexactly(4)
    count = int(seconds * PUBLISHES_PER_S)
    due = [0.0] * (count + 1)
    took: list[float] = []

    async def acknowledged() -> None:
        for _ in range(count):
            answer = await reader.readexactly(4)
            took.append(time.perf_counter() - due[int.from_bytes(answer[2:4], "big")])

    waiting = asyncio.create_task(acknowledged())
    started = time.perf_counter()
    for number in range(1, count + 1):
        due[number] = started + number / PUBLISHES_PER_S
        await asyncio.sleep(max(due[number] - time.perf_counter(), 0))
        writer.write(packet(0x32, text("bench/t") + number.to_bytes(2, "big") + bytes(100)))
    await waiting
    writer.close()
    cuts = quantiles(took, n=1000)
    return {"p50_ms": median(took) * 1000, "p99_ms": cuts[989] * 1000, "max_ms": max(took) * 1000}


def elsewhere(work: Callable[..., Any], *arguments: Any) -> "Running":
    return Running(work, arguments)


class Running:
    """An asynchronous function in a process of its own."""

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._pipe, there = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.Process(target=_run, args=(there, work, arguments))
        self._process.start()

    def result(self) -> dict[str, float]:
        found: dict[str, float] = self._pipe.recv()
        self._process.join()
        return found


def _run(pipe: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    machine.raise_file_limit()
    pipe.send(asyncio.run(work(*arguments)))


# ── measurements ──────────────────────────────────────────────────────────────────────────────


def measure_fleet(count: int, rounds: int, data: Path) -> Iterator[dict[str, Any]]:
    known, with_secrets = devices(count)
    others, with_passwords = people(count)
    nobody = [Client(client.id) for client in with_secrets]
    for round_ in range(rounds):
        with broker_with([], data) as broker:
            yield {"case": "open", "round": round_} | elsewhere(
                come_back, broker.port, nobody
            ).result()
        with broker_with([*known, *others], data) as broker:
            for case, fleet in (
                ("secrets", with_secrets),
                ("cold", with_passwords),
                ("cached", with_passwords),
            ):
                found = elsewhere(come_back, broker.port, fleet).result()
                yield {"case": case, "round": round_} | found


def measure_guessing(
    count: int, rounds: int, seconds: float, data: Path
) -> Iterator[dict[str, Any]]:
    known, clients = devices(count)
    for round_ in range(rounds):
        with broker_with(known, data) as broker:
            for case, sources in (("quiet", 0), ("one address", 1), ("many addresses", 10_000)):
                storm = elsewhere(guess, broker.port, seconds, sources) if sources else None
                found = elsewhere(publish, broker.port, clients[0], seconds).result()
                told = storm.result() if storm else {}
                yield {"case": case, "round": round_} | found | told


def report(records: list[dict[str, Any]]) -> int:
    """Print medians; return how many goals were missed."""
    missed = 0
    for case in dict.fromkeys(record["case"] for record in records):
        found = [record for record in records if record["case"] == case]
        names = [name for name in found[0] if name not in ("case", "round")]
        figures = {name: median(record[name] for record in found) for name in names}
        shown = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
        goal = GOALS.get(case)
        verdict = "" if goal is None else "ok" if figures["seconds"] <= goal else f"above {goal} s"
        missed += verdict.startswith("above")
        print(f"{case:15} {shown}  {verdict}")
    quiet = [record["p99_ms"] for record in records if record["case"] == "quiet"]
    for case in ("one address", "many addresses"):
        loud = [record["p99_ms"] for record in records if record["case"] == case]
        if quiet and loud:
            ratio = median(b / a for a, b in zip(quiet, loud, strict=True))
            missed += ratio > GUESS_GOAL
            print(f"{case}: p99 {ratio:.2f}x of quiet, goal {GUESS_GOAL:g}x")
    return missed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.logins", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("cases", nargs="*", default=["fleet", "guess"], help="fleet, guess")
    add("--clients", type=int, default=1_000)
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=5.0, help="duration of one round of guess (5)")
    add("--data-dir", type=Path, default=HERE / "build" / "data")
    add("--results", type=Path, help="file for the figures, as JSON lines")
    options = parser.parse_args(arguments)
    machine.raise_file_limit()
    records: list[dict[str, Any]] = []
    found: list[Iterator[dict[str, Any]]] = []
    if "fleet" in options.cases:
        found.append(measure_fleet(options.clients, options.rounds, options.data_dir))
    if "guess" in options.cases:
        found.append(
            measure_guessing(options.clients, options.rounds, options.seconds, options.data_dir)
        )
    for records_of_case in found:
        for record in records_of_case:
            records.append(record)
            print(json.dumps(record), file=sys.stderr)
    if options.results:
        options.results.write_text("".join(json.dumps(record) + "\n" for record in records))
    return int(report(records) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
