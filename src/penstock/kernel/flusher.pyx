# cython: language_level=3, boundscheck=False, wraparound=False
"""Joins what a turn has to write into one write per connection. The form of ``net/flusher.py``.

Everything that is sent passes through it, and a broker with little to do turns once per message. So
it is compiled: five calls of Python less for each of these.
"""

from penstock.kernel.clocks cimport monotonic_s
from penstock.kernel.slots cimport attribute, Slot

from time import monotonic as _monotonic, sleep

QUIET_S = 0.0001
NAP_S = 0.00005
NAP_BYTES_MAX = 16_384
cdef double _QUIET_S = QUIET_S, _NAP_S = NAP_S
cdef long long _NAP_BYTES_MAX = NAP_BYTES_MAX

cdef Slot _bytes_in_total


cdef class Flushable:
    """Gathers output during a turn; one that is compiled is flushed without a call of Python."""

    cdef int flush_now(self) except -1:
        raise NotImplementedError


cdef class Flusher:
    """Flushes each outbox at most once per turn of the loop."""

    def __init__(self, loop, monotonic, counters):
        self._loop = loop
        self._monotonic = monotonic
        self._is_of_system = monotonic is _monotonic
        self._counters = counters
        self._due = []

    cpdef flush_soon(self, outbox):
        self._due.append(outbox)
        if not self._is_holding and not self._is_scheduled:
            self._schedule()

    cpdef begin_turn(self):
        self.is_in_turn = self._is_scheduled = self._is_poller_napping = True

    cpdef end_turn(self):
        self.is_in_turn = False
        if self._due:
            self._flush()
        else:
            self._is_scheduled = False

    cpdef bint hold(self):
        cdef bint was_holding = self._is_holding
        self._is_holding = True
        return was_holding

    cpdef release(self, double now):
        self._is_holding = False
        if self._due and not self._is_scheduled:
            if now - self._flushed_at > _QUIET_S:
                self._flush()
            else:
                self._schedule()

    cpdef restore(self, bint was_holding):
        self._is_holding = was_holding
        if self._due and not was_holding:
            self._flush()

    cdef int _schedule(self) except -1:
        self._is_scheduled = True
        self._loop.call_soon(self._flush_turn)
        return 0

    def _flush_turn(self):
        cdef double since_last
        cdef long long received
        if not self._is_scheduled:
            return
        since_last = self._now() - self._flushed_at
        received = <long long>self._counters.bytes_in_total - self._received_at_flush
        self._flush()
        if since_last < _NAP_S and received < _NAP_BYTES_MAX and not self._is_poller_napping:
            sleep(_NAP_S - since_last)

    cdef int _flush(self) except -1:
        cdef list due = self._due
        cdef Py_ssize_t place = len(due)
        self._is_scheduled = self.is_in_turn
        self._flushed_at = self._now()
        self._received_at_flush = attribute(self._counters, &_bytes_in_total, "bytes_in_total")
        self._due = []
        while place > 0:  # the last first, as in the Python form
            place -= 1
            try:
                outbox = due[place]
                if isinstance(outbox, Flushable):
                    (<Flushable>outbox).flush_now()
                else:
                    outbox.flush()
            except Exception:
                from penstock.net.flusher import _log  # not sooner: Spark loads the kernel, too

                _log.exception("flush_failed")
        return 0

    cdef double _now(self) except? -1:
        return monotonic_s() if self._is_of_system else <double>self._monotonic()
