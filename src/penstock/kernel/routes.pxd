# cython: language_level=3
"""What other parts of the kernel may use of a route."""

cdef class Route:
    cdef public bytes topic
    cdef public tuple targets
    cdef public object marked
    cdef public int policy
