# cython: language_level=3
"""Names that come again and again, as objects."""

from libc.stdint cimport uint64_t

# A number that the bytes of a name give, for tables. Who chooses the names can make them equal.
cdef uint64_t hash_of(const char *text, Py_ssize_t size) noexcept nogil

# A name as an object, the same one as last time if it was seen lately.
cdef bytes name_of(const char *text, Py_ssize_t size)
