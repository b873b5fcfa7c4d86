"""Who sends a CONNECT: its credentials, and how a login that failed is answered.

3.1.1 has five codes for a refusal. Wrong credentials get 4; who is somebody, but not welcome, gets
5, and so does who must log in and did not. 3 means "later": nothing was wrong with the login.
"""

from penstock.access.logins import Credentials, LoginFault, LoginRefusal
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.mqtt.events import Connect, ConnectRefused

CONNACK_UNAVAILABLE, CONNACK_BAD_CREDENTIALS, CONNACK_NOT_AUTHORIZED = 3, 4, 5

_CODES = {
    LoginFault.WRONG: CONNACK_BAD_CREDENTIALS,
    LoginFault.BUSY: CONNACK_UNAVAILABLE,
    LoginFault.UNAVAILABLE: CONNACK_UNAVAILABLE,
}

# roles of nobody; shared, because there may be very many sessions
_LOCAL, _ANONYMOUS = ("local",), ("anonymous",)

LOGIN_REQUIRED = ConnectRefused(
    CONNACK_NOT_AUTHORIZED, DisconnectReason.LOGIN_REQUIRED, "CONNECT without user name"
)

NOT_OPENED = {
    DisconnectReason.STORAGE_FULL,
    DisconnectReason.STORAGE_FAILED,
    DisconnectReason.NO_QUORUM,
    DisconnectReason.LEADERSHIP_LOST,
    DisconnectReason.INTERNAL_ERROR,
}
"""Reasons for which CONNECT is answered with "server unavailable"."""


def credentials_of(event: Connect, client_id: bytes, *, is_named: bool) -> Credentials | None:
    """What a CONNECT presents; None: nothing.

    ``is_named``: the client is known by its certificate or its listener. Then a user name alone is
    not a login: such devices often send one that says something else.
    """
    name, password = event.username or b"", event.password or b""
    if not password and (is_named or not name):
        return None
    return Credentials(name.decode(), password, client_id)


def refused_login(refusal: LoginRefusal) -> ConnectRefused:
    code = _CODES.get(refusal.fault, CONNACK_NOT_AUTHORIZED)
    return ConnectRefused(code, refusal.reason, refusal.text)


def session_roles(principal: Principal, origin: Origin) -> tuple[str, ...]:
    """What limits a session; nobody has a role, in case users are added later."""
    if principal.user or principal.roles:
        return principal.roles
    return _LOCAL if origin.is_local else _ANONYMOUS
