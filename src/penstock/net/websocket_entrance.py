"""Which HTTP requests become WebSockets, and how they reach the MQTT door.

A request that asks for an upgrade is judged: path, handshake (``wire.websocket``), the web page it
comes from, room for a client. What is refused is answered with a status and a sentence, counted
with its reason, and closed.

**Web pages.** A browser opens a WebSocket for any page, without the checks that it does for other
requests, but it says which page that is: ``Origin``. So one is accepted without that header (then
it is no browser), or from a page of ``http.allowed_origins``, or from one of this very host, by an
address or a name that nobody else can point here (``net.web_origin``).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple

from msgspec.structs import replace

from penstock.net.connections import Connections
from penstock.net.listener import Door
from penstock.net.origin import Origin, shared
from penstock.net.web_origin import is_known_host, is_same_origin
from penstock.net.websocket import WebSocketTransport
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.wire.websocket.handshake import (
    Unacceptable,
    asks_for_upgrade,
    handshake_response,
    judge_request,
)

PATHS = frozenset({"/mqtt", "/"})  # mqtt.js asks for the second if it is told none
ANY_ORIGIN = "*"
LABEL = "websocket"  # in the counters of connections


class UpgradeRequest(NamedTuple):
    """An HTTP request; names of headers are in lower case."""

    method: str
    http_version: str
    path: str
    headers: list[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    @property
    def is_upgrade(self) -> bool:
        return asks_for_upgrade(self.headers)


class UpgradeRefused(NamedTuple):
    """Why a request does not become a WebSocket."""

    status: int
    reason: DisconnectReason
    error: str
    advice: str


class WebSocketEntrance:
    """Makes MQTT connections of HTTP requests."""

    def __init__(
        self,
        connections: Connections,
        door: Door,
        origins: Callable[[], Collection[str]],
        hosts: Collection[str] = (),
    ) -> None:
        """``origins``: of web pages that are allowed. ``hosts``: names of the broker's own."""
        self._connections = connections
        self._door = door
        self._origins = origins
        self._hosts = frozenset(host.lower() for host in hosts)

    def judge(self, request: UpgradeRequest, origin: Origin) -> UpgradeRefused | str:
        """The key of the handshake, or why there is none."""
        if request.path not in PATHS or not origin.accepts("mqtt"):
            where = "there is no WebSocket at this address"
            return _refused(404, where, "MQTT by WebSocket is at /mqtt")
        verdict = judge_request(request.method, request.http_version, request.headers)
        if isinstance(verdict, Unacceptable):
            return _refused(verdict.status, verdict.detail, "see the page on MQTT clients")
        has_length = any(value != "0" for value in request.values("content-length"))
        if has_length or request.values("transfer-encoding"):
            return _refused(400, "a handshake has no body", "send none")
        return self._page_refused(request, origin) or self._room_refused() or verdict

    def _page_refused(self, request: UpgradeRequest, origin: Origin) -> UpgradeRefused | None:
        pages, hosts = request.values("origin"), request.values("host")
        if not pages:
            return None
        page, host = pages[0], hosts[0] if len(hosts) == 1 else ""
        allowed = self._origins()
        if len(pages) == 1 and (ANY_ORIGIN in allowed or page.lower() in allowed):
            return None
        is_own = is_same_origin(page, host) and is_known_host(
            host, self._hosts, is_encrypted=origin.is_encrypted
        )
        if len(pages) == 1 and is_own:
            return None
        error = f"web pages of {printable(page, 80)} may not connect"
        advice = "add the origin to http.allowed_origins on the broker"
        return UpgradeRefused(403, DisconnectReason.ORIGIN_REFUSED, error, advice)

    def _room_refused(self) -> UpgradeRefused | None:
        connections = self._connections
        if connections.is_stopping:
            reason = DisconnectReason.SERVER_SHUTDOWN
            return UpgradeRefused(503, reason, "the broker is stopping", "try again later")
        count_max = connections.limits.clients_max
        if len(connections.clients) < count_max:
            return None
        error = f"{count_max} clients are connected"
        return UpgradeRefused(503, DisconnectReason.TOO_MANY_CLIENTS, error, "try again later")

    def enter(
        self, raw: asyncio.Transport, key: str, data: bytes, origin: Origin, *, is_fresh: bool
    ) -> None:
        """Answer the handshake; ``data`` came behind it.

        CONNECT must be complete in time, from when the connection was accepted, unless it has
        served requests before (then it is not ``is_fresh``).
        """
        connections = self._connections
        totals = connections.counters.connections_total
        totals[LABEL] = totals.get(LABEL, 0) + 1
        connections.http.discard(raw)
        accepted_at = origin.accepted_at if is_fresh else connections.monotonic()
        raw.write(handshake_response(key))
        transport = WebSocketTransport(raw)
        approach = shared(replace(origin.approach, is_websocket=True))
        self._door(transport, b"", replace(origin, accepted_at=accepted_at, approach=approach))
        if data:
            transport.data_received(data)


def _refused(status: int, error: str, advice: str) -> UpgradeRefused:
    return UpgradeRefused(status, DisconnectReason.UPGRADE_REFUSED, error, advice)
