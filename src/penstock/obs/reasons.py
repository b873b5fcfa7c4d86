"""Why a connection ended, and why a message was not delivered, kept or taken.

One enum each. Every close and every drop names its member; it is logged, counted and shown. A
reason that is not listed here does not exist: add one rather than reuse a neighbour.
"""

from enum import Enum

__all__ = ["DisconnectReason", "DropReason"]


class DisconnectReason(Enum):
    """Why a connection ended. The value is the label in metrics and logs."""

    CLIENT_DISCONNECT = "client_disconnect"
    """The client said goodbye as its protocol asks."""
    CONNECTION_LOST = "connection_lost"
    """The socket ended without a goodbye."""
    CONNECT_TIMEOUT = "connect_timeout"
    """No complete first packet in time."""
    KEEP_ALIVE_TIMEOUT = "keep_alive_timeout"
    """No complete packet within one and a half times the keep-alive."""
    SESSION_TAKEN_OVER = "session_taken_over"
    """Another connection presented the same client id."""
    MALFORMED_PACKET = "malformed_packet"
    """Bytes that do not form a packet: lengths, reserved bits, UTF-8, missing fields."""
    PROTOCOL_VIOLATION = "protocol_violation"
    """A well-formed packet at a time or in a direction that the protocol forbids."""
    PACKET_TOO_LARGE = "packet_too_large"
    """An announced size above the configured maximum."""
    UNACCEPTABLE_PROTOCOL = "unacceptable_protocol"
    """A protocol name or level that this broker does not speak."""
    UNKNOWN_PROTOCOL = "unknown_protocol"
    """First bytes that belong to no protocol of ours."""
    IDENTIFIER_REJECTED = "identifier_rejected"
    """A client id that may not be used."""
    TOPIC_INVALID = "topic_invalid"
    """A topic name or filter that breaks the rules, or a limit on length or levels."""
    TOPIC_RESERVED = "topic_reserved"
    """A publish to a topic that only the broker writes ($SYS)."""
    TOO_MANY_CLIENTS = "too_many_clients"
    """The limit on connections was reached."""
    TOO_MANY_SESSIONS = "too_many_sessions"
    """A new persistent session, where the limit on sessions was reached."""
    SLOW_READER = "slow_reader"
    """The peer did not read for so long that waiting acknowledgements outgrew their bound."""
    STORAGE_FULL = "storage_full"
    """What the client sent needed the disk, and the disk has no room."""
    STORAGE_FAILED = "storage_failed"
    """What the client sent needed the disk, and the disk failed."""
    SERVER_SHUTDOWN = "server_shutdown"
    """The broker is stopping."""
    INTERNAL_ERROR = "internal_error"
    """A bug of ours, met while serving this connection; the log has the trace, once."""


class DropReason(Enum):
    """Why a message (or one copy of it) went no further. The value is the label in metrics."""

    CAPTURE_OVERFLOW = "capture_overflow"
    """QoS 0, delivered, but the journal could not keep up and its buffer was full."""
    CAPTURE_FAILED = "capture_failed"
    """QoS 0, delivered, but the commit that would have captured it failed."""
    SLOW_READER = "slow_reader"
    """QoS 0 to a subscriber that reads too slowly."""
    QUEUE_FULL_OLDEST = "queue_full_oldest"
    """The session's queue was full; its oldest message made room."""
    QUEUE_FULL_NEWEST = "queue_full_newest"
    """The session's queue was full; the new message was not queued."""
    RETENTION = "retention"
    """Queued for a session, but removed from the journal by its total size limit."""
    SESSION_EXPIRED = "session_expired"
    """Queued for a session whose time ran out."""
    RETAINED_LIMIT = "retained_limit"
    """Delivered, but not retained: the limit on retained messages was reached."""
    STORAGE_FULL = "storage_full"
    """Not accepted: the disk has no room."""
    STORAGE_FAILED = "storage_failed"
    """Not accepted: the disk failed."""
