"""Sessions of people at the console: who logged in, by a cookie that only their browser knows.

They are in memory, of one node: after a restart people log in again. A session ends after
``IDLE_S`` without a request, when its credentials end (the user is removed or has another secret, a
token expires), and when there are too many: then the one that was idle the longest.

Kept is a hash of the cookie, as of every secret.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from penstock.clock import Clock
from penstock.trust.principal import Principal

SESSIONS_MAX = 1_000  # about a KiB each
USER_SESSIONS_MAX = 20  # of one user: browsers at a few desks
IDLE_S = 8 * 3600.0
SECRET_BYTES = 32

Renew = Callable[[Principal], Principal | None]


class _WebSession:
    """One browser's. ``version`` is that of the users and rules by which it was judged last."""

    __slots__ = ("has_api_token", "principal", "used_at", "version")

    def __init__(
        self, principal: Principal, version: int, used_at: float, *, has_api_token: bool
    ) -> None:
        self.principal = principal
        self.version = version
        self.used_at = used_at
        self.has_api_token = has_api_token


class Found(NamedTuple):
    """A session that is valid. ``id`` names it, and does not reveal the cookie."""

    id: bytes
    principal: Principal
    has_api_token: bool


class WebSessions:
    """All sessions of this node, the one used last at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall_ms = clock.wall_ms
        self._by_id: OrderedDict[bytes, _WebSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, principal: Principal, version: int, *, has_api_token: bool) -> str:
        """Return the text of the cookie."""
        now = self._clock.monotonic()
        self._make_room(principal.user, now)
        text = secrets.token_urlsafe(SECRET_BYTES)
        session = _WebSession(principal, version, now, has_api_token=has_api_token)
        self._by_id[_id_of(text)] = session
        return text

    def _make_room(self, user: str, now: float) -> None:
        while self._by_id and now - next(iter(self._by_id.values())).used_at >= IDLE_S:
            self._by_id.popitem(last=False)
        own = [id_ for id_, session in self._by_id.items() if session.principal.user == user]
        if len(own) >= USER_SESSIONS_MAX:
            del self._by_id[own[0]]
        if len(self._by_id) >= SESSIONS_MAX:
            self._by_id.popitem(last=False)

    def find(self, text: str, version: int, renew: Renew) -> Found | None:
        """The session of a cookie; it counts as used."""
        id_ = _id_of(text)
        found = self.look(id_, version, renew)
        if found is not None:
            self._by_id[id_].used_at = self._clock.monotonic()
            self._by_id.move_to_end(id_)
        return found

    def look(self, id_: bytes, version: int, renew: Renew) -> Found | None:
        """The same by its id, without counting as used. ``renew`` judges by changed rules."""
        session = self._by_id.get(id_)
        if session is None:
            return None
        principal = self._current(session, version, renew)
        if principal is None:
            del self._by_id[id_]
            return None
        session.principal, session.version = principal, version
        return Found(id_, principal, session.has_api_token)

    def _current(self, session: _WebSession, version: int, renew: Renew) -> Principal | None:
        if self._clock.monotonic() - session.used_at >= IDLE_S:
            return None
        expires_ms = session.principal.expires_ms
        if expires_ms and self._clock.wall_ms() >= expires_ms:
            return None
        return session.principal if session.version == version else renew(session.principal)

    def end(self, id_: bytes) -> None:
        self._by_id.pop(id_, None)


def _id_of(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogateescape")).digest()
