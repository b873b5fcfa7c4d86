"""The configuration options: each is declared here, and nowhere else.

To add an option, add a field: its name, type, default, range and description. The loader,
``penstock config explain``, the flags of ``penstock serve`` and the generated pages use it.

The unit is part of the name (``keep_alive_s_max``): an option with the word ``s`` or ``ms`` takes a
duration ("24h"), one with ``bytes`` a size ("256KiB"). Most defaults are in :mod:`penstock.limits`.
"""

from typing import Annotated, Literal

import msgspec

from penstock import limits
from penstock.config.bridge_options import BridgeOptions
from penstock.config.declaring import Section, about, within
from penstock.limits import GIB, KIB, MIB, TIB

LISTEN = ("127.0.0.1:1883", "127.0.0.1:6379", "127.0.0.1:7600")
HTTP_LISTEN = ("127.0.0.1:9091",)
"""The default ports. All but the first are optional: see :mod:`penstock.config.listeners`."""

_DAY_S = 24 * 3600
_YEAR_S = 365 * _DAY_S


class Limits(Section, frozen=True, kw_only=True):
    """Limits on what clients can use."""

    clients_max: Annotated[
        int,
        within(1, 1_000_000, "--max-clients"),
        "Maximum number of connections, all protocols.",
    ] = limits.CLIENTS_MAX
    packet_bytes_max: Annotated[
        int, within(KIB, limits.BATCH_BYTES_MAX), "Largest MQTT packet accepted."
    ] = limits.PACKET_BYTES_MAX
    connect_bytes_max: Annotated[
        int, within(KIB, MIB), "Largest packet accepted before the client is connected."
    ] = limits.CONNECT_BYTES_MAX
    frame_bytes_max: Annotated[
        int,
        within(KIB, limits.BATCH_BYTES_MAX),
        "Largest binary frame, and largest RESP command argument.",
    ] = limits.FRAME_BYTES_MAX
    incomplete_bytes_max: Annotated[
        int,
        within(MIB, 64 * GIB),
        "Bytes in incomplete packets; beyond it the longest silent connection is closed.",
    ] = limits.INCOMPLETE_BYTES_MAX
    connect_timeout_s: Annotated[
        float,
        within(0.1, 3600),
        "Time allowed from the start of a connection to its first packet or, if one is needed, to"
        " the login; the TLS handshake is included.",
    ] = limits.CONNECT_TIMEOUT_S
    address_connections_max: Annotated[
        int,
        within(1, 1_000_000),
        "Connections of one address, of IPv6 one /64; this machine is not limited.",
    ] = limits.ADDRESS_CONNECTIONS_MAX
    address_strangers_max: Annotated[
        int, within(1, 1_000_000), "Connections of one address that have not logged in."
    ] = limits.ADDRESS_STRANGERS_MAX
    address_connects_per_second_max: Annotated[
        float, within(0.01, 1_000_000), "Connections that one address may open per second."
    ] = limits.ADDRESS_CONNECTS_PER_SECOND_MAX
    address_connects_burst_max: Annotated[
        int, within(1, 1_000_000), "Connections that one address may open at once after a pause."
    ] = limits.ADDRESS_CONNECTS_BURST_MAX
    strangers_max: Annotated[
        int,
        within(1, 1_000_000),
        "Connections that have not logged in, of all addresses; this machine is not limited.",
    ] = limits.STRANGERS_MAX
    keep_alive_s_max: Annotated[
        int, within(1, 65_535), "Longest keep-alive; a longer one is treated as this one."
    ] = limits.KEEP_ALIVE_S_MAX
    idle_timeout_s: Annotated[
        float, within(1, _YEAR_S), "Idle time after which a binary connection is closed."
    ] = limits.IDLE_TIMEOUT_S
    client_id_bytes_max: Annotated[
        int, within(23, 65_535), "Longest client id; MQTT requires at least 23 bytes."
    ] = limits.CLIENT_ID_BYTES_MAX
    inflight_max: Annotated[
        int, within(1, 32_767), "Unacknowledged QoS 1 and 2 deliveries per client."
    ] = limits.INFLIGHT_MAX
    receive_maximum: Annotated[
        int,
        within(1, 65_535),
        "Unacknowledged QoS 1 and 2 publishes of an MQTT 5 client; one more ends its connection.",
    ] = limits.RECEIVE_MAXIMUM
    queue_messages_max: Annotated[
        int, within(1, 10_000_000), "Messages queued per session, besides those in flight."
    ] = limits.QUEUE_MESSAGES_MAX
    queue_full: Annotated[
        Literal["drop_oldest", "drop_newest"],
        "Which message to drop when the queue of a session is full.",
    ] = "drop_oldest"
    session_expiry_s: Annotated[
        int, within(1, 10 * _YEAR_S), "How long a persistent session outlives its connection."
    ] = limits.SESSION_EXPIRY_S
    subscriber_expiry_s: Annotated[
        int,
        within(1, 10 * _YEAR_S),
        "How long a durable subscriber is kept after its last acknowledgement.",
    ] = limits.SUBSCRIBER_EXPIRY_S
    sessions_max: Annotated[
        int,
        within(1, 10_000_000),
        "Maximum number of sessions; beyond it no persistent one opens.",
    ] = limits.SESSIONS_MAX
    subscriptions_max: Annotated[
        int, within(1, 1_000_000), "Maximum number of topic filters per session."
    ] = limits.SUBSCRIPTIONS_MAX
    topic_bytes_max: Annotated[int, within(1, 65_535), "Longest topic or topic filter."] = (
        limits.TOPIC_BYTES_MAX
    )
    topic_levels_max: Annotated[
        int, within(1, 1_000), "Maximum number of levels in a topic or topic filter."
    ] = limits.TOPIC_LEVELS_MAX
    retained_max: Annotated[
        int,
        within(0, 100_000_000),
        "Maximum number of retained messages; further ones are not retained.",
    ] = limits.RETAINED_MAX
    outbound_bytes_max: Annotated[
        int,
        within(64 * KIB, GIB),
        "Bytes waiting for one slow reader before QoS 0 messages are dropped.",
    ] = limits.OUTBOUND_BYTES_MAX
    outgoing_bytes_max: Annotated[
        int,
        within(MIB, 64 * TIB),
        "Bytes waiting for all clients together; once half of it is used, clients that do not"
        " read are sent no more.",
    ] = limits.OUTGOING_BYTES_MAX
    routes_cached_max: Annotated[
        int, within(1, 10_000_000), "Topics whose subscribers are cached between messages."
    ] = limits.ROUTES_CACHED_MAX
    sinks_max: Annotated[
        int, within(1, 1_000_000), "Maximum number of sinks; beyond it no new one is created."
    ] = limits.SINKS_MAX
    staged_bytes_max: Annotated[
        int,
        within(MIB, 64 * TIB),
        "Bytes that one sink may have staged and not committed; all sinks together may use half"
        " of journal.total_bytes_max.",
    ] = limits.STAGED_BYTES_MAX
    stage_expiry_s: Annotated[
        int,
        within(1, 10 * _YEAR_S),
        "How long staged rows are kept that are neither committed nor aborted.",
    ] = limits.STAGE_EXPIRY_S


class Journal(Section, frozen=True, kw_only=True):
    """What is journaled, and in which batches."""

    capture: Annotated[
        bool,
        "Whether QoS 0 messages are journaled too, except for topics that begin with $; QoS 1"
        " and 2 messages always are.",
    ] = True
    capture_exclude: Annotated[
        tuple[str, ...],
        about(form="filter"),
        "Topic filters whose QoS 0 messages are not journaled.",
    ] = ()
    client_events: Annotated[
        bool,
        "Whether it is journaled who connected, left, was refused or lost messages, in the topic"
        " $events/clients.",
    ] = True
    capture_pending_bytes_max: Annotated[
        int,
        within(64 * KIB, 16 * GIB),
        "Bytes of QoS 0 waiting for the disk; further messages are not journaled.",
    ] = limits.CAPTURE_PENDING_BYTES_MAX
    capture_interval_ms: Annotated[
        int, within(0, 10_000), "How long a QoS 0 message waits for others to share its commit."
    ] = limits.CAPTURE_INTERVAL_MS
    batch_bytes_target: Annotated[
        int,
        within(4 * KIB, limits.BATCH_BYTES_MAX),
        "Size at which a batch of QoS 0 messages is committed at once.",
    ] = limits.BATCH_BYTES_TARGET
    map_bytes_initial: Annotated[
        int,
        within(MIB, TIB),
        "Address space (not disk) reserved for the store at first; grows as needed.",
    ] = limits.MAP_BYTES_INITIAL
    total_bytes_max: Annotated[
        int,
        within(MIB, 64 * TIB),
        "Maximum size of the journal; beyond it the oldest messages are removed.",
    ] = limits.JOURNAL_BYTES_MAX
    block_bytes: Annotated[
        int,
        within(4 * KIB, GIB),
        "Bytes of the journal that become one block; a sixteenth of `total_bytes_max` at most.",
    ] = limits.BLOCK_BYTES
    compression: Annotated[Literal["zstd", "none"], "How blocks of the journal are compressed."] = (
        "zstd"
    )


_MessagesMax = Annotated[
    int, within(0, 10**12), "Number of newest messages kept per topic; 0 is no limit."
]
_AgeMax = Annotated[int, within(0, 100 * _YEAR_S), "How long messages are kept; 0 is no limit."]
_BytesMax = Annotated[
    int, within(0, 64 * TIB), "Payload bytes of newest messages kept per topic; 0 is no limit."
]


class RetentionRule(Section, frozen=True, kw_only=True):
    """Retention for the topics that match a filter; the first matching rule applies."""

    filter: Annotated[str, about(form="filter"), "The topics that this rule applies to."]
    messages_max: _MessagesMax = 0
    age_s_max: _AgeMax = 7 * _DAY_S
    bytes_max: _BytesMax = 0


class Retention(Section, frozen=True, kw_only=True):
    """How long journaled messages are kept, per topic."""

    messages_max: _MessagesMax = 0
    age_s_max: _AgeMax = 7 * _DAY_S
    bytes_max: _BytesMax = 0
    rules: Annotated[
        tuple[RetentionRule, ...],
        "Exceptions by topic filter; the first match applies. A rule inherits the limits that"
        " it does not set from this section.",
    ] = ()


class SigningRule(Section, frozen=True, kw_only=True):
    """Signing for the topics that match a pattern; the first matching rule applies."""

    filter: Annotated[
        str, about(form="filter"), "The topics of this rule: a topic filter, or a prefix and *."
    ]
    versions: Annotated[
        tuple[Literal[1, 2], ...],
        "Signature versions accepted for these topics; by default those of the section.",
    ] = ()
    required: Annotated[bool, "Whether publishes to these topics must be signed."] = True


class Signing(Section, frozen=True, kw_only=True):
    """Which publishes must be signed, and how signatures are verified."""

    required: Annotated[
        tuple[str, ...],
        about(form="filter"),
        "Topics that refuse unsigned publishes over every protocol: topic filters, or a prefix"
        " and *.",
    ] = ("secure/*",)
    versions: Annotated[
        tuple[Literal[1, 2], ...],
        "Accepted signature versions; version 1 protects neither against replay nor against"
        " moving bytes between topic and payload.",
    ] = (1, 2)
    window_s: Annotated[int, within(1, _DAY_S), "Maximum age of a version 2 signature."] = 300
    nonces_max: Annotated[
        int,
        within(1, 100_000_000),
        "Version 2 signatures remembered against replay; further ones are refused.",
    ] = 1_000_000
    rules: Annotated[
        tuple[SigningRule, ...], "Exceptions by topic; the first match applies, before required."
    ] = ()


class Admin(Section, frozen=True, kw_only=True):
    """Who may administer the broker over HTTP."""

    token: Annotated[
        str,
        about(form="secret"),
        "Bearer token of administrators; without one, everybody on this machine is an"
        " administrator.",
    ] = ""
    token_file: Annotated[
        str, about(form="secret_file"), "File with that token in its first line."
    ] = ""
    hosts: Annotated[
        tuple[str, ...],
        "Host names accepted in HTTP requests, besides addresses and localhost; protects"
        " against DNS rebinding in browsers.",
    ] = ()


class Http(Section, frozen=True, kw_only=True):
    """Web pages that connect by WebSocket."""

    allowed_origins: Annotated[
        tuple[str, ...],
        about(form="origin"),
        "Origins of web pages that may open a WebSocket, as https://app.example.com; * for all."
        " Pages of the broker's own address need not be listed.",
    ] = ()


class Auth(Section, frozen=True, kw_only=True):
    """How users log in, and who need not."""

    anonymous: Annotated[
        Literal["local", "deny"],
        "What clients on this machine may do without a login once there are users: local, what"
        " the role local may; deny, nothing.",
    ] = "local"
    threads: Annotated[
        int,
        within(0, 64),
        "Threads that check passwords; 0 is one on two cores, else one fewer than there are"
        " cores, four at most.",
    ] = 0
    cache_s: Annotated[
        int,
        within(0, _DAY_S),
        "How long a correct password is remembered, so that a client that comes back is"
        " not checked in full; 0 disables it.",
    ] = 600
    failures_max: Annotated[
        int,
        within(1, 1_000_000),
        "Failed logins per minute, by address and by user, before the next one must wait.",
    ] = 10
    stale_s: Annotated[
        int,
        within(1, _DAY_S),
        "How long a node without a leader keeps accepting logins; after that its users and"
        " rules may be out of date.",
    ] = 300
    signed_publish: Annotated[
        bool,
        "Whether a client that has not logged in may publish messages signed with a registered"
        " key, to the topics of that key.",
    ] = True
    clear_text_admins: Annotated[
        bool,
        "Whether administrators may log in from other machines without TLS, where anybody on the"
        " way can read their password or token.",
    ] = False
    argon2_memory_bytes: Annotated[
        int, within(8 * MIB, 256 * MIB), "Memory that hashing one password takes."
    ] = 19 * MIB
    argon2_passes: Annotated[
        int, within(1, 16), "Passes over that memory when a password is hashed."
    ] = 2
    scram: Annotated[
        bool,
        "Whether clients of MQTT 5 may log in by SCRAM-SHA-256, which never sends the password."
        " A verifier is kept beside the hash of each chosen password then.",
    ] = True
    scram_iterations: Annotated[
        int,
        within(4_096, 2_000_000),
        "Iterations of such a verifier: what it costs to try a password on it, and a client to"
        " log in. A device without much power needs fewer, such as 15000.",
    ] = 600_000
    bootstrap_token_file: Annotated[
        str,
        "File with a token that makes the first administrator; it is valid while there is none.",
    ] = ""
    jwt_keys_file: Annotated[
        str,
        "File with the public keys (JWKS) of an issuer of JSON web tokens; enables them. Needs"
        " the package's extra jwt.",
    ] = ""
    jwt_algorithms: Annotated[
        tuple[Literal["ES256", "ES384", "ES512", "EdDSA", "PS256", "RS256", "RS384", "RS512"], ...],
        "Signature algorithms accepted in JSON web tokens.",
    ] = ("ES256", "EdDSA", "RS256")
    jwt_issuer: Annotated[str, "The issuer (iss) that JSON web tokens must name."] = ""
    jwt_audience: Annotated[str, "The audience (aud) that JSON web tokens must name."] = ""
    jwt_user_claim: Annotated[str, "Claim of a JSON web token that names the user."] = "sub"
    jwt_roles_claim: Annotated[
        str, "Claim of a JSON web token with the names of existing roles; others are ignored."
    ] = "roles"


class Cluster(Section, frozen=True, kw_only=True):
    """Settings of a cluster node; without peer_listen the broker is standalone."""

    node_id: Annotated[
        int,
        within(0, limits.NODE_ID_MAX, "--node-id"),
        "Number of this node, unique in the cluster; never reuse that of a node whose disk was"
        " lost. 0 is a standalone broker.",
    ] = 0
    peer_listen: Annotated[
        str, about("--peer-listen", "address"), "Address to listen on for other nodes."
    ] = ""
    advertise_peer: Annotated[
        str,
        about("--advertise-peer", "address"),
        "Address at which other nodes reach this one; by default that of peer_listen.",
    ] = ""
    advertise: Annotated[
        str,
        about("--advertise", "address"),
        "Address at which clients reach this node, given to clients of other nodes; by default"
        " the first of listen.",
    ] = ""
    secret: Annotated[
        str,
        about(form="secret"),
        "Secret that nodes authenticate with, the same on all of them; preferably set it by"
        " file or environment.",
    ] = ""
    secret_file: Annotated[
        str, about("--cluster-secret-file"), "File with the secret that nodes authenticate with."
    ] = ""
    tls_cert: Annotated[
        str, "PEM file with this node's certificate, for the name node-ID; enables TLS."
    ] = ""
    tls_key: Annotated[str, "PEM file with the private key of that certificate."] = ""
    tls_ca: Annotated[
        str, "PEM file with the certificate of the authority that signs those of all nodes."
    ] = ""
    tick_ms: Annotated[
        int, within(10, 10_000), "Heartbeat interval of the leader; the same on all nodes."
    ] = 100
    election_ticks: Annotated[
        int,
        within(3, 1_000),
        "Missed heartbeats before an election; randomised up to twice as many.",
    ] = 10
    no_leader_timeout_s: Annotated[
        float,
        within(0.1, 3600),
        "How long writes wait for a leader before they fail (no_quorum).",
    ] = 5.0
    node_grace_s: Annotated[
        float,
        within(0.1, _DAY_S),
        "How long a node may be unreachable before its clients are considered gone: their wills"
        " are published, their jobs redelivered.",
    ] = 10.0
    log_kept_entries: Annotated[
        int,
        within(1, 10**9),
        "Newest log entries kept for nodes that return; a node further behind receives a snapshot.",
    ] = 10_000
    log_kept_bytes: Annotated[
        int,
        within(64 * MIB, 16 * TIB),
        "Bytes of log entries kept for nodes that return; four times as many for nodes that are"
        " up but slow.",
    ] = GIB
    snapshot_rate_bytes: Annotated[
        int, within(64 * KIB, 64 * GIB), "Bytes per second at which a snapshot is sent to a node."
    ] = 64 * MIB


class Tls(Section, frozen=True, kw_only=True):
    """Encryption of client connections. With a certificate every listener also accepts TLS."""

    cert: Annotated[
        str,
        about("--tls-cert"),
        "PEM file with the certificate of this broker, followed by those of intermediate"
        " authorities.",
    ] = ""
    key: Annotated[
        str,
        about("--tls-key"),
        "PEM file with the private key of that certificate, without a pass phrase; must not be"
        " readable by all users.",
    ] = ""
    client_ca: Annotated[
        str,
        about("--tls-client-ca"),
        "PEM file with the authorities that sign clients' certificates. A client that shows one"
        " is the user that it names.",
    ] = ""
    client_certs: Annotated[
        Literal["optional", "required"],
        "Whether clients must show a certificate, if tls.client_ca is set.",
    ] = "optional"
    crl: Annotated[
        str, "PEM file with the revocation lists of these authorities; needs to be up to date."
    ] = ""
    identity: Annotated[
        Literal["cn", "dns", "uri"],
        "Where a client's certificate names its user: in the common name, in its only"
        " DNS name, or in the only URI that begins with tls.uri_prefix.",
    ] = "cn"
    uri_prefix: Annotated[str, "Prefix of the user's name if tls.identity is uri."] = (
        "urn:penstock:user:"
    )
    min_version: Annotated[Literal["1.2", "1.3"], "Lowest version of TLS that is accepted."] = "1.2"


class Mqtt(Section, frozen=True, kw_only=True):
    """Settings for MQTT clients."""

    maximum_qos: Annotated[
        int,
        within(0, 2),
        "Highest QoS granted to subscriptions, and accepted for publishes and wills.",
    ] = 2
    retain_available: Annotated[
        bool, "Whether clients may publish retained messages; if not, those are refused."
    ] = True
    topic_alias_maximum: Annotated[
        int, within(0, 1_024), "Topic aliases that an MQTT 5 client may use; 0 is none."
    ] = limits.TOPIC_ALIASES_MAX
    response_information: Annotated[
        str,
        "Response information for MQTT 5 clients that ask for it; empty is none.",
    ] = ""
    check_payload_format: Annotated[
        bool, "Whether an MQTT 5 message marked as text is refused if it is not UTF-8."
    ] = False


class Resp(Section, frozen=True, kw_only=True):
    """Settings for Redis clients."""

    replay: Annotated[
        bool,
        about("--redis-replay"),
        "Whether SUBSCRIBE first sends what the journal holds of the topic, and RESP 2 clients"
        " may send any command while subscribed; off, both are as in Redis.",
    ] = False
    allow_flush: Annotated[
        bool,
        "Whether FLUSHALL and FLUSHDB may delete the topics of all protocols, except those that"
        " require signatures.",
    ] = False
    password: Annotated[
        str, about(form="secret"), "Password for AUTH and HELLO; without one, none is required."
    ] = ""
    password_file: Annotated[
        str, about(form="secret_file"), "File with that password in its first line."
    ] = ""


class Log(Section, frozen=True, kw_only=True):
    """Logging to standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        about("--log-level"),
        "Lowest level that is logged.",
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        about("--log-format"),
        "Log format; auto is console on a terminal and json elsewhere.",
    ] = "auto"


class Sys(Section, frozen=True, kw_only=True):
    """Statistics published under $SYS."""

    interval_s: Annotated[
        float, within(0, _DAY_S), "Interval at which $SYS topics are published; 0 disables them."
    ] = 10.0


class Tracing(Section, frozen=True, kw_only=True):
    """Spans of traced messages, for OpenTelemetry."""

    endpoint: Annotated[
        str,
        "Where spans are sent, by OTLP over HTTP, as in http://127.0.0.1:4318/v1/traces; empty:"
        " nowhere. Needs the extra otel.",
    ] = ""
    service_name: Annotated[str, "The name of this broker in spans."] = "penstock"


class Shutdown(Section, frozen=True, kw_only=True):
    """How the broker stops."""

    timeout_s: Annotated[
        float, within(0, 3600), "How long a shutdown waits for work in progress."
    ] = 30.0


class ListenerOptions(Section, frozen=True, kw_only=True):
    """An address to listen on, with settings of its own."""

    address: Annotated[str, about(form="address"), "Address to listen on."]
    tls: Annotated[
        Literal["auto", "off", "optional", "required"],
        "Whether connections are encrypted; auto is off without a certificate, and with one"
        " optional on loopback addresses and required on others.",
    ] = "auto"
    client_certs: Annotated[
        Literal["auto", "off", "optional", "required"],
        "Whether clients are asked for a certificate, which names their user; auto is off"
        " without tls.client_ca, otherwise tls.client_certs.",
    ] = "auto"
    protocols: Annotated[
        tuple[Literal["mqtt", "http", "resp", "binary", "queue"], ...],
        "Protocols accepted here; all of them if empty.",
    ] = ()
    user: Annotated[
        str,
        about(form="user"),
        "User of clients that do not log in, for old clients that cannot.",
    ] = ""
    proxy: Annotated[
        bool,
        "Whether every connection must begin with a PROXY protocol header, version 1 or 2, from"
        " an address in trusted.",
    ] = False
    trusted: Annotated[
        tuple[str, ...],
        about(form="network"),
        "Addresses or address ranges of the proxies.",
    ] = ()


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration. ``Config()`` has all defaults."""

    data: Annotated[str, about("--data"), "Data directory: the journal and all other state."] = (
        "penstock-data"
    )
    listen: Annotated[
        tuple[str, ...],
        about("--listen", "listener"),
        "Addresses to listen on, for all protocols; tls://HOST:PORT accepts encrypted connections"
        " only. Of the defaults, all but the first are skipped with a warning if the port is in"
        " use.",
    ] = LISTEN
    http_listen: Annotated[
        tuple[str, ...],
        about("--http-listen", "listener"),
        "Further addresses, usually for health checks and metrics; they accept every protocol,"
        " too. Empty by default if listen is set.",
    ] = HTTP_LISTEN
    allow_anonymous: Annotated[
        bool,
        about("--allow-anonymous"),
        "Whether clients that do not log in may use the broker from other machines, with the role"
        " anonymous; without it and without users, a broker that they can reach does not start.",
    ] = False
    durability: Annotated[
        Literal["sync", "interval"],
        about("--durability"),
        "When a message is acknowledged: sync, once it is on disk; interval, before that, so"
        " that a crash or power failure loses up to about durability_interval_ms.",
    ] = "sync"
    durability_interval_ms: Annotated[
        int,
        within(1, 60_000),
        "How much a crash or power failure may lose with durability = interval.",
    ] = 100
    listeners: Annotated[
        tuple[ListenerOptions, ...],
        "Addresses to listen on that need settings of their own. With any, listen and http_listen"
        " are empty by default.",
    ] = ()
    bridges: Annotated[
        tuple[BridgeOptions, ...], "Other MQTT brokers to copy messages from and to."
    ] = ()
    limits: Limits = Limits()
    journal: Journal = Journal()
    retention: Retention = Retention()
    signing: Signing = Signing()
    admin: Admin = Admin()
    http: Http = Http()
    auth: Auth = Auth()
    cluster: Cluster = Cluster()
    tls: Tls = Tls()
    mqtt: Mqtt = Mqtt()
    resp: Resp = Resp()
    log: Log = Log()
    sys: Sys = Sys()
    tracing: Tracing = Tracing()
    shutdown: Shutdown = Shutdown()


SECTIONS: dict[str, type[msgspec.Struct]] = {"": Config} | {
    field.name: field.type
    for field in msgspec.structs.fields(Config)
    if isinstance(field.type, type)
}
"""The sections by name; the top level has the empty name."""
