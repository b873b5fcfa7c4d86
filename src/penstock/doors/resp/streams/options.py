"""The options of stream commands: arguments in, a value out, or the error that Redis would give.

Each command has a function that reads its arguments and a tuple that says what it found. All of
them raise ``CommandError``. The order of checks is that of Redis, since with two mistakes in one
command it decides which of them a client is told.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.doors.resp.faults import NOT_AN_INTEGER, SYNTAX, CommandError, argument_fault
from penstock.doors.resp.streams import ids
from penstock.doors.resp.streams.ids import EntryId, Position
from penstock.wire.resp.names import topic_of

RETRIES_MAX = 2**31
"""Deliveries that a client may say there were. They are counted on from there, and must not outgrow
what protocols have bits for."""

INTEGER = re.compile(rb"-?(?:0|[1-9]\d{0,18})")
INTEGER_BOUND = 2**63

AUTOCLAIM_COUNT = 100  # how many entries XAUTOCLAIM takes over if it is not told

AUTOCLAIM_COUNT_MAX = 2**40
"""Beyond this Redis has no memory for the answer. We would have, but nobody means it."""

TRIM_LIMIT = 10_000
"""How many entries an approximate trim removes at most if it is not told; as in Redis."""


def integer(text: bytes, fault: str = NOT_AN_INTEGER) -> int:
    """A number as Redis accepts it: 64 bits with sign, in its shortest form."""
    if not INTEGER.fullmatch(text) or not -INTEGER_BOUND <= (number := int(text)) < INTEGER_BOUND:
        raise CommandError(fault)
    return number


# ── XADD, XTRIM ───────────────────────────────────────────────────────────────────────────────


class TrimOptions(NamedTuple):
    """Which entries go: all but the newest ``length``, or all before ``first_kept``."""

    length: int | None
    first_kept: Position | None
    is_approximate: bool
    limit: int | None
    """At most so many at once; only if approximate. None: all of them."""


class AddOptions(NamedTuple):
    """An XADD: whether it may make the stream, what is trimmed, where the fields begin."""

    may_make_stream: bool
    trim: TrimOptions | None
    fields: int


class _TrimArguments:
    """Reads MAXLEN, MINID and LIMIT among the arguments of XADD and XTRIM."""

    def __init__(self, args: Sequence[bytes]) -> None:
        self._args = args
        self._strategy = b""
        self._threshold = b""
        self._is_approximate = False
        self._limit: int | None = None

    def take(self, position: int) -> int:
        """Read one option; return the position of the next."""
        name = self._args[position].upper()
        if name in (b"MAXLEN", b"MINID") and len(self._args) > position + 1:
            return self._take_strategy(name, position + 1)
        if name == b"LIMIT" and len(self._args) > position + 1:
            self._limit = integer(self._args[position + 1])
            if self._limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            return position + 2
        return position

    def _take_strategy(self, name: bytes, position: int) -> int:
        if self._strategy:
            raise CommandError(
                f"{SYNTAX}, MAXLEN and MINID options at the same time are not compatible"
            )
        if self._args[position] in (b"=", b"~") and len(self._args) > position + 1:
            self._is_approximate = self._args[position] == b"~"
            position += 1
        self._strategy, self._threshold = name, self._args[position]
        if name == b"MAXLEN" and integer(self._threshold) < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")
        if name == b"MINID":
            ids.start(self._threshold)
        return position + 1

    def found(self) -> TrimOptions | None:
        if self._limit is not None and not self._strategy:
            raise CommandError(
                f"{SYNTAX}, LIMIT cannot be used without specifying a trimming strategy"
            )
        if self._limit is not None and not self._is_approximate:
            raise CommandError(f"{SYNTAX}, LIMIT cannot be used without the special ~ option")
        if not self._strategy:
            return None
        is_length = self._strategy == b"MAXLEN"
        limit = (TRIM_LIMIT if self._limit is None else self._limit) or None
        return TrimOptions(
            length=int(self._threshold) if is_length else None,
            first_kept=None if is_length else ids.start(self._threshold),
            is_approximate=self._is_approximate,
            limit=limit if self._is_approximate else None,
        )


def add_options(args: Sequence[bytes]) -> AddOptions:
    """XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT n]] * field value …."""
    trimming = _TrimArguments(args)
    may_make_stream = True
    position = 2
    while position < len(args) and args[position] != b"*":
        following = trimming.take(position)
        if args[position].upper() == b"NOMKSTREAM":
            may_make_stream = False
            following = position + 1
        if following == position:
            raise _id_fault(args[position])
        position = following
    trim = trimming.found()
    fields = len(args) - position - 1
    if fields < 2 or fields % 2:
        raise CommandError(argument_fault(b"xadd"))
    return AddOptions(may_make_stream, trim, position + 1)


def _id_fault(text: bytes) -> CommandError:
    """The client gave an id: a malformed one, or one that it cannot choose."""
    ids.entry_ids([text.removesuffix(b"-*")])
    return CommandError(
        "ERR The broker assigns the IDs of entries, XADD takes no other ID than *: the second part"
        " is the number of the entry in its topic. Put a time of your own into a field"
    )


def trim_options(args: Sequence[bytes]) -> TrimOptions:
    """XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT n]."""
    trimming = _TrimArguments(args)
    position = 2
    while position < len(args):
        following = trimming.take(position)
        if following == position:
            raise CommandError(SYNTAX)
        position = following
    trim = trimming.found()
    if trim is None:
        raise CommandError(f"{SYNTAX}, XTRIM must be called with a trimming strategy")
    return trim


# ── XRANGE, XREAD, XREADGROUP ─────────────────────────────────────────────────────────────────


class RangeOptions(NamedTuple):
    """A stretch of entries, and at most how many; None: all."""

    start: Position
    end: Position
    count_max: int | None


def range_options(args: Sequence[bytes], *, is_reverse: bool) -> RangeOptions:
    """XRANGE key start end [COUNT n], XREVRANGE key end start [COUNT n]."""
    first, last = (args[3], args[2]) if is_reverse else (args[2], args[3])
    bounds = ids.start(first), ids.range_end(last)
    count = None
    options = args[4:]
    while options:
        if options[0].upper() != b"COUNT" or len(options) < 2:
            raise CommandError(SYNTAX)
        count = max(integer(options[1]), 0)
        options = options[2:]
    return RangeOptions(*bounds, count)


class ReadSource(NamedTuple):
    """One stream of XREAD or XREADGROUP. ``after`` is None for what is new: ``$``, ``>``."""

    topic: bytes
    after: Position | None


class ReadOptions(NamedTuple):
    """An XREAD, or with a group an XREADGROUP."""

    sources: list[ReadSource]
    count_max: int | None
    block_ms: int | None  # how long to wait for something to read; 0: for ever, None: not at all
    group: bytes | None
    consumer: bytes
    is_settled: bool  # NOACK: what is read counts as acknowledged


class _ReadArguments:
    """Reads the options before STREAMS."""

    def __init__(self, args: Sequence[bytes]) -> None:
        self._args = args
        self._is_group_read = args[0].upper() == b"XREADGROUP"
        self.count: int | None = None
        self.block_ms: int | None = None
        self.group: bytes | None = None
        self.consumer = b""
        self.is_settled = False

    def take(self, position: int) -> int:
        """Read one option; return the position of the next."""
        name, more = self._args[position].upper(), len(self._args) - 1 - position
        if name == b"BLOCK" and more >= 1:
            self.block_ms = integer(
                self._args[position + 1], "ERR timeout is not an integer or out of range"
            )
            if self.block_ms < 0:
                raise CommandError("ERR timeout is negative")
            return position + 2
        if name == b"COUNT" and more >= 1:
            count = integer(self._args[position + 1])
            self.count = count if count > 0 else None  # as in Redis: none, or less, is all
            return position + 2
        if name == b"GROUP" and more >= 2:
            self._only_groups("GROUP")
            self.group, self.consumer = self._args[position + 1 : position + 3]
            return position + 3
        if name == b"NOACK":
            self._only_groups("NOACK")
            self.is_settled = True
            return position + 1
        raise CommandError(SYNTAX)

    def _only_groups(self, option: str) -> None:
        if not self._is_group_read:
            raise CommandError(
                f"ERR The {option} option is only supported by XREADGROUP."
                " You called XREAD instead."
            )


def read_options(args: Sequence[bytes], *, may_block: bool = True) -> ReadOptions:
    """XREAD [COUNT n] [BLOCK ms] STREAMS key … id …; XREADGROUP has GROUP and NOACK as well."""
    options = _ReadArguments(args)
    position = 1
    while position < len(args) and args[position].upper() != b"STREAMS":
        position = options.take(position)
    names = args[position + 1 :]
    if not names:
        raise CommandError(SYNTAX)
    if len(names) % 2:
        raise CommandError(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be"
            " specified."
        )
    is_group_read = args[0].upper() == b"XREADGROUP"
    if is_group_read and options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    half = len(names) // 2
    parse = _group_position if is_group_read else _read_position
    pairs = zip(names, names[half:], strict=False)
    sources = [ReadSource(topic_of(name), parse(text)) for name, text in pairs]
    return ReadOptions(
        sources[:half],
        options.count,
        options.block_ms if may_block else None,
        options.group,
        options.consumer,
        options.is_settled,
    )


def _read_position(text: bytes) -> Position | None:
    if text == b"$":
        return None
    if text == b">":
        raise CommandError(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group>"
            " <consumer> option."
        )
    return ids.after(text)


def _group_position(text: bytes) -> Position | None:
    if text == b">":
        return None
    if text == b"$":
        raise CommandError(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history"
            " of this consumer by specifying a proper ID, or use the > ID to get new messages. The"
            " $ ID would just return an empty result set."
        )
    return ids.after(text)


# ── groups ────────────────────────────────────────────────────────────────────────────────────


def makes_stream(args: Sequence[bytes], subcommand: str) -> bool:
    """Whether XGROUP CREATE key group id [MKSTREAM] [ENTRIESREAD n] makes the stream if need be.

    SETID is the same without MKSTREAM. What ENTRIESREAD says is not needed: offsets tell it.
    """
    makes = False
    options = args[5:]
    while options:
        name = options[0].upper()
        if name == b"MKSTREAM" and subcommand == "CREATE":
            makes = True
            options = options[1:]
        elif name == b"ENTRIESREAD" and len(options) > 1:
            if integer(options[1]) < -1:
                raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
            options = options[2:]
        else:
            raise CommandError(
                f"ERR unknown subcommand or wrong number of arguments for '{subcommand}'."
                " Try XGROUP HELP."
            )
    return makes


class PendingOptions(NamedTuple):
    """The long form of XPENDING."""

    start: Position
    end: Position
    count_max: int
    min_idle_ms: int
    consumer: bytes | None


def pending_options(args: Sequence[bytes]) -> PendingOptions | None:
    """XPENDING key group [[IDLE ms] start end count [consumer]]; None for the short form."""
    if len(args) == 3:
        return None
    position, min_idle_ms = 3, 0
    if args[3].upper() == b"IDLE" and len(args) > 4:
        min_idle_ms = integer(args[4])
        position = 5
    if not position + 3 <= len(args) <= position + 4:
        raise CommandError(SYNTAX)
    count = max(integer(args[position + 2]), 0)
    bounds = ids.start(args[position]), ids.range_end(args[position + 1])
    consumer = args[position + 3] if len(args) > position + 3 else None
    return PendingOptions(*bounds, count, min_idle_ms, consumer)


class ClaimOptions(NamedTuple):
    """An XCLAIM."""

    ids: list[EntryId]
    min_idle_ms: int
    taken_ms: int
    deliveries: int | None
    forces: bool
    ids_only: bool
    last: Position | None
    """The group is to go on there, behind an entry, if it has not come so far yet."""


class _ClaimArguments:
    """Reads the options behind the ids of XCLAIM."""

    def __init__(self, args: Sequence[bytes], now_ms: int) -> None:
        self._args = args
        self._now_ms = now_ms
        self.taken_ms = now_ms
        self.deliveries: int | None = None
        self.forces = False
        self.ids_only = False
        self.last: Position | None = None

    def take(self, position: int) -> int:
        """Read one option; return the position of the next."""
        name, has_more = self._args[position].upper(), len(self._args) > position + 1
        if name == b"FORCE":
            self.forces = True
        elif name == b"JUSTID":
            self.ids_only = True
        elif name in _CLAIM_VALUES and has_more:
            _CLAIM_VALUES[name](self, self._args[position + 1])
            return position + 2
        else:
            shown = self._args[position].decode(errors="replace")
            raise CommandError(f"ERR Unrecognized XCLAIM option '{shown}'")
        return position + 1

    def idle(self, text: bytes) -> None:
        idle_ms = integer(text, "ERR Invalid IDLE option argument for XCLAIM")
        self.taken_ms = self._past(self._now_ms - idle_ms)

    def time(self, text: bytes) -> None:
        self.taken_ms = self._past(integer(text, "ERR Invalid TIME option argument for XCLAIM"))

    def _past(self, time_ms: int) -> int:
        return time_ms if 0 <= time_ms <= self._now_ms else self._now_ms

    def retries(self, text: bytes) -> None:
        count = integer(text, "ERR Invalid RETRYCOUNT option argument for XCLAIM")
        self.deliveries = min(count, RETRIES_MAX) if count >= 0 else None

    def last_id(self, text: bytes) -> None:
        self.last = ids.after(text)


_CLAIM_VALUES: dict[bytes, Callable[[_ClaimArguments, bytes], None]] = {
    b"IDLE": _ClaimArguments.idle,
    b"TIME": _ClaimArguments.time,
    b"RETRYCOUNT": _ClaimArguments.retries,
    b"LASTID": _ClaimArguments.last_id,
}


def claim_options(args: Sequence[bytes], now_ms: int) -> ClaimOptions:
    """XCLAIM key group consumer min-idle-time id … [options]."""
    min_idle_ms = integer(args[4], "ERR Invalid min-idle-time argument for XCLAIM")
    position = 5
    while position < len(args) and args[position][:1].isdigit():
        position += 1
    claimed = ids.entry_ids(args[5:position])
    options = _ClaimArguments(args, now_ms)
    while position < len(args):
        position = options.take(position)
    return ClaimOptions(
        claimed,
        max(min_idle_ms, 0),
        options.taken_ms,
        options.deliveries,
        options.forces,
        options.ids_only,
        options.last,
    )


class AutoclaimOptions(NamedTuple):
    """An XAUTOCLAIM."""

    min_idle_ms: int
    start: Position
    count_max: int
    ids_only: bool


def autoclaim_options(args: Sequence[bytes]) -> AutoclaimOptions:
    """XAUTOCLAIM key group consumer min-idle-time start [COUNT n] [JUSTID]."""
    min_idle_ms = integer(args[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = ids.start(args[5])
    count, ids_only = AUTOCLAIM_COUNT, False
    options = args[6:]
    while options:
        name = options[0].upper()
        if name == b"COUNT" and len(options) > 1:
            count = integer(options[1], "ERR COUNT must be > 0")
            if count <= 0:
                raise CommandError("ERR COUNT must be > 0")
            if count > AUTOCLAIM_COUNT_MAX:
                raise CommandError(
                    "ERR Insufficient memory, failed allocating transient memory, COUNT too high."
                )
            options = options[2:]
        elif name == b"JUSTID":
            ids_only = True
            options = options[1:]
        else:
            raise CommandError(SYNTAX)
    return AutoclaimOptions(max(min_idle_ms, 0), start, count, ids_only)
