"""How commands reach a broker: its address, TLS, who we are; and valid topics.

``-h`` is the host, as in the tools of MQTT and Redis; help is ``--help`` only.

No secret is an argument: other users of the machine see those (``ps``). Passwords and tokens come
from a file, a context, or a terminal. What is given on the command line counts more than the
environment, and that more than the context. Credentials of a context go to its servers only: with
another address on the command line the current context is not used at all.
"""

import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from penstock.cli.contexts import Context, load_contexts
from penstock.cli.inputs import option_set
from penstock.client import Client, Credentials, TlsOptions, connect
from penstock.client.dial import dial
from penstock.client.errors import ArgumentError, ClientError
from penstock.client.mqtt.session import name_fault
from penstock.client.mqtt.url import BrokerUrl, read_url
from penstock.client.tls import Tls, tls_settings
from penstock.config.address import Address
from penstock.errors import PenstockError
from penstock.model.topic import has_wildcard
from penstock.wire.resp.names import topic_of

if TYPE_CHECKING:  # load protobuf and ssl
    from penstock.client import QueueClient
    from penstock.client.tls_channel import TlsSettings


_Command = TypeVar("_Command", bound=Callable[..., object])

DIAL_TIMEOUT_S: Final = 10.0
DEFAULT: Final = Address("127.0.0.1", 1883)

USER_VARIABLE: Final = "PENSTOCK_USER"
PASSWORD_FILE_VARIABLE: Final = "PENSTOCK_PASSWORD_FILE"  # noqa: S105 - a name
TOKEN_FILE_VARIABLE: Final = "PENSTOCK_TOKEN_FILE"  # noqa: S105 - a name
CA_FILE_VARIABLE: Final = "PENSTOCK_CA_FILE"
COMPLETE_VARIABLE: Final = "_PENSTOCK_COMPLETE"
CONTEXT_VARIABLE: Final = "PENSTOCK_CONTEXT"
ADMIN_TOKEN_VARIABLE: Final = "PENSTOCK_ADMIN_TOKEN"  # noqa: S105 - of the broker's admin.token


def _file_option(flags: str, name: str, text: str) -> Callable[[_Command], _Command]:
    return click.option(flags, name, type=click.Path(), metavar="FILE", help=text)


tls_options = option_set(
    click.option("--tls", is_flag=True, help="Encrypt, and verify the broker's certificate."),
    _file_option(
        "--ca-file",
        "ca_file",
        f"Trust the authority in FILE (PEM); implies --tls.  [env: {CA_FILE_VARIABLE}]",
    ),
    _file_option("--cert", "cert_file", "Client certificate (PEM); implies --tls."),
    _file_option("--key", "key_file", "Key of the client certificate (PEM)."),
    click.option(
        "--server-name", default="", metavar="NAME", help="Name in the broker's certificate."
    ),
)
login_options = option_set(
    click.option(
        "--user",
        "login_user",
        default="",
        metavar="NAME",
        help=f"Log in as NAME; asks for the password on a terminal.  [env: {USER_VARIABLE}]",
    ),
    _file_option(
        "--password-file",
        "login_password_file",
        f"File with the password of the user.  [env: {PASSWORD_FILE_VARIABLE}]",
    ),
    _file_option(
        "--token-file",
        "login_token_file",
        f"File with an API token, instead of a user.  [env: {TOKEN_FILE_VARIABLE}]",
    ),
)
_connection_options = option_set(
    click.option(
        "-h", "--host", default="", metavar="HOST", help=f"Broker host.  [default: {DEFAULT.host}]"
    ),
    click.option(
        "-p",
        "--port",
        type=click.IntRange(1, 65_535),
        help=f"Broker port.  [default: {DEFAULT.port}]",
    ),
    click.option(
        "--context",
        "context_name",
        default="",
        metavar="NAME",
        help=f"Use the broker and user of a context.  [env: {CONTEXT_VARIABLE}]",
    ),
    tls_options,
    login_options,
)
_VERSIONS: Final = {"5": 5, "3.1.1": 4}
_mqtt_options = option_set(
    click.option(
        "--url",
        default="",
        metavar="URL",
        help="Broker as mqtt://HOST:PORT or ws://HOST:PORT/mqtt; with TLS, mqtts:// or wss://.",
    ),
    click.option(
        "--mqtt-version",
        type=click.Choice(list(_VERSIONS)),
        help="Speak this version of MQTT.  [default: 5, or 3.1.1 if the broker has no 5]",
    ),
    click.option(
        "--scram", is_flag=True, help="Log in by SCRAM-SHA-256, without sending the password."
    ),
)
_NAMES: Final = (
    *("host", "port", "context_name", "tls", "ca_file", "cert_file", "key_file", "server_name"),
    *("login_user", "login_password_file", "login_token_file"),
)


class MqttWay(NamedTuple):
    """How a command speaks MQTT."""

    version: int | None = None
    websocket: str | None = None  # path
    scram: bool = False


class BrokerTarget:
    """A broker, or the nodes of a cluster, and who we are there."""

    def __init__(
        self,
        servers: tuple[Address, ...],
        tls: Tls = None,
        login: Callable[[bool], Credentials | None] | None = None,
        way: MqttWay = MqttWay(),  # noqa: B008 - it has no state
    ) -> None:
        """``login`` is called when credentials are needed: it may ask on the terminal.

        Its argument is whether they are for the pages of administration.
        """
        self.servers = servers
        self.tls = tls or None
        self.way = way
        self._login = login

    @cached_property
    def credentials(self) -> Credentials | None:
        return self._logged_in(for_pages=False)

    @cached_property
    def page_credentials(self) -> Credentials | None:
        """For the pages of administration: the broker's ``admin.token`` counts there, too."""
        return self._logged_in(for_pages=True)

    def _logged_in(self, *, for_pages: bool) -> Credentials | None:
        found = None if self._login is None else self._login(for_pages)
        exposed = [server for server in self.servers if not server.is_loopback]
        if found is not None and self.tls is None and exposed and not self.way.scram:
            warning = f"penstock: the password or token is sent to {exposed[0]} unencrypted"
            click.echo(f"{warning}; --tls encrypts", err=True)
        return found

    @cached_property
    def tls_settings(self) -> "TlsSettings | None":
        return tls_settings(self.tls)

    @cached_property
    def server(self) -> Address:
        """The broker, or the first node that can be reached."""
        if len(self.servers) == 1:
            return self.servers[0]
        for server in self.servers:
            try:
                dial(server.host, server.port, DIAL_TIMEOUT_S).close()
            except ClientError:
                continue
            return server
        return self.servers[0]

    def trusts(self, server: Address) -> bool:
        """Whether credentials may be sent to a server that another one named."""
        is_proven = self.tls is not None or server.is_loopback
        return is_proven or server in self.servers or self.page_credentials is None

    def choose_again(self) -> None:
        """Look for a node that can be reached: the one in use has gone."""
        self.__dict__.pop("server", None)

    def mqtt(
        self,
        client_id: str = "",
        *,
        clean_session: bool = True,
        session_expiry_s: int | None = None,
    ) -> Client:
        return connect(
            self.server.host,
            self.server.port,
            client_id,
            clean_session=clean_session,
            session_expiry_s=session_expiry_s,
            tls=self.tls,
            credentials=self.credentials,
            version=self.way.version,
            websocket=self.way.websocket,
            scram=self.way.scram,
        )

    def queue(self, *, stale_reads: bool = False) -> "QueueClient":
        """Fail at once if nothing listens there; the client itself would retry."""
        if self.way.websocket is not None:
            raise click.UsageError("this reads the journal, which a WebSocket cannot: use mqtt://")
        dial(self.server.host, self.server.port, DIAL_TIMEOUT_S).close()
        servers = [self.server, *(each for each in self.servers if each != self.server)]
        return connect(
            [str(server) for server in servers],
            stale_reads=stale_reads,
            tls=self.tls,
            credentials=self.credentials,
        )


def local_target(server: Address) -> BrokerTarget:
    """A broker on this machine, with the credentials of the environment."""
    nothing = dict.fromkeys(_NAMES)
    return BrokerTarget((server,), None, partial(_credentials, nothing, None))


def target_of(parameters: Mapping[str, Any]) -> BrokerTarget:
    """The broker that options name, as far as a command line has been typed."""
    given = {name: parameters.get(name) for name in _NAMES}
    return _target(given, parameters.get("server"))


def connection_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options of a broker; call it with ``target``."""

    @wraps(command)
    def with_target(*arguments: object, **parameters: Any) -> object:
        given = {name: parameters.pop(name, None) for name in _NAMES}
        server: Address | None = parameters.pop("server", None)
        return command(*arguments, target=_target(given, server), **parameters)

    return _connection_options(with_target)


def mqtt_options(command: Callable[..., object]) -> Callable[..., object]:
    """The same for a command that speaks MQTT, which has more ways to a broker."""

    @wraps(command)
    def with_way(
        *arguments: object,
        url: str,
        mqtt_version: str | None,
        scram: bool,
        **parameters: Any,
    ) -> object:
        given = {name: parameters.pop(name, None) for name in _NAMES}
        found = _given_url(url, given)
        target = _target(given, None if found is None else Address(found.host, found.port))
        version = None if mqtt_version is None else _VERSIONS[mqtt_version]
        target.way = MqttWay(version, None if found is None else found.websocket, scram)
        return command(*arguments, target=target, **parameters)

    return option_set(_connection_options, _mqtt_options)(with_way)


def _given_url(url: str, given: dict[str, Any]) -> BrokerUrl | None:
    if not url:
        return None
    if given["host"] or given["port"]:
        raise click.UsageError("give only one of --url and -h, -p")
    try:
        found = read_url(url)
    except ArgumentError as error:
        raise click.BadParameter(f"{error.message}: {error.advice}") from None
    is_asked = given["tls"] or given["ca_file"] or given["cert_file"]
    if is_asked and not found.is_tls:
        raise click.UsageError(f"{found.scheme}:// is without TLS: write {found.with_tls}://")
    given["tls"] = given["tls"] or found.is_tls
    return found


def _target(given: dict[str, Any], server: Address | None) -> BrokerTarget:
    if server is None and (given["host"] or given["port"]):
        server = Address(given["host"] or DEFAULT.host, given["port"] or DEFAULT.port)
    context = _context(given["context_name"], server)
    if context is None:
        given["ca_file"] = given["ca_file"] or os.environ.get(CA_FILE_VARIABLE)
    if server is not None:
        servers: tuple[Address, ...] = (server,)
    else:
        servers = (DEFAULT,) if context is None else context.addresses
    return BrokerTarget(servers, _tls(given, context), partial(_credentials, given, context))


def _context(name: str, server: Address | None) -> Context | None:
    """The context to use, unless the command is about another broker."""
    contexts = load_contexts()
    asked = name or os.environ.get(CONTEXT_VARIABLE, "")
    if not asked and not contexts.current:
        return None
    context = contexts.named(asked or contexts.current)
    if server is None or server in context.addresses:
        return context
    if name:
        raise click.UsageError(f"{server} is no server of the context {name}")
    return None


def _tls(given: dict[str, Any], context: Context | None) -> TlsOptions | None:
    names = ("ca_file", "cert_file", "key_file", "server_name")
    chosen = {name: given[name] or getattr(context, name, "") for name in names}
    is_wanted = given["tls"] or (context is not None and context.tls)
    if not is_wanted and not any(given[name] for name in names):
        return None
    server_name = chosen.pop("server_name")
    files = {name: value or None for name, value in chosen.items()}
    return TlsOptions(server_name=server_name, **files)


def _credentials(
    given: dict[str, Any], context: Context | None, for_pages: bool
) -> Credentials | None:
    """From the command line, else the environment, else the context."""
    environ = os.environ.get
    variables = (USER_VARIABLE, PASSWORD_FILE_VARIABLE, TOKEN_FILE_VARIABLE)
    levels = [
        tuple(given[f"login_{name}"] or "" for name in ("user", "password_file", "token_file")),
        tuple(environ(name, "") for name in variables),
    ]
    for user, password_file, token_file in levels:
        if token_file and not user and not password_file:
            return Credentials(token_file=token_file)
        if user or password_file:
            return _by_password(user or environ(USER_VARIABLE, ""), password_file)
    if for_pages and (admin_token := environ(ADMIN_TOKEN_VARIABLE)):
        return Credentials(token=admin_token)
    return None if context is None else _of_context(context)


def _of_context(context: Context) -> Credentials | None:
    if context.token or context.token_file:
        return Credentials(token=context.token or None, token_file=context.token_file or None)
    if context.password:
        return Credentials(context.user, context.password)
    return _by_password(context.user, context.password_file) if context.user else None


def _by_password(user: str, password_file: str) -> Credentials:
    if not user:
        raise click.UsageError(f"a password needs a user: give --user, or {USER_VARIABLE}")
    if password_file:
        return Credentials(user, password_file=password_file)
    if from_environment := os.environ.get(PASSWORD_FILE_VARIABLE):
        return Credentials(user, password_file=from_environment)
    if not _is_terminal():
        what = f"there is no password of {user}, and no terminal to ask for it"
        raise PenstockError(
            what,
            f"name its file: {PASSWORD_FILE_VARIABLE}, or --password-file, unless that is for a new"
            " password",
        )
    typed: str = click.prompt(f"Password of {user}", hide_input=True, err=True)
    return Credentials(user, typed)


def _is_terminal() -> bool:
    """Whether somebody can be asked; not by a shell that completes a line."""
    return sys.stdin.isatty() and COMPLETE_VARIABLE not in os.environ


# ── Other options ─────────────────────────────────────────────────────────────────────────────


def client_id_option(text: str) -> Callable[[_Command], _Command]:
    return click.option("-c", "--client-id", metavar="ID", default="", help=text)


def checked_topic(topic: str) -> str:
    return _checked(topic, is_filter=False)


def checked_filters(
    _context: click.Context, _parameter: click.Parameter, filters: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(_checked(each, is_filter=True) for each in filters)


def _checked(name: str, *, is_filter: bool) -> str:
    fault = name_fault(name, is_filter=is_filter)
    if fault:
        raise click.BadParameter(f"{name!r}: {fault}{_redis_hint(name)}")
    return name


def _redis_hint(name: str) -> str:
    """Translate a name with wildcards, which may come from Redis; empty for other names."""
    encoded = os.fsencode(name)
    if not has_wildcard(encoded):
        return ""
    return (
        f"; the channel or stream of that name in Redis is the topic {topic_of(encoded).decode()!r}"
    )
