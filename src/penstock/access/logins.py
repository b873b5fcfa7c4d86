"""Who is there: a connection's first principal, and what credentials make of it.

==================  ===========  ======================================================
listener            users        a connection without credentials
==================  ===========  ======================================================
loopback            none         may do everything
loopback            some         has the role ``local``
reachable           none         may do everything, but only with ``allow_anonymous``
reachable           some         must log in
any, anonymous      some         has the role ``anonymous``
==================  ===========  ======================================================

``log_in`` calls back, at once where a comparison of hashes decides and later where a slow hash has
to be computed. The door holds what the client sends meanwhile. Every wrong login is answered with
the same text, whether the user exists or not.
"""

from collections.abc import Callable
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import AccessBook
from penstock.trust.principal import ANYONE, STRANGER, Principal
from penstock.trust.rows import User


class Credentials:
    """What a client presents. Never shown: not in ``repr``, not in a log."""

    __slots__ = ("client_id", "nonce", "secret", "user")

    def __init__(
        self, user: str, secret: bytes, client_id: bytes = b"", nonce: bytes = b""
    ) -> None:
        """``nonce``: of the broker's challenge, if the secret is a signature of one."""
        self.user = user
        self.secret = secret
        self.client_id = client_id
        self.nonce = nonce

    def __repr__(self) -> str:
        return "Credentials(…)"


class LoginFault(Enum):
    """Why a login failed, as far as the client may know."""

    WRONG = "wrong"
    BUSY = "busy"  # too many logins at once: try again later
    BANNED = "banned"
    NOT_ALLOWED = "not allowed"  # the credentials are right, the client id is not
    UNAVAILABLE = "unavailable"  # the node is cut off from the cluster, or has yet to join


class LoginRefusal(NamedTuple):
    """A failed login: what to tell the client, what to count, when to try again."""

    fault: LoginFault
    reason: DisconnectReason
    text: str
    retry_after_s: float = 0.0


WRONG = LoginRefusal(
    LoginFault.WRONG, DisconnectReason.BAD_CREDENTIALS, "wrong user name, password or token"
)

LoginDone = Callable[[Principal | LoginRefusal], None]


class Logins:
    """Makes principals, for all doors."""

    def __init__(self, book: AccessBook, *, allow_anonymous: bool) -> None:
        self._book = book
        self._allow_anonymous = allow_anonymous

    def welcome(self, origin: Origin, door: str) -> Principal:
        """The principal of a connection that has not presented credentials (yet)."""
        if self._book.is_open:
            return ANYONE._replace(door=door, address=origin.peer)
        user = origin.certificate or origin.listener_user
        if user:
            return self._principal(user, origin, door)
        role = "local" if origin.is_local else "anonymous" if self._allow_anonymous else ""
        if not role:
            return STRANGER._replace(door=door, address=origin.peer)
        return Principal("", self._book.rights_of_roles((role,)), door, origin.peer)

    def log_in(self, origin: Origin, door: str, credentials: Credentials, done: LoginDone) -> None:
        """Judge credentials and call ``done``, at once or later, on the event loop."""
        user = self._book.users.get(credentials.user)
        if user is None or user.is_disabled or not _has_secret(user, credentials.secret):
            done(WRONG)
            return
        done(self._principal(user.name, origin, door, credentials.client_id))

    def _principal(self, user: str, origin: Origin, door: str, client_id: bytes = b"") -> Principal:
        rights = self._book.rights_of(user, client_id.decode(errors="replace"))
        return Principal(user, rights, door, origin.peer)


def _has_secret(user: User, secret: bytes) -> bool:
    digest = sha256(secret).digest()
    return any(compare_digest(digest, known) for known in user.secrets)
