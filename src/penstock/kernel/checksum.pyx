# cython: language_level=3, boundscheck=False, wraparound=False
"""CRC-32 as ``zlib.crc32`` has it, faster for long inputs (``crc32.h``)."""

from libc.stdint cimport uint8_t, uint32_t

from zlib import crc32 as _crc32_of_zlib

cdef extern from "crc32.h" nogil:
    const int CRC32_FOLDED_BYTES_MIN
    bint crc32_can_fold()
    uint32_t crc32_folded(const uint8_t *data, size_t size, uint32_t crc)

cdef bint _can_fold = crc32_can_fold()


def crc32(const uint8_t[::1] data not None, uint32_t value=0):
    """The checksum of ``data`` after bytes whose checksum is ``value``."""
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t folded = size & ~15
    if size < CRC32_FOLDED_BYTES_MIN or not _can_fold:
        return _crc32_of_zlib(data, value)
    with nogil:
        value = ~crc32_folded(&data[0], folded, ~value)
    return value if folded == size else _crc32_of_zlib(data[folded:], value)
