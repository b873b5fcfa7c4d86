"""``penstock generate``: files for Prometheus, Grafana, systemd, compose and clients of the API.

Nothing is asked of a broker. What is printed names metrics, reasons and options of this version, so
print it again after an update.
"""

import sys
from pathlib import Path

import click
import msgspec

from penstock import __version__
from penstock.cli.inputs import CommandDecorator
from penstock.cli.lazy import CommandGroup
from penstock.cli.ready_made.alerts import alert_rules
from penstock.cli.ready_made.compose import IMAGE, compose_file
from penstock.cli.ready_made.dashboard import grafana_dashboard
from penstock.cli.ready_made.scrape import scrape_config
from penstock.cli.ready_made.unit import CONFIG, NODE_CONFIG, PROGRAM, Unit, systemd_unit
from penstock.config.address import parse_listen
from penstock.errors import PenstockError

_output_option: CommandDecorator = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE instead of standard output.",
)


@click.group(cls=CommandGroup)
def generate() -> None:
    """Print files for other programs: dashboards, alerts, units, the API."""


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise PenstockError(f"cannot write {output}: {reason}") from error
    click.echo(f"Wrote {output}.")


@generate.command()
@_output_option
def grafana(output: Path | None) -> None:
    """Print a dashboard for Grafana (JSON), to import there."""
    _write(grafana_dashboard(), output)


def _targets(
    _context: click.Context, _parameter: click.Parameter, targets: tuple[str, ...]
) -> tuple[str, ...]:
    for target in targets:
        try:
            port = parse_listen(target).port
        except ValueError as error:
            raise click.BadParameter(f"{target!r}: {error}") from None
        if not port:
            raise click.BadParameter(f"{target!r}: the port must be that of a listener")
    return targets


@generate.command()
@click.option(
    "--target",
    "targets",
    metavar="HOST:PORT",
    multiple=True,
    default=("127.0.0.1:9091",),
    show_default=True,
    callback=_targets,
    help="A listener of a broker; repeatable, for instance for all nodes of a cluster.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    default="",
    help="File, as Prometheus sees it, with an API token of a user with the role monitor.",
)
@click.option("--tls", "is_tls", is_flag=True, help="Scrape by HTTPS.")
@click.option("--ca-file", metavar="FILE", default="", help="Trust the authority in FILE; --tls.")
@click.option(
    "--rules", metavar="FILE", multiple=True, help="File with alert rules, as from generate alerts."
)
@_output_option
def prometheus(
    targets: tuple[str, ...],
    *,
    token_file: str,
    is_tls: bool,
    ca_file: str,
    rules: tuple[str, ...],
    output: Path | None,
) -> None:
    """Print a configuration of Prometheus that scrapes brokers.

    A broker with users shows its metrics to those with the role monitor, so Prometheus needs a
    token; make one with penstock tokens add.
    """
    text = scrape_config(
        targets, token_file=token_file, is_tls=is_tls, ca_file=ca_file, rules=rules
    )
    _write(text, output)


@generate.command()
@_output_option
def alerts(output: Path | None) -> None:
    """Print alert rules for Prometheus, each with what to do."""
    _write(alert_rules(), output)


def _this_program() -> str:
    script = Path(sys.executable).with_name("penstock")
    return str(script) if script.is_file() else PROGRAM


@generate.command()
@click.option(
    "--user", metavar="NAME", default="", help="Run as NAME; by default systemd creates a user."
)
@click.option(
    "--data",
    metavar="DIR",
    default=Unit().data,
    show_default=True,
    help="Data directory; outside of /var/lib it must belong to the user.",
)
@click.option(
    "--config",
    metavar="FILE",
    default="",
    help=f"Configuration file.  [default: {CONFIG}; with --cluster, {NODE_CONFIG}]",
)
@click.option("--program", metavar="FILE", help="The program to start.  [default: this one]")
@click.option("--cluster", "is_node", is_flag=True, help="Template for nodes: penstock@.service.")
@_output_option
def systemd(
    *, user: str, data: str, config: str, program: str | None, is_node: bool, output: Path | None
) -> None:
    """Print a unit for systemd.

    The broker tells systemd when it is ready, and that it is alive.
    """
    unit = Unit(program or _this_program(), config, data, user)
    _write(systemd_unit(unit, is_node=is_node), output)


@generate.command()
@click.option(
    "--image", metavar="NAME", default=IMAGE, show_default=True, help="The image of the broker."
)
@_output_option
def compose(image: str, output: Path | None) -> None:
    """Print a compose file: broker, Prometheus and Grafana."""
    _write(compose_file(image), output)


@generate.command()
@_output_option
def openapi(output: Path | None) -> None:
    """Print the description of the HTTP API (OpenAPI 3.1, JSON)."""
    from penstock.api.openapi import openapi as described  # noqa: PLC0415 - loads the whole API
    from penstock.api.resources import all_operations  # noqa: PLC0415

    document = msgspec.json.encode(described(all_operations(), __version__))
    _write(msgspec.json.format(document, indent=2).decode() + "\n", output)
