"""``penstock certs``: certificates to try TLS with, and what is in a certificate file."""

import shlex
import time
from pathlib import Path

import click

from penstock.cli.dev_certs import (
    DAYS,
    DAYS_MAX,
    Certificate,
    make_certificates,
    make_clients,
    read_certificates,
)
from penstock.cli.inputs import option_set
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import columns, counted, format_time, json_option, print_result
from penstock.obs.printable import printable

_SHOWN_MAX = 4_096  # characters of one value

_directory_argument = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
_making_options = option_set(
    click.option(
        "--days",
        type=click.IntRange(1, DAYS_MAX),
        default=DAYS,
        show_default=True,
        help="How long they are valid.",
    ),
    click.option("--force", is_flag=True, help="Overwrite existing files."),
    json_option,
)


@click.group(cls=CommandGroup)
def certs() -> None:
    """Make certificates for testing TLS, and inspect certificate files."""


@certs.command()
@_directory_argument
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option(
    "--client",
    "clients",
    metavar="NAME",
    multiple=True,
    default=("client",),
    show_default=True,
    help="User of a client certificate; repeatable.",
)
@_making_options
def dev(
    directory: Path, *, hosts: tuple[str, ...], clients: tuple[str, ...], days: int, force: bool
) -> None:
    """Make certificates for testing TLS, in DIR.

    They are an authority (ca), a server certificate and client certificates. The server
    certificate is for localhost, 127.0.0.1, ::1 and each HOST (a name or an address).

    Whoever reads ca.key can make others.
    """
    paths = make_certificates(directory, hosts, clients, days=days, force=force)
    server = read_certificates(directory / "server.crt", time.time())[0]
    serve = _serve_command(directory)
    document = {
        "files": [str(path) for path in paths],
        "names": server.names,
        "expires": server.expires,
        "serve": serve,
    }
    made = f"Wrote {counted(len(paths), 'file')} to {directory}, valid until {server.expires[:10]}."
    text = (
        f"{made}\nThe server certificate is for {', '.join(server.names)}.\n"
        f"\nStart the broker:\n  {serve}\n"
        f"\nConnect to it:\n{_client_commands(directory, clients[0])}"
    )
    print_result(document, text)


def _serve_command(directory: Path) -> str:
    files = {"--tls-cert": "server.crt", "--tls-key": "server.key", "--tls-client-ca": "ca.crt"}
    return "penstock serve " + " ".join(
        f"{option} {_quoted(directory / name)}" for option, name in files.items()
    )


def _client_commands(directory: Path, client: str) -> str:
    authority = _quoted(directory / "ca.crt")
    cert, key = (_quoted(directory / f"{client}.{kind}") for kind in ("crt", "key"))
    return "\n".join(
        (
            f"  penstock sub --tls --ca-file {authority} 'plant/#'",
            f"  mosquitto_sub --cafile {authority} -h localhost -p 1883 -t 'plant/#'",
            f"  redis-cli --tls --cacert {authority} -p 1883",
            f"  curl --cacert {authority} https://localhost:1883/health",
            f"\nAs the user {client}, without a password (penstock users add {client}):",
            f"  penstock sub --tls --ca-file {authority} --cert {cert} --key {key} 'plant/#'",
        )
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


@certs.command()
@_directory_argument
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_making_options
def client(directory: Path, *, names: tuple[str, ...], days: int, force: bool) -> None:
    """Make certificates for more clients, signed by the authority in DIR.

    Each NAME is the user that the certificate stands for.
    """
    paths = make_clients(directory, names, days=days, force=force)
    document = {"files": [str(path) for path in paths]}
    print_result(document, "Wrote " + ", ".join(map(str, paths)) + ".")


@certs.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@json_option
def show(file: Path) -> None:
    """Show whose certificates are in FILE (PEM), and until when.

    Also for which names and uses. Keys in FILE are not shown.
    """
    found = read_certificates(file, time.time())
    print_result({"certificates": found}, "\n\n".join(map(_text, found)))


def _text(certificate: Certificate) -> str:
    days = certificate.days_left
    left = counted(days, "day") + " left" if days >= 0 else "expired"
    rows = [
        ("subject", certificate.subject),
        ("issuer", certificate.issuer),
        ("names", ", ".join(certificate.names) or "none"),
        ("valid from", format_time(certificate.valid_from)),
        ("expires", f"{format_time(certificate.expires)} ({left})"),
        ("use", ", ".join(certificate.purposes) or _default_use(certificate)),
        ("serial", certificate.serial),
        ("sha256", certificate.sha256),
    ]
    return columns([(f"{name}:", printable(value, _SHOWN_MAX)) for name, value in rows])


def _default_use(certificate: Certificate) -> str:
    return "signs certificates" if certificate.is_authority else "any"
