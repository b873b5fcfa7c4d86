"""What a bulk read returns: columns as they are in the journal."""

from typing import NamedTuple, TypeAlias

Column: TypeAlias = bytes | memoryview  # little-endian numbers, or concatenated bytes


class RawSlice(NamedTuple):
    """Consecutive messages out of one entry; columns not wanted, or not there, are empty."""

    first_offset: int
    messages: int
    base_sequence: int
    time_ms: int
    payloads: tuple[Column, ...]  # bounds, payloads
    runs: tuple[Column, ...]  # starts, positions, times, flags, types
    signatures: tuple[Column, ...]  # numbers, records
    headers: tuple[Column, ...]  # numbers, header bounds, text bounds, texts
    schedules: tuple[Column, ...]  # numbers, times due, times of expiry
    producers: tuple[Column, ...]  # numbers, counts, seqs, name ends, names
    groups: tuple[Column, ...] = ()  # of a scan: number of the topic, first message, first offset
