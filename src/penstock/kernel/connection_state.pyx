# cython: language_level=3
"""What every connection keeps. The compiled form of ``net/connection_state.py``.

Times are numbers and no objects, what is true or false takes a byte, and other parts of the kernel
read all of it without a look-up.
"""


cdef class ConnectionState:
    """The fields of a connection; ``net/connection.py`` says what they mean."""
