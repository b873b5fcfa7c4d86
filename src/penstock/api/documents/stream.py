"""What the stream says about itself. Its other events are documents of their resources."""

import msgspec

from penstock.api.documents.common import ProblemDocument


class StreamStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The first event, ``started``."""

    of: list[str]  # the sources
    resumed: bool  # whether all of them go on where the last stream ended
    heartbeat_s: float  # something is sent at least that often


class StreamEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The last event, ``ended``, if the broker ends the stream."""

    reason: str  # server_shutdown, credentials_revoked, ...
    text: str


class StreamFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An event ``failed``: a source has ended, the others go on."""

    of: str
    problem: ProblemDocument
