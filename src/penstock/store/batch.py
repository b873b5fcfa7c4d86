"""What one commit writes, collected on the event loop: messages, and what belongs to them.

A batch belongs to the loop until it is submitted, then to the writer, who does not change it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model.message import Extras
from penstock.store.extras import extras_bytes
from penstock.store.message_columns import MessageColumns
from penstock.store.producers import ProducerRun, join, producer_run_bytes

_NO_EXTRAS = Extras()


class NodeSegment(NamedTuple):
    """The batch of one node within an entry: its first message and event there."""

    node: int
    incarnation: int
    number: int
    position: int = 0
    event: int = 0


class Batch(MessageColumns):
    """What one commit writes, atomically: dropped topics, messages, events, checkpoint rows.

    ``checkpoint``, when set, makes replay start after that entry index from this commit on.
    ``payload_bytes`` counts payloads, extras and producers.
    """

    __slots__ = (
        "checkpoint",
        "configuration",
        "drops",
        "events",
        "extras",
        "producers",
        "rows",
        "segments",
        "term",
    )

    def __init__(self) -> None:
        super().__init__()
        # by topic, then by number in the topic's payloads
        self.extras: dict[bytes, dict[int, Extras]] = {}
        # by topic; numbers count the topic's payloads
        self.producers: dict[bytes, list[ProducerRun]] = {}
        self.drops: dict[bytes, None] = {}
        self.events: list[tuple[int, tuple[object, ...]]] = []
        self.rows: list[tuple[str, bytes, bytes | None]] = []
        self.checkpoint: int | None = None
        self.segments: list[NodeSegment] = []  # which nodes' batches these are, in a cluster
        # a membership change: kind and content, opaque to the store
        self.configuration: tuple[int, bytes] | None = None
        self.term = 0  # where not 0, only the leader of this term may put the batch into the log

    def add_producer_run(
        self, topic: bytes, place: int, count: int, producer: bytes, seq: int
    ) -> None:
        """Note the seqs of messages from number ``place`` in the topic on. Calls ascend."""
        producer_run = (place, count, producer, seq)
        size = producer_run_bytes(producer_run)
        producer_runs = self.producers.setdefault(topic, [])
        joined = join(producer_runs[-1], producer_run) if producer_runs else None
        if joined is not None:
            producer_runs[-1] = joined
            return
        assert not producer_runs or place >= producer_runs[-1][0] + producer_runs[-1][1]
        producer_runs.append(producer_run)
        self.payload_bytes += size

    def drop(self, topic: bytes) -> None:
        """Drop a topic before the messages of this batch, which may create it again."""
        self.drops[topic] = None

    def add_event(self, event: tuple[object, ...]) -> None:
        """Add an event, ordered after the messages appended so far."""
        self.events.append((self.count, event))

    def add_row(self, table: str, key: bytes, value: bytes | None) -> None:
        """Put a checkpoint row, or delete it (None)."""
        self.rows.append((table, key, value))

    @property
    def is_empty(self) -> bool:
        return not (self.has_content or self.rows) and self.checkpoint is None

    @property
    def has_content(self) -> bool:
        """Whether it has something for the journal, not only checkpoint rows."""
        return bool(self.count or self.drops or self.events)

    @property
    def is_single(self) -> bool:
        """Whether it is one plain message for the journal, apart from dropped topics."""
        return (
            self.count == 1
            and not (self.events or self.extras or self.producers or self.segments)
            and self.configuration is None
        )

    def absorb(self, other: "Batch", segment: "NodeSegment | None" = None) -> None:
        """Append the journal content of another batch; runs stay apart. Neither may drop topics."""
        if segment is not None:
            self.segments.append(segment._replace(position=self.count, event=len(self.events)))
        for topic, extras in other.extras.items():
            place = self.messages_of(topic)
            shifted = {place + number: found for number, found in extras.items()}
            self.extras.setdefault(topic, {}).update(shifted)
        for topic, producer_runs in other.producers.items():
            place = self.messages_of(topic)
            moved = [(place + first, *rest) for first, *rest in producer_runs]
            self.producers.setdefault(topic, []).extend(moved)  # type: ignore[arg-type]
        self.events += [(self.count + position, event) for position, event in other.events]
        assert not self.drops
        assert not other.drops
        self.add_messages(other)
        self.payload_bytes += other.payload_bytes

    def _note_extras(self, topic: bytes, first: int, extras: Sequence[Extras | None]) -> None:
        noted = self.extras.get(topic)
        size = 0
        for number, found in enumerate(extras, start=first):
            if found is not None and (found.headers or found != _NO_EXTRAS):
                size += extras_bytes(found)
                if noted is None:
                    noted = self.extras[topic] = {}
                noted[number] = found
        self.payload_bytes += size
