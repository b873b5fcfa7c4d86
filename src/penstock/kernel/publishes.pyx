# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""PUBLISH packets of QoS 0, found in a chunk, routed, captured and handed on, without an object each.

The compiled form of two loops: ``wire/mqtt/fast_paths.py: publish_runs_of``, which finds packets,
and ``doors/mqtt/publishing.py: _publish_runs``, which says what becomes of them. In between is one
event for all packets of a chunk (``PublishFrames``), where the Python form has one for each run of
packets to the same topic.

Both loops know the ordinary case alone. They stop at anything else, and the Python form goes on
from there: a packet that is incomplete or has properties, a topic that is new, that needs a
signature, or whose subscribers want other packets than the publisher's.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport uint8_t, uint32_t

from penstock.kernel.clocks cimport monotonic_s, wall_clock_ms
from penstock.kernel.columns cimport MessageColumns
from penstock.kernel.connection_state cimport ConnectionState
from penstock.kernel.flusher cimport Flusher
from penstock.kernel.names cimport name_of
from penstock.kernel.output_queue cimport OutputQueue
from penstock.kernel.routes cimport Route
from penstock.kernel.slots cimport attribute, set_attribute, Slot

from time import monotonic as _monotonic

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object, object) except? NULL

cdef enum:
    PUBLISH_QOS_0 = 0x30
    PACKET_BYTES_MIN = 5  # needed so that a header with two length bytes can be read unchecked
    LEVEL_5 = 5
    CAPTURED = 1  # as in ``access/admission.py``

    LONG_BYTES_MIN = 16_384  # a read that may take long: others may have to be served after it

    FEW = 4  # packets that need no memory of their own: most devices send one at a time


cdef Slot _client, _door, _publishing, _bytes_max, _dialect, _tail, _state
cdef Slot _batch, _room_bytes, _rights, _publishable, _bytes_in_total, _messages_in_total


cdef struct Frame:
    PyObject *name  # the topic, owned
    uint32_t start  # in the chunk
    uint32_t payload
    uint32_t end


@cython.freelist(256)
@cython.no_gc
cdef class PublishFrames:
    """QoS 0 PUBLISH packets of one chunk, one after another, to any topics."""

    cdef readonly bytes chunk
    cdef readonly int version
    cdef Py_ssize_t count
    cdef Py_ssize_t _first  # that was not taken yet
    cdef Py_ssize_t _room
    cdef Frame *_frames
    cdef Frame _few[FEW]

    def __cinit__(self):
        self.count = 0
        self._first = 0
        self._room = FEW
        self._frames = self._few

    def __dealloc__(self):
        cdef Py_ssize_t place
        for place in range(self.count):
            Py_XDECREF(self._frames[place].name)
        if self._frames is not self._few:
            PyMem_RawFree(self._frames)

    def __len__(self):
        """How many packets were not taken yet."""
        return self.count - self._first

    cdef int _grow(self) except -1:
        cdef Frame *grown
        cdef Py_ssize_t place, room = self._room * 8
        grown = <Frame *>PyMem_RawRealloc(
            NULL if self._frames is self._few else self._frames, room * sizeof(Frame)
        )
        if grown is NULL:
            raise MemoryError
        if self._frames is self._few:
            for place in range(self.count):
                grown[place] = self._few[place]
        self._frames = grown
        self._room = room
        return 0

    cdef bytes _slice(self, Py_ssize_t start, Py_ssize_t end):
        if start == 0 and end == PyBytes_GET_SIZE(self.chunk):
            return self.chunk
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.chunk) + start, end - start)

    def frames(self, Py_ssize_t first, Py_ssize_t last):
        """The packets ``first … last - 1`` as they came."""
        if not 0 <= first < last <= self.count:
            raise IndexError
        return self._slice(self._frames[first].start, self._frames[last - 1].end)

    def runs(self, make, Py_ssize_t first, Py_ssize_t last):
        """The packets ``first … last - 1`` as the Python form has them: a run for each topic.

        ``make`` is ``MqttPublishRun``.
        """
        cdef list found = []
        if not 0 <= first <= last <= self.count:
            raise IndexError
        while first < last:
            run, first = self._run(make, first, last)
            found.append(run)
        return found

    def take_run(self, make):
        """Take the next packets that go to one topic, as the Python form has them."""
        if self._first == self.count:
            raise IndexError
        run, self._first = self._run(make, self._first, self.count)
        return run

    cdef tuple _run(self, make, Py_ssize_t first, Py_ssize_t last):
        """The run that begins at ``first``, and the place behind it."""
        cdef Py_ssize_t place = first
        cdef list payloads = []
        name = <bytes>self._frames[first].name
        while place < last and name == <bytes>self._frames[place].name:
            payloads.append(self._slice(self._frames[place].payload, self._frames[place].end))
            place += 1
        start, end = self._frames[first].start, self._frames[place - 1].end
        return make(name, payloads, self.chunk, start, end, self.version), place


def find_publishes(
    int version, bytes data not None, Py_ssize_t position, Py_ssize_t bytes_max, list events not None
):
    """Find ordinary QoS 0 packets from ``position`` on; return where they end.

    If there are some, they become one event.
    """
    cdef PublishFrames found = _find(version, data, &position, bytes_max)
    if found is not None:
        events.append(found)
    return position


cdef PublishFrames _find(int version, bytes data, Py_ssize_t *begin, Py_ssize_t bytes_max):
    """The packets from ``begin`` on, which is moved behind them; None if there are none."""
    cdef const uint8_t *text = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t last = size - PACKET_BYTES_MIN
    cdef Py_ssize_t position = begin[0]
    cdef Py_ssize_t length, body, end, payload, name_size
    cdef PublishFrames found = None
    cdef Frame *frame
    cdef bytes name = None
    if position < 0 or size > 0xFFFFFFFF:
        return None
    while position <= last and text[position] == PUBLISH_QOS_0:
        length = text[position + 1]
        body = position + 2
        if length > 127:
            if not 0 < text[body] < 128:
                break
            length += (<Py_ssize_t>text[body] << 7) - 128
            body += 1
        end = body + length
        name_size = <Py_ssize_t>text[body] << 8 | text[body + 1]
        payload = body + 2 + name_size
        if end > size or payload > end or end - position > bytes_max:
            break
        if version >= LEVEL_5:
            if not name_size or payload == end or text[payload]:
                break
            payload += 1
        name = name_of(<const char *>text + body + 2, name_size)
        if found is None:
            found = PublishFrames.__new__(PublishFrames)
            found.chunk = data
            found.version = version
        elif found.count == found._room:
            found._grow()
        frame = &found._frames[found.count]
        Py_INCREF(name)
        frame.name = <PyObject *>name
        frame.start = position
        frame.payload = payload
        frame.end = end
        found.count += 1
        position = end
    begin[0] = position
    return found


cdef inline OutputQueue _outbox_of(client):
    if isinstance(client, ConnectionState):
        return (<ConnectionState>client).outbox
    return client.outbox


cdef int _forward(
    tuple targets,
    PublishFrames frames,
    Py_ssize_t first,
    Py_ssize_t last,
    connection_type,
    publishing,
    forward,
) except -1:
    """Forward packets to those who can get them as they are, and let ``forward`` do the rest."""
    cdef Py_ssize_t start = frames._frames[first].start, end = frames._frames[last - 1].end
    cdef OutputQueue outbox
    cdef list others = None
    for pair in targets:
        client = attribute((<tuple>pair)[0], &_client, "client")
        if client is None:
            continue
        if type(client) is connection_type:
            outbox = _outbox_of(client)
            if outbox.frames_version == frames.version and end - start <= outbox.frames_bytes_max:
                outbox.send_slice(last - first, frames.chunk, start, end)
                continue
        if others is None:
            others = []
        others.append(pair)
    if others is not None:
        if forward is None:
            forward = publishing.forward_frames
        forward(tuple(others), frames, first, last)
    return 0


def pass_on(
    PublishFrames frames not None,
    dict routes not None,
    publishable,
    MessageColumns columns,
    long long time_ms,
    cluster,
    connection_type,
    forward,
):
    """Take packets: route, capture and forward them, up to one that is not ordinary.

    Neighbours with the same subscribers are forwarded together. ``forward(targets, frames, first,
    last)`` is called for subscribers that cannot get the packets as they are: their connection is
    not a ``connection_type``, or speaks another version. ``columns`` is the batch that captures;
    None if it is full. Topics that are not captured are left to the caller if there are other nodes
    in the ``cluster``, which must get them.

    Returns how many were taken, and how many of them were to be captured.
    """
    cdef Py_ssize_t captured = 0
    taken = _pass_on(
        frames, routes, publishable, columns, time_ms, cluster, connection_type, None, forward,
        &captured,
    )
    return taken, captured


cdef Py_ssize_t _pass_on(
    PublishFrames frames,
    dict routes,
    publishable,
    MessageColumns columns,
    long long time_ms,
    cluster,
    connection_type,
    publishing,
    forward,
    Py_ssize_t *captured,
) except -1:
    """``pass_on``; without ``forward`` it is ``publishing.forward_frames``."""
    cdef Py_ssize_t first = frames._first, place = first, begin = first
    cdef Frame *frame
    cdef PyObject *found
    cdef Route route
    cdef tuple targets = (), others
    cdef int policy
    while place < frames.count:
        frame = &frames._frames[place]
        found = PyDict_GetItemWithError(routes, <object>frame.name)
        if found is NULL:
            break
        route = <Route?>found
        policy = route.policy
        if policy != CAPTURED and (policy or cluster.is_clustered):
            break
        if route.marked is not None:
            break
        if publishable is not None and <object>frame.name not in publishable:
            break
        others = route.targets
        if others is not targets and (not targets or others != targets):
            if targets:
                _forward(targets, frames, begin, place, connection_type, publishing, forward)
            targets = others
            begin = place
        if policy:
            captured[0] += 1
            if columns is not None:
                columns.add_slice(
                    route.topic, frames.chunk, frame.payload, frame.end, time_ms, 0
                )
        place += 1
    if targets and place > begin:
        _forward(targets, frames, begin, place, connection_type, publishing, forward)
    frames._first = place
    return place - first


def receive(ConnectionState connection not None, bytes data not None):
    """``data_received`` of an MQTT connection: the short way if it is one, else the long one."""
    cdef ShortWay short_way = attribute(connection, &_door, "_door").short_way
    if not short_way.take(connection, data):
        (<object>connection).take_long_way(data)


@cython.final
cdef class ShortWay:
    """What becomes of a read that has nothing but ordinary QoS 0 packets: most reads of a fleet.

    As ``net/connection.py: Connection.data_received`` and ``MqttPublishing.publish_frames`` for
    these, in one call: a broker with little to do finds nothing in the processor's caches, and each
    call of Python costs it as much as the work. ``connected`` is the state of a machine that has
    seen CONNECT.
    """

    cdef object _counters
    cdef object _pipeline
    cdef object _room
    cdef object _cluster
    cdef dict _routes
    cdef object _flusher
    cdef object _backpressure
    cdef object _monotonic
    cdef object _wall_ms
    cdef bint _is_of_system  # whether both are the system's clocks
    cdef object _connected
    cdef object _known_dialect  # of the last machine that was asked for its version
    cdef int _version

    def __init__(self, door, connected):
        from penstock.clock import SystemClock  # not sooner: Spark loads the kernel, too

        connections = door.connections
        self._counters = connections.counters
        self._pipeline = door.pipeline
        self._room = door.pipeline.capture_room
        self._cluster = door.cluster
        self._routes = door.broker.routes.cached
        self._flusher = connections.flusher
        self._backpressure = connections.backpressure
        self._monotonic = connections.monotonic
        self._wall_ms = connections.wall_ms
        self._is_of_system = (
            self._monotonic is _monotonic and self._wall_ms is SystemClock.wall_ms
        )
        self._connected = connected

    cpdef bint take(self, ConnectionState connection, bytes data) except -1:
        """Take a read of ``connection``; False if it must go the long way, and nothing was done."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), end = 0
        cdef PublishFrames frames
        cdef bint is_in_turn
        if not size or <uint8_t>PyBytes_AS_STRING(data)[0] != PUBLISH_QOS_0:
            return False
        publishing = attribute(connection, &_publishing, "_publishing")
        machine = connection._machine
        if publishing is None or not self._is_free(connection, machine):
            return False
        frames = _find(
            self._version_of(machine), data, &end, attribute(machine, &_bytes_max, "_bytes_max")
        )
        if end != size:
            return False
        self._count_received(size)
        connection._last_packet_at = self._now()
        is_in_turn = self._is_in_turn()  # then nothing is written before the turn ends
        if not is_in_turn:
            self._flusher.hold()
        try:
            self._publish(connection, publishing, frames)
        except Exception:
            (<object>connection).failed()
            frames._first = frames.count
        if frames._first < frames.count:
            (<object>connection).handle_safely([frames])
        if not is_in_turn:
            self._flusher.release(connection._last_packet_at)
        if self._backpressure.is_congested or size > LONG_BYTES_MIN:
            (<object>connection).give_way()
        return True

    cdef int _publish(
        self, ConnectionState connection, publishing, PublishFrames frames
    ) except -1:
        cdef Py_ssize_t taken, captured = 0
        cdef MessageColumns batch = attribute(self._room, &_batch, "batch")
        cdef bint is_granted = batch is not None and batch.payload_bytes < <Py_ssize_t>attribute(
            self._room, &_room_bytes, "bytes_max"
        )
        cdef list received
        if not is_granted:
            batch = self._pipeline.capturing_batch()
        rights = attribute(connection.principal, &_rights, "rights")
        taken = _pass_on(
            frames,
            self._routes,
            attribute(rights, &_publishable, "publishable"),
            batch,
            wall_clock_ms() if self._is_of_system else <long long>self._wall_ms(),
            self._cluster,
            type(connection),
            publishing,
            None,
            &captured,
        )
        received = attribute(self._counters, &_messages_in_total, "messages_in_total")
        received[0] += taken
        if not is_granted:
            self._pipeline.end_capturing(batch, captured)
        return 0

    cdef int _count_received(self, Py_ssize_t size) except -1:
        received = attribute(self._counters, &_bytes_in_total, "bytes_in_total")
        return set_attribute(self._counters, &_bytes_in_total, "bytes_in_total", received + size)

    cdef double _now(self) except? -1:
        return monotonic_s() if self._is_of_system else <double>self._monotonic()

    cdef bint _is_in_turn(self) except -1:
        if type(self._flusher) is Flusher:
            return (<Flusher>self._flusher).is_in_turn
        return self._flusher.is_in_turn

    cdef int _version_of(self, machine) except -1:
        dialect = attribute(machine, &_dialect, "_dialect")
        if dialect is not self._known_dialect:
            self._known_dialect = dialect
            self._version = dialect.version
        return self._version

    cdef bint _is_free(self, ConnectionState connection, machine) except -1:
        """Whether events would be handled at once, and machine and meter have nothing to add."""
        if connection.reason is not None or connection.meter is not None:
            return False
        if connection._blocks or connection._held:
            return False
        if attribute(machine, &_tail, "_tail") is not None:
            return False
        return attribute(machine, &_state, "_state") is self._connected
