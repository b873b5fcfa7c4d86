"""Messages in bulk: one column for each property instead of one object for each message."""

from typing import Final

import msgspec

from penstock.model.message import Extras

# Which columns a bulk read returns: bits of ``Fetch.columns`` in ``queue.proto``. Offsets,
# sequences, times and flags are always included.
PAYLOADS: Final = 1
HEADERS: Final = 2
SIGNATURES: Final = 4
SCHEDULES: Final = 8
PRODUCERS: Final = 16
NUMBERS: Final = 32  # none of the others; 0 means that no columns are wanted at all

ALL: Final = PAYLOADS | HEADERS | SIGNATURES | SCHEDULES | PRODUCERS


class MessageColumns(msgspec.Struct, frozen=True):
    """Consecutive messages of a topic, as columns of u32 (little-endian) or u8 (flags, types).

    ``bounds`` has ``count + 1`` numbers; payload *i* is ``blob[bounds[i] - bounds[0]:
    bounds[i + 1] - bounds[0]]``. Runs are five parallel columns; ``run_starts`` counts messages
    from the beginning. A sequence is ``base_sequence`` plus the run's position plus the place in
    the run. ``run_flags`` has the low bytes of the flags, ``run_types`` the high ones (empty if all
    are 0). ``extras`` are by message number. A producer run is the number of its first message,
    count, producer and first seq.
    """

    first_offset: int
    count: int
    base_sequence: int
    time_ms: int
    bounds: bytes
    blob: bytes
    run_starts: bytes
    run_positions: bytes
    run_times: bytes
    run_flags: bytes
    run_types: bytes
    extras: dict[int, Extras]
    producers: list[tuple[int, int, bytes, int]]
