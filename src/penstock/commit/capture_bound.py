"""How much captured QoS 0 may be on the way to the disk while other clients wait for it.

A client that waits for its acknowledgement waits for the commit under way and for its own. Captured
messages share these commits, and under a flood they would make them long. So their bytes are
bounded by what the disk took lately in ``COMMIT_S``; beyond it they are delivered but not captured.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.limits import CAPTURE_BESIDE_WAITING_BYTES_MAX, KIB
from penstock.model.message import Extras
from penstock.store.batch import Batch

COMMIT_S = 0.005  # how long captured messages may make a commit that others wait for
BYTES_MIN = 64 * KIB
MEASURED_BYTES_MIN = 32 * KIB  # a smaller commit says how long a flush takes, not a byte
WEIGHT = 0.25  # of the last commit


class CaptureBound:
    """Follows the speed of commits. ``bytes`` is the bound."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = min(bytes_max, CAPTURE_BESIDE_WAITING_BYTES_MAX)
        self._bytes_min = min(bytes_max, BYTES_MIN)
        self._bytes_per_s = self._bytes_max / COMMIT_S
        self.bytes = self._bytes_max

    def committed(self, size: int, seconds: float) -> None:
        if size < MEASURED_BYTES_MIN or seconds <= 0:
            return
        self._bytes_per_s += WEIGHT * (size / seconds - self._bytes_per_s)
        bound = int(self._bytes_per_s * COMMIT_S)
        self.bytes = max(self._bytes_min, min(bound, self._bytes_max))


class CaptureRoom:
    """How much captured messages may add to a batch before the pipeline must be asked again.

    Who captures a message at a time finds here what ``Pipeline.capturing_batch`` would answer, and
    that ``end_capturing`` would do nothing: the commit of the batch is certain to come.
    """

    __slots__ = ("batch", "bytes_max")

    def __init__(self) -> None:
        self.withdraw()

    def grant(self, batch: Batch, bytes_max: int) -> None:
        """``batch`` may hold ``bytes_max`` of payload, until this is withdrawn."""
        self.batch: Batch | None = batch
        self.bytes_max = bytes_max

    def withdraw(self) -> None:
        self.batch = None
        self.bytes_max = 0


class Capture(Protocol):
    """Journals messages of one topic, with a time and flags; see ``Pipeline.begin_capture``."""

    def __call__(
        self,
        topic: bytes,
        payloads: list[bytes],
        time_ms: int,
        flags: int,
        extras: Sequence[Extras | None] | None = None,
        /,
    ) -> int: ...


class EachMessage(Protocol):
    """Messages that each have a name; their topics are those of the names, if not the same."""

    @property
    def count(self) -> int: ...
    def append_to(
        self, batch: Batch, topics: Mapping[bytes, bytes] | None, time_ms: int, /
    ) -> None: ...
