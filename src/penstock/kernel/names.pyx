# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Names that come again and again, as objects: topics and channels.

A chunk has names as bytes in its middle, and everything behind the codec wants objects. A table
remembers the names seen last, each at the place that its bytes give: one comparison finds it. The
object brings its hash along, so the look-up of its route costs no more than a comparison of
addresses.

A name that falls on the place of another takes it. So the table is bounded, and who chooses names
that collide makes them as slow as they would be without it: one allocation each. Long names are not
remembered.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    char *PyBytes_AS_STRING(PyObject *) nogil
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject *) nogil

cdef enum:
    PLACES = 16_384  # a power of two
    NAME_BYTES_MAX = 256

cdef uint64_t MIX = 0x9E3779B97F4A7C15

cdef PyObject *_names[PLACES]


cdef uint64_t hash_of(const char *text, Py_ssize_t size) noexcept nogil:
    """Eight bytes at a time; the last eight may overlap those before."""
    cdef uint64_t word, mixed = size * MIX
    cdef Py_ssize_t at = 0
    if size < 8:
        word = 0
        memcpy(&word, text, size)
        mixed = (mixed ^ word) * MIX
        return mixed ^ (mixed >> 32)
    while at < size - 8:
        memcpy(&word, text + at, 8)
        mixed = (mixed ^ word) * MIX
        mixed ^= mixed >> 29
        at += 8
    memcpy(&word, text + size - 8, 8)
    mixed = (mixed ^ word) * MIX
    return mixed ^ (mixed >> 32)


cdef bytes name_of(const char *text, Py_ssize_t size):
    cdef PyObject *found
    cdef uint64_t place
    if size > NAME_BYTES_MAX:
        return PyBytes_FromStringAndSize(text, size)
    place = hash_of(text, size) % PLACES
    found = _names[place]
    if found is not NULL:
        if size_of(found) == size and memcmp(PyBytes_AS_STRING(found), text, size) == 0:
            return <bytes>found
    name = PyBytes_FromStringAndSize(text, size)
    Py_INCREF(name)
    _names[place] = <PyObject *>name
    if found is not NULL:
        Py_DECREF(<object>found)
    return name


def interned(bytes name not None):
    """An equal object, the same one as last time if the name was seen lately."""
    return name_of(PyBytes_AS_STRING(<PyObject *>name), len(name))
