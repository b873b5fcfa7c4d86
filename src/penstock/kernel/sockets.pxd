# cython: language_level=3
"""What Linux offers for sockets, as far as ``sockets.pyx`` uses it, and what is used of that."""

cimport cython

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
        EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int events_max, int timeout_ms)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    enum:
        MSG_NOSIGNAL, SHUT_WR, SOCK_CLOEXEC, SOCK_NONBLOCK, AF_INET, AF_INET6
    ctypedef uint32_t socklen_t
    struct sockaddr:
        pass
    struct sockaddr_storage:
        unsigned short ss_family
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    ssize_t send(int fd, const void *buffer, size_t size, int flags)
    ssize_t sendmsg(int fd, const msghdr *message, int flags)
    int accept4(int fd, sockaddr *address, socklen_t *size, int flags)
    int getpeername(int fd, sockaddr *address, socklen_t *size)
    int getsockname(int fd, sockaddr *address, socklen_t *size)
    int shutdown(int fd, int how)

cdef extern from "<netinet/in.h>" nogil:
    struct in_addr:
        pass
    struct in6_addr:
        pass
    struct sockaddr_in:
        unsigned short sin_port
        in_addr sin_addr
    struct sockaddr_in6:
        unsigned short sin6_port
        uint32_t sin6_flowinfo
        uint32_t sin6_scope_id
        in6_addr sin6_addr
    unsigned short ntohs(unsigned short value)
    uint32_t ntohl(uint32_t value)

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *address, char *text, socklen_t size)

cdef extern from "<sys/ioctl.h>" nogil:
    enum:
        FIONREAD
    int ioctl(int fd, unsigned long request, ...)

cdef extern from "<unistd.h>" nogil:
    int close_fd "close"(int fd)

cdef enum:
    EVENTS = 512  # that are asked for at once


cdef class Poller:
    cdef readonly object loop
    cdef object _gatherer
    cdef int _epoll  # -1 while there are no sockets
    cdef uint32_t _registrations
    cdef list _owners  # a SocketTransport or ListeningSocket, by descriptor
    cdef Py_ssize_t _owner_count
    cdef list _resumed  # transports that were ready while they were paused
    cdef epoll_event[EVENTS] _events
    cdef int _event_count
    cdef int _next_event  # those before it have been handled
    cdef int64_t _ended_ns  # when the last turn ended
    cdef Py_ssize_t _read_bytes  # of the sockets that were ready last
    cdef Py_ssize_t _reads
    cdef int64_t _busy_ns  # how long that, and all that followed from it, took
    cdef double _usual_bytes  # per read, if nobody waits for more
    cdef bint _has_gathered
    cdef readonly int gathers  # turns that were put off so that clients could write more
    cdef int _naps_to_skip
    cdef int _naps_skipped  # after the last useless one

    cdef uint32_t _register(self, int fd, object owner) except 0
    cdef int _forget(self, int fd) except -1
    cdef int _arm(self, int fd, uint32_t registration, uint32_t armed, uint32_t wanted) except -1
    cdef int64_t _poll(self, int64_t now_ns) except -1
    cdef int _gathered(self, int count, int64_t since_last) except -1
    cdef int _poll_after_nap(self, int count, int64_t ns) except -1
    cdef bint _is_among(self, uint64_t registered, int count) noexcept
    cdef int _read_resumed(self) except -1
    cdef int _handle_events(self) except -1
    cdef int _report(self, str message, error, transport, protocol) except -1


@cython.final
cdef class _Output:
    cdef list pieces
    cdef Py_ssize_t first  # those before it are sent
    cdef Py_ssize_t offset  # bytes of the first that are sent
    cdef Py_ssize_t size

    cdef int add(self, bytes data) except -1
    cdef int vectors(self, iovec *vectors) except -1
    cdef int drop(self, Py_ssize_t sent) except -1


@cython.final
cdef class SocketTransport:
    cdef Poller _poller
    cdef object _protocol
    cdef _Output _output  # None while nothing waits
    cdef int _fd  # -1 once the connection is lost
    cdef uint32_t _registration
    cdef uint32_t _armed  # the events that are asked for
    cdef uint32_t _state
    cdef uint32_t _high  # bytes above which the protocol is paused
    cdef uint32_t _low  # and at which it goes on

    cdef int _ready(self, uint32_t events) except -1
    cdef bint _is_reading(self) noexcept
    cdef int _rearm(self) except -1
    cdef int _arm(self, uint32_t wanted) except -1
    cdef int _receive(self) except -1
    cdef int _end_received(self) except -1
    cdef bint _may_write(self) except -1
    cdef ssize_t _send(self, bytes data) except -2
    cdef ssize_t send_vectors(self, iovec *vectors, Py_ssize_t count) except -2
    cdef int send_or_keep(self, bytes data) except -1
    cdef int keep(self, bytes data, Py_ssize_t sent) except -1
    cdef Py_ssize_t unsent_bytes(self) noexcept
    cdef ssize_t _unsent(self) except -2
    cdef bint _send_pieces(self, _Output output) except -1
    cdef int _send_on(self) except -1
    cdef int _drained(self) except -1
    cdef int _pause_if_full(self) except -1
    cdef int _resume_if_drained(self) except -1
    cdef int _fatal(self, str message, error) except -1
    cdef int _complain(self, str message, error) except -1
    cdef int _lose_soon(self, error) except -1
