# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a batch as columns in C, and the encoder of an entry's message sections.

The compiled form of ``store/message_columns.py`` and of what ``store/entry.py`` does for messages.

A message is a place in a bytes object. An ordinary payload is an object of its own. A slice of what
was read from a connection is a place in that *chunk*, which is kept once for all its slices. So a
message costs sixteen bytes and is copied once, into the entry.

A chunk is memory, too, and ``payload_bytes`` counts only what was taken of it. So when the slices
of the next chunk begin, those of a chunk that is much larger than them are copied, and it is let
go: ``CHUNK_PARTS_MAX``. With that, a batch holds at most four times its payloads, some bytes per
message, and one chunk.
"""

from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, UINT32_MAX
from libc.string cimport memcpy, memset

from zlib import crc32 as _crc32_of_zlib

cdef extern from "Python.h":
    char *PyBytes_AS_STRING(PyObject *) nogil
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject *) nogil
    PyObject *PyDict_GetItemWithError(object, object) except? NULL

cdef extern from "crc32.h" nogil:
    const int CRC32_FOLDED_BYTES_MIN
    bint crc32_can_fold()
    void crc32_prepare()
    uint32_t crc32_folded(const uint8_t *data, size_t size, uint32_t crc)
    uint32_t crc32_short(const uint8_t *data, size_t size, uint32_t crc)

crc32_prepare()
cdef bint _can_fold = crc32_can_fold()

cdef enum:
    PLACES = 512  # topics that are found by their address; a power of two

    # A chunk is kept for its slices if they are at least a quarter of it, or if it is hardly larger
    # than an object per message would be.
    CHUNK_PARTS_MAX = 4
    CHUNK_BYTES_SMALL = 256

    UNLOCKED_BYTES_MIN = 65_536  # from here on, others may run while an entry is written

    # the header: magic, version and flags, number of sections; checksum; the rest
    PREFIX_BYTES = 8
    CHECKED_FROM = 12
    HEADER_BYTES = 48
    SECTION_BYTES = 8
    MESSAGE_SECTIONS_MAX = 13
    BYTE_MAX = 0xFF
    FLAGS_MAX = 0xFFFF


cdef inline void *_grown(void *array, Py_ssize_t number, size_t width) except NULL:
    cdef void *found = PyMem_RawRealloc(array, number * width)
    if found is NULL:
        raise MemoryError
    return found


cdef inline Py_ssize_t _room(Py_ssize_t room, Py_ssize_t needed) except -1:
    """How much to allocate, so that growing costs next to nothing in the long run."""
    if needed > UINT32_MAX:
        raise OverflowError("an entry has at most 2**32 - 1 messages")
    return max(needed, 2 * room, 8)


cdef list _as_bytes(payloads):
    return [payload if PyBytes_CheckExact(payload) else memoryview(payload).tobytes()
            for payload in payloads]


cdef class TopicBatch:
    """The messages of one topic in a batch: payloads in order of arrival, and flat runs."""

    def __init__(self):
        self.payloads = []
        self.runs = []


cdef class MessageColumns:
    """Messages in order of arrival."""

    def __cinit__(self):
        self.topics = {}
        self._owners = []

    def __init__(self):
        pass

    def __dealloc__(self):
        PyMem_RawFree(self._messages)
        PyMem_RawFree(self._runs)
        PyMem_RawFree(self._groups)
        PyMem_RawFree(self._places)
        PyMem_RawFree(self._order)
        PyMem_RawFree(self._positions)
        PyMem_RawFree(self._group_ends)

    # ── Adding ────────────────────────────────────────────────────────────────────────────────

    def append(self, bytes topic not None, payloads, long long time_ms, int flags, extras=None):
        """Add messages of one topic, each with its ``extras``; return the first position."""
        cdef Py_ssize_t position = self.count, number = len(payloads)
        cdef uint32_t group
        if not number:
            return position
        group = self._number(topic)
        if extras is not None:
            assert len(extras) == number
            self._note_extras(topic, self._groups[group].count, extras)
        self._reserve_runs(1)
        self.payload_bytes += self._add_payloads(payloads)
        self._groups[group].count += number
        self._begin(group, number, time_ms, flags)
        return position

    def append_each(self, topics, payloads, long long time_ms, int flags):
        """Add messages, ``topics[n]`` that of ``payloads[n]``; return the first position."""
        cdef Py_ssize_t position = self.count, number = len(payloads), place, changes = 0
        cdef list names = topics if type(topics) is list else list(topics)
        cdef uint32_t *groups
        cdef bint joins
        if len(names) != number:
            raise ValueError("there must be a topic for each payload")
        groups = <uint32_t *>_grown(NULL, number + 1, sizeof(uint32_t))
        try:
            for place in range(number):
                if not PyBytes_CheckExact(names[place]):
                    raise TypeError("topics are bytes")
                groups[place] = self._number(<bytes>names[place])
                changes += place > 0 and groups[place] != groups[place - 1]
            self._reserve_runs(number)
            self.payload_bytes += self._add_payloads(payloads)
            self._is_open = False
            joins = 2 * changes < number  # neighbours are mostly of one topic
            for place in range(number):
                self._begin(groups[place], 1, time_ms, flags)
                self._is_open = joins
                self._groups[groups[place]].count += 1
        finally:
            PyMem_RawFree(groups)
            self._is_open = False
        return position

    def append_slice(
        self, bytes topic not None, bytes chunk not None, Py_ssize_t start, Py_ssize_t end,
        long long time_ms, int flags,
    ):
        """``append`` one message that is a part of what was read; return its position."""
        cdef Py_ssize_t position = self.count
        self.add_slice(topic, chunk, start, end, time_ms, flags)
        return position

    cdef int add_slice(
        self, bytes topic, bytes chunk, Py_ssize_t start, Py_ssize_t end, long long time_ms,
        int flags,
    ) except -1:
        cdef Message *message
        cdef uint32_t group
        if not 0 <= start <= end <= PyBytes_GET_SIZE(chunk):
            raise AssertionError
        if <PyObject *>chunk is not self._chunk:
            self._change_chunk(chunk)
        if self.count == self._message_room:
            self._reserve_messages(1)
        group = self._number(topic)
        self._begin(group, 1, time_ms, flags)
        message = &self._messages[self.count]
        message.owner = self._chunk
        message.start = start
        message.length = end - start
        self._groups[group].count += 1
        self.count += 1
        self._chunk_taken += end - start
        self._content_bytes += end - start
        self.payload_bytes += end - start
        return 0

    def add_topic(self, bytes topic not None):
        """Return the number of a topic, which must get messages."""
        return self._number(topic)

    def add_run(self, Py_ssize_t group, payloads, long long time_ms, int flags):
        """Add a run that stays apart from the one before it. ``payload_bytes`` is not changed."""
        cdef Py_ssize_t number = len(payloads)
        if not 0 <= group < self._group_count:
            raise IndexError("there is no such topic")
        self._reserve_runs(1)
        self._add_payloads(payloads)
        self._groups[group].count += number
        self._is_open = False
        self._begin(group, number, time_ms, flags)
        self._is_open = False

    def add_messages(self, MessageColumns other not None):
        """Append all of another; runs stay apart. ``payload_bytes`` is not changed."""
        cdef list numbers = [self._number(topic) for topic in other.topics]
        cdef Py_ssize_t place
        cdef uint32_t group
        assert other is not self
        self._reserve_messages(other.count)
        self._reserve_runs(other._run_count)
        self._owners += other._owners
        for place in range(other._group_count):
            group = numbers[place]
            self._groups[group].count += other._groups[place].count
        for place in range(other._run_count):
            self._runs[self._run_count] = other._runs[place]
            group = numbers[other._runs[place].group]
            self._runs[self._run_count].group = group
            self._run_count += 1
        if other.count:
            memcpy(&self._messages[self.count], other._messages, other.count * sizeof(Message))
        self.count += other.count
        self._content_bytes += other._content_bytes
        self._is_open = False

    cdef Py_ssize_t _number(self, bytes topic) except -1:
        """The number of a topic, which may be new. Most are found by their address."""
        cdef PyObject *name = <PyObject *>topic
        cdef PyObject *found
        cdef Place *place = NULL
        cdef Py_ssize_t number
        if self._places is not NULL:
            place = &self._places[(<size_t>name >> 5) % PLACES]
            if place.name is name:
                return place.group
        elif self._group_count == 1 and self._groups[0].name is name:
            return 0
        found = PyDict_GetItemWithError(self.topics, topic)
        if found is NULL:
            number = self._new_topic(topic)
        else:
            number = <object>found
        if place is not NULL and self._groups[number].name is name:
            place.name = name
            place.group = number
        return number

    cdef Py_ssize_t _new_topic(self, bytes topic) except -1:
        cdef Py_ssize_t number = self._group_count
        if number == self._group_room:
            self._group_room = _room(number, number + 1)
            self._groups = <Group *>_grown(self._groups, self._group_room, sizeof(Group))
        if number == 1 and self._places is NULL:
            self._places = <Place *>_grown(NULL, PLACES, sizeof(Place))
            memset(self._places, 0, PLACES * sizeof(Place))
        self.topics[topic] = number
        self._groups[number].name = <PyObject *>topic
        self._groups[number].count = 0
        self._group_count = number + 1
        return number

    cdef int _begin(
        self, uint32_t group, uint32_t count, int64_t time_ms, uint32_t flags
    ) except -1:
        """Add messages to the last run if it may go on, otherwise begin one."""
        cdef Run *run
        if self._is_open:
            run = &self._runs[self._run_count - 1]
            if run.group == group and run.time_ms == time_ms and run.flags == flags:
                run.count += count
                return 0
        if self._run_count == self._run_room:
            self._reserve_runs(1)
        run = &self._runs[self._run_count]
        run.time_ms = time_ms
        run.group = group
        run.count = count
        run.flags = flags
        self._run_count += 1
        self._is_open = True
        return 0

    cdef int _reserve_messages(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room
        if self.count + more > self._message_room:
            self._must_be_mine()
            room = _room(self._message_room, self.count + more)
            self._messages = <Message *>_grown(self._messages, room, sizeof(Message))
            self._message_room = room
        return 0

    cdef int _reserve_runs(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room
        if self._run_count + more > self._run_room:
            self._must_be_mine()
            room = _room(self._run_room, self._run_count + more)
            self._runs = <Run *>_grown(self._runs, room, sizeof(Run))
            self._run_room = room
        return 0

    cdef int _must_be_mine(self) except -1:
        if self._readers:
            raise RuntimeError("a batch must not change while it is written")
        return 0

    cdef Py_ssize_t _add_payloads(self, payloads) except -1:
        """Add objects, each a message; return their size. Run and topic are up to the caller."""
        cdef Py_ssize_t number = len(payloads), place, length, size = 0
        cdef Message *message
        cdef list known = payloads if type(payloads) is list else list(payloads)
        for payload in known:
            if not PyBytes_CheckExact(payload):
                known = _as_bytes(known)
                break
        self._reserve_messages(number)
        message = &self._messages[self.count]
        for place in range(number):
            payload = known[place]
            length = PyBytes_GET_SIZE(payload)
            if length > UINT32_MAX:
                raise OverflowError("a payload is too long")
            message.owner = <PyObject *>payload
            message.start = 0
            message.length = length
            message += 1
            size += length
        if number == 1:
            self._owners.append(known[0])
        else:
            self._owners += known
        self.count += number
        self._content_bytes += size
        return size

    # ── Chunks ────────────────────────────────────────────────────────────────────────────────

    cdef int _change_chunk(self, bytes chunk) except -1:
        if PyBytes_GET_SIZE(chunk) > UINT32_MAX:
            raise OverflowError("a chunk is too long")
        if self._chunk is not NULL:
            self._settle()
        self._owners.append(chunk)
        self._chunk = <PyObject *>chunk
        self._chunk_owner = len(self._owners) - 1
        self._chunk_first = self.count
        self._chunk_taken = 0
        return 0

    cdef int _settle(self) except -1:
        """Copy the slices of the last chunk if it is too large to be kept for them."""
        cdef Py_ssize_t size = size_of(self._chunk), place
        cdef PyObject *chunk = self._chunk
        cdef Message *message
        cdef bytes copied
        cdef char *out
        cdef uint32_t used = 0
        if size <= CHUNK_PARTS_MAX * self._chunk_taken + CHUNK_BYTES_SMALL:
            return 0
        self._must_be_mine()
        copied = PyBytes_FromStringAndSize(NULL, self._chunk_taken)
        out = PyBytes_AS_STRING(<PyObject *>copied)
        for place in range(self._chunk_first, self.count):
            message = &self._messages[place]
            if message.owner is chunk and message.length < size:  # otherwise it is a payload itself
                memcpy(out + used, PyBytes_AS_STRING(chunk) + message.start, message.length)
                message.owner = <PyObject *>copied
                message.start = used
                used += message.length
        self._chunk = NULL
        self._owners[self._chunk_owner] = copied
        return 0

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    def messages_of(self, topic):
        """How many messages of a topic there are."""
        number = self.topics.get(topic)
        return 0 if number is None else self._groups[<Py_ssize_t>number].count

    def first_times(self):
        """The time of each topic's first run, by number of the topic; all have messages."""
        cdef list found = [None] * self._group_count
        cdef Py_ssize_t place
        for place in range(self._run_count - 1, -1, -1):
            found[self._runs[place].group] = self._runs[place].time_ms
        return found

    @property
    def group_messages(self):
        """How many messages there are, by number of the topic."""
        return [self._groups[place].count for place in range(self._group_count)]

    @property
    def payloads(self):
        """All payloads, in order of arrival."""
        return self.payloads_between(0, self.count)

    def payloads_between(self, Py_ssize_t start, Py_ssize_t end):
        """The payloads at positions ``start … end - 1``."""
        cdef Py_ssize_t place
        start, end = max(start, 0), min(end, self.count)
        return [self._payload(place) for place in range(start, end)]

    cdef bytes _payload(self, Py_ssize_t position):
        cdef Message *message = &self._messages[position]
        if message.length == size_of(message.owner):
            return <bytes>message.owner
        return PyBytes_FromStringAndSize(
            PyBytes_AS_STRING(message.owner) + message.start, message.length
        )

    @property
    def runs(self):
        """Number of the topic, count, time and flags of each run, as they arrived; flat."""
        cdef list found = []
        cdef Py_ssize_t place
        cdef Run *run
        for place in range(self._run_count):
            run = &self._runs[place]
            found += (run.group, run.count, run.time_ms, run.flags)
        return found

    def each_run(self):
        """Position, number of the topic, count, time and flags of each run, as they arrived."""
        cdef list found = []
        cdef Py_ssize_t place, position = 0
        cdef Run *run
        for place in range(self._run_count):
            run = &self._runs[place]
            found.append((position, run.group, run.count, run.time_ms, run.flags))
            position += run.count
        return iter(found)

    @property
    def groups(self):
        """The messages by topic. It costs what it holds: not for every commit."""
        if self._grouped is None or self._grouped_count != self.count:
            self._grouped = {topic: self.group(topic) for topic in self.topics}
            self._grouped_count = self.count
        return self._grouped

    def group(self, topic):
        """The messages of one topic."""
        number = self.topics.get(topic)
        return None if number is None else self._group(number)

    cdef TopicBatch _group(self, Py_ssize_t number):
        cdef TopicBatch found = TopicBatch()
        cdef Py_ssize_t place, position
        cdef Run *run
        self._sort()
        for place in range(self._group_ends[number - 1] if number else 0, self._group_ends[number]):
            run = &self._runs[self._order[place]]
            position = self._positions[self._order[place]]
            found.runs += (position, run.count, run.time_ms, run.flags)
            for position in range(position, position + run.count):
                found.payloads.append(self._payload(position))
        return found

    cdef int _sort(self) except -1:
        """Find the order of the runs by topic, stably, unless it is known."""
        cdef Py_ssize_t runs = self._run_count, groups = self._group_count, place
        cdef uint32_t position = 0, start = 0, count
        if (
            self._sorted_runs == runs and self._sorted_groups == groups
            and self._sorted_count == self.count and self._group_ends is not NULL
        ):
            return 0
        self._must_be_mine()
        self._sorted_count = -1
        self._order = <uint32_t *>_grown(self._order, runs + 1, sizeof(uint32_t))
        self._positions = <uint32_t *>_grown(self._positions, runs + 1, sizeof(uint32_t))
        self._group_ends = <uint32_t *>_grown(self._group_ends, groups + 1, sizeof(uint32_t))
        memset(self._group_ends, 0, (groups + 1) * sizeof(uint32_t))
        for place in range(runs):
            self._positions[place] = position
            position += self._runs[place].count
            self._group_ends[self._runs[place].group] += 1
        for place in range(groups):
            count = self._group_ends[place]
            self._group_ends[place] = start
            start += count
        for place in range(runs):
            self._order[self._group_ends[self._runs[place].group]] = place
            self._group_ends[self._runs[place].group] += 1
        self._sorted_runs, self._sorted_groups, self._sorted_count = runs, groups, self.count
        return 0


# ── Encoding ──────────────────────────────────────────────────────────────────────────────────

cdef struct Layout:
    # the directory: what the sections are, and how long; where the next begins
    uint16_t ids[MESSAGE_SECTIONS_MAX]
    uint64_t sizes[MESSAGE_SECTIONS_MAX]
    size_t starts[MESSAGE_SECTIONS_MAX]
    int count


cdef inline size_t _padded(uint64_t size) noexcept nogil:
    return (size + 7) & ~<uint64_t>7


cdef int _add_section(Layout *layout, uint16_t section, uint64_t size) except -1:
    if size > UINT32_MAX:
        raise OverflowError("a section of an entry is too long")
    layout.ids[layout.count] = section
    layout.sizes[layout.count] = size
    layout.count += 1
    return 0


cdef int _lay_out(MessageColumns columns, Layout *layout, size_t name_bytes) except -1:
    cdef uint64_t groups = columns._group_count, runs = columns._run_count, count = columns.count
    cdef uint32_t flags = 0
    cdef uint64_t place
    for place in range(runs):
        if columns._runs[place].flags > FLAGS_MAX:
            raise OverflowError("flags have sixteen bits")
        flags |= columns._runs[place].flags
    _add_section(layout, 1, 4 * groups)  # topic ids
    _add_section(layout, 2, 8 * groups)  # first offsets
    _add_section(layout, 3, 4 * groups)  # message ends
    _add_section(layout, 4, 4 * groups)  # run ends
    _add_section(layout, 5, 4 * groups)  # name ends
    _add_section(layout, 6, name_bytes)
    _add_section(layout, 7, 4 * runs)  # positions
    _add_section(layout, 8, 4 * (runs + 1))  # bounds of runs
    _add_section(layout, 9, 4 * runs)  # times
    _add_section(layout, 10, runs)  # flags, the low byte
    if flags > BYTE_MAX:
        _add_section(layout, 20, runs)  # the high byte
    _add_section(layout, 11, 4 * (count + 1))  # bounds of payloads
    _add_section(layout, 12, columns._content_bytes)
    return 0


cdef void _put_u16(uint8_t *out, uint16_t value) noexcept nogil:
    memcpy(out, &value, 2)


cdef void _put_u32(uint8_t *out, uint32_t value) noexcept nogil:
    memcpy(out, &value, 4)


cdef void _put_u64(uint8_t *out, uint64_t value) noexcept nogil:
    memcpy(out, &value, 8)


cdef int _put_groups(
    MessageColumns columns, Layout *layout, uint8_t *out, topic_ids, first_offsets
) except -1:
    """What has an item per topic, all of which needs the interpreter."""
    cdef uint32_t *ids = <uint32_t *>(out + layout.starts[0])
    cdef uint64_t *offsets = <uint64_t *>(out + layout.starts[1])
    cdef uint32_t *message_ends = <uint32_t *>(out + layout.starts[2])
    cdef uint32_t *run_ends = <uint32_t *>(out + layout.starts[3])
    cdef uint32_t *name_ends = <uint32_t *>(out + layout.starts[4])
    cdef char *names = <char *>(out + layout.starts[5])
    cdef uint32_t messages = 0, name_end = 0
    cdef Py_ssize_t place, size
    cdef PyObject *name
    if not len(topic_ids) == len(first_offsets) == columns._group_count:
        raise ValueError("there must be an id and an offset for each topic")
    for place in range(columns._group_count):
        name = columns._groups[place].name
        size = size_of(name)
        memcpy(names + name_end, PyBytes_AS_STRING(name), size)
        name_end += size
        messages += columns._groups[place].count
        ids[place] = topic_ids[place]
        offsets[place] = first_offsets[place]
        message_ends[place] = messages
        run_ends[place] = columns._group_ends[place]
        name_ends[place] = name_end
    return 0


cdef int64_t _earliest(MessageColumns columns) except -1:
    cdef int64_t found = columns._runs[0].time_ms
    cdef Py_ssize_t place
    for place in range(columns._run_count):
        found = min(found, columns._runs[place].time_ms)
    if found < 0:
        raise OverflowError("times are not negative")
    return found


cdef void _put_messages(
    MessageColumns columns, Layout *layout, uint8_t *out, int64_t time_ms
) noexcept nogil:
    """What has an item per run or message, in the order of topics, and the payloads."""
    cdef uint32_t *positions = <uint32_t *>(out + layout.starts[6])
    cdef uint32_t *run_bounds = <uint32_t *>(out + layout.starts[7])
    cdef uint32_t *times = <uint32_t *>(out + layout.starts[8])
    cdef uint8_t *flags = out + layout.starts[9]
    cdef uint8_t *types = out + layout.starts[10] if layout.count == MESSAGE_SECTIONS_MAX else NULL
    cdef uint32_t *bounds = <uint32_t *>(out + layout.starts[layout.count - 2])
    cdef uint8_t *payloads = out + layout.starts[layout.count - 1]
    cdef uint32_t done = 0, end = 0
    cdef Py_ssize_t place
    cdef Run *run
    cdef Message *message
    cdef Message *last
    for place in range(columns._run_count):
        run = &columns._runs[columns._order[place]]
        positions[place] = columns._positions[columns._order[place]]
        run_bounds[place] = done
        times[place] = <uint32_t>min(run.time_ms - time_ms, <int64_t>UINT32_MAX)
        flags[place] = run.flags & BYTE_MAX
        if types is not NULL:
            types[place] = run.flags >> 8
        message = &columns._messages[positions[place]]
        last = message + run.count
        while message < last:
            bounds[done] = end
            memcpy(
                payloads + end, PyBytes_AS_STRING(message.owner) + message.start, message.length
            )
            end += message.length
            done += 1
            message += 1
    run_bounds[columns._run_count] = done
    bounds[done] = end


cdef uint32_t _checksum_of(const uint8_t *data, size_t size, uint32_t crc) noexcept nogil:
    cdef size_t folded = size & ~<size_t>15
    if size >= <size_t>CRC32_FOLDED_BYTES_MIN:
        crc = crc32_folded(data, folded, crc)
        data += folded
        size -= folded
    return crc32_short(data, size, crc)


cdef void _sum_up(uint8_t *out, size_t size) noexcept nogil:
    cdef uint32_t crc = crc32_short(out, PREFIX_BYTES, UINT32_MAX)
    _put_u32(out + PREFIX_BYTES, ~_checksum_of(out + CHECKED_FROM, size - CHECKED_FROM, crc))


cdef list _group_bytes(MessageColumns columns, Layout *layout, uint8_t *out):
    cdef uint32_t *message_ends = <uint32_t *>(out + layout.starts[2])
    cdef uint32_t *bounds = <uint32_t *>(out + layout.starts[layout.count - 2])
    cdef uint32_t start = 0
    cdef list found = []
    for place in range(columns._group_count):
        found.append(bounds[message_ends[place]] - start)
        start = bounds[message_ends[place]]
    return found


cdef size_t _put_directory(uint8_t *out, Layout *layout, list others) except 0:
    """Write what the sections are; return the end of the entry."""
    cdef size_t start = HEADER_BYTES + SECTION_BYTES * (layout.count + len(others))
    cdef uint8_t *item = out + HEADER_BYTES
    cdef int place
    cdef bytes content
    for place in range(layout.count):
        layout.starts[place] = start
        _put_u16(item, layout.ids[place])
        _put_u16(item + 2, 0)
        _put_u32(item + 4, <uint32_t>layout.sizes[place])
        item += SECTION_BYTES
        start += _padded(layout.sizes[place])
        if start > layout.starts[place]:
            memset(out + start - 8, 0, 8)  # the padding; the rest is written over
    for section, content in others:
        _put_u16(item, section)
        _put_u16(item + 2, 0)
        _put_u32(item + 4, <uint32_t>PyBytes_GET_SIZE(content))
        item += SECTION_BYTES
        memcpy(out + start, PyBytes_AS_STRING(<PyObject *>content), PyBytes_GET_SIZE(content))
        memset(out + start + PyBytes_GET_SIZE(content), 0, -PyBytes_GET_SIZE(content) & 7)
        start += _padded(PyBytes_GET_SIZE(content))
    return start


cdef size_t _size_of(Layout *layout, list others) except 0:
    cdef size_t size = HEADER_BYTES + SECTION_BYTES * (layout.count + len(others))
    cdef int place
    cdef bytes content
    for place in range(layout.count):
        size += _padded(layout.sizes[place])
    for _, content in others:
        if PyBytes_GET_SIZE(content) > UINT32_MAX:
            raise OverflowError("a section of an entry is too long")
        size += _padded(PyBytes_GET_SIZE(content))
    return size


def encode(
    MessageColumns columns not None, uint64_t index, uint64_t base_sequence, topic_ids,
    first_offsets, list others not None,
):
    """An entry of the messages and of ``others``, sections that follow theirs.

    Returns the entry, its earliest time, the bytes of payload of each topic, and the sections of
    messages, which are views of the entry.
    """
    cdef Layout layout
    cdef size_t size, name_bytes = 0
    cdef int64_t time_ms = 0
    cdef bytes data
    cdef uint8_t *out
    cdef list group_bytes = []
    layout.count = 0
    if columns.count:
        for topic in columns.topics:
            name_bytes += len(topic)
        columns._sort()
        time_ms = _earliest(columns)
        _lay_out(columns, &layout, name_bytes)
    size = _size_of(&layout, others)
    data = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t *>PyBytes_AS_STRING(<PyObject *>data)
    memcpy(out, b"PSTK\x01\x00", 6)
    _put_u16(out + 6, layout.count + len(others))
    _put_u32(out + CHECKED_FROM, 0)
    _put_u64(out + 16, index)
    _put_u64(out + 24, base_sequence)
    _put_u32(out + 32, columns.count)
    _put_u32(out + 36, columns._group_count)
    _put_u64(out + 40, time_ms)
    assert _put_directory(out, &layout, others) == size
    if columns.count:
        _put_groups(columns, &layout, out, topic_ids, first_offsets)
        if size >= UNLOCKED_BYTES_MIN:
            columns._readers += 1
            with nogil:
                _put_messages(columns, &layout, out, time_ms)
            columns._readers -= 1
        else:
            _put_messages(columns, &layout, out, time_ms)
        group_bytes = _group_bytes(columns, &layout, out)
    _add_checksum(data, out, size)
    return data, time_ms, group_bytes, _sections(data, &layout, len(others))


cdef int _add_checksum(bytes data, uint8_t *out, size_t size) except -1:
    cdef object view
    if not _can_fold:
        view = memoryview(data)
        _put_u32(
            out + PREFIX_BYTES, _crc32_of_zlib(view[CHECKED_FROM:], _crc32_of_zlib(view[:PREFIX_BYTES]))
        )
    elif size >= UNLOCKED_BYTES_MIN:
        with nogil:
            _sum_up(out, size)
    else:
        _sum_up(out, size)
    return 0


cdef dict _sections(bytes data, Layout *layout, Py_ssize_t others):
    cdef dict found = {}
    cdef int place
    if not layout.count or (_is_single(layout) and not others):
        return found
    view = memoryview(data)
    for place in range(layout.count):
        start = layout.starts[place]
        found[layout.ids[place]] = view[start : start + layout.sizes[place]]
    return found


cdef bint _is_single(Layout *layout):
    """Whether there is one message, with flags of one byte."""
    return layout.count == MESSAGE_SECTIONS_MAX - 1 and layout.sizes[layout.count - 2] == 8
