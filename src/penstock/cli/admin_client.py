"""Asking a broker's administration pages: one request each, and errors that say what to do.

The token stands in one header of the request and nowhere else; no error repeats it.

What is answered is printed for people or, with ``--json``, as it came. What cannot be undone is
asked for first, unless ``--yes`` is given.
"""

import http.client
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any
from urllib.parse import urlencode

import click
import msgspec

from penstock.cli.connection import connection_options
from penstock.client.dial import unreachable
from penstock.config.address import Address, parse_listen
from penstock.config.units import without_unit
from penstock.errors import PenstockError, Refused

TIMEOUT_S = 30.0
"""How long to wait for the broker; its disk may be busy."""

LEADERS_MAX = 4
"""How often one may be sent on from node to node."""

TOKEN_VARIABLE = "PENSTOCK_ADMIN_TOKEN"  # noqa: S105 - the name of the variable
"""The variable that sets the broker's own ``admin.token`` too."""


def admin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``-h``, ``-p``, ``--server`` and ``--token``; it is called with ``broker``."""

    @wraps(command)
    def with_broker(
        *arguments: Any,
        host: str,
        port: int,
        server: Address | None,
        token: str,
        **parameters: Any,
    ) -> Any:
        broker = AdminClient(server or Address(host, port), token)
        return command(*arguments, broker=broker, **parameters)

    return connection_options(_server_option(_token_option(with_broker)))


def _address(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> Address | None:
    if text is None:
        return None
    try:
        return parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_server_option = click.option(
    "--server",
    metavar="HOST:PORT",
    callback=_address,
    help="Where the broker is, in place of -h and -p; any of its listeners will do.",
)
_token_option = click.option(
    "--token",
    metavar="TOKEN",
    default="",
    envvar=TOKEN_VARIABLE,
    help="The broker's admin.token; better in the environment, where other users cannot see"
    f" it.  [env: {TOKEN_VARIABLE}]",
)


class Unavailable(Refused):
    """The broker cannot serve the request now: its disk is full, or there is no leader."""


class AdminClient:
    """The administration pages of one broker, or of the one that leads its cluster.

    A node that does not lead answers with where the leader is, and that is asked from then on.
    """

    def __init__(self, server: Address, token: str, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        self._token = token
        self._timeout_s = timeout_s
        self.is_stale_fine = False
        """Whether lists may be what the node has, however old."""
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def at(self, server: Address, timeout_s: float = TIMEOUT_S) -> "AdminClient":
        """The pages of another node, asked by the same administrator."""
        return AdminClient(server, self._token, timeout_s)

    def get(self, path: str, **query: Any) -> Any:
        """Return the document of a page."""
        if self.is_stale_fine:
            query["stale"] = "true"
        return self._ask("GET", _with_query(path, query), None)

    def pages(self, path: str, key: str, after: dict[str, str], **query: Any) -> Iterator[Any]:
        """Yield what a list has, over all its pages.

        ``after`` says which parameters name the last one seen, and of which of its fields they are.
        """
        while True:
            page = self.get(path, **query)
            yield from page[key]
            if not page["more"]:
                return
            last = page[key][-1]
            query |= {parameter: last[field] for parameter, field in after.items()}

    def post(self, path: str, **fields: Any) -> Any:
        """Ask for a change and return what it led to; fields of None are left out."""
        return self._ask("POST", path, msgspec.json.encode(_given(fields)))

    def put(self, path: str, **fields: Any) -> Any:
        """Ask for things to be so and return what they are; fields of None are left out."""
        return self._ask("PUT", path, msgspec.json.encode(_given(fields)))

    def delete(self, path: str, **query: Any) -> Any:
        """Ask for something to be no more and return what it was."""
        return self._ask("DELETE", _with_query(path, query), None)

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        for _ in range(LEADERS_MAX):
            status, content = self._exchange(method, path, body)
            leader = _leader(content) if status == http.HTTPStatus.MISDIRECTED_REQUEST else None
            if leader is None:
                return self._document(status, content)
            self.server = leader
        raise PenstockError(
            f"nodes send each other's administrators on: the last one to {self.server}",
            "a leader is being elected; try again in a moment",
        )

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(
            self.server.host, self.server.port, timeout=self._timeout_s
        )
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionRefusedError as error:
            raise unreachable(error, self.server.host, self.server.port, self._timeout_s) from error
        except (OSError, http.client.IncompleteRead) as error:
            raise PenstockError(
                f"no broker answers at {self.server}: {error or type(error).__name__}",
                "start one (penstock serve), or say where it is (-h HOST -p PORT)",
            ) from error
        except http.client.HTTPException as error:  # its text is what came: never to a terminal
            raise PenstockError(
                f"what answers at {self.server} does not speak HTTP",
                "is that a port for nodes (peer_listen)? Give one for clients (listen)",
            ) from error
        finally:
            connection.close()

    def _document(self, status: int, content: bytes) -> Any:
        try:
            document = msgspec.json.decode(content)
            if status == http.HTTPStatus.OK:
                return document
            error, advice = document["error"], document.get("advice", "")
        except (msgspec.DecodeError, TypeError, KeyError):
            raise PenstockError(
                f"what answers at {self.server} is not a Penstock broker (status {status})",
                "say where the broker is: -h HOST -p PORT",
            ) from None
        kind = Unavailable if status == http.HTTPStatus.SERVICE_UNAVAILABLE else Refused
        raise kind(f"the broker at {self.server} refused: {error}", advice)


def _leader(content: bytes) -> Address | None:
    """Where a node that does not lead sends us, if it knows."""
    try:
        return parse_listen(msgspec.json.decode(content)["leader_addr"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_query(path: str, query: dict[str, Any]) -> str:
    given = _given(query)
    return f"{path}?{urlencode(given)}" if given else path


# ── What is said, and what is asked ───────────────────────────────────────────────────────────

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
yes_option = click.option(
    "-y", "--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."
)


def stale_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that only reads ``--stale``; to be put below ``admin_options``."""

    @wraps(command)
    def with_choice(
        *arguments: Any, is_stale_fine: bool, broker: AdminClient, **parameters: Any
    ) -> Any:
        broker.is_stale_fine = is_stale_fine
        return command(*arguments, broker=broker, **parameters)

    return stale_flag(with_choice)


stale_flag = click.option(
    "--stale",
    "is_stale_fine",
    is_flag=True,
    help="In a cluster, show what this node has, which may be old, without asking the others.",
)


def print_result(document: Any, text: str, *, as_json: bool) -> None:
    """Print a document for programs, or what it means for people."""
    shown = msgspec.json.format(msgspec.json.encode(document), indent=2) if as_json else text
    click.echo(shown)


def format_time(time: str | None) -> str:
    """Write a time of the broker's, or that there is none, for people."""
    return "never" if time is None else f"{time[:10]} {time[11:19]} UTC"


def confirm(question: str, *, is_sure: bool) -> None:
    """Go on only if the user says so, here or by ``--yes``."""
    try:
        if is_sure or click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)  # the question still stands in its line
        raise PenstockError(
            "nothing was changed: nobody answered", "use --yes to skip the question"
        ) from None
    raise PenstockError("nothing was changed")


def duration(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> float | None:
    """Take seconds, as in 90d, 12h, 500ms (a click callback).

    A unit is demanded, for a bare 90 would be read as days and be seconds; nothing needs none.
    """
    if text is None:
        return None
    try:
        seconds = without_unit(text, "s")
    except ValueError:
        seconds = -1
    has_unit = text.strip()[-1:].isalpha()
    if seconds < 0 or (seconds and not has_unit):
        rule = "must be a number and its unit, as in 500ms, 10s, 15m, 24h or 7d"
        raise click.BadParameter(f"{text!r} {rule}")
    return seconds
