"""Clients, sessions, subscriptions."""

import msgspec

from penstock.api.documents.lists import Missing


class Will(msgspec.Struct, frozen=True):
    """What is published when a client goes without saying so."""

    topic: str
    payload_bytes: int
    qos: int
    retain: bool
    delay_s: int


class Client(msgspec.Struct, frozen=True):
    """A client that is connected, or the session of one that is away.

    None stands for what a protocol does not have, or what is not known of a client that is away.
    """

    client_id: str  # empty: it gave none
    node: int
    protocol: str  # mqtt, redis, binary, queue
    version: str  # of MQTT: 3.1.1 or 5
    away: bool
    address: str | None
    since: str | None  # connected since, or away since
    seen: str | None  # when it last sent something
    idle_s: float | None
    user: str
    encrypted: bool | None
    websocket: bool | None
    persistent: bool
    keep_alive_s: int | None
    expires: str | None  # when the session of a client that is away ends
    subscriptions: int
    in_flight: int
    queued: int
    dropped: int | None  # messages that gave way, on this connection
    bytes_in: int | None
    bytes_out: int | None
    output_bytes: int | None  # waiting to be sent
    will: Will | None
    ended: str | None = None  # the reason of its last end, if that is still known


class Clients(msgspec.Struct, frozen=True):
    """Clients by id, then address."""

    items: list[Client]
    next: str | None = None
    incomplete: list[Missing] = []


class Session(msgspec.Struct, frozen=True):
    """An MQTT session."""

    client_id: str
    node: int
    connected: bool
    persistent: bool
    user: str
    version: str
    subscriptions: int
    in_flight: int
    queued: int
    away_since: str | None
    expires: str | None
    ended: str | None  # why its client left, if that is still known
    ended_at: str | None
    detail: str | None  # of that end
    will: Will | None


class Sessions(msgspec.Struct, frozen=True):
    """Sessions by client id."""

    items: list[Session]
    next: str | None = None
    incomplete: list[Missing] = []


class Subscription(msgspec.Struct, frozen=True):
    """A subscription; the options are those of MQTT 5."""

    client_id: str
    protocol: str
    node: int
    filter: str  # without ``$share/NAME/``
    share: str | None  # name of a shared subscription
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int | None
    away: bool
    user: str


class Subscriptions(msgspec.Struct, frozen=True):
    """Subscriptions of MQTT sessions by client id and filter.

    ``live``: how many other subscribers the topic has that was asked for (RESP, binary clients).
    """

    items: list[Subscription]
    live: int = 0
    next: str | None = None
    incomplete: list[Missing] = []


class KickRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Connections to end: all with a client id, or of these the one from an ``address``."""

    client_id: str
    address: str | None = None


class Kicked(msgspec.Struct, frozen=True):
    """How many connections were ended. They may come back: a ban keeps them out.

    ``incomplete`` are nodes that could not be asked: the client may still be connected there.
    """

    client_id: str
    connections: int
    incomplete: list[Missing] = []


class SessionEndRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session to end."""

    client_id: str
    dry_run: bool = False


class SessionEnded(msgspec.Struct, frozen=True):
    """What went with the session, or would."""

    client_id: str
    dry_run: bool
    connected: bool
    subscriptions: int
    in_flight: int
    queued: int
