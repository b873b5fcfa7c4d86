# cython: language_level=3
"""What other parts of the kernel may use of a client's output."""

from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t

from penstock.kernel.flusher cimport Flushable
from penstock.kernel.sockets cimport SocketTransport, iovec

cdef struct Piece:
    PyObject *head  # what stands before it: a bytes object, owned, or NULL
    PyObject *owner  # a bytes object, owned
    uint32_t start
    uint32_t length
    uint32_t count  # messages

cdef class OutputQueue(Flushable):
    cdef public object _connections
    cdef public object _transport
    cdef public object _out
    cdef public Py_ssize_t _out_bytes
    cdef public Py_ssize_t _live_bytes
    cdef public Py_ssize_t counted
    cdef public Py_ssize_t frames_bytes_max
    cdef Piece *_pieces
    cdef uint32_t _piece_count
    cdef uint32_t _piece_room
    cdef public char frames_version
    cdef public char _is_due  # these are true or false
    cdef public char _is_live_stale
    cdef public char _is_paused
    cdef public char _is_closed

    # Live messages that are a part of what was read, without a copy.
    cdef int send_slice(
        self, Py_ssize_t count, object owner, Py_ssize_t start, Py_ssize_t end
    ) except -1
    # The same behind a head: they are one piece.
    cdef int add_headed(
        self, Py_ssize_t count, bytes head, object owner, Py_ssize_t start, Py_ssize_t end
    ) except -1
    cdef Piece *_add(
        self, Py_ssize_t count, object owner, Py_ssize_t start, Py_ssize_t end
    ) except NULL
    cdef int _become_due(self) except -1
    cdef void _forget_pieces(self) noexcept
    cdef object _piece(self, Piece *piece)
    cdef int _settle(self) except -1
    cdef bint _is_budget_tight(self) except -1
    cdef int _write_now(self) except -1
    cdef int _refresh_now(self) except -1
    cdef int _count_live(self) except -1
    cdef Py_ssize_t _size(self) except -1
    cdef int _forget_all(self) except -1
    cdef object _joined(self, Py_ssize_t size)
    cdef bint _is_whole(self, Piece *piece) noexcept
    cdef Py_ssize_t _vector_count(self, Py_ssize_t size) except -1
    cdef int _write_vectors(
        self, SocketTransport transport, Py_ssize_t room, Py_ssize_t size
    ) except -1
    cdef Py_ssize_t _fill(self, iovec *vectors) except -1
