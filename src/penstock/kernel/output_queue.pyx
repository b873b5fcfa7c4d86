# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What waits to be written to one client. The compiled form of ``net/output_queue.py``.

A live message is a place in a bytes object, mostly in what was read from its publisher; a push of
RESP has a head before it, which all pushes share. At the end of the turn all that waits is joined
for one write. Large pieces are not even copied for that: the socket gets their places, and only
what it does not take is joined. While a client is paused its messages are copied out of chunks that
are much larger than they are: a slow reader must hold no more memory than it is counted for.
"""

from cpython.bytes cimport PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport uint32_t, UINT32_MAX
from libc.string cimport memcpy

from penstock.kernel.flusher cimport Flushable, Flusher
from penstock.kernel.slots cimport attribute, set_attribute, Slot
from penstock.kernel.sockets cimport SocketTransport, iovec

cdef extern from "Python.h":
    char *PyBytes_AS_STRING(PyObject *) nogil
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject *) nogil

cdef enum:
    ROOM_KEPT = 64  # pieces; a longer array is given back after the write
    OWNER_PARTS_MAX = 2  # how much larger than its piece an object may be that waits
    JOINED_BYTES_MAX = 512  # mean size of pieces up to which copying them into one costs least


cdef Slot _flusher, _budget, _is_tight, _counters, _bytes_out_total, _messages_out_total


cdef inline Py_ssize_t _bytes_of(Piece *piece) noexcept:
    return piece.length + (size_of(piece.head) if piece.head is not NULL else 0)


cdef inline char *_put(char *at, Piece *piece) noexcept:
    """Copy a piece; return the place behind it."""
    if piece.head is not NULL:
        memcpy(at, PyBytes_AS_STRING(piece.head), size_of(piece.head))
        at += size_of(piece.head)
    memcpy(at, PyBytes_AS_STRING(piece.owner) + piece.start, piece.length)
    return at + piece.length


cdef bytes _rest(iovec *vectors, size_t sent, size_t size):
    """What is left of ``size`` bytes."""
    cdef bytes found = PyBytes_FromStringAndSize(NULL, size - sent)
    cdef char *at = PyBytes_AS_STRING(<PyObject *>found)
    cdef char *end = at + size - sent
    while sent >= vectors.iov_len:
        sent -= vectors.iov_len
        vectors += 1
    while at < end:
        memcpy(at, <char *>vectors.iov_base + sent, vectors.iov_len - sent)
        at += vectors.iov_len - sent
        sent = 0
        vectors += 1
    return found


cdef class OutputQueue:
    """Gathers output and writes it."""

    def __cinit__(self, *args, **more):
        self._out = ()

    def __init__(self, connections, transport):
        self._connections = connections
        self._transport = transport

    def __dealloc__(self):
        self._forget_pieces()
        PyMem_RawFree(self._pieces)

    # ── Gathering ─────────────────────────────────────────────────────────────────────────────

    def send(self, data):
        if self._is_closed:
            return
        if not PyBytes_Check(data):
            raise TypeError("output is bytes")
        if self._out:
            (<list>self._out).append(data)
        else:
            self._out = [data]
        self._out_bytes += PyBytes_GET_SIZE(data)
        if not self._is_due:
            self._become_due()

    def send_live(self, Py_ssize_t count, frames):
        if not PyBytes_Check(frames):
            raise TypeError("output is bytes")
        self.send_slice(count, frames, 0, PyBytes_GET_SIZE(frames))

    def send_headed(
        self, Py_ssize_t count, bytes head not None, owner, Py_ssize_t start, Py_ssize_t end
    ):
        if not PyBytes_Check(owner):
            raise TypeError("output is bytes")
        if not 0 <= start <= end <= PyBytes_GET_SIZE(owner):
            raise IndexError
        self.add_headed(count, head, owner, start, end)

    cdef int add_headed(
        self, Py_ssize_t count, bytes head, object owner, Py_ssize_t start, Py_ssize_t end
    ) except -1:
        cdef Piece *piece
        if self._is_closed:
            return 0
        piece = self._add(count, owner, start, end)
        Py_INCREF(head)
        piece.head = <PyObject *>head
        self._live_bytes += PyBytes_GET_SIZE(head)
        if not self._is_due:
            self._become_due()
        return 0

    cdef int send_slice(
        self, Py_ssize_t count, object owner, Py_ssize_t start, Py_ssize_t end
    ) except -1:
        cdef Piece *last
        if self._is_closed:
            return 0
        if self._piece_count:
            last = &self._pieces[self._piece_count - 1]
            if (
                last.owner is <PyObject *>owner
                and last.start + last.length == start
                and last.head is NULL
            ):
                last.length += end - start
                last.count += count
                self._live_bytes += end - start
                return 0
        self._add(count, owner, start, end)
        if not self._is_due:
            self._become_due()
        return 0

    cdef Piece *_add(
        self, Py_ssize_t count, object owner, Py_ssize_t start, Py_ssize_t end
    ) except NULL:
        cdef Piece *grown
        cdef uint32_t room
        if not 0 <= start <= end <= UINT32_MAX:
            raise OverflowError("a piece of output is too long")
        if self._piece_count == self._piece_room:
            room = 2 * self._piece_room or 2
            grown = <Piece *>PyMem_RawRealloc(self._pieces, room * sizeof(Piece))
            if grown is NULL:
                raise MemoryError
            self._pieces = grown
            self._piece_room = room
        grown = &self._pieces[self._piece_count]
        Py_INCREF(owner)
        grown.head = NULL
        grown.owner = <PyObject *>owner
        grown.start = start
        grown.length = end - start
        grown.count = count
        self._piece_count += 1
        self._live_bytes += end - start
        return grown

    cdef int _become_due(self) except -1:
        cdef object flusher = attribute(self._connections, &_flusher, "flusher")
        self._is_due = True
        if type(flusher) is Flusher:
            (<Flusher>flusher).flush_soon(self)
        else:
            flusher.flush_soon(self)
        return 0

    # ── Writing ───────────────────────────────────────────────────────────────────────────────

    def flush(self):
        self.flush_now()

    cdef int flush_now(self) except -1:
        self._is_due = False
        if self._is_closed:
            return 0
        if self._is_paused or self._is_budget_tight():
            self._settle()
            self.flush_bounded()
        else:
            self._write_now()
        return self._refresh_now()

    cdef bint _is_budget_tight(self) except -1:
        budget = attribute(self._connections, &_budget, "budget")
        return attribute(budget, &_is_tight, "is_tight")

    def flush_bounded(self):
        """Write what may be written while the client is paused or the budget is tight."""
        raise NotImplementedError

    def _write(self):
        self._write_now()

    cdef int _write_now(self) except -1:
        cdef Py_ssize_t size, vectors = 0
        if self._piece_count:
            self._count_live()
        if not self._out and not self._piece_count:
            return 0
        size = self._size()
        counters = attribute(self._connections, &_counters, "counters")
        sent = attribute(counters, &_bytes_out_total, "bytes_out_total")
        set_attribute(counters, &_bytes_out_total, "bytes_out_total", sent + size)
        if type(self._transport) is SocketTransport:
            vectors = self._vector_count(size)
        if vectors:
            self._write_vectors(<SocketTransport>self._transport, vectors, size)
            self._forget_all()
        else:
            data = self._joined(size)
            self._forget_all()
            if type(self._transport) is SocketTransport:
                (<SocketTransport>self._transport).send_or_keep(data)
            else:
                self._transport.write(data)
        return 0

    cdef Py_ssize_t _size(self) except -1:
        """Bytes of all that waits; what is counted may be something else."""
        cdef Py_ssize_t size = 0
        cdef uint32_t place
        for one in self._out:
            size += PyBytes_GET_SIZE(one)
        for place in range(self._piece_count):
            size += _bytes_of(&self._pieces[place])
        return size

    cdef int _forget_all(self) except -1:
        self._forget_pieces()
        self._out = ()
        self._out_bytes = self._live_bytes = 0
        return 0

    cdef Py_ssize_t _vector_count(self, Py_ssize_t size) except -1:
        """How many places to send without a copy; 0 if they are sooner joined, or one object."""
        cdef Py_ssize_t pieces = len(self._out) + self._piece_count
        if size <= JOINED_BYTES_MAX * pieces:
            return 0
        if pieces == 1 and (not self._piece_count or self._is_whole(&self._pieces[0])):
            return 0  # kept as it is if the socket does not take it
        return pieces + self._piece_count

    cdef bint _is_whole(self, Piece *piece) noexcept:
        return piece.head is NULL and piece.length == size_of(piece.owner)

    cdef int _write_vectors(
        self, SocketTransport transport, Py_ssize_t room, Py_ssize_t size
    ) except -1:
        cdef iovec *vectors = <iovec *>PyMem_RawMalloc(room * sizeof(iovec))
        cdef Py_ssize_t count = 0
        cdef ssize_t sent
        if vectors is NULL:
            raise MemoryError
        try:
            count = self._fill(vectors)
            sent = transport.send_vectors(vectors, count)
            if 0 <= sent < size:
                transport.keep(_rest(vectors, sent, size), 0)
        finally:
            PyMem_RawFree(vectors)
        return 0

    cdef Py_ssize_t _fill(self, iovec *vectors) except -1:
        """Fill in the places of all that waits; return their number."""
        cdef Py_ssize_t count = 0
        cdef uint32_t place
        cdef Piece *piece
        for one in self._out:
            vectors[count].iov_base = PyBytes_AS_STRING(<PyObject *>one)
            vectors[count].iov_len = PyBytes_GET_SIZE(one)
            count += 1
        for place in range(self._piece_count):
            piece = &self._pieces[place]
            if piece.head is not NULL:
                vectors[count].iov_base = PyBytes_AS_STRING(piece.head)
                vectors[count].iov_len = size_of(piece.head)
                count += 1
            vectors[count].iov_base = PyBytes_AS_STRING(piece.owner) + piece.start
            vectors[count].iov_len = piece.length
            count += 1
        return count

    cdef object _joined(self, Py_ssize_t size):
        """All that waits, in one piece."""
        cdef Py_ssize_t number = len(self._out)
        cdef uint32_t place
        cdef bytes joined
        cdef char *at
        if number == 0 and self._piece_count == 1:
            return self._piece(&self._pieces[0])
        if number == 1 and not self._piece_count:
            return (<list>self._out)[0]
        joined = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(<PyObject *>joined)
        for one in self._out:
            memcpy(at, PyBytes_AS_STRING(<PyObject *>one), PyBytes_GET_SIZE(one))
            at += PyBytes_GET_SIZE(one)
        for place in range(self._piece_count):
            at = _put(at, &self._pieces[place])
        return joined

    cdef int _count_live(self) except -1:
        """Live messages are about to be sent: renew those that must be, and count all."""
        cdef Py_ssize_t count = 0
        cdef uint32_t place
        cdef list totals
        if self._is_live_stale:
            self._is_live_stale = False
            self.renew_live()
        for place in range(self._piece_count):
            count += self._pieces[place].count
        counters = attribute(self._connections, &_counters, "counters")
        totals = attribute(counters, &_messages_out_total, "messages_out_total")
        totals[0] += count
        return 0

    def take_live(self):
        """Move live messages behind what must arrive: they will be sent, and count as such."""
        cdef list moved
        self._count_live()
        moved, _ = self.live_pieces()
        self._out = [*self._out, *moved]
        self._out_bytes += self._live_bytes
        self._forget_pieces()
        self._live_bytes = 0

    def renew_live(self):
        """Write live messages again that say something about this moment."""

    def refresh(self):
        self._refresh_now()

    cdef int _refresh_now(self) except -1:
        cdef Py_ssize_t held = self._out_bytes + self._live_bytes
        if type(self._transport) is SocketTransport:
            held += (<SocketTransport>self._transport).unsent_bytes()
        else:
            held += self._transport.get_write_buffer_size()
        if held != self.counted:
            self._connections.budget.note(self, held)
        return 0

    # ── Pieces ────────────────────────────────────────────────────────────────────────────────

    cdef object _piece(self, Piece *piece):
        cdef bytes found
        if self._is_whole(piece):
            return <object>piece.owner
        found = PyBytes_FromStringAndSize(NULL, _bytes_of(piece))
        _put(PyBytes_AS_STRING(<PyObject *>found), piece)
        return found

    cdef int _settle(self) except -1:
        """Copy pieces out of objects that are much larger than they are."""
        cdef uint32_t place
        cdef Piece *piece
        cdef object own
        for place in range(self._piece_count):
            piece = &self._pieces[place]
            if size_of(piece.owner) > OWNER_PARTS_MAX * <Py_ssize_t>piece.length:
                own = self._piece(piece)
                Py_INCREF(own)
                Py_DECREF(<object>piece.owner)
                Py_XDECREF(piece.head)
                piece.head = NULL
                piece.owner = <PyObject *>own
                piece.start = 0
                piece.length = <uint32_t>PyBytes_GET_SIZE(own)
        return 0

    cdef void _forget_pieces(self) noexcept:
        cdef uint32_t place
        for place in range(self._piece_count):
            Py_DECREF(<object>self._pieces[place].owner)
            Py_XDECREF(self._pieces[place].head)
        self._piece_count = 0
        if self._piece_room > ROOM_KEPT:
            PyMem_RawFree(self._pieces)
            self._pieces = NULL
            self._piece_room = 0

    @property
    def _live(self):
        return self.live_pieces()[0]

    def live_pieces(self):
        """Live messages that wait, and how many are in each piece."""
        cdef list pieces = [], counts = []
        cdef uint32_t place
        for place in range(self._piece_count):
            pieces.append(self._piece(&self._pieces[place]))
            counts.append(self._pieces[place].count)
        return pieces, counts

    def replace_live(self, list pieces not None, list counts not None, Py_ssize_t size):
        """Let others wait instead, which count ``size`` bytes."""
        self._forget_pieces()
        for piece, count in zip(pieces, counts, strict=True):
            if not PyBytes_Check(piece):
                raise TypeError("output is bytes")
            self._add(count, piece, 0, PyBytes_GET_SIZE(piece))
        self._live_bytes = size
