"""A will that is to be published: it is due, or waits for its client to come back."""

import msgspec

from penstock.core.commands import WillMessage


class PendingWill(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Belongs to a client id, also if its session has ended since; part of that session's row.

    Whoever leads publishes it in one commit with ``WillSent``, so that no crash and no change of
    the leader loses or repeats it.
    """

    client_id: bytes
    connection: int  # that left it
    will: WillMessage
    at_ms: int  # when it is due; 0: at once
    # as in the session, by which the will is judged when it is due
    user: str = ""
    roles: tuple[str, ...] = ()
    via: str = ""
