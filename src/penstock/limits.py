"""Every bound, with its reason. Strangers are on the other end: nothing is unlimited.

Names end with the unit and the qualifier. These are the *defaults* of the configuration or, where
noted, fixed by a protocol. The rule for all of them: check the announced size before anything is
allocated for it, and be tighter before the peer has said who it is.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

# ── Reading from sockets ──────────────────────────────────────────────────────────────────────
PACKET_BYTES_MAX = 256 * KIB
"""Largest MQTT packet. The protocol allows 256 MiB; devices send kilobytes. AWS IoT: 128 KiB."""

CONNECT_BYTES_MAX = 16 * KIB
"""Largest packet before CONNECT was accepted. An honest CONNECT is under 1 KiB; a will may add."""

FRAME_BYTES_MAX = 16 * MIB
"""Largest frame of the binary protocol, and largest argument of a RESP command."""

INCOMPLETE_BYTES_MAX = 256 * MIB
"""Bytes of packets that are not complete yet, over all connections."""

DETECT_BYTES_MAX = 16
"""How many bytes the listener looks at to tell protocols apart."""

CONNECT_TIMEOUT_S = 10.0
"""Silence allowed between accept and a complete first packet (slow-loris guard)."""

KEEP_ALIVE_FACTOR = 1.5
"""Fixed by MQTT: the server waits one and a half times the announced keep-alive."""

KEEP_ALIVE_S_MAX = 65_535
"""Longest keep-alive taken at its word; operators may cap it lower (CVE-2020-13849)."""

# ── Clients ───────────────────────────────────────────────────────────────────────────────────
CLIENTS_MAX = 10_000
"""Connections at once, all protocols together. Above it a newcomer is refused, counted."""

CLIENT_ID_BYTES_MAX = 256
"""Longest client id. The standard asks for 23 at least; UUIDs with a prefix need about 64."""

INFLIGHT_MAX = 32_767
"""Unacknowledged QoS 1 and 2 deliveries per client. There are as many packet ids for them; the
upper half is for shared subscriptions."""

QUEUE_MESSAGES_MAX = 1_000
"""Messages kept per session beyond those in flight: while away, or while its window is full."""

SESSION_EXPIRY_S = 24 * 3600
"""How long a persistent session outlives its connection."""

IDLE_TIMEOUT_S = 330
"""Silence after which a connection of the binary protocol ends. Its clients ping every minute, if
at all, and count on 300 seconds."""

SUBSCRIBER_EXPIRY_S = 30 * 24 * 3600
"""How long acknowledgements of a durable subscriber are kept after the last one."""

SESSIONS_MAX = 100_000
"""Sessions beyond which no persistent one is made: each costs memory and disk, also while away."""

SUBSCRIPTIONS_MAX = 10_000
"""Filters per session; a SUBSCRIBE beyond it gets the failure code for the filters in excess."""

OUTBOUND_BYTES_MAX = 8 * MIB
"""Bytes waiting for one slow reader. Beyond it QoS 0 frames are dropped, oldest first, counted."""

OUTGOING_BYTES_MAX = 512 * MIB
"""Bytes waiting for all readers together, those in the transports included. Without it ten thousand
slow readers could take 80 GiB. A machine for a broker has a few times as much memory."""

# ── Topics ────────────────────────────────────────────────────────────────────────────────────
TOPIC_BYTES_MAX = 1_024
"""Longest topic or filter; the wire allows 65,535. AWS IoT: 256."""

TOPIC_LEVELS_MAX = 200
"""Most levels in a topic or filter: as many as Mosquitto takes, so that what works there works
here. CVE-2019-11779 came from having no bound; nothing here recurses over levels."""

ROUTES_CACHED_MAX = 262_144
"""Topics whose subscribers are remembered (about 400 bytes each); others are looked up anew."""

RETAINED_MAX = 1_000_000
"""Retained messages in all; a further topic's is delivered but not kept, counted."""

# ── Queues ────────────────────────────────────────────────────────────────────────────────────
QUEUE_PAYLOAD_BYTES_MAX = 1 * MIB
"""Largest message of the queue protocol, fixed by it."""

QUEUE_REQUEST_BYTES_MAX = 4 * MIB
"""Largest request of the queue protocol that is read. Its frames may have 64 MiB, but nothing needs
so much: a larger one is passed over as it comes, not kept, and answered with an error."""

PRODUCER_ID_BYTES_MAX = 256
"""Longest name of a producer; kept with the numbers of its last messages. UUIDs need about 64."""

HEADERS_MAX = 64
HTTP_PAYLOAD_BYTES_MAX = MIB
"""Largest message published by HTTP. All 64 connections of that door together hold 64 MiB then."""

HEADERS_BYTES_MAX = 16 * KIB
"""Headers of a message, and their bytes together; HTTP servers take about as much."""

LEASES_MAX = 16_384
"""Leases named in one request: each costs a little time."""

PENDING_MAX = 1_000_000
"""Messages of one group that are handed out and not settled, or wait for their time: each takes
some 250 bytes. A group that has so many is given no more."""

GROUP_BYTES_MAX = 256
"""Longest name of a group, by any door; host names and UUIDs need about 64."""

BACKOFF_MS_DEFAULT = 1_000
BACKOFF_MAX_MS_DEFAULT = 60_000
"""How long a message waits that failed, in a group of which nobody has said otherwise: not at all
the first time, which is most often a hiccup; then a second, twice as long each time, up to a
minute. Without it a message that always fails would keep a worker and the disk busy for ever."""

GROUPS_MAX = 100_000
"""Groups of all topics together: each costs memory, and a row of every checkpoint."""

# ── Sinks ─────────────────────────────────────────────────────────────────────────────────────
SINKS_MAX = 10_000
"""Sinks that are remembered: each costs memory, and a row of the checkpoint, until forgotten."""

SINK_BYTES_MAX = 200
"""Longest name of a sink; the name of a query and an id of it need about 64."""

SINK_EPOCH_MAX = (1 << 63) - 1
SINK_NOTE_BYTES_MAX = 16 * KIB
"""What may be kept with an epoch that was committed."""

STAGED_PART_BYTES_MAX = 128
"""Longest name of a part: a partition, an attempt and something that is unique."""

STAGED_BLOCK_BYTES_MAX = 1 * MIB
"""Largest block of staged rows; no payload within can be larger than a message may be."""

STAGED_LOTS_MAX = 2_048
STAGED_MESSAGES_MAX = 65_536
"""Lots and messages of one block: however small, each takes time."""

STAGED_HEADERS_BYTES_MAX = 16 * MIB
"""Headers of all messages of one block: a lot has them once, and each of its messages gets them."""

STAGED_BLOCK_COST = 256
"""What a block counts for beside its bytes: about what the journal takes for one."""

STAGED_BLOCKS_MAX = 65_536
"""Blocks of one part: 64 GiB of them."""

MEASURES_MAX = 16
"""Measures in one Locate: each costs a tenth of a second at most."""

STAGED_PARTS_MAX = 16_384
"""Parts of one commit, which are written down when it begins; Spark makes 200 unless told."""

STAGES_MAX = 65_536
"""Parts staged and not committed, over all sinks: each is a topic."""

STAGED_BYTES_MAX = 4 * GIB
"""Bytes of one sink that are staged and not committed."""

STAGE_EXPIRY_S = 24 * 3600
"""How long rows stay that were staged and neither committed nor aborted."""

# ── Journal ───────────────────────────────────────────────────────────────────────────────────
CAPTURE_PENDING_BYTES_MAX = 64 * MIB
"""QoS 0 bytes waiting to be journaled. Beyond it they are delivered but not captured, counted."""

CAPTURE_BESIDE_WAITING_BYTES_MAX = 2 * MIB
"""The same while somebody waits for acknowledgements: a flood of QoS 0 must not delay those."""

CAPTURE_INTERVAL_MS = 100
"""Longest wait of a captured QoS 0 message for company: ten commits a second for a trickle."""

BATCH_BYTES_TARGET = 1 * MIB
"""Captured messages are committed once they have grown to this; those who wait share the disk."""

BATCH_BYTES_MAX = 64 * MIB
"""A batch larger than this is split over commits."""

BATCH_JOURNAL_PARTS = 32
BATCH_BYTES_LEAST = 64 * KIB
"""A batch has at most this part of ``journal.total_bytes_max``, but as many bytes at least: else a
single commit could take a small journal far beyond its limit."""

MAP_BYTES_INITIAL = 1 * GIB
"""First size of the LMDB map (address space, not disk); it doubles before it is full."""

JOURNAL_BYTES_MAX = 16 * GIB
"""Total size of the journal; the oldest messages go first when it is reached."""

# ── Cluster ───────────────────────────────────────────────────────────────────────────────────
NODE_ID_MAX = (1 << 16) - 1
"""Largest number of a node: connections are numbered with it, in sixteen bits."""

MEMBERS_MAX = 32
"""Nodes of a cluster, learners included: a leader sends everything to each."""
