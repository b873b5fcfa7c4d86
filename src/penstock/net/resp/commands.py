"""All commands by name."""

from penstock.net.resp import (
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
from penstock.net.resp.calls import Commands

__all__ = ["COMMANDS"]

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
