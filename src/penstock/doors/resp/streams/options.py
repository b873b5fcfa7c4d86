"""The options of stream commands: arguments in, a value out, or ``CommandError``.

The order of checks is that of Redis: it decides which of two mistakes the client learns about.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from penstock.doors.resp.faults import NOT_AN_INTEGER, SYNTAX, CommandError, argument_fault
from penstock.doors.resp.streams import ids
from penstock.doors.resp.streams.ids import EntryId, Position
from penstock.wire.resp.names import topic_of

REMEMBERED_MAX = 32
REMEMBERED_BYTES_MAX = 512  # arguments of an XREAD or XREADGROUP whose streams are remembered
RETRIES_MAX = 2**31  # largest RETRYCOUNT: deliveries counted on from it must fit every protocol

INTEGER = re.compile(rb"-?(?:0|[1-9]\d{0,18})")
INTEGER_BOUND = 2**63
AUTOCLAIM_COUNT = 100  # XAUTOCLAIM without COUNT
AUTOCLAIM_COUNT_MAX = 2**40  # beyond this Redis has no memory for the reply
TRIM_LIMIT = 10_000  # of an approximate trim without LIMIT; as in Redis


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
    limit: int | None  # entries removed at once, if approximate; None: all


class AddOptions(NamedTuple):
    """An XADD; ``fields`` is the position of its first field."""

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


_PLAIN_ADD = AddOptions(may_make_stream=True, trim=None, fields=3)


def add_options(args: Sequence[bytes]) -> AddOptions:
    """XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT n]] * field value …."""
    if args[2] == b"*" and len(args) >= 5 and len(args) % 2:
        return _PLAIN_ADD
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

    sources: tuple[ReadSource, ...]
    count_max: int | None = None
    block_ms: int | None = None  # how long to wait; 0: for ever, None: not at all
    group: bytes | None = None
    consumer: bytes = b""
    is_settled: bool = False  # NOACK: what is read counts as acknowledged


def read_options(args: Sequence[bytes], *, may_block: bool = True) -> ReadOptions:
    """XREAD [COUNT n] [BLOCK ms] STREAMS key … id …; XREADGROUP has GROUP and NOACK as well.

    A worker sends the same short command again and again, so what it means is remembered.
    """
    is_short = len(args) <= REMEMBERED_MAX and sum(map(len, args)) <= REMEMBERED_BYTES_MAX
    options = _short_options(tuple(args)) if is_short else _parsed(args)
    return options if may_block else options._replace(block_ms=None)


def read_topics(args: Sequence[bytes]) -> Sequence[bytes]:
    """The streams of XREAD or XREADGROUP."""
    return [source.topic for source in read_options(args).sources]


def _parsed(args: Sequence[bytes]) -> ReadOptions:
    is_group_read = args[0].upper() == b"XREADGROUP"
    options = ReadOptions(())
    position = 1
    while position < len(args) and args[position].upper() != b"STREAMS":
        options, position = _read_option(options, args, position, is_group_read=is_group_read)
    names = args[position + 1 :]
    if not names:
        raise CommandError(SYNTAX)
    if len(names) % 2:
        raise CommandError(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be"
            " specified."
        )
    if is_group_read and options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    half = len(names) // 2
    parse = _group_position if is_group_read else _read_position
    pairs = zip(names[:half], names[half:], strict=True)
    return options._replace(
        sources=tuple(ReadSource(topic_of(n), parse(text)) for n, text in pairs)
    )


_short_options = lru_cache(maxsize=1_024)(_parsed)


def _read_option(
    options: ReadOptions, args: Sequence[bytes], position: int, *, is_group_read: bool
) -> tuple[ReadOptions, int]:
    name, more = args[position].upper(), args[position + 1 : position + 3]
    if name == b"BLOCK" and more:
        block_ms = integer(more[0], "ERR timeout is not an integer or out of range")
        if block_ms < 0:
            raise CommandError("ERR timeout is negative")
        return options._replace(block_ms=block_ms), position + 2
    if name == b"COUNT" and more:
        count = integer(more[0])  # as in Redis: 0, or less, is all
        return options._replace(count_max=count if count > 0 else None), position + 2
    if name == b"GROUP" and len(more) == 2:
        _check_group_read("GROUP", is_group_read=is_group_read)
        return options._replace(group=more[0], consumer=more[1]), position + 3
    if name == b"NOACK":
        _check_group_read("NOACK", is_group_read=is_group_read)
        return options._replace(is_settled=True), position + 1
    raise CommandError(SYNTAX)


def _check_group_read(option: str, *, is_group_read: bool) -> None:
    if not is_group_read:
        raise CommandError(
            f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
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
    """XGROUP CREATE key group id [MKSTREAM] [ENTRIESREAD n], SETID without MKSTREAM."""
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
    deliveries: int | None = None
    forces: bool = False
    ids_only: bool = False
    last: Position | None = None  # the group goes on there, if it has not come so far yet


def claim_options(args: Sequence[bytes], now_ms: int) -> ClaimOptions:
    """XCLAIM key group consumer min-idle-time id … [options]."""
    min_idle_ms = integer(args[4], "ERR Invalid min-idle-time argument for XCLAIM")
    position = 5
    while position < len(args) and args[position][:1].isdigit():
        position += 1
    claimed = ids.entry_ids(args[5:position])
    options = ClaimOptions(claimed, max(min_idle_ms, 0), now_ms)
    while position < len(args):
        name = args[position].upper()
        if name == b"FORCE":
            options = options._replace(forces=True)
        elif name == b"JUSTID":
            options = options._replace(ids_only=True)
        else:
            position += 1
            if name not in _CLAIM_VALUES or position == len(args):
                shown = args[position - 1].decode(errors="replace")
                raise CommandError(f"ERR Unrecognized XCLAIM option '{shown}'")
            options = _CLAIM_VALUES[name](options, args[position], now_ms)
        position += 1
    return options


def _idle(options: ClaimOptions, text: bytes, now_ms: int) -> ClaimOptions:
    idle_ms = integer(text, "ERR Invalid IDLE option argument for XCLAIM")
    return options._replace(taken_ms=_past(now_ms - idle_ms, now_ms))


def _time(options: ClaimOptions, text: bytes, now_ms: int) -> ClaimOptions:
    time_ms = integer(text, "ERR Invalid TIME option argument for XCLAIM")
    return options._replace(taken_ms=_past(time_ms, now_ms))


def _past(time_ms: int, now_ms: int) -> int:
    return time_ms if 0 <= time_ms <= now_ms else now_ms


def _retries(options: ClaimOptions, text: bytes, _now_ms: int) -> ClaimOptions:
    count = integer(text, "ERR Invalid RETRYCOUNT option argument for XCLAIM")
    return options._replace(deliveries=min(count, RETRIES_MAX) if count >= 0 else None)


def _last_id(options: ClaimOptions, text: bytes, _now_ms: int) -> ClaimOptions:
    return options._replace(last=ids.after(text))


_CLAIM_VALUES = {b"IDLE": _idle, b"TIME": _time, b"RETRYCOUNT": _retries, b"LASTID": _last_id}


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
