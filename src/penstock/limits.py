"""Every limit, with its reason: nothing that a client can cause is unlimited.

Names end with the unit and the qualifier. These are the *defaults* of the configuration or, where
noted, fixed by a protocol. For all of them: check the announced size before allocating anything for
it, and be stricter before the peer has authenticated.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

# ── Reading from sockets
PACKET_BYTES_MAX = 256 * KIB  # MQTT allows 256 MiB; devices send kilobytes. AWS IoT: 128 KiB
CONNECT_BYTES_MAX = 16 * KIB  # before CONNECT is accepted: usually under 1 KiB; a will may add
PROXY_TIMEOUT_S = 5.0  # from accept to a complete PROXY header, which a proxy sends at once
FRAME_BYTES_MAX = 16 * MIB  # of the binary protocol, and of an argument of a RESP command
INCOMPLETE_BYTES_MAX = 256 * MIB  # in incomplete packets, over all connections
DETECT_BYTES_MAX = 16  # that the listener reads to detect the protocol
CONNECT_TIMEOUT_S = 10.0  # from accept to a complete first packet (against slow-loris attacks)
KEEP_ALIVE_FACTOR = 1.5  # fixed by MQTT: the server waits 1.5 times the announced keep-alive
KEEP_ALIVE_S_MAX = 65_535  # operators may lower it (CVE-2020-13849)

# ── Clients
CLIENTS_MAX = 10_000  # connections of all protocols; further ones are refused and counted
FILES_BESIDE_CLIENTS = 128  # open files: listeners, the store, logs, HTTP
ADDRESS_CONNECTIONS_MAX = 256  # of one address that is not this machine; of IPv6, of one /64
ADDRESS_STRANGERS_MAX = 32  # of those, before they log in
ADDRESS_CONNECTS_PER_SECOND_MAX = 50
ADDRESS_CONNECTS_BURST_MAX = 500  # after a restart, all clients behind one router return at once
STRANGERS_MAX = 1_024  # connections that have not logged in, from all addresses
STRANGER_OUTPUT_BYTES_MAX = 8 * KIB  # answers that wait for a stranger to read them
CLIENT_ID_BYTES_MAX = 256  # MQTT requires at least 23; UUIDs with a prefix need about 64
INFLIGHT_MAX = 32_767  # deliveries per client; the upper half of ids is for shared subscriptions
RECEIVE_MAXIMUM = 1_024  # QoS 1 and 2 publishes of an MQTT 5 client that are not acknowledged
TOPIC_ALIASES_MAX = 32  # of an MQTT 5 connection, in each direction
QUEUE_MESSAGES_MAX = 1_000  # per session besides those in flight: while away, or with a full window
SESSION_EXPIRY_S = 24 * 3600  # of a persistent session after its connection is closed
IDLE_TIMEOUT_S = 330  # of a binary connection: clients ping every minute, and rely on 300 seconds
SUBSCRIBER_EXPIRY_S = 30 * 24 * 3600  # of a durable subscriber after its last acknowledgement
SESSIONS_MAX = 100_000  # for persistent ones: each uses memory and disk, even while away
SUBSCRIPTIONS_MAX = 10_000  # filters per session; SUBSCRIBE returns a failure code for further ones
REPLAYS_MAX = 16  # subscriptions of a session whose history is being sent; further ones are refused
OUTBOUND_BYTES_MAX = 8 * MIB  # for one slow reader; then the oldest QoS 0 frames are dropped

OUTGOING_BYTES_MAX = 512 * MIB
"""Bytes waiting for all readers together, including those in the transports. Without it ten
thousand slow readers could use 80 GiB. A machine for a broker has a few times as much memory."""

# ── Topics
TOPIC_BYTES_MAX = 1_024  # the wire allows 65,535; AWS IoT: 256
TOPIC_LEVELS_MAX = 200  # as in Mosquitto, which lacked it (CVE-2019-11779)
ROUTES_CACHED_MAX = 262_144  # topics whose subscribers are cached, about 400 bytes each
RETAINED_MAX = 1_000_000  # further messages are delivered but not retained, and counted

# ── Queues
QUEUE_PAYLOAD_BYTES_MAX = 1 * MIB  # fixed by the queue protocol

QUEUE_REQUEST_BYTES_MAX = 4 * MIB
"""Largest request of the queue protocol. Its frames may have 64 MiB, but no request needs that
much: a larger one is skipped as it arrives and answered with an error."""

PRODUCER_ID_BYTES_MAX = 256  # stored with the numbers of its last messages; UUIDs need about 64
ACCESS_DOCUMENT_BYTES_MAX = 4 * MIB  # users and rules as one file: about 15,000 users
HTTP_PAYLOAD_BYTES_MAX = MIB  # published by HTTP; all 64 connections then hold 64 MiB
API_ITEMS_MAX = 1_000  # of a list in one answer
API_ANSWER_BYTES_MAX = 4 * MIB  # 64 connections then hold 256 MiB, if all read slowly
API_READERS_MAX = 4  # requests that read the journal at once; the others wait for their turn
HEADERS_MAX = 64  # of a message
HEADERS_BYTES_MAX = 16 * KIB  # of a message; HTTP servers accept about as much
LEASES_MAX = 16_384  # named in one request
SCAN_TOPICS_MAX = 1_024  # named in one request: looking at them all takes a few milliseconds
SCANS_MAX = 16  # of one connection; the one that was asked for longest ago is forgotten
SCANNED_TOPICS_MAX = 262_144  # of all scans, some 300 bytes each; likewise

PENDING_MAX = 1_000_000
"""Messages of one group that are delivered and not settled, or delayed: each uses some 250 bytes. A
group with so many receives no more."""

GROUP_BYTES_MAX = 256  # name of a group; host names and UUIDs need about 64

BACKOFF_MS_DEFAULT = 1_000
BACKOFF_MAX_MS_DEFAULT = 60_000
"""Back-off of a failed message, by default: none for the first redelivery, as most failures are
transient; then a second, doubled each time up to a minute. Without it a message that always fails
would keep a worker and the disk busy."""

GROUPS_MAX = 100_000  # of all topics: each uses memory, and a row of every checkpoint

# ── Sinks
SINKS_MAX = 10_000  # each uses memory, and a row of every checkpoint, until it is forgotten
SINK_BYTES_MAX = 200  # name of a sink; the name and id of a query need about 64
SINK_EPOCH_MAX = (1 << 63) - 1
SINK_NOTE_BYTES_MAX = 16 * KIB  # stored with a committed epoch
STAGED_PART_BYTES_MAX = 128  # name of a part: a partition, an attempt and a unique suffix
STAGED_BLOCK_BYTES_MAX = 1 * MIB  # no payload in it can exceed that of a message
STAGED_LOTS_MAX = 2_048  # lots in one block
STAGED_MESSAGES_MAX = 65_536  # messages in one block
STAGED_HEADERS_BYTES_MAX = 16 * MIB  # in one block; a lot has them once, for all its messages
STAGED_BLOCK_COST = 256  # added to the bytes of a block: about what the journal needs for one
STAGED_BLOCKS_MAX = 65_536  # of one part: 64 GiB
MEASURES_MAX = 16  # in one Locate: each takes at most a tenth of a second
STAGED_PARTS_MAX = 16_384  # of one commit, which are journaled when it starts; Spark's default: 200
STAGES_MAX = 65_536  # parts that are staged and not committed, over all sinks: each is a topic
STAGED_BYTES_MAX = 4 * GIB  # of one sink that are staged and not committed
STAGE_EXPIRY_S = 24 * 3600  # of rows that are neither committed nor aborted

# ── Schedules
SCHEDULES_MAX = 10_000  # each uses memory, and a row of every checkpoint after it fires
SCHEDULE_NAME_BYTES_MAX = 128
SCHEDULE_PAYLOAD_BYTES_MAX = 64 * KIB  # kept in memory
SCHEDULES_BYTES_MAX = 16 * MIB  # of all messages: one commit may have to write them all

# ── Journal
CAPTURE_PENDING_BYTES_MAX = 64 * MIB  # QoS 0; beyond it messages are delivered but not captured
CAPTURE_BESIDE_WAITING_BYTES_MAX = 2 * MIB  # the same while clients wait for acknowledgements
CAPTURE_INTERVAL_MS = 100  # longest wait of a captured QoS 0 message: ten commits a second
BATCH_BYTES_TARGET = 1 * MIB  # at which captured messages are committed
BATCH_BYTES_MAX = 64 * MIB  # a larger batch is split over commits

BATCH_JOURNAL_PARTS = 32
BATCH_BYTES_LEAST = 64 * KIB
"""A batch has at most this part of ``journal.total_bytes_max``, but at least that many bytes.
Otherwise a single commit could exceed the limit of a small journal by far."""

BLOCK_BYTES = 64 * MIB  # of entries that become one block, unless the journal is small
MAP_BYTES_INITIAL = 1 * GIB  # of the LMDB map (address space, not disk); doubles before it is full
JOURNAL_BYTES_MAX = 16 * GIB  # beyond it the oldest messages are removed

# ── Cluster
NODE_ID_MAX = (1 << 16) - 1  # part of connection numbers, in sixteen bits
MEMBERS_MAX = 32  # learners included: a leader sends everything to each
