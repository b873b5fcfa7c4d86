"""Completion of names that only a broker knows: topics, groups, clients, sessions, schedules.

Whoever presses Tab waits, so the broker has 300 ms, and whatever goes wrong offers nothing. Clients
choose these names: only those are offered that mean nothing to a shell.
"""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Final

import click

from penstock.errors import PenstockError

ANSWER_S: Final = 0.3
OFFERED_MAX: Final = 50
_PLAIN: Final = re.compile(r"[\w./:@%+,=][\w./:@%+,=-]*")

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _of(path: str, field: str) -> Complete:
    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        return _asked(context, path, field, begun, prefix=begun or None)

    return complete


topics: Final = _of("topics", "name")
clients: Final = _of("clients", "client_id")
sessions: Final = _of("sessions", "client_id")
schedules: Final = _of("schedules", "name")


def groups(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Of the topic that stands before it."""
    return _asked(context, "groups", "group", begun, topic=context.params.get("topic"))


def _asked(context: click.Context, path: str, field: str, begun: str, **query: object) -> list[str]:
    from penstock.cli.admin_client import AdminClient  # noqa: PLC0415 - only when Tab is pressed
    from penstock.cli.connection import target_of  # noqa: PLC0415

    try:
        with redirect_stderr(io.StringIO()):  # it would be written into the line that is typed
            target = target_of(context.params)
            broker = AdminClient(target, ANSWER_S, target.servers[0])
            found = broker.get(path, limit=OFFERED_MAX, **query)["items"]
    except (PenstockError, click.ClickException, OSError, KeyError):
        return []
    names = dict.fromkeys(str(one[field]) for one in found)
    return [name for name in names if name.startswith(begun) and _PLAIN.fullmatch(name)]
