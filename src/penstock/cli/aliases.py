"""``mqtt-broker``, ``mqtt-producer``, ``mqtt-consumer``: names that existing scripts call."""

import sys
from typing import NoReturn

import click

from penstock.cli import main


def producer() -> NoReturn:
    main(["pub", *sys.argv[1:]])


def consumer() -> NoReturn:
    main(["sub", *sys.argv[1:]])


@click.command(
    "mqtt-broker",
    context_settings={"help_option_names": ["--help"], "ignore_unknown_options": True},
)
@click.option("-h", "--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("-p", "--port", type=click.IntRange(0, 65_535), help="Port.  [default: 1883]")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SERVE]...")
def broker(host: str | None, port: int | None, options: tuple[str, ...]) -> NoReturn:
    """Run the broker. All options of `penstock serve` are accepted, as in --max-clients."""
    main(["serve", *_listen(host, port), *options])


def _listen(host: str | None, port: int | None) -> list[str]:
    """Return no option if neither was given: the configuration decides."""
    if host is None and port is None:
        return []
    host = host or "127.0.0.1"
    return ["--listen", f"{f'[{host}]' if ':' in host else host}:{1883 if port is None else port}"]
