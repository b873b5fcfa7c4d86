"""All commands by name."""

from penstock.net.resp import greeting, publishing, subscribing
from penstock.net.resp.calls import Commands

__all__ = ["COMMANDS"]

COMMANDS: Commands = {
    **greeting.COMMANDS,
    **publishing.COMMANDS,
    **subscribing.COMMANDS,
}
