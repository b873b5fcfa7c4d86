"""``penstock top``: a broker as it is, redrawn every second or so.

What is drawn is a function of what the API answers (``screens``), so it can be tested without a
terminal, and ``--once`` prints it. On a terminal, keys choose what is shown; the terminal is left
as it was, also after an error.
"""

import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

import click
import msgspec

from penstock.cli.admin_client import AdminClient, admin_options
from penstock.cli.output import wants_json
from penstock.cli.top_screens import TABS, Screen, draw
from penstock.errors import PenstockError

_CLEAR: Final = "\x1b[H\x1b[J"
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"


@click.command()
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Ask so often.",
)
@click.option("--once", is_flag=True, help="Print everything once, and end.")
@click.option(
    "--tab",
    type=click.Choice([tab.name for tab in TABS]),
    default=TABS[0].name,
    show_default=True,
    help="What to show first.",
)
@admin_options
def top(broker: AdminClient, *, interval: float, once: bool, tab: str) -> None:
    """Watch a broker: rates, what needs attention, busy topics, clients, groups.

    Keys: o overview, t topics, c clients, g groups, space pause, q quit.
    """
    if once or wants_json() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_once(broker)
        return
    names = [one.name for one in TABS]
    with _raw_terminal():
        _watch(broker, interval, names.index(tab))


def _print_once(broker: AdminClient) -> None:
    found = {tab.name: broker.get(tab.path, **tab.query) for tab in TABS}
    if wants_json():
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    for number, tab in enumerate(TABS):
        screen = Screen(number, found[TABS[0].name], found[tab.name], width=width)
        lines = draw(screen) if not number else [tab.title, *tab.rows(screen)]
        click.echo("\n".join(lines) + "\n")


def _watch(broker: AdminClient, interval: float, tab: int) -> None:
    is_paused, trouble = False, ""
    screen: Screen | None = None
    while True:
        asked = monotonic()
        size = shutil.get_terminal_size((100, 24))
        if not is_paused:
            try:
                overview = broker.get(TABS[0].path)
                chosen = TABS[tab]
                page = broker.get(chosen.path, **chosen.query) if tab else overview
                screen, trouble = Screen(tab, overview, page), ""
            except PenstockError as error:
                if screen is None:
                    raise
                trouble = error.message
        assert screen is not None
        shown = screen._replace(
            width=size.columns, height=size.lines, is_paused=is_paused, trouble=trouble
        )
        sys.stdout.write(_CLEAR + "\r\n".join(draw(shown)))
        sys.stdout.flush()
        key = _key(max(0.0, asked + interval - monotonic()))
        if key in {"q", "\x03", "\x1b"}:
            return
        if key == " ":
            is_paused = not is_paused
        for number, one in enumerate(TABS):
            if key == one.key:
                tab, is_paused = number, False


def _key(timeout_s: float) -> str:
    """The key that was pressed, if one was in time."""
    if select.select([sys.stdin], [], [], timeout_s)[0]:
        return sys.stdin.read(1)
    return ""


@contextmanager
def _raw_terminal() -> Iterator[None]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write(_ENTER)
        yield
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
