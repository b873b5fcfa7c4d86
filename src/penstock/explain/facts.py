"""Facts from which explanations are derived: data, gathered by ``node.why``.

Names are text here: whoever gathers has decoded them for people. Times are milliseconds.
"""

import msgspec

from penstock.obs.events import Event


class Connection(msgspec.Struct, frozen=True):
    """A connection of the client to this node."""

    protocol: str
    peer: str
    user: str
    silent_s: float


class SessionState(msgspec.Struct, frozen=True):
    """The session of a client, as all nodes know it."""

    is_persistent: bool
    is_connected: bool
    node: int  # that has, or had, its connection
    away_since_ms: int = 0
    ends_ms: int = 0  # when it expires; 0: not known, or never
    filters: tuple[str, ...] = ()
    filters_total: int = 0
    in_flight: int = 0
    queued: int = 0
    queue_max: int = 0


class ClientFacts(msgspec.Struct, frozen=True):
    """What is known of a client id."""

    client_id: str
    now_ms: int
    connection: Connection | None = None
    session: SessionState | None = None
    events: tuple[Event, ...] = ()  # newest first
    last_end: Event | None = None
    ban: str = ""


class Row(msgspec.Struct, frozen=True):
    """A message as the journal has it."""

    sequence: int
    time_ms: int
    qos: int
    retain: bool
    payload_bytes: int
    priority: int = 0
    due_ms: int = 0
    expires_ms: int = 0
    key_id: int | None = None


class SessionReceiver(msgspec.Struct, frozen=True):
    """A session whose subscriptions match the topic now."""

    client_id: str
    filter: str
    qos: int  # granted
    is_persistent: bool
    is_connected: bool
    since_sequence: int = 0  # the last message before the subscription; 0: not known
    connected_ms: int = 0  # since when it is connected; 0: not known
    away_since_ms: int = 0
    place: str = ""  # queued, in_flight; empty: it does not have the message
    ahead: int = 0
    queued: int = 0
    queue_max: int = 0
    ended_ms: int = 0  # its last end before the present connection; 0: not known
    is_local: bool = True  # whether it is connected to this node


class GroupReceiver(msgspec.Struct, frozen=True):
    """A group of the topic, and what it knows of the message."""

    name: str
    head: int  # every message of this priority before was handed out
    start: int = 0  # it was made, or moved, to begin here
    is_reader: bool = False
    state: str = ""  # leased, returned, delayed, exhausted; empty: not pending
    holder: str = ""
    taken_ms: int = 0
    until_ms: int = 0
    attempts: int = 0
    attempts_max: int = 0
    reason: str = ""
    ahead: int = 0
    workers: int = 0
    rate_per_s: float = 0.0  # the topic's limit; 0: none


class Letter(msgspec.Struct, frozen=True):
    """A dead letter of the message."""

    group: str
    attempts: int
    reason: str
    time_ms: int
    topic: str
    offset: int


class Retained(msgspec.Struct, frozen=True):
    """The retained message of the topic now."""

    sequence: int
    time_ms: int


class MessageFacts(msgspec.Struct, frozen=True):
    """What is known of a message."""

    topic: str
    offset: int
    now_ms: int
    first_offset: int = 0
    next_offset: int = 0  # 0: the topic has no messages
    row: Row | None = None
    durable: str = ""  # what its acknowledgement meant
    sessions: tuple[SessionReceiver, ...] = ()
    sessions_total: int = 0
    groups: tuple[GroupReceiver, ...] = ()
    letters: tuple[Letter, ...] = ()
    retained: Retained | None = None
    replaced_by: tuple[int, int] | None = None  # offset and time of the next retained message
    events: tuple[Event, ...] = ()  # drops and returns of its receivers, newest first
    near: tuple[str, ...] = ()
    retention: str = ""  # the rule, in words
    was_deleted_ms: int = 0


class TopicFacts(msgspec.Struct, frozen=True):
    """What is known of a topic."""

    topic: str
    now_ms: int
    first_offset: int = 0
    next_offset: int = 0
    count: int = 0
    bytes: int = 0
    last: Row | None = None
    is_captured: bool = True
    excluded_by: str = ""  # the option that keeps QoS 0 out of the journal
    is_signed_only: bool = False
    reserved: str = ""
    receivers: tuple[str, ...] = ()  # clients whose subscriptions match
    receivers_total: int = 0
    groups: tuple[GroupReceiver, ...] = ()
    retained: Retained | None = None
    events: tuple[Event, ...] = ()
    near: tuple[str, ...] = ()
    retention: str = ""


class Question(msgspec.Struct, frozen=True):
    """One condition of a publish, looked up."""

    code: str
    passes: bool
    text: str
    reason: str = ""  # under which the refusal would be counted
    advice: str = ""  # better than that of the reason
    command: str | None = None  # that shows more, or does it


class PublishFacts(msgspec.Struct, frozen=True):
    """What was looked up for a publish that is only tried."""

    topic: str
    user: str
    now_ms: int
    questions: tuple[Question, ...] = ()
    receivers: tuple[str, ...] = ()
    receivers_total: int = 0
    groups: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    is_captured: bool = True
    qos: int = 1
