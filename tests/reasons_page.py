"""Writes docs/reference/reasons.md: why connections close and messages are dropped; what to do.

The meaning of each reason comes from the source (``penstock.obs.reasons``), the advice from here. A
reason without advice is an error, so that a new one cannot be forgotten.
"""

from enum import Enum

from penstock.doors.mqtt.reason_codes import CODES
from penstock.obs.reasons import DisconnectReason, DropReason, PeerReason
from tests import metrics_page

__all__ = ["ADVICE", "markdown"]

_NOTHING = "Nothing; this is normal."

ADVICE: dict[Enum, str] = {
    DisconnectReason.CLIENT_DISCONNECT: _NOTHING,
    DisconnectReason.CONNECTION_LOST: (
        "A few are normal. If there are many, check the network, NAT timeouts (a shorter keep-alive "
        "helps) and clients that crash."
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
        "Fix or update the client; the log line names the rule. MQTT by WebSocket is sent in binary "
        "frames, never as text."
    ),
    DisconnectReason.UPGRADE_REFUSED: (
        "The client must ask for the path `/mqtt`, and for the sub-protocol `mqtt`; the log line has "
        "what is missing. See [MQTT clients](../clients/mqtt.md)."
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
    DisconnectReason.CLIENT_KILLED: "Ask the administrator of the Redis clients; CLIENT LIST shows them.",
    DisconnectReason.SERVER_SHUTDOWN: _NOTHING,
    DisconnectReason.INTERNAL_ERROR: "Report it, with the traceback from the log.",
    DropReason.CAPTURE_OVERFLOW: (
        "Use a faster disk, raise `journal.capture_pending_bytes_max` for bursts, or exclude topics "
        "that nobody reads back (`journal.capture_exclude`)."
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
        "A subscriber acknowledges newer messages and skips older ones, more than ten thousand times."
        " Find out why it does not acknowledge those."
    ),
    DropReason.EXPIRED: (
        "Consumers are slower than the messages' time to live, or MQTT clients were away for longer:"
        " add consumers, or raise the time to live."
    ),
    DropReason.TOO_LARGE: (
        "Raise the client's Maximum Packet Size, or publish smaller messages to what it subscribes to."
    ),
    DropReason.TOPIC_DELETED: "Nothing, if deleting the topic was intended.",
    DropReason.NOT_AUTHORIZED: (
        "`penstock acl log USER` shows what was denied. See [access](access.md)."
    ),
    DropReason.SIGNATURE_REFUSED: (
        "`penstock keys list` shows which keys are active; `penstock_signature_failures_total` counts "
        "by fault. It may be an attack."
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
        "Start the other node; check the address that it advertises (`cluster.advertise_peer`), and "
        "firewalls."
    ),
    PeerReason.HANDSHAKE_TIMEOUT: (
        "Port scans cause this. If it is a node: it hangs, or only one side uses TLS."
    ),
    PeerReason.TOO_MANY_STRANGERS: (
        "Something other than a node connects to `cluster.peer_listen`: allow only nodes to reach it."
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
}

PAGE = """\
# Reasons

<!-- Generated by `make docs` from src/penstock/obs/reasons.py and tests/reasons_page.py. -->

Every closed connection has a reason from the first list. Every message, or copy of one, that the
broker accepted and could not deliver, keep or acknowledge has one from the second. The reason is the
label of a counter and, for connections, the `reason` in the log. All counters are present from the
start, as 0. What to watch: [monitoring](../operating/monitoring.md).

## Why a connection was closed

`penstock_disconnects_total{{reason="..."}}`

{disconnects}

### As MQTT 5 says it

A client of MQTT 5 is told a reason code, and where it has room a sentence: by CONNACK before it is connected, then by DISCONNECT as the
last packet. A publish with QoS 1 or 2 that is refused is answered by PUBACK or PUBREC with its code, and the connection stays.
DISCONNECT has 0x9C, and says where else to go, when a node of a cluster stops or has lost the lead. Clients of 3.1.1 are told a
return code by CONNACK, and nothing later. Reasons that are not listed are told to nobody.

{codes}

## Why a message was dropped

`penstock_dropped_total{{reason="..."}}`

{drops}

Not counted is what MQTT does not guarantee: QoS 0 for a client that is away, and messages in flight
to a clean session when its connection closes.

## Why a connection between nodes was closed

`penstock_peer_disconnects_total{{reason="..."}}`

{peers}
"""


def markdown() -> str:
    """Return the page ``docs/reference/reasons.md``."""
    return PAGE.format(
        disconnects=_table(DisconnectReason),
        codes=_codes(),
        drops=_table(DropReason),
        peers=_table(PeerReason),
    )


def _codes() -> str:
    rows = [
        (f"`{reason.value}`", *["" if code is None else f"0x{code:02X}" for code in codes])
        for reason, codes in CODES.items()
        if any(code is not None for code in codes)
    ]
    return metrics_page.table(("reason", "CONNACK", "DISCONNECT", "PUBACK, PUBREC"), rows)


def _table(enum: type[Enum]) -> str:
    meanings = metrics_page.reasons(enum)
    rows = [(*meaning, ADVICE[member]) for member, meaning in zip(enum, meanings, strict=True)]
    return metrics_page.table(("reason", "meaning", "what to do"), rows)
