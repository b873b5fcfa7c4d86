"""All commands by name."""

from penstock.doors.resp import (
    clients,
    confirming,
    greeting,
    introspection,
    keys,
    publishing,
    queue,
    streams,
    subscribing,
    transactions,
)
from penstock.doors.resp.calls import Commands

COMMANDS: Commands = {
    **greeting.COMMANDS,
    **clients.COMMANDS,
    **confirming.COMMANDS,
    **introspection.COMMANDS,
    **keys.COMMANDS,
    **publishing.COMMANDS,
    **queue.COMMANDS,
    **streams.COMMANDS,
    **subscribing.COMMANDS,
    **transactions.COMMANDS,
}
