# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Jobs of the queue protocol: deliveries to frames, acknowledgements to numbers.

The compiled form of ``encode_deliveries`` in ``wire/queue/encode.py`` and of ``read_leases`` in
``wire/queue/fast_paths.py``, which say what the bytes mean. Deliveries are measured first, then
written at once into an object of that size.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    LEASE = 0x08
    OFFSET = 0x10
    PRIORITY = 0x18
    CONTENT_TYPE = 0x20
    PAYLOAD = 0x2A
    TIME = 0x30
    REDELIVERIES = 0x38
    ITEM = 0x0A  # of Polled
    POLLED = 0x12  # of a response
    REQUEST_ID = 0x78
    LENGTH_BYTES = 4
    VARINT_BYTES_MAX = 9  # longest number that is read: 63 bits


cdef struct Delivery:
    uint64_t numbers[6]
    Py_ssize_t size  # of the message without its head; -1: it is in bytes already


cdef inline Py_ssize_t _length(uint64_t number) noexcept:
    cdef Py_ssize_t length = 1
    while number > 127:
        number >>= 7
        length += 1
    return length


cdef inline Py_ssize_t _field_length(uint64_t number) noexcept:
    return 1 + _length(number) if number else 0


cdef inline uint8_t *_put(uint8_t *at, uint64_t number) noexcept:
    while number > 127:
        at[0] = number & 127 | 128
        at += 1
        number >>= 7
    at[0] = number
    return at + 1


cdef inline uint8_t *_put_field(uint8_t *at, uint8_t tag, uint64_t number) noexcept:
    if number:
        at[0] = tag
        at = _put(at + 1, number)
    return at


cdef inline Py_ssize_t _head_length(Py_ssize_t size, bint is_framed) noexcept:
    cdef Py_ssize_t item = 1 + _length(size)
    return LENGTH_BYTES + 1 + _length(item + size) + item if is_framed else item


cdef inline uint8_t *_put_head(uint8_t *at, Py_ssize_t size, bint is_framed) noexcept:
    cdef Py_ssize_t polled, frame
    if is_framed:
        polled = 1 + _length(size) + size
        frame = 1 + _length(polled) + polled
        at[0], at[1] = frame >> 24 & 255, frame >> 16 & 255
        at[2], at[3] = frame >> 8 & 255, frame & 255
        at[4] = POLLED
        at = _put(at + 5, polled)
    at[0] = ITEM
    return _put(at + 1, size)


cdef Py_ssize_t _measured(tuple item, Delivery *found) except -1:
    """Take the numbers of an item; return the bytes of its message."""
    cdef Py_ssize_t payload = PyBytes_GET_SIZE(<bytes?>item[4])
    cdef Py_ssize_t size = 1 + _length(payload) + payload if payload else 0
    cdef int place
    found.numbers[0], found.numbers[1] = item[0], item[1]
    found.numbers[2], found.numbers[3] = item[2], item[3]
    found.numbers[4], found.numbers[5] = item[5], item[6]
    for place in range(6):
        size += _field_length(found.numbers[place])
    return size


cdef inline uint8_t *_put_delivery(uint8_t *at, const Delivery *found, bytes payload) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(payload)
    at = _put_field(at, LEASE, found.numbers[0])
    at = _put_field(at, OFFSET, found.numbers[1])
    at = _put_field(at, PRIORITY, found.numbers[2])
    at = _put_field(at, CONTENT_TYPE, found.numbers[3])
    if size:
        at[0] = PAYLOAD
        at = _put(at + 1, size)
        memcpy(at, PyBytes_AS_STRING(payload), size)
        at += size
    at = _put_field(at, TIME, found.numbers[4])
    return _put_field(at, REDELIVERIES, found.numbers[5])


def encode_deliveries(list items, bint is_framed, whole):
    """All items, each behind its head; ``whole`` encodes the message of one with headers."""
    cdef Py_ssize_t count = len(items), number, size, total = 0
    cdef Delivery *found = <Delivery *>PyMem_RawMalloc(max(count, 1) * sizeof(Delivery))
    cdef uint8_t *at
    cdef tuple item
    cdef bytes message, frames
    cdef dict wholes = {}
    if found == NULL:
        raise MemoryError
    try:
        for number in range(count):
            item = items[number]
            if item[7]:
                message = wholes[number] = whole(item)
                size = PyBytes_GET_SIZE(message)
                found[number].size = -1
            else:
                size = found[number].size = _measured(item, &found[number])
            total += _head_length(size, is_framed) + size
        frames = PyBytes_FromStringAndSize(NULL, total)
        at = <uint8_t *>PyBytes_AS_STRING(frames)
        for number in range(count):
            if found[number].size < 0:
                message = wholes[number]
                size = PyBytes_GET_SIZE(message)
                at = _put_head(at, size, is_framed)
                memcpy(at, PyBytes_AS_STRING(message), size)
                at += size
            else:
                at = _put_head(at, found[number].size, is_framed)
                item = items[number]
                at = _put_delivery(at, &found[number], <bytes>item[4])
    finally:
        PyMem_RawFree(found)
    return frames


cdef inline int64_t _number_in(const uint8_t *at, Py_ssize_t size) noexcept:
    """A number that fills ``size`` bytes, in its shortest form; -1 if it is not."""
    cdef uint64_t number = 0
    cdef Py_ssize_t place
    if size < 1 or size > VARINT_BYTES_MAX or at[size - 1] > 127:
        return -1
    if size > 1 and at[size - 1] == 0:
        return -1
    for place in range(size):
        if place < size - 1 and at[place] < 128:
            return -1
        number |= <uint64_t>(at[place] & 127) << 7 * place
    return <int64_t>number


def read_leases(
    bytes data, Py_ssize_t position, tuple parts, bint has_ids, list leases, list request_ids
):
    """Read frames that have the same head and size; return where the first other one begins."""
    cdef Py_ssize_t head = parts[0], message = parts[1], frame = parts[2]
    cdef const uint8_t *text = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *start = text + position
    cdef const uint8_t *at
    cdef Py_ssize_t last = PyBytes_GET_SIZE(data) - frame
    cdef int64_t lease, request_id
    while position <= last:
        at = text + position
        if memcmp(start, at, head):
            break
        lease = _number_in(at + head, message - head)
        request_id = 0
        if message < frame:
            request_id = -1
            if at[message] == REQUEST_ID:
                request_id = _number_in(at + message + 1, frame - message - 1)
        if lease < 0 or request_id < 0 or (request_id > 0) != has_ids:
            break
        leases.append(lease)
        request_ids.append(request_id)
        position += frame
    return position
