"""AUTH and HELLO … AUTH: credentials to a principal, in the words of Redis.

``resp.password`` is the password of the user ``default``. Without users it opens everything, as
before there were users. With users, ``default`` is one of them, or else has the role ``client``.
"""

import hmac
from collections.abc import Callable

from msgspec.structs import replace

from penstock.access.logins import WRONG, Credentials, LoginFault, LoginRefusal
from penstock.doors.resp.calls import DEFAULT_USER, Call
from penstock.doors.resp.parts import PROTOCOL, RespParts
from penstock.net.origin import Origin
from penstock.trust.principal import ANYONE, Principal

_WRONG = "WRONGPASS invalid username-password pair or user is disabled."
_ROLES_OF_DEFAULT = ("client",)


def is_unused(door: RespParts) -> bool:
    """Whether AUTH without a user name makes no sense: nobody has a password."""
    return not door.settings.password and door.broker.access.is_open


def log_in(call: Call, user: bytes, secret: bytes, done: Callable[[str], None]) -> None:
    """Log in and call ``done`` with the error, or ""; what the client sends behind it waits."""
    connection, door = call.connection, call.door

    def judged(outcome: Principal | LoginRefusal) -> None:
        if call.closed:
            return
        if isinstance(outcome, Principal):
            connection.logged_in(outcome)
            done("")
        else:
            done(_fault(outcome))
            connection.login_failed(outcome)

    name = user.decode(errors="replace")
    origin, credentials = connection.origin, Credentials(name, secret)
    if refusal := door.logins.must_wait(origin, credentials):
        judged(refusal)
        return
    configured = _configured(door, origin, name, secret)
    if configured is None and not door.broker.access.is_open:
        door.logins.log_in(origin, PROTOCOL, credentials, judged)
        return
    door.logins.note(origin, PROTOCOL, credentials, is_right=configured is not None)
    judged(configured or WRONG)


def _configured(door: RespParts, origin: Origin, user: str, secret: bytes) -> Principal | None:
    """The user of ``resp.password``, if it is that."""
    wanted, access = door.settings.password.encode(), door.broker.access
    if user != DEFAULT_USER or not (wanted or access.is_open):
        return None
    if wanted and not hmac.compare_digest(secret, wanted):
        return None
    if access.is_open:
        return replace(ANYONE, door=PROTOCOL, address=origin.peer)
    known = access.users.get(user)
    roles: tuple[str, ...] = ()
    if known is None:
        roles = _ROLES_OF_DEFAULT
    elif known.is_disabled:
        return None
    rights = access.rights_of_roles(known.roles if known else roles, user)
    return Principal(user, rights, PROTOCOL, origin.peer, via="configuration", roles=roles)


def _fault(refusal: LoginRefusal) -> str:
    if refusal.fault is LoginFault.WRONG:
        return _WRONG
    if refusal.fault in {LoginFault.BUSY, LoginFault.UNAVAILABLE}:
        return f"TRYAGAIN {refusal.text}"
    return f"NOPERM {refusal.text}"
