"""A client of the HTTP API, and the options to reach a broker.

Commands ask nothing but operations of the API, by their paths in its description; only the metrics
are elsewhere, where monitoring systems look for them.

A password or token is sent in one header and never repeated in an error. A node that does not lead
names the leader; it gets them only if the command named it, too, its certificate is verified, or it
is on this machine.
"""

import http.client
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import click
import msgspec

from penstock.cli.connection import BrokerTarget, connection_options
from penstock.cli.inputs import flag, is_given, option_set
from penstock.cli.output import json_option
from penstock.client import Credentials
from penstock.client.dial import unreachable
from penstock.client.tls_channel import TlsSettings
from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError, Refused
from penstock.net.admin_path import reachable

BASE: Final = "/api/v1"
TIMEOUT_S = 30.0  # the broker's disk may be busy
REDIRECTS_MAX = 4  # from node to node, to find the leader
TURNS_MAX = 5  # how often a request is made that comes too soon after others
TURN_S_MAX = 1  # whoever guesses passwords waits longer, and is told so

Document: TypeAlias = dict[str, Any]
"""A JSON object from the broker."""


def parse_address(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> Address | None:
    try:
        return None if text is None else parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_server_options = option_set(
    json_option,
    click.option(
        "--server",
        metavar="HOST:PORT",
        callback=parse_address,
        help="Address of the broker (any listener), instead of -h and -p.",
    ),
)


def admin_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command ``--json`` and the options of a broker; call it with ``broker``."""

    @wraps(command)
    def with_broker(*arguments: object, target: BrokerTarget, **parameters: object) -> object:
        broker = AdminClient(target)
        broker.is_stale_fine = is_given("--stale")
        return command(*arguments, broker=broker, **parameters)

    return connection_options(_server_options(with_broker))


stale_option = flag(
    "--stale",
    help="In a cluster, show this node's own state, which may be outdated, without a quorum.",
)


class BrokerUnavailable(Refused):
    """The broker cannot serve the request now: its disk is full, or there is no leader."""


class NotFound(Refused):
    """The broker has no such thing."""


_REFUSALS: Final[dict[int, type[Refused]]] = {
    http.HTTPStatus.SERVICE_UNAVAILABLE: BrokerUnavailable,
    http.HTTPStatus.NOT_FOUND: NotFound,
}


class AdminClient:
    """The API of a broker; follows redirects to the leader of its cluster."""

    def __init__(
        self, target: BrokerTarget, timeout_s: float = TIMEOUT_S, server: Address | None = None
    ) -> None:
        """``server`` is another node of the same cluster."""
        self.target = target
        self._server = server
        self._timeout_s = timeout_s
        self.is_stale_fine = False

    @property
    def server(self) -> Address:
        return self._server or self.target.server

    @cached_property
    def _authorization(self) -> dict[str, str]:
        return authorization(self.target.page_credentials)

    @property
    def _who(self) -> str:
        return f"the broker at {self.server}"

    def at(self, server: Address, timeout_s: float = TIMEOUT_S) -> "AdminClient":
        """The same at another node; without credentials if it is not trusted with them."""
        return AdminClient(self.target, timeout_s, server)

    def get(self, path: str, **query: object) -> Document:
        return self._request("GET", _with_query(path, query), None)

    def current(self, path: str, **query: object) -> Document:
        """What has been acknowledged by any node; with ``--stale`` what the asked one has."""
        return self.get(path, current=None if self.is_stale_fine else True, **query)

    def metrics(self) -> bytes:
        """The metrics, in the format of Prometheus."""
        status, content = self._exchange("GET", "/metrics", None)
        if status != http.HTTPStatus.OK:
            self._document(status, content)
        return content

    def post(self, path: str, **fields: object) -> Document:
        return self._request("POST", path, msgspec.json.encode(_given(fields)))

    def put(self, path: str, **fields: object) -> Document:
        return self._request("PUT", path, msgspec.json.encode(_given(fields)))

    def delete(self, path: str, **query: object) -> Document:
        return self._request("DELETE", _with_query(path, query), None)

    def change(self, method: str, path: str, **fields: object) -> Document:
        """Change something by the API, whose changes all have a body."""
        return self._request(method, path, msgspec.json.encode(_given(fields)))

    def _request(self, method: str, path: str, body: bytes | None) -> Document:
        for _ in range(REDIRECTS_MAX):
            status, content = self._exchange(method, f"{BASE}/{path}", body)
            leader = _leader(content) if status == http.HTTPStatus.MISDIRECTED_REQUEST else None
            if leader is None:
                return self._document(status, content)
            self._follow(leader)
        what = f"too many redirects between nodes, the last one to {self.server}"
        raise PenstockError(what, "a leader is being elected; try again in a moment")

    def _follow(self, leader: Address) -> None:
        if not self.target.trusts(leader):
            what = f"{self._who} does not lead, and names {leader}, which you did not name"
            advice = f"--server {leader} sends it your password or token; --tls verifies it first"
            raise PenstockError(what, advice)
        self._server = leader

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.server.host, self.server.port
        if self.target.tls_settings is not None:
            return _TlsConnection(host, port, self._timeout_s, self.target.tls_settings)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Ask, and ask again after a moment if a script of ours asks too often."""
        for turn in range(1, TURNS_MAX + 1):
            status, wait_s, content = self._exchange_once(method, path, body)
            is_too_soon = status == http.HTTPStatus.TOO_MANY_REQUESTS and 0 < wait_s <= min(
                TURN_S_MAX, self._timeout_s
            )
            if not is_too_soon or turn == TURNS_MAX:
                break
            time.sleep(wait_s)
        return status, content

    def _exchange_once(self, method: str, path: str, body: bytes | None) -> tuple[int, int, bytes]:
        """Status, seconds to wait before the next request, and content of the answer."""
        host, port = self.server.host, self.server.port
        connection = self._connection()
        try:
            headers = self._authorization if self.target.trusts(self.server) else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            wait = response.getheader("retry-after", "")
            return response.status, int(wait) if wait.isdecimal() else 0, response.read()
        except (ConnectionRefusedError, ssl.SSLError) as error:
            raise unreachable(error, host, port, self._timeout_s) from error
        except (OSError, http.client.IncompleteRead) as error:
            what = f"no broker answers at {self.server}: {error or type(error).__name__}"
            advice = "start one (penstock serve), or give its address (-h HOST -p PORT)"
            raise PenstockError(what, advice) from error
        except http.client.HTTPException as error:  # its text is unsafe for a terminal
            what = f"the server at {self.server} does not speak HTTP"
            advice = "if that is a port for nodes (peer_listen), use one for clients (listen)"
            raise PenstockError(what, advice) from error
        finally:
            connection.close()

    def _document(self, status: int, content: bytes) -> Document:
        try:
            document = msgspec.json.decode(content, type=Document)
            if status == http.HTTPStatus.OK:
                return document
            error = document["error"] if "error" in document else document["detail"]
            advice = document.get("advice", "")
        except (msgspec.DecodeError, KeyError):
            what = f"the server at {self.server} is not a Penstock broker (status {status})"
            raise PenstockError(what, "give the address of the broker: -h HOST -p PORT") from None
        kind = _REFUSALS.get(status, Refused)
        raise kind(f"{self._who} refused: {error}", advice)


class SocketClient(AdminClient):
    """The broker of a data directory on this machine, by the administrator's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(BrokerTarget((Address("localhost", 0),)))
        self._path = path

    @property
    def _who(self) -> str:
        return f"the broker of {self._path.parent}"

    def _follow(self, leader: Address) -> None:
        what = f"{self._who} does not lead its cluster; the node at {leader} does"
        advice = f"give the command there, with --data, or log in: --server {leader} --user NAME"
        raise PenstockError(what, advice)

    def _connection(self) -> http.client.HTTPConnection:
        return _SocketConnection(self._path, self._timeout_s)


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with reachable(self._path) as address:
            self.sock.connect(address)


class _TlsConnection(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, timeout_s: float, tls: TlsSettings) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._tls = tls

    def connect(self) -> None:
        super().connect()
        self.sock = self._tls.wrapped(self.sock, self.host)


def authorization(credentials: Credentials | None) -> dict[str, str]:
    """The header of a request: Basic for a user, Bearer for a token."""
    if credentials is None:
        return {}
    secret = credentials.secret()
    if not credentials.user:
        return {"authorization": f"Bearer {secret.decode()}"}
    pair = b64encode(credentials.user.encode() + b":" + secret).decode()
    return {"authorization": f"Basic {pair}"}


def _leader(content: bytes) -> Address | None:
    try:
        return parse_listen(msgspec.json.decode(content)["leader_addr"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None


def _given(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_query(path: str, query: dict[str, object]) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in _given(query).items()
    }
    return f"{path}?{urlencode(given)}" if given else path
