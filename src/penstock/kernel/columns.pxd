# cython: language_level=3
"""What other parts of the kernel may use of the columns of messages."""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t

cdef struct Message:
    PyObject *owner  # a bytes object, which ``_owners`` keeps
    uint32_t start
    uint32_t length

cdef struct Run:
    int64_t time_ms
    uint32_t group  # the number of the topic
    uint32_t count
    uint32_t flags

cdef struct Group:
    PyObject *name  # the key of ``topics``, which keeps it
    uint32_t count  # messages

cdef struct Place:
    PyObject *name
    uint32_t group

cdef class MessageColumns:
    cdef readonly Py_ssize_t count
    cdef public Py_ssize_t payload_bytes  # payloads, and what is beside them
    cdef readonly dict topics  # the number of each topic, counted from 0
    cdef int64_t _content_bytes  # payloads alone
    cdef list _owners  # of the payloads
    cdef Message *_messages
    cdef Py_ssize_t _message_room
    cdef Run *_runs
    cdef Py_ssize_t _run_count
    cdef Py_ssize_t _run_room
    cdef Group *_groups
    cdef Py_ssize_t _group_count
    cdef Py_ssize_t _group_room
    cdef Place *_places  # where topics were found last, by address
    cdef bint _is_open  # whether the last run may go on
    cdef PyObject *_chunk  # from which slices were taken last; ``_owners`` keeps it
    cdef Py_ssize_t _chunk_owner  # its place there
    cdef Py_ssize_t _chunk_first  # the first message of it
    cdef Py_ssize_t _chunk_taken  # bytes
    cdef uint32_t *_order  # the runs by topic; valid for as many runs as were sorted
    cdef uint32_t *_positions  # of the runs, as they arrived
    cdef uint32_t *_group_ends  # how many runs there are up to and with each topic
    cdef Py_ssize_t _sorted_runs
    cdef Py_ssize_t _sorted_groups
    cdef Py_ssize_t _sorted_count
    cdef int _readers  # who read the columns without holding the interpreter
    cdef dict _grouped
    cdef Py_ssize_t _grouped_count

    # One message that is ``chunk[start:end]``, without a copy. Cheapest if callers pass the same
    # object for a topic each time, and all slices of a chunk one after another.
    cdef int add_slice(
        self, bytes topic, bytes chunk, Py_ssize_t start, Py_ssize_t end, long long time_ms,
        int flags,
    ) except -1

    cdef Py_ssize_t _number(self, bytes topic) except -1
    cdef int _begin(self, uint32_t group, uint32_t count, int64_t time_ms, uint32_t flags) except -1
    cdef int _reserve_messages(self, Py_ssize_t more) except -1
    cdef int _reserve_runs(self, Py_ssize_t more) except -1
    cdef Py_ssize_t _add_payloads(self, object payloads) except -1
    cdef Py_ssize_t _new_topic(self, bytes topic) except -1
    cdef int _must_be_mine(self) except -1
    cdef int _change_chunk(self, bytes chunk) except -1
    cdef int _settle(self) except -1
    cdef int _sort(self) except -1
    cdef bytes _payload(self, Py_ssize_t position)
    cdef TopicBatch _group(self, Py_ssize_t number)


cdef class TopicBatch:
    cdef public list payloads
    cdef public list runs
