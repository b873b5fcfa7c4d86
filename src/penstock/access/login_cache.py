"""Passwords that were right a moment ago, so that a fleet that comes back is not hashed again.

An entry is a keyed BLAKE2b of the user's name, the hash on record and the secret; the key is random
and never leaves the process. A changed password therefore misses, and an entry is of no use to
whoever reads the memory later. Only successes are kept. Everything else about the user, such as
whether it is disabled, is looked up at each login.
"""

from collections import OrderedDict
from hashlib import blake2b

ENTRIES_MAX = 10_000
KEY_BYTES = 32


class LoginCache:
    """Remembers for ``seconds``; 0 remembers nothing."""

    def __init__(self, key: bytes, seconds: float, entries_max: int = ENTRIES_MAX) -> None:
        self._key = key
        self._seconds = seconds
        self._entries_max = entries_max
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def mark(self, user: str, hash_text: str, secret: bytes) -> bytes:
        """What stands for this login, for as long as the process lives."""
        digest = blake2b(key=self._key, digest_size=32)
        for part in (user.encode("utf-8", "surrogatepass"), hash_text.encode(), secret):
            digest.update(len(part).to_bytes(4, "big"))
            digest.update(part)
        return digest.digest()

    def knows(self, mark: bytes, now: float) -> bool:
        until = self._until.get(mark)
        if until is not None and until <= now:
            del self._until[mark]
            return False
        return until is not None

    def note(self, mark: bytes, now: float) -> None:
        if not self._seconds:
            return
        self._until.pop(mark, None)
        self._until[mark] = now + self._seconds
        if len(self._until) > self._entries_max:
            self._until.popitem(last=False)
