"""Deduplication: (producer, seq) → offset, for the most recent messages of a topic.

A producer that got no answer sends again with the same number, and gets the offset of the first
copy. Of each topic the last ``WINDOW`` numbered messages are remembered, of all producers together,
the oldest forgotten first; a repetition does not make a message younger. Seqs are only compared for
equality: gaps, any order and 0 are fine.

Producers count upwards, and what one sends at once is adjacent, so everything is kept in **runs**:
consecutive seqs with consecutive offsets. A run is in two structures::

    by chunk      in order of arrival: what is forgotten next, and what is a row on disk
    by producer   in order of seqs: a search finds the offset

Rows. A chunk is a row of the checkpoint; its key is a number that grows over all topics and is
never reused. Only the last chunk of a topic grows, until it is full, so a checkpoint writes what is
new, at most one chunk more per topic, and deletes the chunks that are used up. A chunk at the front
that is partly used up keeps its row: it is loaded before all later ones, and what the window had
pushed out is pushed out again at the same point.

Replay notes messages again that rows contain. Offsets of a topic ascend, so everything below the
end of the last run is known and skipped. That requires that no row on disk is missing before one
that exists. So changed rows are taken in the order in which they first changed, which in each topic
is that of their numbers, and those of a failed commit before all others.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from penstock.core.columns import cut_front

WINDOW = 100_000  # numbered messages of a topic that are remembered

CHUNK_RUNS_MAX = 128  # about 2 KiB as a row, written again when it has grown


class _ProducerRow(msgspec.Struct, array_like=True):
    """A chunk as a row; a run is the index of its producer, seq, offset, count."""

    topic: bytes
    producers: list[bytes]
    runs: list[tuple[int, int, int, int]]


_decoder = msgspec.msgpack.Decoder(_ProducerRow)
_encoder = msgspec.msgpack.Encoder()


class _Runs:
    """Runs in columns; the first ``_passed`` are forgotten."""

    __slots__ = ("_counts", "_offsets", "_passed", "_seqs")

    def __init__(self) -> None:
        self._seqs = array("Q")
        self._offsets = array("Q")
        self._counts = array("Q")
        self._passed = 0

    def __len__(self) -> int:
        return len(self._seqs) - self._passed

    def _is_continued(self, place: int, seq: int, offset: int) -> bool:
        count = self._counts[place]
        return self._seqs[place] + count == seq and self._offsets[place] + count == offset

    def _shorten(self, place: int, count: int) -> None:
        self._seqs[place] += count
        self._offsets[place] += count
        self._counts[place] -= count


class _Chunk(_Runs):
    """Some runs of a topic in order of arrival."""

    __slots__ = ("_producers", "number", "topic")

    def __init__(self, number: int, topic: bytes) -> None:
        super().__init__()
        self.number = number
        self.topic = topic
        self._producers: list[bytes] = []

    @property
    def is_full(self) -> bool:
        return len(self._seqs) >= CHUNK_RUNS_MAX

    def add(self, producer: bytes, seq: int, offset: int, count: int) -> None:
        is_same = bool(self._producers) and self._producers[-1] == producer
        if is_same and self._is_continued(-1, seq, offset):
            self._counts[-1] += count
            return
        self._producers.append(producer)
        self._seqs.append(seq)
        self._offsets.append(offset)
        self._counts.append(count)

    def drop(self, count_max: int) -> tuple[bytes, int, int]:
        place = self._passed
        producer, seq, length = self._producers[place], self._seqs[place], self._counts[place]
        count = min(length, count_max)
        if count < length:
            self._shorten(place, count)
        else:
            self._passed += 1
        return producer, seq, count

    def to_row(self) -> bytes:
        left = slice(self._passed, None)
        producers = list(dict.fromkeys(self._producers[left]))
        numbers = {producer: number for number, producer in enumerate(producers)}
        runs = zip(
            [numbers[producer] for producer in self._producers[left]],
            self._seqs[left],
            self._offsets[left],
            self._counts[left],
            strict=True,
        )
        return _encoder.encode(_ProducerRow(self.topic, producers, list(runs)))


class _Seqs(_Runs):
    """The runs of one producer in order of seqs, without overlap."""

    __slots__ = ("producer",)

    def __init__(self, producer: bytes) -> None:
        super().__init__()
        self.producer = producer

    def find(self, seq: int) -> int | None:
        place = bisect_right(self._seqs, seq, self._passed) - 1
        if place < self._passed:
            return None
        distance = seq - self._seqs[place]
        return self._offsets[place] + distance if distance < self._counts[place] else None

    def has_any(self, seq: int, count: int) -> bool:
        place = bisect_left(self._seqs, seq + count, self._passed) - 1
        return place >= self._passed and self._seqs[place] + self._counts[place] > seq

    def add(self, seq: int, offset: int, count: int) -> None:
        place = bisect_right(self._seqs, seq, self._passed)
        if place > self._passed and self._is_continued(place - 1, seq, offset):
            self._counts[place - 1] += count
            return
        self._seqs.insert(place, seq)
        self._offsets.insert(place, offset)
        self._counts.insert(place, count)

    def drop(self, seq: int, count: int) -> None:
        place = bisect_left(self._seqs, seq, self._passed)
        columns = self._seqs, self._offsets, self._counts
        if count < self._counts[place]:
            self._shorten(place, count)
        elif place == self._passed:
            self._passed = cut_front(columns, place + 1)
        else:
            for column in columns:
                del column[place]


class _TopicWindow:
    """The window of one topic."""

    __slots__ = ("by_producer", "chunks", "count", "end")

    def __init__(self) -> None:
        self.chunks: deque[_Chunk] = deque()
        self.by_producer: dict[bytes, _Seqs] = {}
        self.count = 0  # remembered messages
        self.end = 0  # everything below this offset was noted

    def find(self, producer: bytes, seq: int) -> int | None:
        seqs = self.by_producer.get(producer)
        return seqs.find(seq) if seqs is not None else None

    def append(self, producer: bytes, seq: int, offset: int, count: int) -> None:
        seqs = self.by_producer.get(producer)
        if seqs is None:
            seqs = self.by_producer[producer] = _Seqs(producer)
        seqs.add(seq, offset, count)
        self.chunks[-1].add(seqs.producer, seq, offset, count)  # all runs share one name
        self.count += count
        self.end = offset + count

    def drop(self, count_max: int) -> None:
        producer, seq, count = self.chunks[0].drop(count_max)
        seqs = self.by_producer[producer]
        seqs.drop(seq, count)
        if not seqs:
            del self.by_producer[producer]
        self.count -= count


class Producers:
    """The numbered messages of all topics; ``window`` of each are remembered."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._topics: dict[bytes, _TopicWindow] = {}
        self._chunks: dict[int, _Chunk] = {}
        self._next_number = 0
        self._version = 0  # odd during a change
        # numbers of chunks that differ from their row, oldest change first
        self._dirty: OrderedDict[int, None] = OrderedDict()

    def find(self, topic: bytes, producer: bytes, seq: int) -> int | None:
        known = self._topics.get(topic)
        return known.find(producer, seq) if known is not None else None

    def has_any(self, topic: bytes, producer: bytes, seq: int, count: int) -> bool:
        """Whether any of ``count`` consecutive seqs is known."""
        known = self._topics.get(topic)
        seqs = known.by_producer.get(producer) if known is not None else None
        return seqs is not None and seqs.has_any(seq, count)

    def has_any_now(self, topic: bytes, producer: bytes, seq: int, count: int) -> bool:
        """``has_any`` on any thread, while another one may change the table."""
        while True:
            before = self._version
            try:
                found = self.has_any(topic, producer, seq, count)
            except (IndexError, KeyError, RuntimeError):
                continue  # in the middle of a change
            if before == self._version and not before & 1:
                return found

    def note(self, topic: bytes, producer: bytes, seq: int, offset: int, count: int) -> None:
        """Remember messages with consecutive seqs and offsets, none of which is known.

        Offsets of a topic ascend from call to call; those noted before are skipped, so that replay
        may note them again. A message that is known under another offset keeps that one.
        """
        self._version += 1
        known = self._topics.get(topic)
        if known is None or known.chunks[-1].is_full:
            known = self._open_chunk(topic, self._next_number)
        self._note(known, producer, seq, offset, count)
        self._version += 1

    def _open_chunk(self, topic: bytes, number: int) -> _TopicWindow:
        chunk = self._chunks[number] = _Chunk(number, topic)
        self._next_number = number + 1
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = _TopicWindow()
        known.chunks.append(chunk)
        return known

    def _note(
        self, known: _TopicWindow, producer: bytes, seq: int, offset: int, count: int
    ) -> None:
        replayed = max(known.end - offset, 0)
        seq, offset, count = seq + replayed, offset + replayed, count - replayed
        if count <= 0:
            return
        seqs = known.by_producer.get(producer)
        if seqs is None or not seqs.has_any(seq, count):
            self._append(known, producer, seq, offset, count)
            return
        # Known messages keep their offset, but each new one may push them out.
        for distance in range(count):
            if known.find(producer, seq + distance) is None:
                self._append(known, producer, seq + distance, offset + distance, 1)

    def _append(
        self, known: _TopicWindow, producer: bytes, seq: int, offset: int, count: int
    ) -> None:
        known.append(producer, seq, offset, count)
        self._dirty[known.chunks[-1].number] = None
        while known.count > self._window:
            known.drop(known.count - self._window)
            if not known.chunks[0]:
                self._remove(known.chunks.popleft())

    def _remove(self, chunk: _Chunk) -> None:
        del self._chunks[chunk.number]
        self._dirty[chunk.number] = None

    def forget_topic(self, topic: bytes) -> None:
        known = self._topics.pop(topic, None)
        if known is not None:
            for chunk in known.chunks:
                self._remove(chunk)

    # ── checkpoint ────────────────────────────────────────────────────────────────────────────

    @property
    def dirty_count(self) -> int:
        return len(self._dirty)

    def take_dirty(self, count_max: int) -> list[tuple[bytes, bytes | None]]:
        """Take up to ``count_max`` changed rows, oldest change first, and mark them clean.

        None means that a row is to be deleted. If writing fails, pass the keys to ``mark_dirty``.
        """
        count = min(count_max, len(self._dirty))
        numbers = [self._dirty.popitem(last=False)[0] for _ in range(count)]
        return [(_key(number), self._row(number)) for number in numbers]

    def _row(self, number: int) -> bytes | None:
        chunk = self._chunks.get(number)
        return chunk.to_row() if chunk is not None else None

    def mark_dirty(self, keys: Iterable[bytes]) -> None:
        """Have these rows written before all others."""
        for number in sorted(map(_number, keys), reverse=True):
            self._dirty[number] = None
            self._dirty.move_to_end(number, last=False)

    def load(self, key: bytes, row: bytes) -> None:
        """Load a chunk from the checkpoint, before any replay, in the order of keys.

        If a topic was deleted and created again while rows were being written, there may be rows of
        both. Replay will reach the deletion and forget them all. Until then some entries may be
        wrong, but nothing breaks, and no row is left behind.
        """
        data = _decoder.decode(row)
        number = _number(key)
        known = self._open_chunk(data.topic, number)
        for producer, seq, offset, count in data.runs:
            self._note(known, data.producers[producer], seq, offset, count)
        self._dirty.pop(number, None)
        if not known.chunks[-1]:
            self._remove(known.chunks.pop())


def _key(number: int) -> bytes:
    """Big-endian, so that rows are loaded in the order of their numbers."""
    return number.to_bytes(8, "big")


def _number(key: bytes) -> int:
    return int.from_bytes(key, "big")
