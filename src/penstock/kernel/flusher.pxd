# cython: language_level=3
"""What other parts of the kernel may use of the flusher."""

cimport cython


cdef class Flushable:
    cdef int flush_now(self) except -1


@cython.final
cdef class Flusher:
    cdef object _loop
    cdef object _monotonic
    cdef bint _is_of_system  # whether that is the system's clock
    cdef object _counters
    cdef list _due
    cdef bint _is_holding
    cdef bint _is_scheduled
    cdef readonly bint is_in_turn
    cdef bint _is_poller_napping
    cdef double _flushed_at
    cdef long long _received_at_flush

    cpdef flush_soon(self, outbox)
    cpdef begin_turn(self)
    cpdef end_turn(self)
    cpdef bint hold(self)
    cpdef release(self, double now)
    cpdef restore(self, bint was_holding)
    cdef int _schedule(self) except -1
    cdef int _flush(self) except -1
    cdef double _now(self) except? -1
