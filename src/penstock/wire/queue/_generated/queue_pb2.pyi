from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Start(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EARLIEST: _ClassVar[Start]
    LATEST: _ClassVar[Start]
    OFFSET: _ClassVar[Start]
    TIME: _ClassVar[Start]
EARLIEST: Start
LATEST: Start
OFFSET: Start
TIME: Start

class Request(_message.Message):
    __slots__ = ("produce", "poll", "ack", "nack", "commit", "create_topic", "delete_topic", "stats", "bootstrap", "set_rate_limit", "set_retention", "subscribe", "produce_many", "ack_many", "nack_many", "extend", "fetch", "list_topics", "list_groups", "create_group", "delete_group", "configure_topic", "configure_group", "redrive", "locate", "changes", "list_keys", "stage", "commit_stage", "abort_stage", "list_sinks", "forget_sink", "ping", "authenticate", "fetch_many", "stale", "request_id")
    PRODUCE_FIELD_NUMBER: _ClassVar[int]
    POLL_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    SET_RATE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SET_RETENTION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_MANY_FIELD_NUMBER: _ClassVar[int]
    ACK_MANY_FIELD_NUMBER: _ClassVar[int]
    NACK_MANY_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    LIST_TOPICS_FIELD_NUMBER: _ClassVar[int]
    LIST_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CREATE_GROUP_FIELD_NUMBER: _ClassVar[int]
    DELETE_GROUP_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_GROUP_FIELD_NUMBER: _ClassVar[int]
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    LOCATE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    LIST_KEYS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_STAGE_FIELD_NUMBER: _ClassVar[int]
    ABORT_STAGE_FIELD_NUMBER: _ClassVar[int]
    LIST_SINKS_FIELD_NUMBER: _ClassVar[int]
    FORGET_SINK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    FETCH_MANY_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    produce: Produce
    poll: Poll
    ack: Ack
    nack: Nack
    commit: Commit
    create_topic: CreateTopic
    delete_topic: DeleteTopic
    stats: Stats
    bootstrap: Bootstrap
    set_rate_limit: SetRateLimit
    set_retention: SetRetention
    subscribe: Subscribe
    produce_many: ProduceMany
    ack_many: AckMany
    nack_many: NackMany
    extend: Extend
    fetch: Fetch
    list_topics: ListTopics
    list_groups: ListGroups
    create_group: CreateGroup
    delete_group: DeleteGroup
    configure_topic: ConfigureTopic
    configure_group: ConfigureGroup
    redrive: Redrive
    locate: Locate
    changes: Changes
    list_keys: ListKeys
    stage: Stage
    commit_stage: CommitStage
    abort_stage: AbortStage
    list_sinks: ListSinks
    forget_sink: ForgetSink
    ping: Ping
    authenticate: Authenticate
    fetch_many: FetchMany
    stale: bool
    request_id: int
    def __init__(self, produce: _Optional[_Union[Produce, _Mapping]] = ..., poll: _Optional[_Union[Poll, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ..., bootstrap: _Optional[_Union[Bootstrap, _Mapping]] = ..., set_rate_limit: _Optional[_Union[SetRateLimit, _Mapping]] = ..., set_retention: _Optional[_Union[SetRetention, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., produce_many: _Optional[_Union[ProduceMany, _Mapping]] = ..., ack_many: _Optional[_Union[AckMany, _Mapping]] = ..., nack_many: _Optional[_Union[NackMany, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., fetch: _Optional[_Union[Fetch, _Mapping]] = ..., list_topics: _Optional[_Union[ListTopics, _Mapping]] = ..., list_groups: _Optional[_Union[ListGroups, _Mapping]] = ..., create_group: _Optional[_Union[CreateGroup, _Mapping]] = ..., delete_group: _Optional[_Union[DeleteGroup, _Mapping]] = ..., configure_topic: _Optional[_Union[ConfigureTopic, _Mapping]] = ..., configure_group: _Optional[_Union[ConfigureGroup, _Mapping]] = ..., redrive: _Optional[_Union[Redrive, _Mapping]] = ..., locate: _Optional[_Union[Locate, _Mapping]] = ..., changes: _Optional[_Union[Changes, _Mapping]] = ..., list_keys: _Optional[_Union[ListKeys, _Mapping]] = ..., stage: _Optional[_Union[Stage, _Mapping]] = ..., commit_stage: _Optional[_Union[CommitStage, _Mapping]] = ..., abort_stage: _Optional[_Union[AbortStage, _Mapping]] = ..., list_sinks: _Optional[_Union[ListSinks, _Mapping]] = ..., forget_sink: _Optional[_Union[ForgetSink, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., authenticate: _Optional[_Union[Authenticate, _Mapping]] = ..., fetch_many: _Optional[_Union[FetchMany, _Mapping]] = ..., stale: bool = ..., request_id: _Optional[int] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("produced", "polled", "ok", "error", "stats", "produced_many", "fetched", "topics", "groups", "redriven", "located", "changed", "keys", "stage_committed", "sinks", "fetched_many", "request_id")
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    POLLED_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_MANY_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    LOCATED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    STAGE_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    FETCHED_MANY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    produced: Produced
    polled: Polled
    ok: Ok
    error: Error
    stats: StatsResult
    produced_many: ProducedMany
    fetched: Fetched
    topics: Topics
    groups: Groups
    redriven: Redriven
    located: Located
    changed: Changed
    keys: Keys
    stage_committed: StageCommitted
    sinks: Sinks
    fetched_many: FetchedMany
    request_id: int
    def __init__(self, produced: _Optional[_Union[Produced, _Mapping]] = ..., polled: _Optional[_Union[Polled, _Mapping]] = ..., ok: _Optional[_Union[Ok, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., stats: _Optional[_Union[StatsResult, _Mapping]] = ..., produced_many: _Optional[_Union[ProducedMany, _Mapping]] = ..., fetched: _Optional[_Union[Fetched, _Mapping]] = ..., topics: _Optional[_Union[Topics, _Mapping]] = ..., groups: _Optional[_Union[Groups, _Mapping]] = ..., redriven: _Optional[_Union[Redriven, _Mapping]] = ..., located: _Optional[_Union[Located, _Mapping]] = ..., changed: _Optional[_Union[Changed, _Mapping]] = ..., keys: _Optional[_Union[Keys, _Mapping]] = ..., stage_committed: _Optional[_Union[StageCommitted, _Mapping]] = ..., sinks: _Optional[_Union[Sinks, _Mapping]] = ..., fetched_many: _Optional[_Union[FetchedMany, _Mapping]] = ..., request_id: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Produce(_message.Message):
    __slots__ = ("topic", "priority", "content_type", "payload", "producer_id", "seq", "delay_ms", "ttl_ms", "headers")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    priority: int
    content_type: int
    payload: bytes
    producer_id: str
    seq: int
    delay_ms: int
    ttl_ms: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, topic: _Optional[str] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., payload: _Optional[bytes] = ..., producer_id: _Optional[str] = ..., seq: _Optional[int] = ..., delay_ms: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class ProduceMany(_message.Message):
    __slots__ = ("topic", "priority", "content_type", "payloads", "producer_id", "seq", "delay_ms", "ttl_ms", "headers")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    priority: int
    content_type: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    producer_id: str
    seq: int
    delay_ms: int
    ttl_ms: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, topic: _Optional[str] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., producer_id: _Optional[str] = ..., seq: _Optional[int] = ..., delay_ms: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class Poll(_message.Message):
    __slots__ = ("topic", "group", "max", "visibility_timeout_ms", "ack_mode", "wait_ms", "start", "start_value")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    START_VALUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    max: int
    visibility_timeout_ms: int
    ack_mode: str
    wait_ms: int
    start: Start
    start_value: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., max: _Optional[int] = ..., visibility_timeout_ms: _Optional[int] = ..., ack_mode: _Optional[str] = ..., wait_ms: _Optional[int] = ..., start: _Optional[_Union[Start, str]] = ..., start_value: _Optional[int] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("topic", "group", "prefetch", "visibility_timeout_ms", "ack_mode", "start", "start_value")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    START_VALUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    prefetch: int
    visibility_timeout_ms: int
    ack_mode: str
    start: Start
    start_value: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., prefetch: _Optional[int] = ..., visibility_timeout_ms: _Optional[int] = ..., ack_mode: _Optional[str] = ..., start: _Optional[_Union[Start, str]] = ..., start_value: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("topic", "group", "lease_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_id: _Optional[int] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("topic", "group", "lease_id", "delay_ms", "reason", "dead_letter")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_id: int
    delay_ms: int
    reason: str
    dead_letter: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_id: _Optional[int] = ..., delay_ms: _Optional[int] = ..., reason: _Optional[str] = ..., dead_letter: bool = ...) -> None: ...

class AckMany(_message.Message):
    __slots__ = ("topic", "group", "lease_ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class NackMany(_message.Message):
    __slots__ = ("topic", "group", "lease_ids", "delay_ms", "reason", "dead_letter")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    delay_ms: int
    reason: str
    dead_letter: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_ids: _Optional[_Iterable[int]] = ..., delay_ms: _Optional[int] = ..., reason: _Optional[str] = ..., dead_letter: bool = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("topic", "group", "lease_ids", "visibility_timeout_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    visibility_timeout_ms: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_ids: _Optional[_Iterable[int]] = ..., visibility_timeout_ms: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("topic", "group", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    offset: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Authenticate(_message.Message):
    __slots__ = ("user", "secret", "token", "mechanism", "data")
    USER_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    user: str
    secret: bytes
    token: str
    mechanism: str
    data: bytes
    def __init__(self, user: _Optional[str] = ..., secret: _Optional[bytes] = ..., token: _Optional[str] = ..., mechanism: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Ok(_message.Message):
    __slots__ = ("lapsed",)
    LAPSED_FIELD_NUMBER: _ClassVar[int]
    lapsed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lapsed: _Optional[_Iterable[int]] = ...) -> None: ...

class Bootstrap(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "peer_addr")
    ID_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDR_FIELD_NUMBER: _ClassVar[int]
    id: int
    peer_addr: str
    def __init__(self, id: _Optional[int] = ..., peer_addr: _Optional[str] = ...) -> None: ...

class SetRateLimit(_message.Message):
    __slots__ = ("topic", "rate_per_sec", "burst")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    rate_per_sec: float
    burst: int
    def __init__(self, topic: _Optional[str] = ..., rate_per_sec: _Optional[float] = ..., burst: _Optional[int] = ...) -> None: ...

class SetRetention(_message.Message):
    __slots__ = ("topic", "max_messages", "max_age_ms", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    max_messages: int
    max_age_ms: int
    max_bytes: int
    def __init__(self, topic: _Optional[str] = ..., max_messages: _Optional[int] = ..., max_age_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ConfigureTopic(_message.Message):
    __slots__ = ("topic", "rate_per_sec", "burst", "max_messages", "max_age_ms", "max_bytes", "keep")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    rate_per_sec: float
    burst: int
    max_messages: int
    max_age_ms: int
    max_bytes: int
    keep: bool
    def __init__(self, topic: _Optional[str] = ..., rate_per_sec: _Optional[float] = ..., burst: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_age_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., keep: bool = ...) -> None: ...

class CreateGroup(_message.Message):
    __slots__ = ("topic", "group", "start", "start_value", "seek", "reader")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    START_VALUE_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    start: Start
    start_value: int
    seek: bool
    reader: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., start: _Optional[_Union[Start, str]] = ..., start_value: _Optional[int] = ..., seek: bool = ..., reader: bool = ...) -> None: ...

class DeleteGroup(_message.Message):
    __slots__ = ("topic", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class ConfigureGroup(_message.Message):
    __slots__ = ("topic", "group", "max_deliveries", "backoff_ms", "backoff_max_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    max_deliveries: int
    backoff_ms: int
    backoff_max_ms: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., max_deliveries: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_max_ms: _Optional[int] = ...) -> None: ...

class Redrive(_message.Message):
    __slots__ = ("topic", "group", "max")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    max: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., max: _Optional[int] = ...) -> None: ...

class Fetch(_message.Message):
    __slots__ = ("topic", "offset", "end_offset", "max_messages", "max_bytes", "columns")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    offset: int
    end_offset: int
    max_messages: int
    max_bytes: int
    columns: int
    def __init__(self, topic: _Optional[str] = ..., offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class FetchMany(_message.Message):
    __slots__ = ("scan", "topics", "offsets", "end_offsets", "incarnations", "max_messages", "max_bytes", "columns")
    SCAN_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    scan: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    end_offsets: _containers.RepeatedScalarFieldContainer[int]
    incarnations: _containers.RepeatedScalarFieldContainer[int]
    max_messages: int
    max_bytes: int
    columns: int
    def __init__(self, scan: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., offsets: _Optional[_Iterable[int]] = ..., end_offsets: _Optional[_Iterable[int]] = ..., incarnations: _Optional[_Iterable[int]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class Locate(_message.Message):
    __slots__ = ("topic", "times_ms", "measures")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIMES_MS_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    times_ms: _containers.RepeatedScalarFieldContainer[int]
    measures: _containers.RepeatedCompositeFieldContainer[Measure]
    def __init__(self, topic: _Optional[str] = ..., times_ms: _Optional[_Iterable[int]] = ..., measures: _Optional[_Iterable[_Union[Measure, _Mapping]]] = ...) -> None: ...

class Measure(_message.Message):
    __slots__ = ("offset", "bytes")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    offset: int
    bytes: int
    def __init__(self, offset: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("filters", "after_sequence", "wait_ms", "max", "after")
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedScalarFieldContainer[str]
    after_sequence: int
    wait_ms: int
    max: int
    after: str
    def __init__(self, filters: _Optional[_Iterable[str]] = ..., after_sequence: _Optional[int] = ..., wait_ms: _Optional[int] = ..., max: _Optional[int] = ..., after: _Optional[str] = ...) -> None: ...

class ListKeys(_message.Message):
    __slots__ = ("after", "max")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    after: int
    max: int
    def __init__(self, after: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("sink", "epoch", "part", "number", "block")
    SINK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    sink: str
    epoch: int
    part: str
    number: int
    block: bytes
    def __init__(self, sink: _Optional[str] = ..., epoch: _Optional[int] = ..., part: _Optional[str] = ..., number: _Optional[int] = ..., block: _Optional[bytes] = ...) -> None: ...

class StagedBlock(_message.Message):
    __slots__ = ("lots",)
    LOTS_FIELD_NUMBER: _ClassVar[int]
    lots: _containers.RepeatedCompositeFieldContainer[StagedLot]
    def __init__(self, lots: _Optional[_Iterable[_Union[StagedLot, _Mapping]]] = ...) -> None: ...

class StagedLot(_message.Message):
    __slots__ = ("topic", "priority", "content_type", "payloads", "headers", "times_ms", "expires_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMES_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    priority: int
    content_type: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    times_ms: _containers.RepeatedScalarFieldContainer[int]
    expires_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., times_ms: _Optional[_Iterable[int]] = ..., expires_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class CommitStage(_message.Message):
    __slots__ = ("sink", "epoch", "parts", "note")
    SINK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    sink: str
    epoch: int
    parts: _containers.RepeatedCompositeFieldContainer[StagedPart]
    note: bytes
    def __init__(self, sink: _Optional[str] = ..., epoch: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[StagedPart, _Mapping]]] = ..., note: _Optional[bytes] = ...) -> None: ...

class StagedPart(_message.Message):
    __slots__ = ("part", "blocks")
    PART_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    part: str
    blocks: int
    def __init__(self, part: _Optional[str] = ..., blocks: _Optional[int] = ...) -> None: ...

class AbortStage(_message.Message):
    __slots__ = ("sink", "epoch", "parts")
    SINK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    epoch: int
    parts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sink: _Optional[str] = ..., epoch: _Optional[int] = ..., parts: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSinks(_message.Message):
    __slots__ = ("name", "after", "max")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    name: str
    after: str
    max: int
    def __init__(self, name: _Optional[str] = ..., after: _Optional[str] = ..., max: _Optional[int] = ...) -> None: ...

class ForgetSink(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListTopics(_message.Message):
    __slots__ = ("prefix", "after", "max", "name")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    after: str
    max: int
    name: str
    def __init__(self, prefix: _Optional[str] = ..., after: _Optional[str] = ..., max: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class ListGroups(_message.Message):
    __slots__ = ("topic", "max", "after_topic", "after_group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    AFTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    AFTER_GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    max: int
    after_topic: str
    after_group: str
    def __init__(self, topic: _Optional[str] = ..., max: _Optional[int] = ..., after_topic: _Optional[str] = ..., after_group: _Optional[str] = ...) -> None: ...

class Produced(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class ProducedMany(_message.Message):
    __slots__ = ("stretches", "refusals")
    STRETCHES_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    stretches: _containers.RepeatedCompositeFieldContainer[Stretch]
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, stretches: _Optional[_Iterable[_Union[Stretch, _Mapping]]] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Stretch(_message.Message):
    __slots__ = ("offset", "count")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    count: int
    def __init__(self, offset: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("index", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    error: Error
    def __init__(self, index: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ("lease_id", "offset", "priority", "content_type", "payload", "ts_ms", "redeliveries", "headers")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    REDELIVERIES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    offset: int
    priority: int
    content_type: int
    payload: bytes
    ts_ms: int
    redeliveries: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, lease_id: _Optional[int] = ..., offset: _Optional[int] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., payload: _Optional[bytes] = ..., ts_ms: _Optional[int] = ..., redeliveries: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class Polled(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Delivered]
    def __init__(self, items: _Optional[_Iterable[_Union[Delivered, _Mapping]]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "leader_addr", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDR_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    leader_addr: str
    retry_after_ms: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., leader_addr: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class StatsResult(_message.Message):
    __slots__ = ("last_applied", "current_leader", "current_term", "last_log_index", "is_leader", "topics", "messages", "in_flight")
    LAST_APPLIED_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_LEADER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    last_applied: int
    current_leader: int
    current_term: int
    last_log_index: int
    is_leader: bool
    topics: int
    messages: int
    in_flight: int
    def __init__(self, last_applied: _Optional[int] = ..., current_leader: _Optional[int] = ..., current_term: _Optional[int] = ..., last_log_index: _Optional[int] = ..., is_leader: bool = ..., topics: _Optional[int] = ..., messages: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("incarnation", "first_offset", "end_offset", "next_offset", "slices")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    first_offset: int
    end_offset: int
    next_offset: int
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    def __init__(self, incarnation: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ...) -> None: ...

class FetchedMany(_message.Message):
    __slots__ = ("unknown", "last", "slices", "removed_topics", "removed_begins", "removed_ends", "incarnations", "first_offsets", "end_offsets", "next_offsets")
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_BEGINS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ENDS_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    unknown: bool
    last: bool
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    removed_topics: bytes
    removed_begins: bytes
    removed_ends: bytes
    incarnations: bytes
    first_offsets: bytes
    end_offsets: bytes
    next_offsets: bytes
    def __init__(self, unknown: bool = ..., last: bool = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., removed_topics: _Optional[bytes] = ..., removed_begins: _Optional[bytes] = ..., removed_ends: _Optional[bytes] = ..., incarnations: _Optional[bytes] = ..., first_offsets: _Optional[bytes] = ..., end_offsets: _Optional[bytes] = ..., next_offsets: _Optional[bytes] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("first_offset", "count", "base_sequence", "time_ms", "bounds", "payloads", "run_starts", "run_positions", "run_times", "run_flags", "run_types", "extras", "producers", "signature_numbers", "signatures", "header_numbers", "header_bounds", "header_text_bounds", "header_texts", "schedule_numbers", "schedule_due", "schedule_expiry", "producer_numbers", "producer_counts", "producer_seqs", "producer_name_ends", "producer_names", "group_topics", "group_starts", "group_offsets")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BASE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    RUN_STARTS_FIELD_NUMBER: _ClassVar[int]
    RUN_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_FIELD_NUMBER: _ClassVar[int]
    RUN_FLAGS_FIELD_NUMBER: _ClassVar[int]
    RUN_TYPES_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    HEADER_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    HEADER_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    HEADER_TEXT_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    HEADER_TEXTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_DUE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_SEQS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_NAME_ENDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_NAMES_FIELD_NUMBER: _ClassVar[int]
    GROUP_TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUP_STARTS_FIELD_NUMBER: _ClassVar[int]
    GROUP_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    count: int
    base_sequence: int
    time_ms: int
    bounds: bytes
    payloads: bytes
    run_starts: bytes
    run_positions: bytes
    run_times: bytes
    run_flags: bytes
    run_types: bytes
    extras: _containers.RepeatedCompositeFieldContainer[Extra]
    producers: _containers.RepeatedCompositeFieldContainer[ProducerRun]
    signature_numbers: bytes
    signatures: bytes
    header_numbers: bytes
    header_bounds: bytes
    header_text_bounds: bytes
    header_texts: bytes
    schedule_numbers: bytes
    schedule_due: bytes
    schedule_expiry: bytes
    producer_numbers: bytes
    producer_counts: bytes
    producer_seqs: bytes
    producer_name_ends: bytes
    producer_names: bytes
    group_topics: bytes
    group_starts: bytes
    group_offsets: bytes
    def __init__(self, first_offset: _Optional[int] = ..., count: _Optional[int] = ..., base_sequence: _Optional[int] = ..., time_ms: _Optional[int] = ..., bounds: _Optional[bytes] = ..., payloads: _Optional[bytes] = ..., run_starts: _Optional[bytes] = ..., run_positions: _Optional[bytes] = ..., run_times: _Optional[bytes] = ..., run_flags: _Optional[bytes] = ..., run_types: _Optional[bytes] = ..., extras: _Optional[_Iterable[_Union[Extra, _Mapping]]] = ..., producers: _Optional[_Iterable[_Union[ProducerRun, _Mapping]]] = ..., signature_numbers: _Optional[bytes] = ..., signatures: _Optional[bytes] = ..., header_numbers: _Optional[bytes] = ..., header_bounds: _Optional[bytes] = ..., header_text_bounds: _Optional[bytes] = ..., header_texts: _Optional[bytes] = ..., schedule_numbers: _Optional[bytes] = ..., schedule_due: _Optional[bytes] = ..., schedule_expiry: _Optional[bytes] = ..., producer_numbers: _Optional[bytes] = ..., producer_counts: _Optional[bytes] = ..., producer_seqs: _Optional[bytes] = ..., producer_name_ends: _Optional[bytes] = ..., producer_names: _Optional[bytes] = ..., group_topics: _Optional[bytes] = ..., group_starts: _Optional[bytes] = ..., group_offsets: _Optional[bytes] = ...) -> None: ...

class Extra(_message.Message):
    __slots__ = ("number", "headers", "signature_version", "key_id", "signature", "signed_ms", "nonce", "due_ms", "expires_ms")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_VERSION_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    number: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    signature_version: int
    key_id: int
    signature: bytes
    signed_ms: int
    nonce: bytes
    due_ms: int
    expires_ms: int
    def __init__(self, number: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., signature_version: _Optional[int] = ..., key_id: _Optional[int] = ..., signature: _Optional[bytes] = ..., signed_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., due_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class ProducerRun(_message.Message):
    __slots__ = ("number", "count", "producer_id", "seq")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    producer_id: str
    seq: int
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ..., producer_id: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class Located(_message.Message):
    __slots__ = ("incarnation", "first_offset", "end_offset", "offsets", "reaches")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    REACHES_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    first_offset: int
    end_offset: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    reaches: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, incarnation: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., reaches: _Optional[_Iterable[int]] = ...) -> None: ...

class Changed(_message.Message):
    __slots__ = ("sequence", "topics", "more", "again", "deleted")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    more: bool
    again: bool
    deleted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sequence: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., more: bool = ..., again: bool = ..., deleted: _Optional[_Iterable[str]] = ...) -> None: ...

class Keys(_message.Message):
    __slots__ = ("keys", "more")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    more: bool
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("id", "public_key", "device", "topics", "created_ms", "expires_ms", "revoked_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    public_key: bytes
    device: str
    topics: str
    created_ms: int
    expires_ms: int
    revoked_ms: int
    def __init__(self, id: _Optional[int] = ..., public_key: _Optional[bytes] = ..., device: _Optional[str] = ..., topics: _Optional[str] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., revoked_ms: _Optional[int] = ...) -> None: ...

class StageCommitted(_message.Message):
    __slots__ = ("epoch", "is_repetition", "messages", "is_under_way")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_REPETITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    IS_UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    is_repetition: bool
    messages: int
    is_under_way: bool
    def __init__(self, epoch: _Optional[int] = ..., is_repetition: bool = ..., messages: _Optional[int] = ..., is_under_way: bool = ...) -> None: ...

class Sinks(_message.Message):
    __slots__ = ("sinks", "more")
    SINKS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    sinks: _containers.RepeatedCompositeFieldContainer[Sink]
    more: bool
    def __init__(self, sinks: _Optional[_Iterable[_Union[Sink, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Sink(_message.Message):
    __slots__ = ("name", "epoch", "note", "messages", "committed_ms", "is_committing", "staged_bytes", "staged_parts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    IS_COMMITTING_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STAGED_PARTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    note: bytes
    messages: int
    committed_ms: int
    is_committing: bool
    staged_bytes: int
    staged_parts: int
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., note: _Optional[bytes] = ..., messages: _Optional[int] = ..., committed_ms: _Optional[int] = ..., is_committing: bool = ..., staged_bytes: _Optional[int] = ..., staged_parts: _Optional[int] = ...) -> None: ...

class Topics(_message.Message):
    __slots__ = ("topics", "more")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    more: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "incarnation", "first_offset", "end_offset", "messages", "bytes", "rate_per_sec", "burst", "max_messages", "max_age_ms", "max_bytes", "keep", "groups", "created_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: int
    first_offset: int
    end_offset: int
    messages: int
    bytes: int
    rate_per_sec: float
    burst: int
    max_messages: int
    max_age_ms: int
    max_bytes: int
    keep: bool
    groups: int
    created_ms: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[int] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., rate_per_sec: _Optional[float] = ..., burst: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_age_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., keep: bool = ..., groups: _Optional[int] = ..., created_ms: _Optional[int] = ...) -> None: ...

class Groups(_message.Message):
    __slots__ = ("groups", "more")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    more: bool
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("topic", "name", "position", "lag", "in_flight", "returned", "delayed", "dead_letters", "redeliveries", "consumers", "max_deliveries", "backoff_ms", "backoff_max_ms", "reader", "start")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    REDELIVERIES_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    position: int
    lag: int
    in_flight: int
    returned: int
    delayed: int
    dead_letters: int
    redeliveries: int
    consumers: int
    max_deliveries: int
    backoff_ms: int
    backoff_max_ms: int
    reader: bool
    start: int
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., position: _Optional[int] = ..., lag: _Optional[int] = ..., in_flight: _Optional[int] = ..., returned: _Optional[int] = ..., delayed: _Optional[int] = ..., dead_letters: _Optional[int] = ..., redeliveries: _Optional[int] = ..., consumers: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_max_ms: _Optional[int] = ..., reader: bool = ..., start: _Optional[int] = ...) -> None: ...

class Redriven(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...
