# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Commands of RESP, found in one pass over a chunk.

The compiled form of ``RespColumns`` in ``wire/resp/events.py`` and of ``wire/resp/columns.py``.

A command is read by its announced lengths, so any argument may contain line ends. Of commands in
columns only the places of their arguments are noted: nothing is copied before somebody asks for it.
PUBLISH needs no payload as an object: a subscriber's output and the journal's columns are made of
the chunk itself.

**Names.** The first argument, a channel or a stream, is one of a few that come again and again. A
table has the last ones by their hash, so that a known name is neither allocated nor, within one
chunk, looked up again. Long names are not kept there: it has a bound.

Whatever is not plainly right is left to the Python form, which alone decides what is wrong with it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport uint32_t, uint64_t, UINT32_MAX
from libc.string cimport memcmp, memcpy

from penstock.kernel.columns cimport MessageColumns
from penstock.kernel.names cimport hash_of
from penstock.kernel.output_queue cimport OutputQueue

cdef enum:
    NAMES = 2_048  # a power of two
    NAME_BYTES_MAX = 256

    DIGITS_MAX = 9
    SHARED_BYTES_MAX = 512  # mean size of payloads up to which one copy for all costs least
    COLUMNAR_ARGUMENTS_MAX = 64  # commands with more are read one by one

    # An incomplete command is held as a whole, and read again from its beginning, if it is small or
    # only bytes of its last argument are missing. Otherwise the Python form holds its arguments.
    HELD_BYTES_MAX = 4_096

    FITS = 1
    WAITS = 0  # it is right so far, and goes on behind the chunk
    ODD = -1

    # a row: where the first argument's length stands, the number of its name, then the arguments
    REST = 0
    NAME = 1
    PLACES = 2  # start and length of each

cdef struct Known:
    PyObject *name
    uint64_t reading  # in which it was found last
    uint32_t number  # that it had there

cdef Known _known[NAMES]
cdef uint64_t _readings = 0
cdef object _command = None  # the class of single commands, with arguments and those of more


def set_command_class(command):
    """What ``RespColumns.commands`` makes: it belongs to a layer above this one."""
    global _command
    _command = command


cdef class RespColumns:
    """Commands in a row with the same name and number of arguments."""

    cdef readonly bytes name
    cdef readonly Py_ssize_t count
    cdef readonly list distinct
    cdef bytes _chunk
    cdef uint32_t *_rows
    cdef Py_ssize_t _width  # of a row
    cdef Py_ssize_t _room  # rows that there is memory for
    cdef dict _others  # numbers of names that the table has no place for
    cdef uint64_t _reading
    cdef bint _is_last  # whether an incomplete command lacks bytes of its last argument only
    cdef list _columns
    cdef list _rests

    def __cinit__(self):
        self.distinct = []

    def __dealloc__(self):
        PyMem_Free(self._rows)

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    cdef uint32_t *_row(self) except NULL:
        """Memory for one row more."""
        cdef uint32_t *rows
        if self.count == self._room:
            self._room = max(2 * self._room, 8)
            rows = <uint32_t *>PyMem_Realloc(
                self._rows, self._room * self._width * sizeof(uint32_t)
            )
            if rows is NULL:
                raise MemoryError
            self._rows = rows
        return self._rows + self.count * self._width

    cdef Py_ssize_t _number(self, const char *text, Py_ssize_t length) except -1:
        """The number of a name, which may be new."""
        cdef Known *known
        cdef bytes name
        if length > NAME_BYTES_MAX:
            return self._other(PyBytes_FromStringAndSize(text, length))
        known = &_known[hash_of(text, length) % NAMES]
        if (
            known.name is not NULL
            and PyBytes_GET_SIZE(<object>known.name) == length
            and memcmp(PyBytes_AS_STRING(<object>known.name), text, length) == 0
        ):
            if known.reading != self._reading:
                known.reading = self._reading
                known.number = <uint32_t>self._add(<bytes>known.name)
            return known.number
        name = PyBytes_FromStringAndSize(text, length)
        if known.reading == self._reading:
            return self._other(name)  # it has been given to another name of this chunk
        if known.name is not NULL:
            Py_DECREF(<object>known.name)
        Py_INCREF(name)
        known.name = <PyObject *>name
        known.reading = self._reading
        known.number = <uint32_t>self._add(name)
        return known.number

    cdef Py_ssize_t _other(self, bytes name) except -1:
        if self._others is None:
            self._others = {}
        number = self._others.get(name)
        if number is None:
            number = self._others[name] = self._add(name)
        return number

    cdef Py_ssize_t _add(self, bytes name) except -1:
        self.distinct.append(name)
        return len(self.distinct) - 1

    # ── The commands, as objects ──────────────────────────────────────────────────────────────

    @property
    def arguments(self):
        """How many arguments each command has, its name included."""
        return 1 + (self._width - PLACES) // 2

    @property
    def columns(self):
        cdef Py_ssize_t argument
        if self._columns is None:
            self._columns = [self._names()] + [
                self._column(argument) for argument in range(1, (self._width - PLACES) // 2)
            ]
        return self._columns

    cdef list _names(self):
        cdef Py_ssize_t place
        return [
            self.distinct[self._rows[place * self._width + NAME]] for place in range(self.count)
        ]

    cdef list _column(self, Py_ssize_t argument):
        cdef const char *data = PyBytes_AS_STRING(self._chunk)
        cdef uint32_t *row = self._rows + PLACES + 2 * argument
        cdef list found = []
        for _ in range(self.count):
            found.append(PyBytes_FromStringAndSize(data + row[0], row[1]))
            row += self._width
        return found

    @property
    def rests(self):
        cdef const char *data = PyBytes_AS_STRING(self._chunk)
        cdef uint32_t *row = self._rows
        if self._rests is None:
            self._rests = []
            for _ in range(self.count):
                self._rests.append(
                    PyBytes_FromStringAndSize(data + row[REST], self._rest_bytes(row))
                )
                row += self._width
        return self._rests

    cdef inline uint32_t _rest_bytes(self, uint32_t *row) noexcept:
        return row[self._width - 2] + row[self._width - 1] - row[REST]

    def commands(self):
        return [_command([self.name, *row], []) for row in zip(*self.columns)]

    # ── Some of them ──────────────────────────────────────────────────────────────────────────

    def cut(self, Py_ssize_t start, stop=None):
        cdef Py_ssize_t end = self.count if stop is None else min(stop, self.count)
        cdef RespColumns found = self._like()
        cdef Py_ssize_t place
        for place in range(min(start, end), end):
            self._copy(place, found)
        found._forget_absent()
        return found

    def of(self, names):
        """The commands whose first argument is one of these."""
        cdef list wanted = [name in names for name in self.distinct]
        cdef RespColumns found = self._like()
        cdef Py_ssize_t place
        for place in range(self.count):
            if wanted[self._rows[place * self._width + NAME]]:
                self._copy(place, found)
        found._forget_absent()
        return found

    cdef RespColumns _like(self):
        cdef RespColumns found = RespColumns.__new__(RespColumns)
        found.name, found._chunk, found._width = self.name, self._chunk, self._width
        found.distinct = self.distinct
        return found

    cdef int _copy(self, Py_ssize_t place, RespColumns other) except -1:
        memcpy(
            other._row(), self._rows + place * self._width, self._width * sizeof(uint32_t)
        )
        other.count += 1
        return 0

    cdef int _forget_absent(self) except -1:
        """Number the names again: only those that there are, in order of their first command."""
        cdef list before = self.distinct
        cdef dict numbers = {}
        cdef uint32_t *row = self._rows
        for _ in range(self.count):
            row[NAME] = numbers.setdefault(row[NAME], len(numbers))
            row += self._width
        self.distinct = [before[number] for number in numbers]
        return 0

    def count_before(self, names):
        """How many commands there are before the first whose first argument is not among these."""
        cdef list wanted = [name in names for name in self.distinct]
        cdef Py_ssize_t place
        for place in range(self.count):
            if not wanted[self._rows[place * self._width + NAME]]:
                return place
        return self.count

    # ── What becomes of PUBLISH ───────────────────────────────────────────────────────────────

    def pushes(self, bytes head not None):
        """The messages with a head before each, as subscribers get them."""
        cdef const char *data = PyBytes_AS_STRING(self._chunk)
        cdef const char *before = PyBytes_AS_STRING(head)
        cdef Py_ssize_t head_bytes = PyBytes_GET_SIZE(head), size = 0
        cdef uint32_t *row = self._rows
        cdef bytes found
        cdef char *out
        for _ in range(self.count):
            size += head_bytes + self._rest_bytes(row) + 2
            row += self._width
        found = PyBytes_FromStringAndSize(NULL, size)
        out = PyBytes_AS_STRING(found)
        row = self._rows
        for _ in range(self.count):
            memcpy(out, before, head_bytes)
            size = self._rest_bytes(row) + 2
            memcpy(out + head_bytes, data + row[REST], size)
            out += head_bytes + size
            row += self._width
        return found

    def send_all(self, list way not None):
        """Push all messages to each of these: outboxes, with the head of their pushes.

        Small messages are copied into one piece for all who want the same head; others are sent
        out of the chunk.
        """
        cdef dict forms = {}
        cdef bytes frames
        cdef uint32_t *row = self._rows
        cdef Py_ssize_t size = 0
        for _ in range(self.count):
            size += row[self._width - 1]
            row += self._width
        if size > SHARED_BYTES_MAX * self.count:
            self.send_each([way] * len(self.distinct))
            return
        for outbox, head in way:
            frames = forms.get(head)
            if frames is None:
                frames = forms[head] = self.pushes(head)
            (<OutputQueue?>outbox).send_slice(self.count, frames, 0, PyBytes_GET_SIZE(frames))

    def send_each(self, list ways not None):
        """Push each message to those in ``ways``, which has a list for each distinct name."""
        cdef uint32_t *row = self._rows
        cdef Py_ssize_t start
        if len(ways) != len(self.distinct):
            raise ValueError("there must be a way for each name")
        for _ in range(self.count):
            start = row[REST]
            for outbox, head in <list?>ways[row[NAME]]:
                (<OutputQueue?>outbox).add_headed(
                    1, <bytes?>head, self._chunk, start, start + self._rest_bytes(row) + 2
                )
            row += self._width

    def answers(self, dict each not None):
        """The answers to all commands; ``each`` has them by first argument."""
        cdef list answers
        cdef Py_ssize_t size = 0
        cdef bytes answer, found
        cdef uint32_t *row = self._rows
        cdef char *out
        answers = [each[name] for name in self.distinct]
        if len(answers) == 1:
            return answers[0] * self.count
        for _ in range(self.count):
            size += PyBytes_GET_SIZE(<bytes?>answers[row[NAME]])
            row += self._width
        found = PyBytes_FromStringAndSize(NULL, size)
        out = PyBytes_AS_STRING(found)
        row = self._rows
        for _ in range(self.count):
            answer = <bytes>answers[row[NAME]]
            memcpy(out, PyBytes_AS_STRING(answer), PyBytes_GET_SIZE(answer))
            out += PyBytes_GET_SIZE(answer)
            row += self._width
        return found

    def append_to(self, MessageColumns batch not None, dict topics, long long time_ms):
        """Add the last arguments as messages; ``topics`` has those of channels, if they differ."""
        cdef list names = self.distinct
        cdef uint32_t *row = self._rows
        cdef uint32_t start
        if topics is not None:
            names = [topics[name] for name in names]
        for _ in range(self.count):
            start = row[self._width - 2]
            batch.add_slice(
                <bytes?>names[row[NAME]], self._chunk, start, start + row[self._width - 1],
                time_ms, 0,
            )
            row += self._width


# ── Reading ───────────────────────────────────────────────────────────────────────────────────

cdef struct Input:
    const char *data
    Py_ssize_t size
    Py_ssize_t position
    Py_ssize_t end  # of what must be there before it is worth looking again


cdef int _read_line(Input *input, char sign, Py_ssize_t *number) noexcept:
    """Read ``sign``, a number in its shortest form, and the end of the line."""
    cdef const char *at = input.data + input.position
    cdef const char *last = input.data + input.size
    cdef const char *first
    cdef Py_ssize_t found = 0
    input.end = input.size + 1
    if at == last:
        return WAITS
    if at[0] != sign:
        return ODD
    at += 1
    first = at
    while at < last and c"0" <= at[0] <= c"9":
        if at - first == DIGITS_MAX:
            return ODD
        found = 10 * found + (at[0] - c"0")
        at += 1
    if at - first > 1 and first[0] == c"0":
        return ODD
    if at == last:
        return WAITS
    if at == first or at[0] != c"\r":
        return ODD
    at += 1
    if at == last:
        return WAITS
    if at[0] != c"\n":
        return ODD
    input.position = at + 1 - input.data
    number[0] = found
    return FITS


cdef int _read_bulk(
    Input *input, Py_ssize_t bytes_max, Py_ssize_t *start, Py_ssize_t *length
) noexcept:
    cdef Py_ssize_t found = 0, end
    cdef int state = _read_line(input, c"$", &found)
    if state != FITS:
        return state
    if found > bytes_max:
        return ODD
    start[0] = input.position
    length[0] = found
    end = input.position + found
    input.end = end + 2
    if end < input.size and input.data[end] != c"\r":
        return ODD
    if end + 1 < input.size and input.data[end + 1] != c"\n":
        return ODD
    if end + 2 > input.size:
        return WAITS
    input.position = end + 2
    return FITS


cdef int _is_columnar(const char *name, Py_ssize_t length) noexcept:
    """In capitals or in small letters, not in both."""
    if length == 7:
        return memcmp(name, b"PUBLISH", 7) == 0 or memcmp(name, b"publish", 7) == 0
    if length == 8:
        return memcmp(name, b"SPUBLISH", 8) == 0 or memcmp(name, b"spublish", 8) == 0
    if length == 4:
        return memcmp(name, b"XADD", 4) == 0 or memcmp(name, b"xadd", 4) == 0
    return False


def read_command(
    bytes data not None, Py_ssize_t position, Py_ssize_t arguments_max, Py_ssize_t bulk_bytes_max,
    Py_ssize_t command_bytes_max, bint in_columns,
):
    """Read the command at ``position`` and, ``in_columns``, those like it that follow.

    Returns the columns, the arguments of a single command, or None if the Python form must read it;
    where that ends; and how many bytes an incomplete command there must have, or 0.
    """
    cdef Input input
    cdef Py_ssize_t count = 0, start = 0, length = 0
    cdef Py_ssize_t bytes_max = min(bulk_bytes_max, command_bytes_max)
    input.data = PyBytes_AS_STRING(data)
    input.size = PyBytes_GET_SIZE(data)
    input.position = position
    if (
        input.size > UINT32_MAX
        or _read_line(&input, c"*", &count) != FITS
        or not 0 < count <= arguments_max
        or _read_bulk(&input, bytes_max, &start, &length) != FITS
    ):
        return None, position, 0
    if (
        in_columns
        and 1 < count <= COLUMNAR_ARGUMENTS_MAX
        and _is_columnar(input.data + start, length)
    ):
        return _read_columns(
            data, &input, position, start, length, count - 1,
            min(bulk_bytes_max, command_bytes_max - length),
        )
    return _read_single(
        data, &input, position, start, length, count - 1, bulk_bytes_max, command_bytes_max
    )


cdef tuple _read_single(
    bytes data, Input *input, Py_ssize_t position, Py_ssize_t start, Py_ssize_t length,
    Py_ssize_t more, Py_ssize_t bulk_bytes_max, Py_ssize_t room,
):
    cdef list arguments = [PyBytes_FromStringAndSize(input.data + start, length)]
    for _ in range(more):
        room -= length
        if _read_bulk(input, min(bulk_bytes_max, room), &start, &length) != FITS:
            return None, position, 0
        arguments.append(PyBytes_FromStringAndSize(input.data + start, length))
    return arguments, input.position, 0


cdef tuple _read_columns(
    bytes data, Input *input, Py_ssize_t position, Py_ssize_t start, Py_ssize_t length,
    Py_ssize_t arguments, Py_ssize_t bytes_max,
):
    """``start`` and ``length`` are those of the name, ``position`` is that of its command."""
    global _readings
    cdef RespColumns found = RespColumns.__new__(RespColumns)
    cdef const char *head = input.data + position
    cdef Py_ssize_t head_bytes = input.position - position, left = 0, needed
    cdef int state = FITS
    _readings += 1
    found._reading = _readings
    found._chunk = data
    found._width = PLACES + 2 * arguments
    input.position = position
    while True:
        position = input.position
        left = input.size - position
        if left < head_bytes:
            state = WAITS if left and memcmp(input.data + position, head, left) == 0 else ODD
            input.end = position + head_bytes
            break
        if memcmp(input.data + position, head, head_bytes) != 0:
            state = ODD
            break
        input.position += head_bytes
        state = _read_row(found, input, arguments, bytes_max)
        if state != FITS:
            break
    found._others = None
    needed = 0
    if state == WAITS and (found._is_last or left <= HELD_BYTES_MAX):
        needed = input.end - position
    if not found.count:
        return None, position, needed
    found.name = PyBytes_FromStringAndSize(input.data + start, length)
    if found.count == 1 and length == 4:  # XADD, which is cheaper alone unless there are more
        return [found.name, *[column[0] for column in found.columns]], position, 0
    return found, position, needed


cdef int _read_row(
    RespColumns found, Input *input, Py_ssize_t arguments, Py_ssize_t bytes_max
) except -2:
    cdef uint32_t *row = found._row()
    cdef Py_ssize_t argument, start = 0, length = 0
    cdef int state
    row[REST] = <uint32_t>input.position
    for argument in range(arguments):
        state = _read_bulk(input, bytes_max, &start, &length)
        if state != FITS:
            found._is_last = argument == arguments - 1 and input.end > input.size + 1
            return state
        bytes_max -= length
        row[PLACES + 2 * argument] = <uint32_t>start
        row[PLACES + 2 * argument + 1] = <uint32_t>length
    row[NAME] = <uint32_t>found._number(input.data + row[PLACES], row[PLACES + 1])
    found.count += 1
    return FITS
