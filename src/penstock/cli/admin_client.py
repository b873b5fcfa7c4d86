"""A client of the HTTP pages for administration, and the options to reach a broker.

The token is sent in one header and never repeated in an error.
"""

import http.client
import socket
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import click
import msgspec

from penstock.cli.connection import connection_options
from penstock.cli.inputs import flag, is_given, option_set
from penstock.cli.output import json_option
from penstock.client.dial import unreachable
from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError, Refused
from penstock.net.admin_socket import reachable

TIMEOUT_S = 30.0  # the broker's disk may be busy
REDIRECTS_MAX = 4  # from node to node, to find the leader
TOKEN_VARIABLE = "PENSTOCK_ADMIN_TOKEN"  # noqa: S105 - the variable of the broker's admin.token

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
    connection_options,
    click.option(
        "--server",
        metavar="HOST:PORT",
        callback=parse_address,
        help="Address of the broker (any listener), instead of -h and -p.",
    ),
    click.option(
        "--token",
        metavar="TOKEN",
        default="",
        envvar=TOKEN_VARIABLE,
        help="The broker's admin.token; safer in the environment, hidden from other users."
        f"  [env: {TOKEN_VARIABLE}]",
    ),
)


def admin_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command ``--json`` and the options of a broker; call it with ``broker``."""

    @wraps(command)
    def with_broker(
        *arguments: object,
        host: str,
        port: int,
        server: Address | None,
        token: str,
        **parameters: object,
    ) -> object:
        broker = AdminClient(server or Address(host, port), token)
        broker.is_stale_fine = is_given("--stale")
        return command(*arguments, broker=broker, **parameters)

    return _server_options(with_broker)


stale_option = flag(
    "--stale",
    help="In a cluster, show this node's own state, which may be outdated, without a quorum.",
)


class BrokerUnavailable(Refused):
    """The broker cannot serve the request now: its disk is full, or there is no leader."""


class AdminClient:
    """The administration pages of a broker; follows redirects to the leader of its cluster."""

    def __init__(self, server: Address, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        self._token = token
        self._timeout_s = timeout_s
        self.is_stale_fine = False
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    @property
    def _who(self) -> str:
        return f"the broker at {self.server}"

    def at(self, server: Address, timeout_s: float = TIMEOUT_S) -> "AdminClient":
        return AdminClient(server, self._token, timeout_s)

    def get(self, path: str, **query: object) -> Document:
        if self.is_stale_fine:
            query["stale"] = "true"
        return self._request("GET", _with_query(path, query), None)

    def pages(
        self, path: str, key: str, after: dict[str, str], **query: object
    ) -> Iterator[Document]:
        """``after`` maps the parameters that name the last item seen to its fields."""
        while True:
            page = self.get(path, **query)
            yield from page[key]
            if not page["more"]:
                return
            last = page[key][-1]
            query |= {parameter: last[field] for parameter, field in after.items()}

    def post(self, path: str, **fields: object) -> Document:
        return self._request("POST", path, msgspec.json.encode(_given(fields)))

    def put(self, path: str, **fields: object) -> Document:
        return self._request("PUT", path, msgspec.json.encode(_given(fields)))

    def delete(self, path: str, **query: object) -> Document:
        return self._request("DELETE", _with_query(path, query), None)

    def _request(self, method: str, path: str, body: bytes | None) -> Document:
        for _ in range(REDIRECTS_MAX):
            status, content = self._exchange(method, path, body)
            leader = _leader(content) if status == http.HTTPStatus.MISDIRECTED_REQUEST else None
            if leader is None:
                return self._document(status, content)
            self.server = leader
        what = f"too many redirects between nodes, the last one to {self.server}"
        raise PenstockError(what, "a leader is being elected; try again in a moment")

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.server.host, self.server.port
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        host, port = self.server.host, self.server.port
        connection = self._connection()
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionRefusedError as error:
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
            error, advice = document["error"], document.get("advice", "")
        except (msgspec.DecodeError, KeyError):
            what = f"the server at {self.server} is not a Penstock broker (status {status})"
            raise PenstockError(what, "give the address of the broker: -h HOST -p PORT") from None
        kind = BrokerUnavailable if status == http.HTTPStatus.SERVICE_UNAVAILABLE else Refused
        raise kind(f"{self._who} refused: {error}", advice)


class SocketClient(AdminClient):
    """The broker of a data directory on this machine, by the administrator's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(Address("localhost", 0), "")
        self._path = path

    @property
    def _who(self) -> str:
        return f"the broker of {self._path.parent}"

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


def _leader(content: bytes) -> Address | None:
    try:
        return parse_listen(msgspec.json.decode(content)["leader_addr"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None


def _given(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_query(path: str, query: dict[str, object]) -> str:
    given = _given(query)
    return f"{path}?{urlencode(given)}" if given else path
