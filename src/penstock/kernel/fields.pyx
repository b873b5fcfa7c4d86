# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Entries of streams in C: the JSON of their fields, and the ids that clients get for them.

The compiled form of ``filled`` (``doors/resp/streams/fields.py``) and of ``id_replies``
(``doors/resp/streams/ids.py``). One pass finds out how long an entry becomes and whether its values
are in JSON as they are, a second one copies.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    char *PyBytes_AS_STRING(object)

cdef enum:
    DIGITS_MAX = 20  # of a number of 64 bits
    ZERO = 0x30  # the digit

# bytes that need an escape in JSON, or that are not ASCII and so may not be text
cdef uint8_t _is_special[256]
memset(_is_special, 1, 256)
memset(_is_special + 0x20, 0, 0x7F - 0x20)
_is_special[ord('"')] = _is_special[ord("\\")] = 1


cdef inline bint _is_plain(const uint8_t *text, Py_ssize_t size):
    cdef Py_ssize_t place
    cdef uint8_t found = 0
    for place in range(size):
        found |= _is_special[text[place]]
    return not found


cdef int _check(tuple parts, list columns) except -1:
    cdef list column
    if not columns or len(parts) != len(columns) + 1:
        raise ValueError("there must be a part before and after each value")
    for part in parts:
        if type(part) is not bytes:
            raise TypeError("parts are bytes")
    for column in columns:
        if len(column) != len(<list>columns[0]):
            raise ValueError("columns must be as long as each other")
        for value in column:
            if type(value) is not bytes:
                raise TypeError("values are bytes")
    return 0


def filled(tuple parts not None, list columns not None):
    """The parts with the values of each entry between them; None if a value needs an escape."""
    cdef Py_ssize_t count, width = len(columns), place, number, fixed = 0, size
    cdef list found = []
    cdef bytes value, entry
    cdef char *out
    _check(parts, columns)
    count = len(<list>columns[0])
    for place in range(width + 1):
        fixed += PyBytes_GET_SIZE(parts[place])
    for number in range(count):
        size = fixed
        for place in range(width):
            value = <bytes>(<list>columns[place])[number]
            if not _is_plain(<const uint8_t *>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)):
                return None
            size += PyBytes_GET_SIZE(value)
        entry = PyBytes_FromStringAndSize(NULL, size)
        out = _put(PyBytes_AS_STRING(entry), <bytes>parts[0])
        for place in range(width):
            out = _put(out, <bytes>(<list>columns[place])[number])
            out = _put(out, <bytes>parts[place + 1])
        found.append(entry)
    return found


cdef inline char *_put(char *out, bytes text):
    memcpy(out, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return out + PyBytes_GET_SIZE(text)


cdef inline int _digits(uint64_t number, char *end):
    """Write a number that ends before ``end``; return how many digits it has."""
    cdef char *at = end
    while True:
        at -= 1
        at[0] = <char>(ZERO + number % 10)
        number //= 10
        if not number:
            return end - at


def id_replies(uint64_t time_ms, uint64_t first_offset, uint64_t count):
    """The ids of entries with consecutive offsets, each as a bulk string."""
    cdef char time_text[DIGITS_MAX]
    cdef char offset_text[DIGITS_MAX]
    cdef char length_text[DIGITS_MAX]
    cdef int time_digits = _digits(time_ms, time_text + DIGITS_MAX), digits, length_digits
    cdef uint64_t offset
    cdef Py_ssize_t used = 0
    # $ length \r\n time - offset \r\n; the length has two digits at most
    cdef bytes replies = PyBytes_FromStringAndSize(NULL, count * (8 + time_digits + DIGITS_MAX))
    cdef char *start = PyBytes_AS_STRING(replies)
    cdef char *out = start
    for offset in range(first_offset, first_offset + count):
        digits = _digits(offset, offset_text + DIGITS_MAX)
        length_digits = _digits(time_digits + 1 + digits, length_text + DIGITS_MAX)
        out[0] = b"$"
        memcpy(out + 1, length_text + DIGITS_MAX - length_digits, length_digits)
        out += 1 + length_digits
        memcpy(out, b"\r\n", 2)
        memcpy(out + 2, time_text + DIGITS_MAX - time_digits, time_digits)
        out += 2 + time_digits
        out[0] = b"-"
        memcpy(out + 1, offset_text + DIGITS_MAX - digits, digits)
        out += 1 + digits
        memcpy(out, b"\r\n", 2)
        out += 2
    return replies[: out - start]
