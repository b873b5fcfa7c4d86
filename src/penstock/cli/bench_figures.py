"""What ``penstock bench`` sends, and what its figures are: pure, so that each can be tested.

Latencies are kept one by one, and percentiles are taken from them: no buckets, no averages. Every
payload is random but for a number at its start, so that nothing on the way can compress it or
mistake one message for another.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from random import Random
from typing import Final

import msgspec

from penstock.cli.output import columns, counted
from penstock.client.errors import ArgumentError

NUMBER_BYTES: Final = 8  # the number of a message, at the start of its payload
IN_FLIGHT: Final = 100  # publishes that one client has unconfirmed at most
JOBS: Final = 100  # jobs produced, polled and acknowledged together


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measures, and under which topics."""

    run: str  # random: two runs, also at the same time, do not meet
    seconds: float
    clients: int
    rate: int
    payload_bytes: int

    def topic(self, name: str) -> str:
        return f"bench/{self.run}/{name}"

    def topics(self, measurement: str) -> list[str]:
        """All that a measurement may publish to."""
        if measurement == "durable_many":
            return [self.client_topic(number) for number in range(self.clients)]
        return [self.topic(measurement)]

    def client_topic(self, number: int) -> str:
        return self.topic(f"durable_many/{number}")

    def payloads(self, seed: int) -> Iterator[bytes]:
        """Endless; the same seed gives the same ones."""
        random, rest, number = Random(seed), self.payload_bytes - NUMBER_BYTES, 0  # noqa: S311
        if rest < 0:
            raise ArgumentError(f"a payload needs {NUMBER_BYTES} bytes for its number")
        while True:
            yield number.to_bytes(NUMBER_BYTES) + random.randbytes(rest)
            number += 1

    def due_s(self, number: int) -> float:
        """When a message of the paced measurement is due, in seconds after its beginning."""
        return number / self.rate

    @property
    def paced_messages(self) -> int:
        return max(1, round(self.rate * self.seconds))


def number_of(payload: bytes) -> int:
    """The number of a message."""
    return int.from_bytes(payload[:NUMBER_BYTES])


def percentile(sorted_values: Sequence[float], percent: float) -> float:
    """The smallest value that ``percent`` of the values do not exceed (nearest rank)."""
    if not sorted_values:
        raise ValueError("no values")
    return sorted_values[max(ceil(len(sorted_values) * percent / 100), 1) - 1]


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency | None":
        """None without a measurement."""
        if not seconds:
            return None
        found = sorted(seconds)
        shown = (percentile(found, 50), percentile(found, 99), found[-1])
        return cls(*(round(one * 1000, 3) for one in shown))

    def text(self) -> str:
        return f"p50 {self.p50_ms:,.2f} ms, p99 {self.p99_ms:,.2f} ms"


class Figure(msgspec.Struct, kw_only=True):
    """One measurement: what it was, and what came of it."""

    name: str
    title: str
    messages: int = 0  # confirmed, delivered or acknowledged
    took_s: float = 0.0
    per_s: float | None = None
    latency: Latency | None = None
    sent: int | None = None  # where messages may be lost
    lost: int | None = None
    lost_because: list["Drops"] = []
    client_cores: float = 0.0  # cores that our own processes kept busy
    client_processes: int = 1
    finished: bool = False  # else it was interrupted, or failed
    error: str | None = None

    def count(self, messages: int, took_s: float) -> None:
        """Note what was done in how long."""
        self.messages, self.took_s = messages, round(took_s, 3)
        self.per_s = round(messages / took_s, 1) if messages and took_s > 0 else None

    def cores_text(self) -> str:
        return f"{self.client_cores:.2f} of {self.client_processes}"

    def text(self) -> str:
        """What people read."""
        if self.error is not None:
            return self.error
        parts = []
        if self.latency is not None:
            parts.append(self.latency.text())
        if self.per_s is not None:
            parts.append(f"{self.per_s:,.0f}/s")
        if self.lost is not None:
            parts.append(self.lost_text())
        if not self.finished:
            parts.append("interrupted")
        return "; ".join(parts)

    def lost_text(self) -> str:
        if not self.lost:
            return "none lost"
        reasons = ", ".join(drops.reason for drops in self.lost_because)
        return f"{self.lost:,} of {self.sent:,} lost" + (f" ({reasons})" if reasons else "")


class Drops(msgspec.Struct, frozen=True):
    """Messages that the broker recorded as dropped for one reason."""

    reason: str
    messages: int
    advice: str


class Report(msgspec.Struct, kw_only=True):
    """What ``--json`` prints."""

    broker: str
    plan: Plan
    figures: list[Figure]
    interrupted: bool = False
    limits: str = ""
    topics_deleted: int = 0
    topics_left: list[str] = []
    why_left: str | None = None

    def text(self) -> str:
        head = ("MEASURED", "CLIENT CORES", "RESULT")
        rows = [(one.title, one.cores_text(), one.text()) for one in self.figures]
        lines = [columns([head, *rows])] if rows else ["nothing was measured"]
        lines += ["", *self.reasons(), self.limits]
        if self.topics_left:
            shown = ", ".join(self.topics_left[:3]) + (", ..." if self.topics_left[3:] else "")
            lines.append(f"left behind: {shown} ({self.why_left})")
        else:
            lines.append(f"deleted the {counted(self.topics_deleted, 'topic')} of the run")
        if self.interrupted:
            lines.append("interrupted: these are the figures so far")
        return "\n".join(lines)

    def reasons(self) -> list[str]:
        """Why messages were lost, and what to do about it."""
        found = {one.reason: one.advice for figure in self.figures for one in figure.lost_because}
        return [f"{reason}: {advice}" for reason, advice in found.items()]


def limits(*, is_local: bool) -> str:
    """What holds the figures down besides the broker."""
    if is_local:
        where = "on the broker's machine, and took cores from it"
    else:
        where = "and the network to the broker counts, too"
    return (
        f"Python processes made the load, {where}.\n"
        "The figures are a lower bound of what the broker does: where CLIENT CORES is near the\n"
        "number of processes, these were the limit."
    )
