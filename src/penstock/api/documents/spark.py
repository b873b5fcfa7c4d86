"""What the API says about Spark: streams that read, and sinks that are written to."""

import msgspec

from penstock.api.documents.lists import Missing
from penstock.api.documents.queues import Attention


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose position in a topic is kept: a Spark stream, or a durable subscriber."""

    name: str
    kind: str  # reader_group (Spark streams and alike) or durable_subscriber
    topic: str
    user: str
    attention: list[Attention]
    position: int  # the next offset to be read
    end_offset: int
    lag: int  # rows
    lag_s: float | None  # now minus the time of the message at the position; 0: nothing waits
    rows_per_s: float | None  # since it was last asked for; None: asked first
    eta_s: float | None  # until it has caught up, with what arrives meanwhile
    committed: str | None  # the last commit or acknowledgement
    committed_s: float | None  # how long ago
    overtaken: bool  # retention has removed messages that it had not read
    not_kept: list[str]  # of these fields


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """Readers by name and topic."""

    items: list[Reader]
    next: str | None = None
    incomplete: list[Missing] = []


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is published to topics, epoch by epoch, each epoch once."""

    sink: str
    user: str
    attention: list[Attention]
    epoch: int | None  # the last published
    rows: int  # of all epochs
    epoch_rows: int  # of the last epoch
    committed: str | None
    committed_s: float | None
    committing_epoch: int | None  # that is being published
    committing_rows: int  # of it, so far
    staged_parts: int  # neither committed nor aborted
    staged_bytes: int
    note: str


class Sinks(msgspec.Struct, frozen=True, kw_only=True):
    """Sinks by name."""

    items: list[Sink]
    next: str | None = None
    incomplete: list[Missing] = []


class SinkForgetting(msgspec.Struct, frozen=True, kw_only=True):
    """What DELETE ``sinks`` forgets, or with ``dry_run`` would."""

    sink: str
    dry_run: bool
    epoch: int | None
    rows: int  # they stay
    staged_parts: int
    staged_bytes: int
