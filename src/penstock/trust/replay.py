"""The replay window: a version 2 signature is accepted at most once.

A signature that is older than the window is refused for its age, so key id, time and nonce need not
be remembered longer than that. They are kept in **buckets** by time of signing, dropped as a whole.
A full window refuses: forgetting a nonce would silently accept a replay.

* **The future.** Clocks differ, so a signature may be ahead by ``AHEAD_MS_MAX``, and no more.
* **Before the start.** Nonces are in the journal, with their messages: a start reads the newest
  ones (``commit.recovery.signed_before``). What was signed before ``started_ms`` may have been
  accepted by the last process, and is refused.
* **A clock set back.** Dropped buckets would be inside the window again, without their nonces. So
  ``remembers_from_ms`` rises with every drop and never falls.

An accepted signature is *unstored* until ``note_stored``, so that a door can tell a repetition of
something stored, which it may acknowledge, from one whose first copy was not stored (yet).
"""

from struct import Struct

from penstock.trust.faults import SignatureFault

AHEAD_MS_MAX = 30_000  # how far a sender's clock may be ahead; network time is within a second

BUCKETS_PER_WINDOW = 16  # each is dropped at most a sixteenth of the window late

_ENTRY = Struct(">IQ")


class ReplayWindow:
    """Remembers accepted signatures of all keys, within bounds."""

    __slots__ = (
        "_bucket_ms",
        "_buckets",
        "_entries_max",
        "_remembers_from_ms",
        "_started_ms",
        "_unstored",
        "count",
        "window_ms",
    )

    def __init__(self, window_ms: int, entries_max: int, started_ms: int) -> None:
        self.window_ms = window_ms
        self._entries_max = entries_max
        self._started_ms = self._remembers_from_ms = started_ms
        self._bucket_ms = max(1, window_ms // BUCKETS_PER_WINDOW)
        self._buckets: dict[int, set[bytes]] = {}
        self._unstored: set[bytes] = set()
        self.count = 0  # remembered signatures

    def check(
        self, key_id: int, nonce: bytes, signed_ms: int, now_ms: int
    ) -> SignatureFault | None:
        """Why a signature may not be accepted; None if it is fresh, and now remembered.

        Check it last, after the signature was found valid: a forged one must not take up space, nor
        use up the nonce of an honest one.
        """
        if fault := self._time_fault(signed_ms, now_ms):
            return fault
        self._drop_old(now_ms)
        bucket = self._buckets.setdefault(signed_ms // self._bucket_ms, set())
        entry = _entry(key_id, nonce, signed_ms)
        if entry in bucket:
            return SignatureFault.REPLAYED
        if self.count >= self._entries_max:
            return SignatureFault.WINDOW_FULL
        bucket.add(entry)
        self._unstored.add(entry)
        self.count += 1
        return None

    def note_stored(self, key_id: int, nonce: bytes, signed_ms: int) -> None:
        """Note that a message is on disk; another node may have accepted it, with its own bound."""
        entry = _entry(key_id, nonce, signed_ms)
        self._unstored.discard(entry)
        if signed_ms >= self._remembers_from_ms:
            bucket = self._buckets.setdefault(signed_ms // self._bucket_ms, set())
            self.count += entry not in bucket
            bucket.add(entry)

    def forget(self, key_id: int, nonce: bytes, signed_ms: int) -> None:
        """Note that the message was not stored, so that it may be sent again."""
        entry = _entry(key_id, nonce, signed_ms)
        bucket = self._buckets.get(signed_ms // self._bucket_ms, set())
        if entry in self._unstored and entry in bucket:
            bucket.discard(entry)
            self._unstored.discard(entry)
            self.count -= 1

    def is_stored(self, key_id: int, nonce: bytes, signed_ms: int) -> bool:
        return _entry(key_id, nonce, signed_ms) not in self._unstored

    def _time_fault(self, signed_ms: int, now_ms: int) -> SignatureFault | None:
        if signed_ms < now_ms - self.window_ms:
            return SignatureFault.STALE
        if signed_ms > now_ms + AHEAD_MS_MAX:
            return SignatureFault.AHEAD
        if signed_ms < self._started_ms:
            return SignatureFault.BEFORE_START
        if signed_ms < self._remembers_from_ms:  # only after a clock was set back
            return SignatureFault.STALE
        return None

    def _drop_old(self, now_ms: int) -> None:
        oldest = (now_ms - self.window_ms) // self._bucket_ms
        if oldest * self._bucket_ms <= self._remembers_from_ms:
            return
        self._remembers_from_ms = oldest * self._bucket_ms
        for index in [index for index in self._buckets if index < oldest]:
            dropped = self._buckets.pop(index)
            self._unstored -= dropped
            self.count -= len(dropped)


def _entry(key_id: int, nonce: bytes, signed_ms: int) -> bytes:
    return _ENTRY.pack(key_id, signed_ms) + nonce
