"""Puts changes of users and rules in force for whoever is connected, in the turn that applies them.

Every connection's principal is renewed. Where the credentials are gone (a user that was disabled,
deleted or given a new password, a revoked token) or there is a ban, the connection ends; the
administrator who made the change gets the answer first. Others go on with their new rights: doors
end what is not allowed any more (``principal_changed``), and what is routed or delivered later is
judged by the new rights.

A change of users alone concerns their own connections. Roles, tokens, bans and keys may concern
all.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.access.logins import LoginRefusal, Logins
from penstock.core.effects import AccessApplied
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal


class PrincipalHolder(Protocol):
    """A connection that acts for somebody."""

    principal: Principal
    origin: Origin

    def become(self, principal: Principal) -> None: ...

    def principal_changed(self) -> None:
        """The rights are others: end what is not allowed any more."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Revocation:
    """Renews the principals of all connections."""

    def __init__(
        self,
        logins: Logins,
        connections: Iterable[PrincipalHolder],
        forget_routes: Callable[[], None],
    ) -> None:
        self._logins = logins
        self._connections = connections
        self._forget_routes = forget_routes
        self._loop = asyncio.get_running_loop()

    def applied(self, effect: AccessApplied) -> None:
        for connection in list(self._connections):
            principal = connection.principal
            if effect.is_wide or principal.user in effect.changed:
                self._renew(connection, effect.by)
        self._forget_routes()  # those that were found since with the rights of before

    def _renew(self, connection: PrincipalHolder, by: str) -> None:
        principal = connection.principal
        if not principal.is_known:
            return  # it has yet to log in
        if principal.user:
            ban = self._logins.ban(principal, connection.origin)
            renewed = ban or self._logins.renewed(principal)
        else:
            client_id = principal.client_id.encode()
            renewed = self._logins.welcome(connection.origin, principal.door, client_id)
        if isinstance(renewed, LoginRefusal):
            self._end(connection, renewed.reason, renewed.text, by)
        elif not renewed.is_known:
            text = "there are users now: log in"
            self._end(connection, DisconnectReason.LOGIN_REQUIRED, text, by)
        else:
            connection.become(renewed)
            connection.principal_changed()

    def _end(
        self, connection: PrincipalHolder, reason: DisconnectReason, text: str, by: str
    ) -> None:
        if by and connection.principal.user == by:
            self._loop.call_soon(connection.close, reason, text)  # after the answer
        else:
            connection.close(reason, text)
