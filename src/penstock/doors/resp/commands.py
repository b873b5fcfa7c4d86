"""All commands by name."""

from penstock.doors.resp import (
    acl,
    clients,
    confirming,
    greeting,
    introspection,
    keys,
    publishing,
    queue,
    subscribing,
    transactions,
)
from penstock.doors.resp.calls import Commands
from penstock.doors.resp.streams import entries, groups, info, pending, reading

COMMANDS: Commands = {
    **greeting.COMMANDS,
    **acl.COMMANDS,
    **clients.COMMANDS,
    **confirming.COMMANDS,
    **introspection.COMMANDS,
    **keys.COMMANDS,
    **publishing.COMMANDS,
    **queue.COMMANDS,
    **entries.COMMANDS,
    **reading.COMMANDS,
    **groups.COMMANDS,
    **pending.COMMANDS,
    **info.COMMANDS,
    **subscribing.COMMANDS,
    **transactions.COMMANDS,
}
