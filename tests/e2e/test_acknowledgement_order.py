"""No acknowledgement leaves before the message is on disk: observed with strace.

Each message carries its own marker. In the order of the system calls, a PUBACK or PUBREC may
be written to a socket only after

1. the marker was written to a file,
2. a flush of that file, begun after that write, had returned, and
3. the page that makes the commit count was written after that, to a descriptor that was opened
   for synchronous writing (so that its write is a flush, too).
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
OPENED = re.compile(r"O_D?SYNC.*= (\d+)$")
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


class Order:
    """Tracks writes, flushes and commits, and whether an acknowledgement came too early."""

    def __init__(self) -> None:
        self._unfinished: dict[str, tuple[str, str]] = {}
        self._files: set[str] = set()
        """Descriptors that were flushed at some time, so not sockets."""
        self._synchronous: set[str] = set()
        self._written: set[int] = set()
        self._flushing: dict[str, set[int]] = {}
        self._flushed: set[int] = set()
        self.committed: set[int] = set()
        self.acknowledged: list[int] = []
        self.early: list[int] = []

    def line(self, text: str) -> None:
        """Process a line of the trace; a write counts when it begins, everything else when it returns."""
        if not (match := LINE.match(text)):
            return
        thread, resumed, call, descriptor, rest = match.groups()
        if resumed:
            call, descriptor = self._unfinished.pop(thread)
        else:
            self._begin(thread, call, descriptor or "", rest)
            if rest.endswith("<unfinished ...>"):
                self._unfinished[thread] = (call, descriptor or "")
                return
        self._end(thread, call, descriptor or "", rest)

    def _begin(self, thread: str, call: str, descriptor: str, rest: str) -> None:
        if call in FLUSHES:
            self._files.add(descriptor)
            self._flushing[thread] = set(self._written)
        elif call.startswith("pwrite") or descriptor in self._files:
            self._written |= {int(number) for number in MARKER.findall(data_of(rest))}
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
            self._flushed |= self._flushing.pop(thread)
        elif call == "openat":
            self._synchronous.update(OPENED.findall(rest))
        elif descriptor in self._synchronous:
            self.committed |= self._flushed


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
    [("owfFca", []), ("owfFac", [1]), ("owfacF", [1]), ("ofwFca", [1]), ("owcfFa", [1])],
)
def test_an_early_acknowledgement_would_be_noticed(order_of_lines, early):
    """The same system calls in other orders."""
    lines = {
        "o": '7  openat(AT_FDCWD, "\\x2f", O_RDWR|O_DSYNC|O_CLOEXEC, 0664) = 15',
        "w": '7  pwrite64(9, "{}", 4096, 0) = 4096'.format(
            "".join(f"\\x{byte:02x}" for byte in marker(1))
        ),
        "f": "7  fdatasync(9 <unfinished ...>",
        "F": "7  <... fdatasync resumed>) = 0",
        "c": '8  pwrite64(15, "\\x00", 136, 4096) = 136',
        "a": r'6  write(5, "\x40\x02\x00\x01", 4) = 4',
    }
    order = Order()
    for name in order_of_lines:
        order.line(lines[name])
    assert (order.acknowledged, order.early) == ([1], early)
