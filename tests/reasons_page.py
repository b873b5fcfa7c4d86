"""Writes docs/reference/reasons.md: why connections end and messages go no further; what to do.

The meaning of each reason comes from the source (``penstock.obs.reasons``), the advice from here. A
reason without advice is an error, so that a new one cannot be forgotten.
"""

from enum import Enum

from penstock.admin import metrics
from penstock.obs.reasons import DisconnectReason, DropReason, PeerReason

__all__ = ["ADVICE", "markdown"]

_NOTHING = "Nothing; it is the ordinary end."

ADVICE: dict[Enum, str] = {
    DisconnectReason.CLIENT_DISCONNECT: _NOTHING,
    DisconnectReason.CONNECTION_LOST: (
        "A few are normal. Many: look at the network, at NAT time-outs (a shorter keep-alive "
        "helps), or at clients that crash."
    ),
    DisconnectReason.CONNECT_TIMEOUT: (
        "Port scans and health checks that only open a socket end so. A slow link may need a "
        "higher `limits.connect_timeout_s`."
    ),
    DisconnectReason.KEEP_ALIVE_TIMEOUT: (
        "The client stopped or its link did. If it is busy for long stretches, let it ask for a "
        "longer keep-alive."
    ),
    DisconnectReason.IDLE_TIMEOUT: (
        "Let the client send a PING now and then: every minute is plenty. `limits.idle_timeout_s` "
        "is the bound."
    ),
    DisconnectReason.SIGNATURE_REFUSED: (
        "The log has the topic and what was wrong. See the page on signing for the ways to sign."
    ),
    DisconnectReason.SESSION_TAKEN_OVER: (
        "Fine after a quick reconnect. In a steady rhythm: two clients share one id and throw "
        "each other out; give each its own."
    ),
    DisconnectReason.SESSION_ENDED: (
        "Nothing for the client: it connects again and finds its session. See why the node was out "
        "of contact for longer than `cluster.node_grace_s`: overload, or the network."
    ),
    DisconnectReason.MALFORMED_PACKET: "Fix or update the client; the log line says which rule.",
    DisconnectReason.PROTOCOL_VIOLATION: "Fix or update the client; the log line says which rule.",
    DisconnectReason.INCOMPLETE_PACKETS: (
        "Clients begin large packets and do not finish them. If they are honest, raise "
        "`limits.incomplete_bytes_max`; if not, look where they come from."
    ),
    DisconnectReason.PACKET_TOO_LARGE: (
        "Send less at once, or raise `limits.packet_bytes_max` (MQTT; before CONNECT: "
        "`limits.connect_bytes_max`) or `limits.frame_bytes_max` (the binary protocol and RESP)."
    ),
    DisconnectReason.UNACCEPTABLE_PROTOCOL: "Set the client to MQTT 3.1.1 (protocol level 4).",
    DisconnectReason.UNKNOWN_PROTOCOL: (
        "The log line says what it looked like. MQTT, HTTP, RESP and the binary protocol are "
        "spoken on every port; TLS is not in this release."
    ),
    DisconnectReason.IDENTIFIER_REJECTED: (
        "Give the client an id of at most `limits.client_id_bytes_max` bytes; an empty one needs "
        "clean session 1."
    ),
    DisconnectReason.TOPIC_INVALID: (
        "Fix the topic; the log line says what is wrong. Lengths and levels are "
        "`limits.topic_bytes_max` and `limits.topic_levels_max`."
    ),
    DisconnectReason.TOPIC_RESERVED: "Publish elsewhere: `$SYS` is the broker's own.",
    DisconnectReason.TOO_MANY_SESSIONS: (
        "Raise `limits.sessions_max`, or lower `limits.session_expiry_s` so that sessions nobody"
        " comes back for go sooner. Clients that make up a new id each time should ask for a clean"
        " session."
    ),
    DisconnectReason.TOO_MANY_CLIENTS: (
        "Raise `limits.clients_max`, and the limit on open files with it."
    ),
    DisconnectReason.SLOW_READER: (
        "The client publishes without reading its acknowledgements: fix it."
    ),
    DisconnectReason.STORAGE_FULL: (
        "Make room; see [storage](../operating/storage.md#when-the-disk-is-full). The broker "
        "goes on by itself, and clients may repeat what was not acknowledged."
    ),
    DisconnectReason.STORAGE_FAILED: (
        "Look at the disk and at the log: `commit_failed` if writing failed; `journal_unreadable` "
        "if reading did, then run `penstock store verify`."
    ),
    DisconnectReason.NO_QUORUM: (
        "Start the nodes that are down: `penstock cluster status` names them. It goes on by itself"
        " once most are there, and clients may repeat what was not acknowledged."
    ),
    DisconnectReason.LEADERSHIP_LOST: (
        "Let the client repeat what was not acknowledged; ours do. Often: nodes are overloaded, or"
        " the network between them is; see `penstock_raft_elections_total`."
    ),
    DisconnectReason.CLIENT_KILLED: "Ask who administers Redis clients; CLIENT LIST shows them.",
    DisconnectReason.SERVER_SHUTDOWN: _NOTHING,
    DisconnectReason.INTERNAL_ERROR: "Report it, with the trace from the log.",
    DropReason.CAPTURE_OVERFLOW: (
        "A faster disk, a higher `journal.capture_pending_bytes_max` for bursts, or "
        "`journal.capture_exclude` for topics nobody reads back."
    ),
    DropReason.CAPTURE_FAILED: "As for `storage_full` and `storage_failed`.",
    DropReason.SLOW_READER: (
        "Make the subscriber faster, let it subscribe to less or with QoS 1, or raise "
        "`limits.outbound_bytes_max`."
    ),
    DropReason.QUEUE_FULL_OLDEST: (
        "Raise `limits.queue_messages_max`, or have clients come back (or acknowledge) sooner."
    ),
    DropReason.QUEUE_FULL_NEWEST: (
        "Raise `limits.queue_messages_max`, or have clients come back (or acknowledge) sooner."
    ),
    DropReason.RETENTION: (
        "Somebody had still to get what retention removed. Raise the limits of the rule that "
        "matches the topic, or `journal.total_bytes_max`."
    ),
    DropReason.SESSION_EXPIRED: (
        "Raise `limits.session_expiry_s`, if the client was meant to come back."
    ),
    DropReason.RETAINED_LIMIT: "Raise `limits.retained_max`, or clear topics that are not used.",
    DropReason.ACKNOWLEDGEMENT_HOLES: (
        "A subscriber acknowledges newer messages and leaves older ones open, ten thousand times "
        "over. Look at why it does not acknowledge those."
    ),
    DropReason.EXPIRED: (
        "Consumers are slower than the messages' time to live allows: add some, or give messages"
        " more time."
    ),
    DropReason.TOPIC_DELETED: "Nothing, if deleting the topic was intended.",
    DropReason.SIGNATURE_REFUSED: (
        "`penstock keys list` shows which keys are valid; the counter by fault tells what was "
        "wrong. Somebody may be trying."
    ),
    DropReason.STORAGE_FULL: (
        "Make room. The publisher was not given an acknowledgement and may repeat."
    ),
    DropReason.NO_QUORUM: (
        "Start the nodes that are down: `penstock cluster status` names them. The publisher was not"
        " given an acknowledgement and may repeat."
    ),
    DropReason.LEADERSHIP_LOST: (
        "Nothing, if it is rare: the publisher was not given an acknowledgement and may repeat."
    ),
    DropReason.STORAGE_FAILED: (
        "Look at the disk and at the log (`commit_failed`; `journal_unreadable`: run "
        "`penstock store verify`). The publisher was not given an acknowledgement and may repeat."
    ),
    PeerReason.CONNECTION_LOST: (
        "Nothing, after a restart of a node. Again and again: look at the network between them."
    ),
    PeerReason.NOT_REACHED: (
        "Start the other node; check the address that it advertises to others "
        "(`cluster.advertise_peer`), and firewalls on the way."
    ),
    PeerReason.HANDSHAKE_TIMEOUT: (
        "Port scans end so. If it is a node: it hangs, or one side has TLS set and the other not."
    ),
    PeerReason.TOO_MANY_STRANGERS: (
        "Somebody who is no node connects to the address for nodes: let only nodes reach it."
    ),
    PeerReason.WRONG_VERSION: "Bring all nodes to the same version of Penstock, one by one.",
    PeerReason.WRONG_SECRET: "Give all nodes the same `cluster.secret`.",
    PeerReason.WRONG_CERTIFICATE: (
        "Give node 3 a certificate with the name `node-3`, signed by the authority in "
        "`cluster.tls_ca`; the log line says what was wrong."
    ),
    PeerReason.WRONG_CLUSTER: (
        "Two clusters know each other's addresses: check `cluster.advertise_peer` of the nodes. "
        "A node that is to change clusters needs a new data directory."
    ),
    PeerReason.WRONG_NODE: (
        "Check `cluster.node_id` and `cluster.advertise_peer` of the nodes: two have changed "
        "places, or share an address."
    ),
    PeerReason.WRONG_SETTINGS: (
        "Give all nodes the settings that `penstock cluster status` names, and restart those that "
        "have others."
    ),
    PeerReason.UNKNOWN_NODE: (
        "Stop a node that was removed. Give each node a `cluster.node_id` of its own."
    ),
    PeerReason.MALFORMED_FRAME: (
        "Something on the way changes bytes, or somebody who is no node connects; if all nodes "
        "have the same version, report it."
    ),
    PeerReason.FRAME_TOO_LARGE: "As for `malformed_frame`.",
    PeerReason.NEW_INCARNATION: (
        "Nothing. In a steady rhythm: two processes run with the same `cluster.node_id`; stop one."
    ),
    PeerReason.REPLACED: _NOTHING,
    PeerReason.NODE_STOPPED: _NOTHING,
}

PAGE = """\
# Reasons

<!-- Generated by `make docs` from src/penstock/obs/reasons.py and tests/reasons_page.py. -->

Every connection that ends has one reason from the first list. Every message, or copy of one, that the
broker took and then could not deliver, keep or acknowledge has one from the second. The same word is
the label of a counter and, for connections, the `reason` in the log. All counters are there, as 0,
from the start. What to watch: [monitoring](../operating/monitoring.md).

## Why a connection ended

`penstock_disconnects_total{{reason="..."}}`

{disconnects}

## Why a message went no further

`penstock_dropped_total{{reason="..."}}`

{drops}

Not counted is what MQTT itself does not owe: QoS 0 for a client that is away, and what was on its way
to a clean session when its connection ended.

## Why nodes of a cluster parted

`penstock_peer_disconnects_total{{reason="..."}}`

{peers}
"""


def markdown() -> str:
    """Return the page ``docs/reference/reasons.md``."""
    return PAGE.format(
        disconnects=_table(DisconnectReason), drops=_table(DropReason), peers=_table(PeerReason)
    )


def _table(enum: type[Enum]) -> str:
    meanings = metrics._reasons(enum)
    rows = [(*meaning, ADVICE[member]) for member, meaning in zip(enum, meanings, strict=True)]
    return metrics._table(("reason", "meaning", "what to do"), rows)
