"""Options of the commands that administer users and rules: which broker, which password.

``--data DIR`` names a broker by its data directory. A running one is reached by the administrator's
socket there, without a password; a stopped one is opened. Secrets are read from files or a
terminal: arguments of a command are visible to everybody on the machine (``ps``).
"""

import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path

import click

from penstock.cli.admin_client import AdminClient, SocketClient, admin_options
from penstock.cli.inputs import option_set
from penstock.cli.waiting import wait_for_all
from penstock.errors import PenstockError
from penstock.net.admin_path import NAME, reachable

_data_options = option_set(
    click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="PENSTOCK_DATA",
        metavar="DIR",
        help="Data directory of the broker on this machine, running or stopped, instead of its"
        " address.  [env: PENSTOCK_DATA]",
    ),
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="Configuration file of the stopped broker.",
    ),
)


_wait_option = click.option(
    "--wait-all",
    "is_for_all",
    is_flag=True,
    help="In a cluster, return when all nodes have the change, not just most; after 30 s, say"
    " which nodes lack it.",
)


def access_options(command: Callable[..., object]) -> Callable[..., object]:
    """``admin_options``, and a broker that is named by its data directory."""

    @wraps(command)
    def with_data(
        *arguments: object,
        broker: AdminClient,
        data: Path | None,
        config_file: str | None,
        **parameters: object,
    ) -> object:
        with ExitStack() as stack:
            if data is not None and not _is_address_given():
                broker = local_broker(stack, data, config_file)
            return command(*arguments, broker=broker, **parameters)

    return admin_options(_data_options(with_data))


def change_options(command: Callable[..., object]) -> Callable[..., object]:
    """``access_options``, and waiting for the nodes that lag."""

    @wraps(command)
    def and_wait(
        *arguments: object, broker: AdminClient, is_for_all: bool, **parameters: object
    ) -> object:
        result = command(*arguments, broker=broker, **parameters)
        if is_for_all:
            wait_for_all(broker)
        return result

    return access_options(_wait_option(and_wait))


def _is_address_given() -> bool:
    """An address on the command line counts more than a directory in the environment."""
    context = click.get_current_context()
    line, given = click.core.ParameterSource.COMMANDLINE, context.get_parameter_source
    has_address = any(given(name) is line for name in ("host", "port", "server"))
    if has_address and given("data") is line:
        raise click.UsageError("give the broker's address or its data directory, not both")
    return has_address


def local_broker(stack: ExitStack, data: Path, config_file: str | None) -> AdminClient:
    if not is_running(data):
        from penstock.cli.stopped_broker import opened  # noqa: PLC0415 - loads the whole broker

        stack.enter_context(opened(data, config_file))
    return SocketClient(data / NAME)


def is_running(data: Path) -> bool:
    if not (data / NAME).exists():
        return False
    try:
        with socket.socket(socket.AF_UNIX) as probe, reachable(data / NAME) as address:
            probe.connect(address)
    except ConnectionRefusedError:  # left by a broker that was killed
        return False
    except OSError as error:
        what = f"{data / NAME} cannot be used: {error.strerror}"
        raise PenstockError(what, "run the command as the broker's user, or as root") from error
    return True


_password_file_option = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Read the new password from the first line of FILE; - is standard input. Your own is in"
    " PENSTOCK_PASSWORD_FILE, or in a context.",
)


def password_file_option(command: Callable[..., object]) -> Callable[..., object]:
    """The new password of a user; our own is in PENSTOCK_PASSWORD_FILE, then, or in a context."""
    options = command.__dict__["__click_params__"]
    options[:] = [option for option in options if option.name != "login_password_file"]
    return _password_file_option(command)


def new_password(file: Path | None) -> str | None:
    """A password from a file or, on a terminal, typed twice; None: there is neither."""
    if file is not None:
        return sys.stdin.readline().rstrip("\r\n") if str(file) == "-" else first_line(file)
    if not sys.stdin.isatty():
        return None
    typed: str = click.prompt(
        "Password (empty: generate a secret)",
        default="",
        show_default=False,
        hide_input=True,
        confirmation_prompt="Once more",
        err=True,
    )
    return typed or None


def first_line(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(f"{file} cannot be read: {error}") from error
