"""What can be configured: one declaration per key, from which everything else is derived.

A field says its name, type, default, range and meaning, once. The loader checks against it,
``penstock config explain`` prints it, and the reference page and the example file are written from
it. Nothing about a key stands anywhere else.

Names end with the unit and the qualifier (``keep_alive_s_max``). The unit is read off the name:
a key with the word ``s`` or ``ms`` in it takes a duration ("24h"), one with ``bytes`` a size
("256KiB"); see :mod:`penstock.config.units`.

The defaults are those of :mod:`penstock.limits`, so that a ``Config()`` made by hand (a test, an
embedded broker) is the same as an empty file.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock import limits

LISTEN = ("127.0.0.1:1883", "127.0.0.1:6379", "127.0.0.1:7600")
HTTP_LISTEN = ("127.0.0.1:9091",)
"""The usual ports. All but the first are a courtesy: see :mod:`penstock.config.listeners`."""

_YEAR_S = 365 * 24 * 3600
_TIB = 1024 * limits.GIB


def _text(description: str, flag: str = "", form: str = "") -> Meta:
    """Describe a key that is no number.

    ``flag`` gives it an option of its own on the command line; ``form`` names what its texts must
    be beyond text: "address", "filter" or "secret"; a secret is never shown.
    """
    return Meta(description=description, extra={"flag": flag, "form": form})


def _between(low: float, high: float, description: str, flag: str = "") -> Meta:
    """Describe a number, both bounds included."""
    return Meta(ge=low, le=high, description=description, extra={"flag": flag, "form": ""})


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on what clients may ask of the broker."""

    clients_max: Annotated[
        int,
        _between(
            1,
            1_000_000,
            "Connections at once, all protocols together; a newcomer beyond it is refused.",
            flag="--max-clients",
        ),
    ] = limits.CLIENTS_MAX
    packet_bytes_max: Annotated[
        int, _between(1024, limits.BATCH_BYTES_MAX, "Largest packet taken from a client.")
    ] = limits.PACKET_BYTES_MAX
    connect_bytes_max: Annotated[
        int,
        _between(1024, limits.MIB, "Largest packet taken from a client that is not yet connected."),
    ] = limits.CONNECT_BYTES_MAX
    frame_bytes_max: Annotated[
        int,
        _between(
            1024,
            limits.BATCH_BYTES_MAX,
            "Largest frame of the binary protocol, and largest argument of a RESP command.",
        ),
    ] = limits.FRAME_BYTES_MAX
    incomplete_bytes_max: Annotated[
        int,
        _between(
            limits.MIB,
            64 * limits.GIB,
            "Bytes of incomplete packets over all connections; who is silent for longest goes.",
        ),
    ] = limits.INCOMPLETE_BYTES_MAX
    connect_timeout_s: Annotated[
        float, _between(0.1, 3600, "How long a new connection may take to send its first packet.")
    ] = limits.CONNECT_TIMEOUT_S
    keep_alive_s_max: Annotated[
        int, _between(1, 65_535, "Longest keep-alive that is taken at its word.")
    ] = limits.KEEP_ALIVE_S_MAX
    idle_timeout_s: Annotated[
        float,
        _between(1, _YEAR_S, "Silence after which a connection of the binary protocol is closed."),
    ] = limits.IDLE_TIMEOUT_S
    client_id_bytes_max: Annotated[
        int, _between(23, 65_535, "Longest client id; MQTT asks for 23 bytes at least.")
    ] = limits.CLIENT_ID_BYTES_MAX
    inflight_max: Annotated[
        int, _between(1, 32_767, "Deliveries of QoS 1 and 2 a client may leave unacknowledged.")
    ] = limits.INFLIGHT_MAX
    queue_messages_max: Annotated[
        int,
        _between(1, 10_000_000, "Messages kept for a session beyond those in flight."),
    ] = limits.QUEUE_MESSAGES_MAX
    queue_full: Annotated[
        Literal["drop_oldest", "drop_newest"],
        _text("Which message gives way when a session's queue is full."),
    ] = "drop_oldest"
    session_expiry_s: Annotated[
        int, _between(1, 10 * _YEAR_S, "How long a persistent session outlives its connection.")
    ] = limits.SESSION_EXPIRY_S
    subscriber_expiry_s: Annotated[
        int,
        _between(
            1,
            10 * _YEAR_S,
            "How long acknowledgements of a durable subscriber are kept after the last one.",
        ),
    ] = limits.SUBSCRIBER_EXPIRY_S
    sessions_max: Annotated[
        int, _between(1, 10_000_000, "Sessions in all; beyond it no new persistent one is made.")
    ] = limits.SESSIONS_MAX
    subscriptions_max: Annotated[
        int, _between(1, 1_000_000, "Topic filters a session may subscribe to.")
    ] = limits.SUBSCRIPTIONS_MAX
    topic_bytes_max: Annotated[int, _between(1, 65_535, "Longest topic or topic filter.")] = (
        limits.TOPIC_BYTES_MAX
    )
    topic_levels_max: Annotated[
        int, _between(1, 1_000, "Most levels in a topic or topic filter.")
    ] = limits.TOPIC_LEVELS_MAX
    retained_max: Annotated[
        int,
        _between(
            0, 100_000_000, "Retained messages in all; beyond it one is delivered but not kept."
        ),
    ] = limits.RETAINED_MAX
    outbound_bytes_max: Annotated[
        int,
        _between(
            64 * limits.KIB,
            limits.GIB,
            "Bytes that may wait for one slow reader before messages of QoS 0 are dropped.",
        ),
    ] = limits.OUTBOUND_BYTES_MAX
    outgoing_bytes_max: Annotated[
        int,
        _between(
            limits.MIB,
            64 * _TIB,
            "Bytes that may wait for all clients together; once half of it is used, those who do"
            " not read what they have are sent no more.",
        ),
    ] = limits.OUTGOING_BYTES_MAX
    routes_cached_max: Annotated[
        int, _between(1, 10_000_000, "Topics whose subscribers are remembered between messages.")
    ] = limits.ROUTES_CACHED_MAX

    sinks_max: Annotated[
        int, _between(1, 1_000_000, "Sinks that are remembered; beyond it no new one is made.")
    ] = limits.SINKS_MAX
    staged_bytes_max: Annotated[
        int,
        _between(
            limits.MIB,
            64 * _TIB,
            "Bytes of one sink that may be staged and not committed; those of all sinks together"
            " may take half of what the journal may.",
        ),
    ] = limits.STAGED_BYTES_MAX
    stage_expiry_s: Annotated[
        int,
        _between(
            1, 10 * _YEAR_S, "How long rows stay that were staged and never committed nor aborted."
        ),
    ] = limits.STAGE_EXPIRY_S


class Journal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written down, and in what portions."""

    capture: Annotated[
        bool,
        _text(
            "Whether messages of QoS 0 are journaled too, save those whose topic begins with $;"
            " messages of QoS 1 and 2 always are."
        ),
    ] = True
    capture_exclude: Annotated[
        tuple[str, ...],
        _text("Topic filters whose messages of QoS 0 are not journaled.", form="filter"),
    ] = ()
    capture_pending_bytes_max: Annotated[
        int,
        _between(
            64 * limits.KIB,
            16 * limits.GIB,
            "Bytes of QoS 0 that may wait for the disk; beyond it they are delivered only.",
        ),
    ] = limits.CAPTURE_PENDING_BYTES_MAX
    capture_interval_ms: Annotated[
        int, _between(0, 10_000, "How long a message of QoS 0 may wait for others to be committed.")
    ] = limits.CAPTURE_INTERVAL_MS
    batch_bytes_target: Annotated[
        int,
        _between(
            4 * limits.KIB,
            limits.BATCH_BYTES_MAX,
            "Size at which a batch of captured messages is committed without further waiting.",
        ),
    ] = limits.BATCH_BYTES_TARGET
    map_bytes_initial: Annotated[
        int,
        _between(
            limits.MIB,
            _TIB,
            "Address space first reserved for the store (not disk); it doubles when needed.",
        ),
    ] = limits.MAP_BYTES_INITIAL
    total_bytes_max: Annotated[
        int,
        _between(
            limits.MIB,
            64 * _TIB,
            "Size of the journal at which its oldest messages are removed; commits wait for it.",
        ),
    ] = limits.JOURNAL_BYTES_MAX


_MessagesMax = Annotated[
    int, _between(0, 10**12, "Messages kept per topic, the newest; 0 sets no limit.")
]
_AgeMax = Annotated[
    int, _between(0, 100 * _YEAR_S, "How long a message is kept in the journal; 0 sets no limit.")
]
_BytesMax = Annotated[
    int, _between(0, 64 * _TIB, "Payload bytes kept per topic, the newest; 0 sets no limit.")
]


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs for the topics that match a filter; the first rule that matches applies."""

    filter: Annotated[str, _text("The topics this rule is for.", form="filter")]
    messages_max: _MessagesMax = 0
    age_s_max: _AgeMax = 7 * 24 * 3600
    bytes_max: _BytesMax = 0


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long journaled messages stay readable, per topic."""

    messages_max: _MessagesMax = 0
    age_s_max: _AgeMax = 7 * 24 * 3600
    bytes_max: _BytesMax = 0
    rules: Annotated[
        tuple[RetentionRule, ...],
        _text(
            "Exceptions by topic filter, the first match counts; a limit that a rule leaves out is"
            " that of this section."
        ),
    ] = ()


class SigningRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs for the topics that match a pattern; the first rule that matches applies."""

    filter: Annotated[
        str, _text("The topics this rule is for: a topic filter, or a prefix and *.", form="filter")
    ]
    versions: Annotated[
        tuple[Literal[1, 2], ...],
        _text("Versions of signature that these topics accept; left out, those of the section."),
    ] = ()
    required: Annotated[bool, _text("Whether a publish to these topics must be signed.")] = True


class Signing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which publishes must be signed, and how signatures are judged."""

    required: Annotated[
        tuple[str, ...],
        _text(
            "Topics that refuse unsigned publishes by every protocol: topic filters, or a prefix"
            " and *.",
            form="filter",
        ),
    ] = ("secure/*",)
    versions: Annotated[
        tuple[Literal[1, 2], ...],
        _text(
            "Versions of signature that are accepted; version 1 protects neither against replay"
            " nor against bytes moved between topic and payload."
        ),
    ] = (1, 2)
    window_s: Annotated[
        int,
        _between(1, 24 * 3600, "How long ago a signature of version 2 may have been made."),
    ] = 300
    nonces_max: Annotated[
        int,
        _between(
            1,
            100_000_000,
            "Signatures of version 2 remembered against replay; beyond it they are refused.",
        ),
    ] = 1_000_000
    rules: Annotated[
        tuple[SigningRule, ...],
        _text("Exceptions by topic, the first match counts, before required."),
    ] = ()


class Admin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may look into the broker's keys and change them, by HTTP."""

    token: Annotated[
        str,
        _text(
            "Secret that administrators present as a bearer token; without one, whoever connects"
            " from this machine is an administrator.",
            form="secret",
        ),
    ] = ""
    hosts: Annotated[
        tuple[str, ...],
        _text(
            "Names by which HTTP pages may be asked, beside addresses and localhost; no web page"
            " of another name can then read them through somebody's browser."
        ),
    ] = ()

    def __repr__(self) -> str:
        """Keep the token out of logs and tracebacks."""
        return f"Admin(token={'(hidden)' if self.token else ''!r}, hosts={self.hosts!r})"


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes this broker a node of a cluster; without peer_listen it stands alone."""

    node_id: Annotated[
        int,
        _between(
            0,
            limits.NODE_ID_MAX,
            "Number of this node, another for each and never given again to a node whose disk was"
            " lost; 0 is a broker that stands alone.",
            flag="--node-id",
        ),
    ] = 0
    peer_listen: Annotated[
        str,
        _text(
            "Address to listen on for other nodes; only nodes of the cluster are let in.",
            flag="--peer-listen",
            form="address",
        ),
    ] = ""
    advertise_peer: Annotated[
        str,
        _text(
            "Address at which other nodes reach this one; left out, that of peer_listen.",
            flag="--advertise-peer",
            form="address",
        ),
    ] = ""
    advertise: Annotated[
        str,
        _text(
            "Address at which clients reach this node, told to those who asked another one; left"
            " out, the first of listen.",
            flag="--advertise",
            form="address",
        ),
    ] = ""
    secret: Annotated[
        str,
        _text(
            "Secret by which nodes know each other, the same on all of them; better in a file or"
            " the environment.",
            form="secret",
        ),
    ] = ""
    secret_file: Annotated[
        str,
        _text(
            "File that holds the secret by which nodes know each other.",
            flag="--cluster-secret-file",
        ),
    ] = ""
    tls_cert: Annotated[
        str,
        _text("Certificate of this node, in PEM, in the name of node-ID; nodes then speak TLS."),
    ] = ""
    tls_key: Annotated[str, _text("Private key of that certificate, in PEM.")] = ""
    tls_ca: Annotated[
        str, _text("Certificate, in PEM, of the authority that signs those of all nodes.")
    ] = ""
    tick_ms: Annotated[
        int, _between(10, 10_000, "Time between two heartbeats of the leader; the same on all.")
    ] = 100
    election_ticks: Annotated[
        int,
        _between(
            3,
            1_000,
            "Heartbeats missed before a node asks to lead; by chance up to twice as many.",
        ),
    ] = 10
    no_leader_timeout_s: Annotated[
        float,
        _between(
            0.1, 3600, "How long writes wait for a leader before they are refused (no_quorum)."
        ),
    ] = 5.0
    node_grace_s: Annotated[
        float,
        _between(
            0.1,
            24 * 3600,
            "How long a node may be silent before its clients count as gone: their wills are"
            " published, their work goes to others.",
        ),
    ] = 10.0
    log_kept_entries: Annotated[
        int,
        _between(
            1,
            10**9,
            "Newest entries kept for nodes that come back; who is further behind gets a copy of"
            " the whole store.",
        ),
    ] = 10_000
    log_kept_bytes: Annotated[
        int,
        _between(
            64 * limits.MIB,
            16 * 1024 * limits.GIB,
            "Bytes of entries kept for nodes that come back, however few entries that are; four"
            " times as many for nodes that are up and slow.",
        ),
    ] = limits.GIB
    snapshot_rate_bytes: Annotated[
        int,
        _between(
            64 * limits.KIB,
            64 * limits.GIB,
            "Bytes per second at which a copy of the store is sent to another node.",
        ),
    ] = 64 * limits.MIB

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        shown = "(hidden)" if self.secret else ""
        return (
            f"Cluster(node_id={self.node_id}, peer_listen={self.peer_listen!r}, secret={shown!r})"
        )


class Resp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How clients of Redis are served."""

    replay: Annotated[
        bool,
        _text(
            "Whether SUBSCRIBE to a topic first sends what the journal holds of it, and RESP 2"
            " clients may give any command while subscribed; off, both are as in Redis.",
            flag="--redis-replay",
        ),
    ] = False
    allow_flush: Annotated[
        bool,
        _text(
            "Whether FLUSHALL and FLUSHDB may delete the topics of all protocols, save those that"
            " demand signatures."
        ),
    ] = False
    password: Annotated[
        str,
        _text(
            "Secret that clients present with AUTH or HELLO; without one they need none.",
            form="secret",
        ),
    ] = ""

    def __repr__(self) -> str:
        """Keep the password out of logs and tracebacks."""
        shown = "(hidden)" if self.password else ""
        flags = f"replay={self.replay}, allow_flush={self.allow_flush}"
        return f"Resp({flags}, password={shown!r})"


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the broker says about itself on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        _text("Least important messages that are logged.", flag="--log-level"),
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        _text(
            "How log lines look; auto is console on a terminal and json elsewhere.",
            flag="--log-format",
        ),
    ] = "auto"


class Sys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The broker's own figures, published under $SYS."""

    interval_s: Annotated[
        float,
        _between(0, 86_400, "Time between two publications of $SYS topics; 0 turns them off."),
    ] = 10.0


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the broker stops."""

    timeout_s: Annotated[
        float,
        _between(0, 3600, "How long a stop may wait for what is under way before it cuts off."),
    ] = 30.0


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. ``Config()`` is the default one."""

    data: Annotated[
        str,
        _text("Directory of the journal and all other durable state.", flag="--data"),
    ] = "penstock-data"
    listen: Annotated[
        tuple[str, ...],
        _text(
            "Addresses to listen on; each speaks every protocol. Of the default ones all but the"
            " first are skipped, with a warning, where another program has the port.",
            flag="--listen",
            form="address",
        ),
    ] = LISTEN
    http_listen: Annotated[
        tuple[str, ...],
        _text(
            "Further addresses, usually for health, readiness and metrics; they speak every"
            " protocol too. None by default where listen is set.",
            flag="--http-listen",
            form="address",
        ),
    ] = HTTP_LISTEN
    allow_anonymous: Annotated[
        bool,
        _text(
            "Whether anyone who reaches a listener may use the broker; needed to listen beyond"
            " this machine.",
            flag="--allow-anonymous",
        ),
    ] = False
    durability: Annotated[
        Literal["sync", "interval"],
        _text(
            "When an acknowledgement is given: sync after the disk has the message, interval"
            " before, with the disk about durability_interval_ms behind, which a crash or power"
            " failure loses.",
            flag="--durability",
        ),
    ] = "sync"
    durability_interval_ms: Annotated[
        int,
        _between(
            1, 60_000, "How much a crash or power failure may lose with durability = interval."
        ),
    ] = 100
    limits: Limits = Limits()
    journal: Journal = Journal()
    retention: Retention = Retention()
    signing: Signing = Signing()
    admin: Admin = Admin()
    cluster: Cluster = Cluster()
    resp: Resp = Resp()
    log: Log = Log()
    sys: Sys = Sys()
    shutdown: Shutdown = Shutdown()


def _sections() -> dict[str, type[msgspec.Struct]]:
    """List the sections by name; the top level is the section without one."""
    named = {f.name: f.type for f in msgspec.structs.fields(Config) if isinstance(f.type, type)}
    return {"": Config, **named}


SECTIONS: dict[str, type[msgspec.Struct]] = _sections()
