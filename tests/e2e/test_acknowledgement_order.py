"""No acknowledgement leaves before the message is on disk: observed with strace.

Each message carries its own marker. In the order of the system calls, a PUBACK or PUBREC may
be written to a socket only after

1. the marker was written to a slot (``store/write_ahead.py``), so that the commit counts whatever
   becomes of the pages of the database, and a flush, begun after that, had returned, or
2. it was written to a page of the database, and flushed; after that the page was written that makes
   it count, and another flush, begun after that, had returned.
"""

import re
import shutil
import subprocess

import pytest

from tests.conformance.wire_client import puback, pubcomp, publish, pubrec, pubrel
from tests.e2e.test_serve import connected

TRACED = "openat,fdatasync,fsync,msync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg"
FLUSHES = {"fdatasync", "fsync", "msync"}
MESSAGES = 120
ACKNOWLEDGEMENT = re.compile(rb"[\x40\x50]\x02(..)", re.DOTALL)
MARKER = re.compile(rb"marker-(\d{5})\.")
BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
META = re.compile(
    r", (?:32|4128)(?:\) += \d+| <unfinished \.\.\.>)$"
)  # where LMDB writes its part of a meta page
PAGE_BYTES = 4096  # what LMDB writes is whole pages, but for the meta pages
LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((\d+)?)(.*)$")


def is_traceable() -> bool:
    """Whether strace is installed and allowed to trace processes."""
    strace = shutil.which("strace")
    return bool(strace) and not subprocess.call(
        [strace, "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL
    )


def marker(number: int) -> bytes:
    return b"marker-%05d." % number


def data_of(arguments: str) -> bytes:
    return b"".join(bytes.fromhex(found.replace("\\x", "")) for found in BYTES.findall(arguments))


def is_meta(call: str, rest: str) -> bool:
    """Whether a call writes the page that makes a transaction count."""
    return call == "pwrite64" and META.search(rest) is not None


class Order:
    """Tracks writes, flushes and commits, and whether an acknowledgement came too early."""

    def __init__(self) -> None:
        self._unfinished: dict[str, tuple[str, str, str]] = {}
        self._files: set[str] = set()
        """Descriptors that were flushed at some time, so not sockets."""
        self._paged: set[int] = set()
        self._slotted: set[int] = set()
        self._flushing: dict[str, tuple[set[int], set[int]]] = {}
        self._flushed: set[int] = set()
        self._counted: set[int] = set()
        """Flushed when a meta page was written, which is not."""
        self.committed: set[int] = set()
        self.acknowledged: list[int] = []
        self.early: list[int] = []

    def line(self, text: str) -> None:
        """Process a line of the trace; a write counts when it begins, everything else when it returns."""
        if not (match := LINE.match(text)):
            return
        thread, resumed, call, descriptor, rest = match.groups()
        if resumed:
            call, descriptor, rest = self._unfinished.pop(thread)
        else:
            self._begin(thread, call, descriptor or "", rest)
            if rest.endswith("<unfinished ...>"):
                self._unfinished[thread] = (call, descriptor or "", rest)
                return
        self._end(thread, call, descriptor or "", rest)

    def _begin(self, thread: str, call: str, descriptor: str, rest: str) -> None:
        if call in FLUSHES:
            self._files.add(descriptor)
            durable = self._counted | self._slotted
            self._flushing[thread] = set(self._paged), durable
        elif call.startswith("pwrite") or descriptor in self._files:
            data = data_of(rest)
            found = {int(number) for number in MARKER.findall(data)}
            if len(data) % PAGE_BYTES == 0:
                self._paged |= found
            else:
                self._slotted |= found
        elif call != "openat":
            self._answer(data_of(rest))

    def _answer(self, data: bytes) -> None:
        for identifier in ACKNOWLEDGEMENT.findall(data):
            number = int.from_bytes(identifier, "big")
            self.acknowledged.append(number)
            if number not in self.committed:
                self.early.append(number)

    def _end(self, thread: str, call: str, descriptor: str, rest: str) -> None:
        if call in FLUSHES:
            flushed, durable = self._flushing.pop(thread)
            self._flushed |= flushed
            self.committed |= durable
        elif is_meta(call, rest):
            self._counted |= self._flushed


def publish_in_bursts(client) -> None:
    """One, two, three and more at a time; packet ids are the numbers of the markers."""
    number, size = 1, 1
    while number <= MESSAGES:
        burst = range(number, min(number + size, MESSAGES + 1))
        client.send(*(publish("t", marker(n), qos=1 + n % 2, packet_id=n) for n in burst))
        expected = [pubrec(n) if n % 2 else puback(n) for n in burst]
        client.expect_in_any_order(*expected)
        releases = [n for n in burst if n % 2]
        client.send(*(pubrel(n) for n in releases))
        client.expect(*(pubcomp(n) for n in releases))
        number, size = number + len(burst), size + 1


@pytest.mark.slow
@pytest.mark.skipif(not is_traceable(), reason="strace is not installed, or not permitted")
def test_no_acknowledgement_leaves_before_the_flush_that_covers_it(start, tmp_path):
    trace = tmp_path / "trace"
    prefix = ("strace", "-f", "-xx", "-s", "1000000", "-e", f"trace={TRACED}", "-o", str(trace))
    broker = start(prefix=prefix)
    with connected(broker, "publisher", clean=False) as client:
        publish_in_bursts(client)
        client.disconnect()
    broker.stop()
    order = Order()
    for line in trace.read_text().splitlines():
        order.line(line)
    assert sorted(order.acknowledged) == list(range(1, MESSAGES + 1))
    assert order.committed >= set(range(1, MESSAGES + 1))
    assert not order.early


@pytest.mark.parametrize(
    ("order_of_lines", "early"),
    [
        ("swfFca", []),
        ("wsfFca", []),
        ("swfFac", []),
        ("swfaF", [1]),
        ("sfFa", []),
        ("sfaF", [1]),
        ("fsFa", [1]),
        ("wfsFca", [1]),
        ("wfFcfFa", []),
        ("wfFca", [1]),
        ("wfFcfaF", [1]),
        ("wfFfFca", [1]),
        ("wcfFa", [1]),
        ("fwFcfFa", [1]),
    ],
)
def test_an_early_acknowledgement_would_be_noticed(order_of_lines, early):
    """The same system calls in other orders."""
    text = "".join(f"\\x{byte:02x}" for byte in marker(1))
    page = text + "\\x00" * (PAGE_BYTES - len(marker(1)))
    lines = {
        "w": f'7  pwrite64(9, "{page}", 4096, 0) = 4096',
        "s": f'7  pwrite64(12, "{text}", 13, 40960) = 13',
        "f": "7  fdatasync(9 <unfinished ...>",
        "F": "7  <... fdatasync resumed>) = 0",
        "c": '8  pwrite64(9, "\\x00", 120, 4128) = 120',
        "a": r'6  write(5, "\x40\x02\x00\x01", 4) = 4',
    }
    order = Order()
    for name in order_of_lines:
        order.line(lines[name])
    assert (order.acknowledged, order.early) == ([1], early)
