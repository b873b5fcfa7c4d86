"""What a stream command did wrong, or cannot have, in the words of Redis where it has some."""

from penstock.errors import PenstockError
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp.names import name_of

SYNTAX = "ERR syntax error"

UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)


class StreamFault(PenstockError):  # noqa: N818 - the name says whose
    """The command is answered with an error: ``message``, its code first."""


def no_group(topic: bytes, group: bytes, where: str = "") -> StreamFault:
    """There is no such topic, or it has no such group."""
    return StreamFault(
        f"NOGROUP No such key '{_text(name_of(topic))}' or consumer group '{_text(group)}'{where}"
    )


def no_group_of_key(topic: bytes, group: bytes) -> StreamFault:
    """The topic is there, but has no such group."""
    return StreamFault(
        f"NOGROUP No such consumer group '{_text(group)}' for key name '{_text(name_of(topic))}'"
    )


def not_stored(reason: str) -> str:
    """What a command needed the disk for, or most nodes of a cluster, did not happen.

    Without a quorum nobody knows: it may be in a log, and be agreed upon when nodes are back.
    """
    if reason == DisconnectReason.NO_QUORUM.value:
        return f"ERR {reason}: too few nodes of the cluster are up, it may be stored or not"
    if reason == DisconnectReason.LEADERSHIP_LOST.value:
        return f"ERR {reason}: another node leads by now, nothing was stored: send it again"
    return f"ERR {reason}: the disk refused, nothing was stored"


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
