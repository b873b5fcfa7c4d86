"""Why a client connection closed, a message was dropped, or a connection between nodes closed.

Every close and every drop has a member here; it is logged, counted and documented. Add a reason
rather than reuse a similar one: a member and, below it, its meaning, and at the end of this file
what to do about it. ``why`` and the reference page say both; a test finds a reason without advice.
"""

import re
from enum import Enum
from typing import Final


class DisconnectReason(Enum):
    """Why a connection was closed. The value is the label in metrics and logs."""

    CLIENT_DISCONNECT = "client_disconnect"
    """The client disconnected cleanly, as its protocol requires."""
    CLIENT_ENDED = "client_ended"
    """The client disconnected and wants its will published, or reported an error (MQTT 5)."""
    CONNECTION_LOST = "connection_lost"
    """The connection broke without a clean disconnect."""
    CONNECT_TIMEOUT = "connect_timeout"
    """The first packet was not complete in time."""
    KEEP_ALIVE_TIMEOUT = "keep_alive_timeout"
    """No complete packet within one and a half times the keep-alive."""
    IDLE_TIMEOUT = "idle_timeout"
    """Nothing received for longer than the idle timeout; a client that only listens must ping."""
    HTTP_IDLE = "http_idle"
    """An HTTP connection that got its answer and asked for nothing more for a while."""
    SESSION_TAKEN_OVER = "session_taken_over"
    """Another connection presented the same client id."""
    SESSION_ENDED = "session_ended"
    """The cluster considered this node dead and ended the session; the client must reconnect."""
    MALFORMED_PACKET = "malformed_packet"
    """Bytes that are not a valid packet: lengths, reserved bits, UTF-8, missing fields."""
    PROTOCOL_VIOLATION = "protocol_violation"
    """A valid packet at a time or in a direction that the protocol forbids."""
    WEBSOCKET_VIOLATION = "websocket_violation"
    """Frames that WebSocket forbids, text, or a thousand empty frames in a row."""
    UPGRADE_REFUSED = "upgrade_refused"
    """A WebSocket handshake to another path than /mqtt, without sub-protocol mqtt, or invalid."""
    ORIGIN_REFUSED = "origin_refused"
    """A WebSocket of a web page that may not connect: see http.allowed_origins."""
    PACKET_TOO_LARGE = "packet_too_large"
    """An announced size above the configured maximum."""
    TOPIC_ALIAS_INVALID = "topic_alias_invalid"
    """A topic alias of 0, above what the broker allows, or one that names no topic."""
    INCOMPLETE_PACKETS = "incomplete_packets"
    """Too many bytes in incomplete packets; this connection had been silent the longest."""
    UNACCEPTABLE_PROTOCOL = "unacceptable_protocol"
    """A protocol name or level that the broker does not support."""
    UNKNOWN_PROTOCOL = "unknown_protocol"
    """First bytes that match no supported protocol."""
    IDENTIFIER_REJECTED = "identifier_rejected"
    """A client id that is not allowed."""
    AUTHENTICATION_METHOD = "authentication_method"
    """An authentication method of MQTT 5 that the broker does not know."""
    TOPIC_INVALID = "topic_invalid"
    """An invalid topic name, or one that exceeds a limit on length or levels."""
    FILTER_INVALID = "filter_invalid"
    """A topic filter that no version of MQTT allows."""
    QOS_UNSUPPORTED = "qos_unsupported"
    """A publish or will with a higher QoS than the broker is configured for."""
    RETAIN_UNSUPPORTED = "retain_unsupported"
    """A retained publish or will, where the broker is configured to retain nothing."""
    PAYLOAD_FORMAT = "payload_format"
    """An MQTT 5 message that is said to be text and is not UTF-8, where that is checked."""
    TOO_MANY_PROPERTIES = "too_many_properties"
    """An MQTT 5 message with more user properties than a message may have, or larger ones."""
    RECEIVE_MAXIMUM = "receive_maximum"
    """An MQTT 5 client published more than it may without waiting for acknowledgements."""
    TOPIC_RESERVED = "topic_reserved"
    """A publish to a topic that is reserved for the broker ($SYS)."""
    SIGNATURE_REFUSED = "signature_refused"
    """An MQTT publish without the signature that its topic requires, or with a bad one."""
    NOT_AUTHORIZED = "not_authorized"
    """The user may not do this; ``penstock acl log`` has what was denied, and why."""
    BAD_CREDENTIALS = "bad_credentials"
    """Wrong user name, password, token, certificate or client id."""
    LOGIN_REQUIRED = "login_required"
    """A request without a login, where one is required."""
    LOGIN_BUSY = "login_busy"
    """Too many logins were being checked at once; nothing was wrong with this one."""
    LOGIN_BACKOFF = "login_backoff"
    """Too many wrong logins from this address or for this user; the next one must wait."""
    CREDENTIALS_REVOKED = "credentials_revoked"
    """The user was disabled, deleted or given other credentials, or the credentials expired."""
    BANNED = "banned"
    """The user, client id or address is banned."""
    ADDRESS_LIMIT = "address_limit"
    """Too many connections, or too many at once, from one address."""
    QUOTA = "quota"
    """The user's quota of connections, sessions or subscriptions is used up."""
    TLS_FAILED = "tls_failed"
    """TLS failed: version, cipher, certificate, damaged bytes, or not what ALPN agreed on."""
    TLS_REQUIRED = "tls_required"
    """The listener accepts encrypted connections only."""
    PROXY_REFUSED = "proxy_refused"
    """The listener expects a PROXY header from a trusted proxy, and got something else."""
    TOO_MANY_CLIENTS = "too_many_clients"
    """The maximum number of connections was reached."""
    TOO_MANY_SESSIONS = "too_many_sessions"
    """A new persistent session while the maximum number of sessions was reached."""
    SLOW_READER = "slow_reader"
    """The client read so slowly that its waiting acknowledgements exceeded their limit."""
    STREAM_STALLED = "stream_stalled"
    """The reader of an HTTP event stream took nothing for half a minute."""
    STORAGE_FULL = "storage_full"
    """The request needed the disk, and the disk is full."""
    STORAGE_FAILED = "storage_failed"
    """The request needed the disk, and the disk failed."""
    NO_QUORUM = "no_quorum"
    """The request needed a quorum of the cluster, and too few nodes answered."""
    LEADERSHIP_LOST = "leadership_lost"
    """Another node became leader while the request was in progress; outcome unknown, retry."""
    CLIENT_KILLED = "client_killed"
    """Another Redis client closed it with CLIENT KILL."""
    KICKED = "kicked"
    """An administrator ended the connection; nothing keeps the client from coming back."""
    SERVER_SHUTDOWN = "server_shutdown"
    """The broker is stopping."""
    INTERNAL_ERROR = "internal_error"
    """Internal error while serving this connection; the log has the traceback."""


class DropReason(Enum):
    """Why a message (or one copy of it) was dropped. The value is the label in metrics."""

    CAPTURE_OVERFLOW = "capture_overflow"
    """QoS 0: delivered but not journaled, because the capture buffer was full."""
    CAPTURE_FAILED = "capture_failed"
    """QoS 0: delivered but not journaled, because the commit failed."""
    SLOW_READER = "slow_reader"
    """QoS 0: the subscriber reads too slowly."""
    QUEUE_FULL_OLDEST = "queue_full_oldest"
    """The session's queue was full; its oldest message was dropped."""
    QUEUE_FULL_NEWEST = "queue_full_newest"
    """The session's queue was full; the new message was dropped."""
    RETENTION = "retention"
    """Not delivered yet to a session, subscriber, queue or group when retention removed it."""
    SESSION_EXPIRED = "session_expired"
    """Queued for a session that expired, or that an administrator ended."""
    RETAINED_LIMIT = "retained_limit"
    """Delivered but not retained: the maximum number of retained messages was reached."""
    ACKNOWLEDGEMENT_HOLES = "acknowledgement_holes"
    """Not acknowledged by a durable subscriber that acknowledged too many messages around it."""
    SIGNATURE_REFUSED = "signature_refused"
    """Not accepted: the required signature is missing or bad."""
    NOT_AUTHORIZED = "not_authorized"
    """Not accepted, or not delivered: the user has no right to this topic, or lost it."""
    TOPIC_REFUSED = "topic_refused"
    """Not accepted, from a client that wants no reply: no topic that clients may publish to."""
    EXPIRED = "expired"
    """Not delivered to a session or by a group before its expiry or time to live was over."""
    TOO_LARGE = "too_large"
    """Larger than the client takes: MQTT 5 counts it as delivered, the binary protocol tells it."""
    TOPIC_DELETED = "topic_deleted"
    """Deleted with its topic."""
    STORAGE_FULL = "storage_full"
    """Not accepted: the disk is full."""
    STORAGE_FAILED = "storage_failed"
    """Not accepted: the disk failed."""
    NO_QUORUM = "no_quorum"
    """Not accepted: no quorum of the cluster answered."""
    LEADERSHIP_LOST = "leadership_lost"
    """Not acknowledged: the leader changed; retries of numbered messages are deduplicated."""


class PeerReason(Enum):
    """Why a connection between two nodes was refused or closed. The value is the label in metrics.

    Both nodes count a refusal: the one that refused, and the one that was refused.
    """

    CONNECTION_LOST = "connection_lost"
    """The connection broke: the other node or the network failed."""
    NOT_REACHED = "not_reached"
    """The other node's address could not be reached."""
    HANDSHAKE_TIMEOUT = "handshake_timeout"
    """The other side did not authenticate in time."""
    TOO_MANY_STRANGERS = "too_many_strangers"
    """Too many unauthenticated connections at once; this one was closed."""
    WRONG_VERSION = "wrong_version"
    """The other node uses an unsupported version of the peer protocol."""
    WRONG_SECRET = "wrong_secret"  # noqa: S105 - a label
    """The other side has a different cluster secret, or only one side has one."""
    WRONG_CERTIFICATE = "wrong_certificate"
    """TLS failed, or the certificate does not match the other side's node number."""
    WRONG_CLUSTER = "wrong_cluster"
    """The other node belongs to another cluster."""
    WRONG_NODE = "wrong_node"
    """Another node than expected is at this address."""
    WRONG_SETTINGS = "wrong_settings"
    """The other node differs in settings that must be the same on all nodes."""
    UNKNOWN_NODE = "unknown_node"
    """A removed node, a node with this node's number or none, or one new node too many."""
    MALFORMED_FRAME = "malformed_frame"
    """An invalid or unexpected frame, or one with a wrong checksum."""
    FRAME_TOO_LARGE = "frame_too_large"
    """A frame larger than this kind of connection allows."""
    NEW_INCARNATION = "new_life"
    """The other node was restarted; the connections of its previous incarnation are closed."""
    REPLACED = "replaced"
    """The other node opened this connection again, which replaces the old one."""
    NODE_STOPPED = "node_stopped"
    """This node is stopping, or no longer needs the connection."""


class BridgeDropReason(Enum):
    """Why a bridge did not copy a message. The value is the label in metrics."""

    LOOP = "loop"
    """The message has been through this bridge, or this broker's bridges, before."""
    NOT_MAPPED = "not_mapped"
    """It matches no filter of the bridge: a subscription from an earlier configuration."""
    NOT_TAKEN = "not_taken"
    """The other broker takes no packet of that size, or no such topic."""
    REFUSED = "refused"
    """The other broker answered that it refuses the message."""


_NOTHING = "Nothing; this is normal."

ADVICE: Final[dict[Enum, str]] = {
    DisconnectReason.CLIENT_DISCONNECT: _NOTHING,
    DisconnectReason.CONNECTION_LOST: (
        "A few are normal. If there are many, check the network, NAT timeouts (a shorter "
        "keep-alive helps) and clients that crash."
    ),
    DisconnectReason.CONNECT_TIMEOUT: (
        "Port scans and health checks that only open a socket cause this. A slow link may need a "
        "higher `limits.connect_timeout_s`."
    ),
    DisconnectReason.KEEP_ALIVE_TIMEOUT: (
        "The client or its link failed. If the client is busy for long periods, configure a longer "
        "keep-alive in it."
    ),
    DisconnectReason.IDLE_TIMEOUT: (
        "Let the client send a PING every minute or so; the limit is `limits.idle_timeout_s`."
    ),
    DisconnectReason.HTTP_IDLE: (
        "Nothing: browsers keep connections for a while and open new ones as they need them."
    ),
    DisconnectReason.SIGNATURE_REFUSED: (
        "The log has the topic and the fault. See [signing](../operating/signing.md)."
    ),
    DisconnectReason.NOT_AUTHORIZED: (
        "`penstock acl log USER` shows what was denied, `penstock acl check USER ACTION TOPIC` the "
        "rule that decides. See [access](access.md)."
    ),
    DisconnectReason.BAD_CREDENTIALS: (
        "Check user name and secret of the client; `penstock users password NAME` sets a new one."
    ),
    DisconnectReason.LOGIN_REQUIRED: (
        "Give the client credentials: `penstock users add NAME`. See "
        "[security](../operating/security.md)."
    ),
    DisconnectReason.LOGIN_BUSY: (
        "The client tries again by itself. Fleets should use generated secrets, which cost nothing "
        "to check; `auth.threads` raises how many passwords are checked at once."
    ),
    DisconnectReason.LOGIN_BACKOFF: (
        "Find out which client has a wrong password; others at the same address wait with it. If "
        "it is nobody's client, somebody is guessing."
    ),
    DisconnectReason.CREDENTIALS_REVOKED: (
        "Intended if an administrator did it; `penstock access log` has who and when. Give the "
        "client its new credentials."
    ),
    DisconnectReason.BANNED: "`penstock bans` lists bans; `penstock bans remove` ends one.",
    DisconnectReason.ADDRESS_LIMIT: (
        "Clients behind one address (NAT) may need a higher `limits.address_connections_max`."
    ),
    DisconnectReason.QUOTA: "`penstock users show NAME` has the quotas of a user.",
    DisconnectReason.TLS_FAILED: (
        "The log line has the reason that the TLS library gives. See "
        "[security](../operating/security.md)."
    ),
    DisconnectReason.TLS_REQUIRED: "Let the client use TLS (`mqtts://`, `rediss://`, `https://`).",
    DisconnectReason.PROXY_REFUSED: (
        "Let the proxy send the PROXY protocol, and list its address in `listeners.trusted`."
    ),
    DisconnectReason.SESSION_TAKEN_OVER: (
        "Normal after a quick reconnect. If it repeats, two clients share one id and disconnect "
        "each other; give each its own."
    ),
    DisconnectReason.SESSION_ENDED: (
        "The client reconnects and finds its session. Find out why the node was unreachable for "
        "longer than `cluster.node_grace_s`: overload, or the network."
    ),
    DisconnectReason.MALFORMED_PACKET: "Fix or update the client; the log line names the rule.",
    DisconnectReason.PROTOCOL_VIOLATION: "Fix or update the client; the log line names the rule.",
    DisconnectReason.INCOMPLETE_PACKETS: (
        "Clients start large packets and do not finish them. If they are legitimate, raise "
        "`limits.incomplete_bytes_max`; otherwise find out where they connect from."
    ),
    DisconnectReason.PACKET_TOO_LARGE: (
        "Send less at once, or raise `limits.packet_bytes_max` (MQTT; before CONNECT: "
        "`limits.connect_bytes_max`) or `limits.frame_bytes_max` (the binary protocol and RESP)."
    ),
    DisconnectReason.TOPIC_ALIAS_INVALID: (
        "A topic alias is from 1 to the Topic Alias Maximum of the CONNACK, and named with its"
        " topic first."
    ),
    DisconnectReason.WEBSOCKET_VIOLATION: (
        "Fix or update the client; the log line names the rule. MQTT by WebSocket is sent in "
        "binary frames, never as text."
    ),
    DisconnectReason.UPGRADE_REFUSED: (
        "The client must ask for the path `/mqtt`, and for the sub-protocol `mqtt`; the log line "
        "has what is missing. See [MQTT clients](../clients/mqtt.md)."
    ),
    DisconnectReason.ORIGIN_REFUSED: (
        "If the web page is yours, add its origin to `http.allowed_origins`. See "
        "[security](../operating/security.md)."
    ),
    DisconnectReason.UNACCEPTABLE_PROTOCOL: "Set the client to MQTT 5, or to 3.1.1.",
    DisconnectReason.UNKNOWN_PROTOCOL: (
        "The log line shows what it looked like. MQTT, HTTP, RESP, the binary and the queue "
        "protocol are spoken on every port, with TLS if the broker has a certificate."
    ),
    DisconnectReason.IDENTIFIER_REJECTED: (
        "Give the client an id of at most `limits.client_id_bytes_max` bytes; an empty one needs "
        "clean session 1."
    ),
    DisconnectReason.AUTHENTICATION_METHOD: (
        "Let the client log in with a user name and a password, or by a method that "
        "[the MQTT page](../clients/mqtt.md) lists."
    ),
    DisconnectReason.FILTER_INVALID: (
        "Fix the filter; the log line has the fault. `#` must be the last level, and wildcards "
        "must be a level of their own."
    ),
    DisconnectReason.CLIENT_ENDED: (
        "Look at the client, if it reported an error: the log line has the reason code and what "
        "it said."
    ),
    DisconnectReason.QOS_UNSUPPORTED: (
        "Let the client use a lower QoS, or raise `mqtt.maximum_qos`. CONNACK of MQTT 5 tells it."
    ),
    DisconnectReason.RETAIN_UNSUPPORTED: (
        "Let the client publish without RETAIN, or set `mqtt.retain_available`. CONNACK of MQTT 5 "
        "tells it."
    ),
    DisconnectReason.PAYLOAD_FORMAT: (
        "Let the client leave out the payload format indicator for data that is no text, or unset "
        "`mqtt.check_payload_format`."
    ),
    DisconnectReason.TOO_MANY_PROPERTIES: (
        "Put the data into the payload: a message may have 64 properties of 16 KiB together. QoS 1 "
        "and 2 are answered with code 0x97, and the connection stays."
    ),
    DisconnectReason.RECEIVE_MAXIMUM: (
        "The client ignores what CONNACK tells it: update its library, or raise "
        "`limits.receive_maximum`."
    ),
    DisconnectReason.TOPIC_INVALID: (
        "Fix the topic; the log line has the fault. Lengths and levels are limited by "
        "`limits.topic_bytes_max` and `limits.topic_levels_max`."
    ),
    DisconnectReason.TOPIC_RESERVED: "Publish to another topic: `$SYS` is reserved for the broker.",
    DisconnectReason.TOO_MANY_SESSIONS: (
        "Raise `limits.sessions_max`, or lower `limits.session_expiry_s` so that abandoned"
        " sessions expire sooner. Clients that use a new id each time should request a clean"
        " session."
    ),
    DisconnectReason.TOO_MANY_CLIENTS: (
        "Raise `limits.clients_max`, and the limit on open files accordingly."
    ),
    DisconnectReason.SLOW_READER: (
        "The client publishes without reading its acknowledgements: fix it."
    ),
    DisconnectReason.STREAM_STALLED: (
        "The page or program behind it stopped, or its link did; it may ask again, and goes on"
        " where it was."
    ),
    DisconnectReason.STORAGE_FULL: (
        "Free disk space; see [storage](../operating/storage.md#when-the-disk-is-full). The broker "
        "then recovers by itself, and clients may retry what was not acknowledged."
    ),
    DisconnectReason.STORAGE_FAILED: (
        "Check the disk and the log: `commit_failed` means a failed write, `journal_unreadable` a "
        "failed read; then run `penstock store verify`."
    ),
    DisconnectReason.NO_QUORUM: (
        "Start the nodes that are down: `penstock cluster status` names them. The cluster recovers"
        " once a quorum is up, and clients may retry what was not acknowledged."
    ),
    DisconnectReason.LEADERSHIP_LOST: (
        "Let the client retry what was not acknowledged; ours do. If it is frequent, the nodes or"
        " the network between them are overloaded; see `penstock_raft_elections_total`."
    ),
    DisconnectReason.CLIENT_KILLED: (
        "Ask the administrator of the Redis clients; CLIENT LIST shows them."
    ),
    DisconnectReason.KICKED: (
        "Intended: the audit log (`penstock access log`) has who and when. To keep the client out,"
        " ban it: `penstock bans add`."
    ),
    DisconnectReason.SERVER_SHUTDOWN: _NOTHING,
    DisconnectReason.INTERNAL_ERROR: "Report it, with the traceback from the log.",
    DropReason.CAPTURE_OVERFLOW: (
        "Use a faster disk, raise `journal.capture_pending_bytes_max` for bursts, or exclude "
        "topics that nobody reads back (`journal.capture_exclude`)."
    ),
    DropReason.CAPTURE_FAILED: "As for `storage_full` and `storage_failed`.",
    DropReason.SLOW_READER: (
        "Make the subscriber faster, let it subscribe to less or with QoS 1, or raise "
        "`limits.outbound_bytes_max`."
    ),
    DropReason.QUEUE_FULL_OLDEST: (
        "Raise `limits.queue_messages_max`, or let clients reconnect (or acknowledge) sooner."
    ),
    DropReason.QUEUE_FULL_NEWEST: (
        "Raise `limits.queue_messages_max`, or let clients reconnect (or acknowledge) sooner."
    ),
    DropReason.RETENTION: (
        "Consumers are slower than retention. Raise the limits of the rule that matches the topic, "
        "or `journal.total_bytes_max`."
    ),
    DropReason.SESSION_EXPIRED: (
        "Raise `limits.session_expiry_s` if the client should have found its session."
    ),
    DropReason.RETAINED_LIMIT: "Raise `limits.retained_max`, or clear unused topics.",
    DropReason.ACKNOWLEDGEMENT_HOLES: (
        "A subscriber acknowledges newer messages and skips older ones, more than ten thousand "
        "times. Find out why it does not acknowledge those."
    ),
    DropReason.EXPIRED: (
        "Consumers are slower than the messages' time to live, or MQTT clients were away for "
        "longer: add consumers, or raise the time to live."
    ),
    DropReason.TOO_LARGE: (
        "Raise the client's Maximum Packet Size, or publish smaller messages to what it "
        "subscribes to."
    ),
    DropReason.TOPIC_REFUSED: (
        "The event has the fault of the topic. A client that asks for replies is told of it."
    ),
    DropReason.TOPIC_DELETED: "Nothing, if deleting the topic was intended.",
    DropReason.NOT_AUTHORIZED: (
        "`penstock acl log USER` shows what was denied. See [access](access.md)."
    ),
    DropReason.SIGNATURE_REFUSED: (
        "`penstock keys list` shows which keys are active; `penstock_signature_failures_total` "
        "counts by fault. It may be an attack."
    ),
    DropReason.STORAGE_FULL: (
        "Free disk space. The publisher got no acknowledgement and may retry."
    ),
    DropReason.NO_QUORUM: (
        "Start the nodes that are down: `penstock cluster status` names them. The publisher got no"
        " acknowledgement and may retry."
    ),
    DropReason.LEADERSHIP_LOST: (
        "Nothing if it is rare: the publisher got no acknowledgement and may retry."
    ),
    DropReason.STORAGE_FAILED: (
        "Check the disk and the log (`commit_failed`; after `journal_unreadable` run "
        "`penstock store verify`). The publisher got no acknowledgement and may retry."
    ),
    PeerReason.CONNECTION_LOST: (
        "Nothing after a restart of a node. If it repeats, check the network between the nodes."
    ),
    PeerReason.NOT_REACHED: (
        "Start the other node; check the address that it advertises (`cluster.advertise_peer`), "
        "and firewalls."
    ),
    PeerReason.HANDSHAKE_TIMEOUT: (
        "Port scans cause this. If it is a node: it hangs, or only one side uses TLS."
    ),
    PeerReason.TOO_MANY_STRANGERS: (
        "Something other than a node connects to `cluster.peer_listen`: allow only nodes to "
        "reach it."
    ),
    PeerReason.WRONG_VERSION: "Upgrade all nodes to the same version of Penstock, one by one.",
    PeerReason.WRONG_SECRET: "Give all nodes the same `cluster.secret`.",
    PeerReason.WRONG_CERTIFICATE: (
        "Give node 3 a certificate with the name `node-3`, signed by the authority in "
        "`cluster.tls_ca`; the log line has the fault."
    ),
    PeerReason.WRONG_CLUSTER: (
        "Two clusters know each other's addresses: check `cluster.advertise_peer` of the nodes. "
        "A node that moves to another cluster needs a new data directory."
    ),
    PeerReason.WRONG_NODE: (
        "Check `cluster.node_id` and `cluster.advertise_peer` of the nodes: two are swapped "
        "or share an address."
    ),
    PeerReason.WRONG_SETTINGS: (
        "Make the settings that `penstock cluster status` names the same on all nodes, and restart "
        "the changed ones."
    ),
    PeerReason.UNKNOWN_NODE: (
        "Stop a node that was removed. Give each node a `cluster.node_id` of its own."
    ),
    PeerReason.MALFORMED_FRAME: (
        "Something on the network changes bytes, or something other than a node connects; if all "
        "nodes have the same version, report it."
    ),
    PeerReason.FRAME_TOO_LARGE: "As for `malformed_frame`.",
    PeerReason.NEW_INCARNATION: (
        "Nothing. If it repeats, two processes run with the same `cluster.node_id`; stop one."
    ),
    PeerReason.REPLACED: _NOTHING,
    PeerReason.NODE_STOPPED: _NOTHING,
    BridgeDropReason.LOOP: (
        "Nothing, if two bridges copy the same topics in opposite directions. Otherwise look for a "
        "circle of bridges: the header `penstock-path` names the brokers that a message passed."
    ),
    BridgeDropReason.NOT_MAPPED: (
        "Nothing: the other broker still has a subscription from before the configuration changed. "
        "Give the bridge another `client_id` to be rid of it."
    ),
    BridgeDropReason.NOT_TAKEN: (
        "Raise the largest packet that the other broker takes, or copy other topics."
    ),
    BridgeDropReason.REFUSED: (
        "Give the bridge's user the right to publish these topics at the broker that refused."
    ),
}
"""What to do, in the words of the reference page, whose links it has."""


_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
_DISCONNECTS: Final = {reason.value: reason for reason in DisconnectReason}
_DROPS: Final = {reason.value: reason for reason in DropReason}


def advice_for(reason: str, *, is_drop: bool) -> str:
    """What to do about a reason, by its label, without the links of the page; empty: unknown."""
    first, second = (_DROPS, _DISCONNECTS) if is_drop else (_DISCONNECTS, _DROPS)
    found = first.get(reason) or second.get(reason)
    return "" if found is None else _LINK.sub(r"\1", ADVICE[found])
