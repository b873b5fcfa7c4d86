# cython: language_level=3
"""What other parts of the kernel may use of a connection."""

cdef class ConnectionState:
    cdef public object _connections
    cdef public object _transport
    cdef public object _machine
    cdef public object _held
    cdef public object meter
    cdef public object number
    cdef public object origin
    cdef public object outbox
    cdef public object principal
    cdef public object reason
    cdef public double _last_packet_at
    cdef public double _checked_next
    cdef public double _unknown_since
    cdef public int _blocks
    cdef public char _has_spoken  # these are true or false
    cdef public char _is_holder
    cdef public char _is_over_quota
    cdef public char _is_reading_paused
    cdef public char _is_resuming
    cdef public char _is_turn_over
