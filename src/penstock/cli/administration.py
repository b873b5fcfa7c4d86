"""Asking a broker's administration pages: one request each, and errors that say what to do.

The token stands in one header of the request and nowhere else; no error repeats it.
"""

import http.client
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from penstock.cli.connection import connection_options
from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError, Refused

__all__ = ["Administration", "administered"]

TIMEOUT_S = 30.0
"""How long to wait for the broker; its disk may be busy."""

TOKEN_VARIABLE = "PENSTOCK_ADMIN_TOKEN"  # noqa: S105 - the name of the variable
"""The variable that sets the broker's own ``admin.token`` too."""


def administered(command: Callable[..., Any]) -> Callable[..., Any]:
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
        broker = Administration(server or Address(host, port), token)
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


class Administration:
    """The administration pages of one broker."""

    def __init__(self, server: Address, token: str) -> None:
        self._server = server
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str) -> Any:
        """Return the document of a page."""
        return self._ask("GET", path, None)

    def post(self, path: str, **fields: Any) -> Any:
        """Ask for a change and return what it led to; fields of None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        return self._ask("POST", path, msgspec.json.encode(given))

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        connection = http.client.HTTPConnection(
            self._server.host, self._server.port, timeout=TIMEOUT_S
        )
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise PenstockError(
                f"no broker answers at {self._server}: {error or type(error).__name__}",
                "start one (penstock serve), or say where it is (-h HOST -p PORT)",
            ) from error
        finally:
            connection.close()
        return self._document(status, content)

    def _document(self, status: int, content: bytes) -> Any:
        try:
            document = msgspec.json.decode(content)
            if status == http.HTTPStatus.OK:
                return document
            error, advice = document["error"], document.get("advice", "")
        except (msgspec.DecodeError, TypeError, KeyError):
            raise PenstockError(
                f"what answers at {self._server} is not a Penstock broker (status {status})",
                "say where the broker is: -h HOST -p PORT",
            ) from None
        raise Refused(f"the broker at {self._server} refused: {error}", advice)
