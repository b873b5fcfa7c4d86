"""Who is asking, and what they may do."""

import msgspec


class Right(msgspec.Struct, frozen=True):
    """Whether an action is allowed, and on how much.

    ``topics`` is ``all``, ``some`` (each is judged), ``none``, or empty if the action has no topic.
    """

    action: str
    allowed: bool
    topics: str = ""


class SessionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The caller. ``user`` is empty if it is nobody by name."""

    user: str
    via: str  # kind of the credentials; empty: there were none
    roles: list[str]
    has_users: bool  # false: everybody on the broker's machine may do everything
    rights: list[Right]
    node: int
    version: str
    cookie: bool  # it came by the cookie of POST session: DELETE session ends it
    idle_s: float | None  # after this time without a request the session ends


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """User and password, or a generated secret; or an API token as ``secret``, without a user."""

    user: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        return f"Login({self.user!r})"  # the secret must not get into a log


class LoggedOut(msgspec.Struct, frozen=True):
    """Whether there was a session to end."""

    ended: bool
