"""Messages of the journal: pages, series, what publishing did or would do."""

import msgspec

from penstock.api.documents.payloads import Header, Payload


class Signer(msgspec.Struct, frozen=True):
    """Whose signature a message has."""

    key: int
    version: int
    device: str | None  # None: the key is not known any more


class MessageRow(msgspec.Struct, frozen=True):
    """A message. ``format`` is how the payload is shown: json, text, msgpack or hex.

    JSON and MessagePack come as JSON text in ``payload.text``; ``fault`` says why a payload could
    not be shown as it was asked for. A ``cut`` payload is whole in ``messages/payload``.
    """

    topic: str
    offset: int | None  # None, like ``sequence``: the journal does not keep it
    sequence: int | None
    time: str | None
    qos: int
    retain: bool
    priority: int
    content_type: str | None
    due: str | None
    expires: str | None
    headers: list[Header]
    signer: Signer | None
    payload: Payload
    payload_bytes: int
    cut: bool
    format: str
    fault: str | None = None


class Messages(msgspec.Struct, frozen=True):
    """A page of a topic.

    ``stopped`` is empty if the page is full or the topic is over, else ``messages``, ``bytes`` or
    ``time``: ``scanned`` messages are enough for one request, and ``next`` goes on.
    """

    topic: str
    first_offset: int
    next_offset: int
    order: str  # newest or oldest first
    items: list[MessageRow]
    scanned: int
    stopped: str
    next: str | None = None


class Point(msgspec.Struct, frozen=True):
    """A bucket of a series: of the numbers in it the least, the greatest and the last."""

    at: str | None  # when the bucket begins
    min: float
    max: float
    last: float
    count: int


class SeriesLine(msgspec.Struct, frozen=True):
    """The numbers of one field of one topic; an empty ``field`` is the payload itself."""

    topic: str
    field: str
    points: list[Point]
    scanned: int
    numbers: int  # messages that had a number there
    stopped: str  # as in ``Messages``: empty, messages or time
    next_offset: int


class Series(msgspec.Struct, frozen=True):
    """Lines with buckets of the same width."""

    bucket_s: float
    since: str | None
    until: str | None
    items: list[SeriesLine]
    fields: list[str]  # numeric fields of the newest message of the first topic, to choose from


class PublishRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to publish. Its payload is ``text`` or ``base64``; neither: an empty one."""

    topic: str
    text: str | None = None
    base64: str | None = None
    qos: int = 1
    retain: bool = False
    headers: list[tuple[str, str]] = []
    content_type: str = ""
    priority: int = 0
    delay_s: float = 0  # work queues hand it out this much later
    expires_s: float = 0  # how long it is worth delivering; 0: for ever
    dry_run: bool = False


class PublishCheck(msgspec.Struct, frozen=True):
    """One thing that publishing depends on."""

    check: str  # topic, rights, signature, size, quota, disk, quorum, retained
    ok: bool
    text: str


class Receivers(msgspec.Struct, frozen=True):
    """Who gets a message as of now."""

    sessions: int
    away: int  # of these
    live: int
    groups: list[str]
    examples: list[str]  # client ids of some sessions


class Published(msgspec.Struct, frozen=True):
    """What became of a message, or would; ``offset`` is None in a dry run.

    ``accepted`` is false only in a dry run: otherwise a refusal is a problem.
    """

    topic: str
    dry_run: bool
    accepted: bool
    payload_bytes: int
    offset: int | None
    sequence: int | None
    time: str | None
    checks: list[PublishCheck] = []
    receivers: Receivers | None = None


class TailEvent(msgspec.Struct, frozen=True):
    """An event of the stream: the newest messages under a filter, oldest first.

    ``skipped`` messages under the filter came too fast to be shown, and ``unseen`` ones of any
    topic too fast to be looked at; ``source`` is ``journal``, or ``live`` for topics that are not
    journaled.
    """

    items: list[MessageRow]
    skipped: int
    unseen: int
    source: str
    sequence: int  # up to here the journal was looked at
