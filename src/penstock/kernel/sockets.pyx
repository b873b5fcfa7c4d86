# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sockets of clients: one epoll for all of them, and a small transport for each.

A ``Poller`` has an epoll of its own, whose descriptor the event loop watches. When sockets are
ready, the loop calls ``turn``: one receive from each of them, then ``end_turn`` of whoever gathers
output. So a turn has input of many clients, and its output leaves right after it, without another
trip through the loop.

* **Fair**: a socket is read once per turn, and no turn reads for longer than ``TURN_NS``. What is
  left is read first in the next one.
* **In order**: what was ready while it was paused is read before others when it goes on.
* **Stale events**: a callback may close any other connection. A descriptor is closed after the
  turn, never in it, and each registration has a number, which its events carry: an event for
  a connection that is gone is not mistaken for one of its successor.
* **Moderate**: turns that follow each other closely and bring little are put off by a nap, so that
  the next one brings more. A nap during which nothing came was useless: the next few are left out,
  so a client that waits for each answer is not kept waiting.

A ``SocketTransport`` does what a transport of asyncio does. An idle one is this object, and its
place in the table of descriptors. A write is tried at once; what the socket does not take is kept
as it is, and sent when there is room again.

The Python form is the event loop's own: ``net/sockets.py`` chooses.
"""

cimport cython
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.ref cimport Py_DECREF, PyObject
from libc.errno cimport EAGAIN, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t, UINT32_MAX
from libc.string cimport memset

from penstock.kernel.clocks cimport monotonic_ns, nanosleep, timespec
from penstock.kernel.flusher cimport Flusher

import os
import socket

cdef extern from "Python.h":
    PyObject *bytes_of_size "PyBytes_FromStringAndSize"(const char *, Py_ssize_t) except NULL
    int resize_bytes "_PyBytes_Resize"(PyObject **, Py_ssize_t) except -1

cdef enum:
    RECEIVE_BYTES = 262_144  # the most that is read of a socket in a turn
    TURN_NS = 2_000_000  # after which the loop gets to its other work
    ACCEPTS = 64  # connections of a listening socket in one turn
    PIECES = 256  # that are sent in one call
    VECTORS = 1_024  # the same, if they are not objects: as many as Linux takes
    MUCH_BYTES_MIN = 32_768  # from here on, the next read goes straight into its object
    UNLOCKED_BYTES_MIN = 65_536  # from here on, other threads may run while the kernel copies

    # moderation
    NAP_NS = 50_000  # shortest time between two turns that bring little
    NAP_BYTES_MAX = 16_384  # a turn that read this much needs no nap
    FEW_EVENTS = 32  # with more sockets ready, a nap brings more of each: no others are needed
    NAPS_SKIPPED_MAX = 64
    GATHERED_BYTES_MAX = 512  # per read: more is worth a read
    GATHER_NS_MAX = 5_000_000
    USUAL_EVERY = 64  # turns

    # of a transport
    IS_PAUSED = 1  # reading
    IS_CLOSING = 2
    IS_LOST = 4  # ``connection_lost`` has been called, or is about to be
    HAS_ENDED = 8  # the peer sends no more
    ENDS = 16  # we send no more, once what waits is sent
    IS_FULL = 32  # ``pause_writing`` has been called
    WAS_READY = 64  # while reading was paused
    READS_MUCH = 128  # the last read was large, so the next one probably is

    HIGH_WATER = 65_536  # unless somebody says otherwise, as in asyncio

cdef double USUAL_RISE = 1.05  # per turn
cdef double WORTHWHILE = 1.25  # how much more a read must bring for a nap

ACCEPT_RETRY_S = 1.0  # how long a process without descriptors left accepts nobody, as in asyncio

# What is received passes through it, unless it is much: nobody else runs between a receive and its
# copy.
cdef char[RECEIVE_BYTES] _received


cdef inline void _sleep(int64_t ns) noexcept nogil:
    cdef timespec time
    time.tv_sec = 0
    time.tv_nsec = ns
    nanosleep(&time, NULL)


cdef inline int _pending_bytes(uint64_t registered) noexcept:
    """How much could be read from a socket."""
    cdef int count = 0
    ioctl(<int>(registered & UINT32_MAX), FIONREAD, &count)
    return count


cdef object _error(int number):
    return OSError(number, os.strerror(number))


cdef object _address(sockaddr_storage *address):
    cdef char[64] text
    cdef sockaddr_in *v4 = <sockaddr_in *>address
    cdef sockaddr_in6 *v6 = <sockaddr_in6 *>address
    if address.ss_family == AF_INET:
        inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text))
        return text.decode(), ntohs(v4.sin_port)
    if address.ss_family == AF_INET6:
        inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text))
        return text.decode(), ntohs(v6.sin6_port), ntohl(v6.sin6_flowinfo), v6.sin6_scope_id
    return None


class BorrowedSocket(socket.socket):
    """A transport's socket, for its options: it stays open when this object goes."""

    __slots__ = ()

    def close(self):
        self.detach()

    def __del__(self):
        self.detach()


cdef class Poller:
    """All sockets of one event loop; ``gatherer`` is told where turns begin and end."""

    def __cinit__(self):
        self._epoll = -1

    def __init__(self, loop, gatherer):
        self.loop = loop
        self._gatherer = gatherer
        self._owners = []
        self._resumed = []

    def __dealloc__(self):
        if self._epoll >= 0:
            close_fd(self._epoll)

    def listen(self, listening, factory):
        """Accept connections of a socket that listens; ``factory`` makes their protocols."""
        cdef ListeningSocket owner = ListeningSocket.__new__(ListeningSocket)
        owner._poller = self
        owner.socket = listening
        owner._factory = factory
        owner._fd = listening.fileno()
        owner._registration = self._register(owner._fd, owner)
        self._arm(owner._fd, owner._registration, 0, EPOLLIN)
        return owner

    # ── which sockets there are ───────────────────────────────────────────────────────────────

    cdef uint32_t _register(self, int fd, object owner) except 0:
        if self._epoll < 0:
            self._epoll = epoll_create1(EPOLL_CLOEXEC)
            if self._epoll < 0:
                raise _error(errno)
            self.loop.add_reader(self._epoll, self.turn)
        if fd >= len(self._owners):
            self._owners.extend([None] * (fd + 1 - len(self._owners)))
        self._owners[fd] = owner
        self._owner_count += 1
        self._registrations = self._registrations + 1 if self._registrations < UINT32_MAX else 1
        return self._registrations

    cdef int _forget(self, int fd) except -1:
        self._owners[fd] = None
        self._owner_count -= 1
        if self._owner_count == 0:
            self.loop.remove_reader(self._epoll)
            close_fd(self._epoll)
            self._epoll = -1
            self._event_count = self._next_event = 0
        return 0

    cdef int _arm(self, int fd, uint32_t registration, uint32_t armed, uint32_t wanted) except -1:
        """Ask for other events. One that asks for none is taken out, else it would hear errors."""
        cdef epoll_event event
        cdef int operation = EPOLL_CTL_MOD
        if armed == wanted:
            return 0
        if not armed:
            operation = EPOLL_CTL_ADD
        elif not wanted:
            operation = EPOLL_CTL_DEL
        event.events = wanted
        event.data.u64 = <uint64_t>registration << 32 | <uint32_t>fd
        if epoll_ctl(self._epoll, operation, fd, &event) < 0:
            raise _error(errno)
        return 0

    # ── a turn ────────────────────────────────────────────────────────────────────────────────

    def turn(self):
        """Read once from each socket that is ready, and send on where there is room again."""
        cdef int64_t began_ns = monotonic_ns()
        cdef Flusher flusher = None
        if type(self._gatherer) is Flusher:
            flusher = self._gatherer
            flusher.begin_turn()
        else:
            self._gatherer.begin_turn()
        try:
            if self._next_event == self._event_count:
                began_ns = self._poll(began_ns)
            if self._resumed:
                self._read_resumed()
            self._handle_events()
        finally:
            if flusher is not None:
                flusher.end_turn()
            else:
                self._gatherer.end_turn()
            self._ended_ns = monotonic_ns()
            self._busy_ns += self._ended_ns - began_ns

    cdef int64_t _poll(self, int64_t now_ns) except -1:
        """Ask which sockets are ready; nap before if turns bring little. Return the time then."""
        cdef int count = epoll_wait(self._epoll, self._events, EVENTS, 0)
        cdef int64_t since_last = now_ns - self._ended_ns
        cdef bint is_soon = since_last < NAP_NS and self._read_bytes < NAP_BYTES_MAX
        if count >= FEW_EVENTS:
            count = self._gathered(count, since_last)
            now_ns = monotonic_ns()
        elif is_soon and count > 0:
            if self._naps_to_skip > 0:
                self._naps_to_skip -= 1
            else:
                count = self._poll_after_nap(count, NAP_NS - since_last)
                now_ns = monotonic_ns()
        self._read_bytes = self._reads = 0
        self._busy_ns = 0
        self._next_event = 0
        self._event_count = count if count > 0 else 0
        return now_ns

    cdef int _gathered(self, int count, int64_t since_last) except -1:
        """Let many clients that write little write more before they are read.

        A broker that reads each of them as soon as it can gets one message per read, and spends
        most of its time on system calls. So it waits for twice the time that it was busy, as long
        as reads bring more for it: clients that wait for an answer have no more to write.
        """
        cdef int64_t ns
        if since_last > max(self._busy_ns, NAP_NS) or not self._reads:
            return count
        if self._read_bytes > GATHERED_BYTES_MAX * self._reads:
            return count
        if not self._has_gathered:
            # Some of what the last wait gathered may be in it, so this rises slowly.
            self._usual_bytes = min(
                <double>self._read_bytes / self._reads,
                self._usual_bytes * USUAL_RISE or self._read_bytes,
            )
        elif self._read_bytes < self._usual_bytes * self._reads * WORTHWHILE:
            self._naps_skipped = min(NAPS_SKIPPED_MAX, self._naps_skipped * 2 + 1)
            self._naps_to_skip = self._naps_skipped
        else:
            self._naps_skipped = 0
        self._has_gathered = self._naps_to_skip == 0
        if not self._has_gathered:
            self._naps_to_skip -= 1
            return count
        self.gathers += 1
        if self.gathers % USUAL_EVERY == 0:
            self._has_gathered = False  # look again how much comes without
            return count
        ns = min(2 * self._busy_ns, GATHER_NS_MAX)
        with nogil:
            _sleep(ns)
        return epoll_wait(self._epoll, self._events, EVENTS, 0)

    cdef int _poll_after_nap(self, int count, int64_t ns) except -1:
        """Those that were ready come first, else neighbours would overtake each other."""
        cdef uint64_t first = self._events[0].data.u64
        cdef int pending = _pending_bytes(first)
        cdef int together = count
        cdef int more, number
        with nogil:
            _sleep(ns)
        more = epoll_wait(self._epoll, &self._events[count], EVENTS - count, 0)
        for number in range(count, count + more):
            if not self._is_among(self._events[number].data.u64, count):
                self._events[together] = self._events[number]
                together += 1
        if together > count or _pending_bytes(first) > pending:
            self._naps_skipped = 0
        else:
            self._naps_skipped = min(NAPS_SKIPPED_MAX, self._naps_skipped * 2 + 1)
            self._naps_to_skip = self._naps_skipped
        return together

    cdef bint _is_among(self, uint64_t registered, int count) noexcept:
        cdef int number
        for number in range(count):
            if self._events[number].data.u64 == registered:
                return True
        return False

    cdef int _read_resumed(self) except -1:
        """Read those first that were ready before: others may have come after them.

        A client that says goodbye and connects again, under the same id, is heard in this order.
        """
        cdef list resumed = self._resumed
        cdef SocketTransport transport
        self._resumed = []
        for transport in resumed:
            if transport._is_reading():
                transport._ready(EPOLLIN)
        return 0

    cdef int _handle_events(self) except -1:
        cdef int64_t ends_ns = 0
        cdef epoll_event *event
        cdef object owner
        cdef Py_ssize_t fd
        while self._next_event < self._event_count:
            event = &self._events[self._next_event]
            self._next_event += 1
            fd = event.data.u64 & UINT32_MAX
            owner = self._owners[fd]
            if type(owner) is SocketTransport:
                if (<SocketTransport>owner)._registration == event.data.u64 >> 32:
                    (<SocketTransport>owner)._ready(event.events)
            elif owner is not None:
                if (<ListeningSocket>owner)._registration == event.data.u64 >> 32:
                    (<ListeningSocket>owner)._ready()
            if self._next_event == self._event_count:
                break
            if not ends_ns:
                ends_ns = monotonic_ns() + TURN_NS
            elif monotonic_ns() > ends_ns:
                break
        return 0

    cdef int _report(self, str message, error, transport, protocol) except -1:
        context = {"message": message, "exception": error}
        if transport is not None:
            context |= {"transport": transport, "protocol": protocol}
        self.loop.call_exception_handler(context)
        return 0


@cython.final
cdef class ListeningSocket:
    """Accepts connections until it is closed."""

    cdef Poller _poller
    cdef readonly object socket
    cdef object _factory
    cdef object _retry  # the timer, while nobody is accepted
    cdef int _fd  # -1 once it is closed
    cdef uint32_t _registration

    def close(self):
        if self._fd < 0:
            return
        if self._retry is None:
            self._poller._arm(self._fd, self._registration, EPOLLIN, 0)
        else:
            self._retry.cancel()
        self._poller._forget(self._fd)
        self._fd = -1
        self._factory = None
        self.socket.close()

    cdef int _ready(self) except -1:
        cdef int fd
        for _ in range(ACCEPTS):
            fd = accept4(self._fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
            if fd >= 0:
                self._accepted(fd)
                if self._fd < 0:
                    break  # closed by a callback
            elif errno == EAGAIN:
                break
            elif errno in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
                self._rest(errno)
                break
            # everything else is a fault of the connection that was to be accepted
        return 0

    cdef int _accepted(self, int fd) except -1:
        cdef SocketTransport transport = SocketTransport.__new__(SocketTransport)
        transport._fd = fd  # which goes with it from now on
        transport._poller = self._poller
        try:
            transport._protocol = self._factory()
            transport._registration = self._poller._register(fd, transport)
        except Exception as error:
            self._poller._report("Error on transport creation", error, None, None)
            return 0
        try:
            transport._protocol.connection_made(transport)
            transport._rearm()
        except Exception as error:
            transport._fatal("Fatal error: protocol.connection_made() call failed.", error)
        return 0

    cdef int _rest(self, int number) except -1:
        """Descriptors or memory have run out: asking again at once would help nobody."""
        self._poller._report("socket.accept() out of system resource", _error(number), None, None)
        self._poller._arm(self._fd, self._registration, EPOLLIN, 0)
        self._retry = self._poller.loop.call_later(ACCEPT_RETRY_S, self._go_on)
        return 0

    def _go_on(self):
        self._retry = None
        self._poller._arm(self._fd, self._registration, 0, EPOLLIN)


cdef class _Output:
    """What waits to be sent to one client: the pieces as they were written."""

    def __cinit__(self):
        self.pieces = []

    cdef int add(self, bytes data) except -1:
        if PyBytes_GET_SIZE(data):
            self.pieces.append(data)
            self.size += PyBytes_GET_SIZE(data)
        return 0

    cdef int vectors(self, iovec *vectors) except -1:
        """Fill in up to ``PIECES`` of them; return their number."""
        cdef Py_ssize_t count = min(len(self.pieces) - self.first, PIECES)
        cdef Py_ssize_t number
        cdef bytes piece
        for number in range(count):
            piece = self.pieces[self.first + number]
            vectors[number].iov_base = PyBytes_AS_STRING(piece)
            vectors[number].iov_len = PyBytes_GET_SIZE(piece)
        vectors[0].iov_base = <char *>vectors[0].iov_base + self.offset
        vectors[0].iov_len -= self.offset
        return <int>count

    cdef int drop(self, Py_ssize_t sent) except -1:
        cdef Py_ssize_t left
        self.size -= sent
        while sent:
            left = PyBytes_GET_SIZE(<bytes>self.pieces[self.first]) - self.offset
            if sent < left:
                self.offset += sent
                break
            sent -= left
            self.offset = 0
            self.pieces[self.first] = None
            self.first += 1
        if self.first > PIECES and self.first * 2 > len(self.pieces):
            del self.pieces[: self.first]
            self.first = 0
        return 0


cdef bytes _as_bytes(data):
    return data if PyBytes_CheckExact(data) else memoryview(data).tobytes()


cdef class SocketTransport:
    """The transport of one connection, as asyncio's; small, since most clients are idle."""

    def __cinit__(self):
        self._fd = -1
        self._high = HIGH_WATER
        self._low = HIGH_WATER // 4

    def __dealloc__(self):
        if self._fd >= 0:
            close_fd(self._fd)

    # ── from the poller ───────────────────────────────────────────────────────────────────────

    cdef int _ready(self, uint32_t events) except -1:
        try:
            if events & (EPOLLIN | EPOLLERR | EPOLLHUP):
                if self._is_reading():
                    self._receive()
                else:
                    self._state |= WAS_READY
                    self._rearm()  # not asked for when reading was paused: it may be for long
            if self._output is not None and events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
                self._send_on()
        except Exception as error:
            self._fatal("Fatal error in a transport", error)
        return 0

    cdef bint _is_reading(self) noexcept:
        return not self._state & (IS_PAUSED | IS_CLOSING | IS_LOST | HAS_ENDED)

    cdef int _rearm(self) except -1:
        cdef uint32_t wanted = 0
        if self._state & IS_LOST:
            return 0
        if self._is_reading():
            wanted = EPOLLIN
        if self._output is not None:
            wanted |= EPOLLOUT
        self._arm(wanted)
        return 0

    cdef int _arm(self, uint32_t wanted) except -1:
        self._poller._arm(self._fd, self._registration, self._armed, wanted)
        self._armed = wanted
        return 0

    cdef int _receive(self) except -1:
        cdef PyObject *whole = NULL
        cdef ssize_t size
        if self._state & READS_MUCH:
            whole = bytes_of_size(NULL, RECEIVE_BYTES)
            size = recv(self._fd, PyBytes_AS_STRING(<object>whole), RECEIVE_BYTES, 0)
        else:
            size = recv(self._fd, _received, RECEIVE_BYTES, 0)
        if whole is not NULL and size <= 0:
            Py_DECREF(<object>whole)
        if size > 0:
            self._poller._read_bytes += size
            self._poller._reads += 1
            if whole is NULL:
                data = PyBytes_FromStringAndSize(_received, size)
            else:
                resize_bytes(&whole, size)
                data = <object>whole
                Py_DECREF(data)
            if size < MUCH_BYTES_MIN:
                self._state &= ~<uint32_t>READS_MUCH
            else:
                self._state |= READS_MUCH
            try:
                self._protocol.data_received(data)
            except Exception as error:
                self._fatal("Fatal error: protocol.data_received() call failed.", error)
        elif size == 0:
            self._end_received()
        elif errno not in (EAGAIN, EINTR):
            self._lose_soon(_error(errno))
        return 0

    cdef int _end_received(self) except -1:
        self._state |= HAS_ENDED
        try:
            keeps_open = self._protocol.eof_received()
        except Exception as error:
            self._fatal("Fatal error: protocol.eof_received() call failed.", error)
            return 0
        if keeps_open:
            self._rearm()
        else:
            self.close()
        return 0

    # ── output ────────────────────────────────────────────────────────────────────────────────

    def write(self, data):
        self.send_or_keep(_as_bytes(data))

    cdef int send_or_keep(self, bytes data) except -1:
        cdef ssize_t sent = 0
        if not self._may_write() or not PyBytes_GET_SIZE(data):
            return 0
        if self._output is None:
            sent = self._send(data)
            if sent < 0 or sent == PyBytes_GET_SIZE(data):
                return 0
        return self.keep(data, sent)

    cdef int keep(self, bytes data, Py_ssize_t sent) except -1:
        """Let what the socket did not take wait for room, behind what waits already."""
        if self._output is None:
            self._output = _Output.__new__(_Output)
            self._output.add(data)
            self._output.drop(sent)
            self._rearm()
        else:
            self._output.add(data)
        self._pause_if_full()
        return 0

    def writelines(self, list_of_data):
        cdef bint is_first = self._output is None
        cdef _Output output = self._output if not is_first else _Output.__new__(_Output)
        if not self._may_write():
            return
        for data in list_of_data:
            output.add(_as_bytes(data))
        if is_first and not self._send_pieces(output):
            return
        if is_first and output.size:
            self._output = output
            self._rearm()
        self._pause_if_full()

    cdef bint _may_write(self) except -1:
        if self._state & ENDS:
            raise RuntimeError("Cannot call write() after write_eof()")
        return not self._state & (IS_CLOSING | IS_LOST)

    cdef ssize_t _send(self, bytes data) except -2:
        """Return how much the socket took; -1 if the connection is lost."""
        cdef ssize_t sent
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef size_t size = PyBytes_GET_SIZE(data)
        cdef int fd = self._fd
        if size < UNLOCKED_BYTES_MIN:
            sent = send(fd, start, size, MSG_NOSIGNAL)
        else:
            with nogil:
                sent = send(fd, start, size, MSG_NOSIGNAL)
        if sent >= 0:
            return sent
        return self._unsent()

    cdef ssize_t send_vectors(self, iovec *vectors, Py_ssize_t count) except -2:
        """Send pieces without joining them; return how much the socket took.

        That is nothing if there are bytes that wait already, and -1 if nothing may be written.
        """
        cdef msghdr message
        cdef ssize_t sent, all_sent = 0
        cdef size_t size
        cdef Py_ssize_t place
        cdef int fd = self._fd
        if not self._may_write():
            return -1
        memset(&message, 0, sizeof(message))
        while count and self._output is None:
            message.msg_iov = vectors
            message.msg_iovlen = min(count, VECTORS)
            size = 0
            for place in range(message.msg_iovlen):
                size += vectors[place].iov_len
            if size < UNLOCKED_BYTES_MIN:
                sent = sendmsg(fd, &message, MSG_NOSIGNAL)
            else:
                with nogil:
                    sent = sendmsg(fd, &message, MSG_NOSIGNAL)
            if sent < 0:
                sent = self._unsent()
            if sent < 0:
                return -1
            all_sent += sent
            if <size_t>sent < size:
                break
            vectors += message.msg_iovlen
            count -= message.msg_iovlen
        return all_sent

    cdef ssize_t _unsent(self) except -2:
        if errno in (EAGAIN, EINTR):
            return 0
        self._lose_soon(_error(errno))
        return -1

    cdef bint _send_pieces(self, _Output output) except -1:
        """Send until the socket takes no more; return whether the connection is still there."""
        cdef iovec[PIECES] vectors
        cdef msghdr message
        cdef ssize_t sent
        cdef int fd = self._fd
        cdef Py_ssize_t before = output.size + 1
        memset(&message, 0, sizeof(message))
        message.msg_iov = vectors
        while output.size and output.size < before:
            before = output.size
            message.msg_iovlen = output.vectors(vectors)
            if before < UNLOCKED_BYTES_MIN:
                sent = sendmsg(fd, &message, MSG_NOSIGNAL)
            else:
                with nogil:
                    sent = sendmsg(fd, &message, MSG_NOSIGNAL)
            if sent < 0:
                sent = self._unsent()
            if sent < 0:
                return False
            output.drop(sent)
        return True

    cdef int _send_on(self) except -1:
        if not self._send_pieces(self._output):
            return 0
        if not self._output.size:
            self._output = None
        self._resume_if_drained()
        if self._output is None and not self._state & IS_LOST:
            self._rearm()
            self._drained()
        return 0

    cdef int _drained(self) except -1:
        if self._state & IS_CLOSING:
            self._lose_soon(None)
        elif self._state & ENDS:
            shutdown(self._fd, SHUT_WR)
        return 0

    def write_eof(self):
        if not self._state & (ENDS | IS_CLOSING | IS_LOST):
            self._state |= ENDS
            if self._output is None:
                shutdown(self._fd, SHUT_WR)

    def can_write_eof(self):
        return True

    # ── flow control ──────────────────────────────────────────────────────────────────────────

    cdef int _pause_if_full(self) except -1:
        if self._output is None or self._output.size <= self._high or self._state & IS_FULL:
            return 0
        self._state |= IS_FULL
        try:
            self._protocol.pause_writing()
        except Exception as error:
            self._complain("protocol.pause_writing() failed", error)
        return 0

    cdef int _resume_if_drained(self) except -1:
        if not self._state & IS_FULL or self.get_write_buffer_size() > self._low:
            return 0
        self._state &= ~<uint32_t>IS_FULL
        try:
            self._protocol.resume_writing()
        except Exception as error:
            self._complain("protocol.resume_writing() failed", error)
        return 0

    def set_write_buffer_limits(self, high=None, low=None):
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high = min(high, UINT32_MAX)
        self._low = min(low, UINT32_MAX)
        self._pause_if_full()

    def get_write_buffer_limits(self):
        return self._low, self._high

    def get_write_buffer_size(self):
        return self.unsent_bytes()

    cdef Py_ssize_t unsent_bytes(self) noexcept:
        return 0 if self._output is None else self._output.size

    def pause_reading(self):
        self._state |= IS_PAUSED

    def resume_reading(self):
        if self._state & IS_PAUSED:
            self._state &= ~<uint32_t>IS_PAUSED
            self._rearm()
            if self._state & WAS_READY:
                self._state &= ~<uint32_t>WAS_READY
                self._poller._resumed.append(self)

    def is_reading(self):
        return self._is_reading()

    # ── about it ──────────────────────────────────────────────────────────────────────────────

    def set_protocol(self, protocol):
        self._protocol = protocol

    def get_protocol(self):
        return self._protocol

    def get_extra_info(self, name, default=None):
        cdef sockaddr_storage address
        cdef socklen_t size = sizeof(address)
        cdef int result = -1
        if self._fd < 0:
            return default
        if name == "socket":
            return BorrowedSocket(fileno=self._fd)
        if name == "peername":
            result = getpeername(self._fd, <sockaddr *>&address, &size)
        elif name == "sockname":
            result = getsockname(self._fd, <sockaddr *>&address, &size)
        return default if result < 0 else _address(&address)

    def __repr__(self):
        return f"<SocketTransport fd={self._fd}>"

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def is_closing(self):
        return self._state & (IS_CLOSING | IS_LOST) != 0

    def close(self):
        """Read no more; the connection is lost once what was written is sent."""
        if self._state & (IS_CLOSING | IS_LOST):
            return
        self._state |= IS_CLOSING
        if self._output is None:
            self._lose_soon(None)
        else:
            self._rearm()

    def abort(self):
        self._lose_soon(None)

    cdef int _fatal(self, str message, error) except -1:
        self._complain(message, error)
        self._lose_soon(error)
        return 0

    cdef int _complain(self, str message, error) except -1:
        self._poller._report(message, error, self, self._protocol)
        return 0

    cdef int _lose_soon(self, error) except -1:
        """After the turn, since callbacks of this moment may not expect it."""
        if self._state & IS_LOST:
            return 0
        self._state |= IS_LOST
        self._output = None
        self._arm(0)
        self._poller.loop.call_soon(self._lose, error)
        return 0

    def _lose(self, error):
        protocol, self._protocol = self._protocol, None  # breaks a cycle
        try:
            protocol.connection_lost(error)
        finally:
            self._poller._forget(self._fd)
            close_fd(self._fd)
            self._fd = -1
