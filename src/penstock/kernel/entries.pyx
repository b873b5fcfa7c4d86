# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages of a topic as entries of a stream, encoded for Redis clients.

The compiled form of ``doors/resp/streams/encoding.py``. The fields of most entries are a JSON
object of plain texts, written by this broker. It is copied text by text into one buffer, and no
text becomes an object. What is anything else (an escape, spaces, a name that occurs twice, many
fields, a large payload) is left to the Python form.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_AS_STRING
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

cdef enum:
    FLAG_FIELDS = 0b1000
    NAMES_MAX = 32  # fields whose names are compared with each other
    PAYLOAD_BYTES_MAX = 65_536
    # Of a pair of texts, JSON has at least six bytes more than the texts, and RESP at most twenty:
    # two lengths of five digits, "$" and two line ends for each.
    GROWTH = 5
    ID_BYTES_MAX = 48  # two numbers of twenty digits at most, and a dash
    HEAD_BYTES_MAX = 128  # id, its length, and that of the array

cdef inline char *_put_number(char *at, uint64_t number) noexcept:
    cdef char digits[20]
    cdef int count = 0
    while True:
        digits[count] = 48 + number % 10
        count += 1
        number //= 10
        if not number:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef inline char *_put_line(char *at, char mark, uint64_t number) noexcept:
    at[0] = mark
    at = _put_number(at + 1, number)
    at[0] = 13
    at[1] = 10
    return at + 2


cdef inline char *_put_bulk(char *at, const char *text, Py_ssize_t size) noexcept:
    at = _put_line(at, 36, size)
    memcpy(at, text, size)
    at += size
    at[0] = 13
    at[1] = 10
    return at + 2


cdef inline const char *_text_end(const char *text, const char *end) noexcept:
    """The closing quote of a text without escapes; NULL if it has some, or does not end."""
    cdef const char *quote = <const char *>memchr(text, 34, end - text)
    if quote == NULL or memchr(text, 92, quote - text) != NULL:
        return NULL
    return quote


cdef char *_put_fields(char *at, const char *json, Py_ssize_t size) noexcept:
    """The texts of an object as an array; NULL if it must be parsed."""
    cdef const char *names[NAMES_MAX]
    cdef Py_ssize_t sizes[NAMES_MAX]
    cdef const char *place = json + 1
    cdef const char *end = json + size - 1  # the closing brace
    cdef const char *values[NAMES_MAX]
    cdef Py_ssize_t value_sizes[NAMES_MAX]
    cdef const char *quote
    cdef int count = 0, number
    if size < 7 or json[0] != 123 or end[0] != 125:
        return NULL
    while True:
        if count == NAMES_MAX or end - place < 5 or place[0] != 34:
            return NULL
        quote = _text_end(place + 1, end)
        if quote == NULL or end - quote < 4 or quote[1] != 58 or quote[2] != 34:
            return NULL
        names[count], sizes[count] = place + 1, quote - place - 1
        for number in range(count):
            if sizes[number] == sizes[count] and not memcmp(
                names[number], names[count], sizes[count]
            ):
                return NULL
        place = quote + 3
        quote = _text_end(place, end)
        if quote == NULL:
            return NULL
        values[count], value_sizes[count] = place, quote - place
        count += 1
        place = quote + 1
        if place == end:
            break
        if place[0] != 44:
            return NULL
        place += 1
    at = _put_line(at, 42, 2 * count)
    for number in range(count):
        at = _put_bulk(at, names[number], sizes[number])
        at = _put_bulk(at, values[number], value_sizes[number])
    return at


cdef class _Room:
    """Memory to write one entry into."""

    cdef char *memory
    cdef Py_ssize_t size

    cdef char *reserve(self, Py_ssize_t size) except NULL:
        if self.size < size:
            PyMem_RawFree(self.memory)
            self.memory = NULL
            self.size = 0
            self.memory = <char *>PyMem_RawMalloc(size)
            if self.memory == NULL:
                raise MemoryError
            self.size = size
        return self.memory

    def __dealloc__(self):
        PyMem_RawFree(self.memory)


def encode_entries(part, alone):
    """The ids and the encoded entries of a slice; ``alone(number)`` encodes one in Python."""
    cdef bytes blob = part.blob, bounds_column = part.bounds, flags_column = part.run_flags
    cdef bytes starts_column = part.run_starts, times_column = part.run_times
    cdef const uint32_t *bounds = <const uint32_t *>PyBytes_AS_STRING(bounds_column)
    cdef const uint32_t *starts = <const uint32_t *>PyBytes_AS_STRING(starts_column)
    cdef const uint32_t *times = <const uint32_t *>PyBytes_AS_STRING(times_column)
    cdef const char *payloads = PyBytes_AS_STRING(blob)
    cdef const char *payload
    cdef char *text
    cdef char *at
    cdef char id_text[ID_BYTES_MAX]
    cdef Py_ssize_t count = part.count, runs = len(flags_column), run = 0, number, size, id_size
    cdef uint64_t first_offset = part.first_offset, base_ms = part.time_ms
    cdef bint is_fields
    cdef _Room room = _Room()
    extras = part.extras
    ids, entries = [], []
    for number in range(count):
        while run + 1 < runs and starts[run + 1] <= number:
            run += 1
        at = _put_number(id_text, base_ms + times[run])
        at[0] = 45
        at = _put_number(at + 1, first_offset + number)
        id_size = at - id_text
        ids.append(PyBytes_FromStringAndSize(id_text, id_size))
        payload = payloads + (bounds[number] - bounds[0])
        size = bounds[number + 1] - bounds[number]
        is_fields = <uint8_t>flags_column[run] & FLAG_FIELDS
        if size > PAYLOAD_BYTES_MAX or (extras and number in extras):
            entries.append(alone(number))
            continue
        text = room.reserve(HEAD_BYTES_MAX + (GROWTH if is_fields else 1) * size)
        text[0], text[1], text[2], text[3] = 42, 50, 13, 10
        at = _put_bulk(text + 4, id_text, id_size)
        if is_fields:
            at = _put_fields(at, payload, size)
        else:
            memcpy(at, b"*2\r\n$7\r\npayload\r\n", 17)
            at = _put_bulk(at + 17, payload, size)
        if at == NULL:
            entries.append(alone(number))
        else:
            entries.append(PyBytes_FromStringAndSize(text, at - text))
    return ids, entries
