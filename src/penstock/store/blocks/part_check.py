"""Whether the columns of a part fit each other, so that readers may trust them.

A checksum says that a part is as it was written, not who wrote it: blocks also come from backups
and from other nodes. Readers cut columns by numbers that other columns hold, so these must ascend
and end where they should. Comparing a list with its sorted self is the fastest way to ask that.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from penstock.store import entry as sections
from penstock.store.entry import Entry

_SIGNATURE_BYTES: Final = 88
U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


def fault_in(entry: Entry, span: int) -> str:
    """What is wrong with a part of a block that spans so many sequences; empty: nothing."""
    try:
        if not entry.count or not entry.group_count:
            return "it is empty"
        for name, is_right in (
            ("groups", _groups(entry)),
            ("runs", _runs(entry, span)),
            ("payloads", _covers(entry, sections.BOUNDS, sections.PAYLOADS, entry.count)),
            ("signatures", _signatures(entry)),
            ("headers", _headers(entry)),
            ("schedules", _schedules(entry)),
            ("producers", _producers(entry)),
        ):
            if not is_right:
                return f"its {name} do not fit each other"
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return f"its columns cannot be read ({error})"
    return ""


def ascends(numbers: Sequence[int]) -> bool:
    return sorted(numbers) == numbers


def _groups(entry: Entry) -> bool:
    ends = entry.column(sections.GROUP_MESSAGES).tolist()
    run_ends = entry.group_runs.tolist()
    names = entry.column(sections.NAME_ENDS).tolist()
    first_offsets = entry.column(sections.FIRST_OFFSETS)
    number = entry.group_count
    lengths = {len(entry.column(sections.TOPIC_IDS)), len(first_offsets), len(ends)}
    return (
        lengths == {number} == {len(run_ends), len(names)}
        and ascends(ends)
        and ascends(run_ends)
        and ascends(names)
        and ends[0] > 0
        and run_ends[0] > 0
        and ends[-1] == entry.count
        and run_ends[-1] == len(entry.run_positions)
        and names[-1] == len(entry.column(sections.NAMES))
        and max(first_offsets) <= U64_MAX - entry.count
        and _at(run_ends, entry.run_bounds) == tuple(ends)
    )


def _at(places: list[int], column: memoryview) -> tuple[int, ...]:
    return itemgetter(*places)(column) if len(places) > 1 else (column[places[0]],)


def _runs(entry: Entry, span: int) -> bool:
    bounds = entry.run_bounds.tolist()
    number = len(entry.run_positions)
    return (
        len(bounds) == number + 1
        and {len(entry.run_times), len(entry.run_flags)} == {number}
        and len(entry.run_types) in {0, number}
        and bounds[0] == 0
        and bounds[-1] == entry.count
        and ascends(bounds)
        and max(entry.run_positions) < span
    )


def _covers(entry: Entry, bounds: int, content: int, number: int) -> bool:
    """Whether bounds of so many texts ascend from 0 to the length of the content."""
    found = entry.column(bounds).tolist()
    return (
        len(found) == number + 1
        and found[0] == 0
        and found[-1] == len(entry.column(content))
        and ascends(found)
    )


def _numbers(entry: Entry, section: int) -> int:
    """How many messages have a property; -1 if their numbers are wrong."""
    numbers = entry.column(section).tolist()
    if not numbers:
        return -1
    is_right = ascends(numbers) and len(set(numbers)) == len(numbers)
    return len(numbers) if is_right and numbers[-1] < entry.count else -1


def _signatures(entry: Entry) -> bool:
    if not _has(entry, sections.SIGNATURE_NUMBERS, sections.SIGNATURES):
        return True
    records = entry.column(sections.SIGNATURES)
    return len(records) == _SIGNATURE_BYTES * _numbers(entry, sections.SIGNATURE_NUMBERS)


def _headers(entry: Entry) -> bool:
    numbers, texts = sections.HEADER_NUMBERS, sections.HEADER_TEXTS
    if not _has(entry, numbers, sections.HEADER_BOUNDS, sections.HEADER_TEXT_BOUNDS, texts):
        return True
    bounds = entry.column(sections.HEADER_BOUNDS).tolist()
    return (
        len(bounds) == _numbers(entry, numbers) + 1 > 0
        and bounds[0] == 0
        and ascends(bounds)
        and _covers(entry, sections.HEADER_TEXT_BOUNDS, texts, 2 * bounds[-1])
    )


def _schedules(entry: Entry) -> bool:
    numbers = sections.SCHEDULE_NUMBERS
    if not _has(entry, numbers, sections.SCHEDULE_DUE, sections.SCHEDULE_EXPIRY):
        return True
    found = {len(entry.column(name)) for name in (sections.SCHEDULE_DUE, sections.SCHEDULE_EXPIRY)}
    return found == {_numbers(entry, numbers)}


def _producers(entry: Entry) -> bool:
    numbers, counts = sections.PRODUCER_NUMBERS, sections.PRODUCER_COUNTS
    seqs, name_ends = sections.PRODUCER_SEQS, sections.PRODUCER_NAME_ENDS
    if not _has(entry, numbers, counts, seqs, name_ends, sections.PRODUCER_NAMES):
        return True
    found, ends = _numbers(entry, numbers), entry.column(name_ends).tolist()
    return (
        {len(entry.column(counts)), len(entry.column(seqs)), len(ends)} == {found}
        and ascends(ends)
        and ends[-1] == len(entry.column(sections.PRODUCER_NAMES))
        and _is_apart(entry)
    )


def _is_apart(entry: Entry) -> bool:
    """Whether producer runs do not overlap and none goes beyond the last message."""
    starts = entry.column(sections.PRODUCER_NUMBERS).tolist()
    counts = entry.column(sections.PRODUCER_COUNTS).tolist()
    nexts = (*starts[1:], entry.count)
    return min(counts) > 0 and all(
        start + count <= following
        for start, count, following in zip(starts, counts, nexts, strict=True)
    )


def _has(entry: Entry, *names: int) -> bool:
    """Whether a property is there; raises ValueError if only some of its columns are."""
    found = sum(map(entry.has, names))
    if found not in {0, len(names)}:
        raise ValueError("a column is missing")
    return bool(found)
