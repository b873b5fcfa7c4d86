# cython: language_level=3
"""The system's clocks, without a call of Python, for those who were given just these.

Tests bring clocks of their own, which are called.
"""

from libc.stdint cimport int64_t

cdef extern from "<time.h>" nogil:
    enum:
        CLOCK_MONOTONIC, CLOCK_REALTIME
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int nanosleep(const timespec *time, timespec *rest)


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef inline double monotonic_s() noexcept nogil:
    """As ``time.monotonic``."""
    return <double>monotonic_ns() / 1e9


cdef inline int64_t wall_clock_ms() noexcept nogil:
    """As ``SystemClock.wall_ms``."""
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1_000 + now.tv_nsec // 1_000_000
