"""What can have become of a message, and how certain a line of an explanation is."""

from enum import Enum


class Fate(Enum):
    """What became of a message for one receiver. The value is the code in documents."""

    DELIVERED = "delivered"
    """Sent, and acknowledged where the protocol acknowledges."""
    QUEUED = "queued"
    """Waits for a client that is away or has no room, or for a worker of a group."""
    IN_FLIGHT = "in_flight"
    """Sent, and not acknowledged yet."""
    LEASED = "leased"
    """A worker has it until its lease ends."""
    NOT_DUE = "not_due"
    """Scheduled for later."""
    BACKING_OFF = "backing_off"
    """Returned by a worker; waits for its next attempt."""
    RATE_LIMITED = "rate_limited"
    """Waits because the queue has a rate limit."""
    DONE = "done"
    """A worker of the group has acknowledged it."""
    DEAD_LETTERED = "dead_lettered"
    """The group gave up after its last attempt."""
    DROPPED = "dropped"
    """Given up for this receiver; the reason says why."""
    NO_MATCH = "no_match"
    """Nobody subscribed to its topic."""
    NOT_KEPT_OFFLINE = "not_kept_offline"
    """The receiver was away, and nothing is kept for it."""
    RETAINED = "retained"
    """It is what a new subscriber gets first."""
    RETAINED_REPLACED = "retained_replaced"
    """It was retained until a later message took its place."""
    REMOVED = "removed"
    """Retention has removed it from the journal."""
    DELETED = "deleted"
    """It was deleted, alone or with its topic."""


class Certainty(Enum):
    """Where a line of an explanation comes from."""

    RECORDED = "recorded"
    """Written down when it happened."""
    DERIVED = "derived"
    """Follows from the present state and the journal."""
    NOT_KEPT = "not_kept"
    """The broker keeps no record of it."""
