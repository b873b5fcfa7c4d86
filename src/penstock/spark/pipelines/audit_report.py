"""The findings of an audit, and the verdict. Pure.

A missing offset is a *hole*. It is excused if the loss was reported when it happened, or if the
broker still has that range and the message was deleted. Other holes are faults.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.obs.printable import printable
from penstock.spark.offsets import OffsetRange

SHOWN: Final = 20  # faults of a kind that the text lists; the document has all
Key = tuple[str, int]  # topic and incarnation


class Counted(NamedTuple):
    """Rows and distinct offsets of one incarnation of a topic."""

    topic: str
    incarnation: int
    rows: int
    distinct: int
    lowest: int
    highest: int


class Double(NamedTuple):
    """An offset that occurs more than once."""

    topic: str
    incarnation: int
    offset: int
    times: int


class Forged(NamedTuple):
    """A message with a bad signature: ``invalid`` or ``unknown_key``."""

    topic: str
    offset: int
    key_id: int
    verdict: str


class AuditReport(msgspec.Struct, kw_only=True):
    """All findings. Lists are bounded, counts are not."""

    what: str
    rows: int = 0
    topics: int = 0
    incarnations: int = 0
    missing: int = 0  # offsets, excused or not
    doubled: int = 0  # surplus rows
    strays: list[OffsetRange] = []  # rows outside the archived range
    holes: list[OffsetRange] = []
    doubles: list[Double] = []
    lost: list[OffsetRange] = []
    deleted: list[OffsetRange] = []
    ahead: list[OffsetRange] = []  # archived, but missing at the broker
    waiting: int = 0  # messages that are not archived yet
    damaged: list[str] = []
    is_listed: bool = True  # false if there are too many holes or doubles to list
    signed: int = 0
    valid: int = 0
    unsigned: int = 0
    forged: list[Forged] = []
    has_signatures: bool = False
    is_void: bool = False  # no topic to examine
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        return not self.faults()

    def faults(self) -> list[str]:
        found = [
            (self.is_void, "there are no topics to audit"),
            (bool(self.damaged), f"{len(self.damaged)} files cannot be read"),
            (bool(self.holes), f"{_length(self.holes):,} offsets are missing"),
            (not self.is_listed, f"{self.missing:,} offsets are missing, too many to list"),
            (bool(self.doubled), f"{self.doubled:,} rows are duplicates"),
            (bool(self.strays), "there are rows outside the archived ranges"),
            (bool(self.ahead), "the broker has less than the archive"),
            (self.signed != self.valid, f"{self.signed - self.valid:,} signatures are invalid"),
        ]
        return [text for is_so, text in found if is_so]


def suspects(counted: Iterable[Counted], expected: Mapping[Key, tuple[int, int]]) -> set[Key]:
    seen: dict[Key, Counted] = {(one.topic, one.incarnation): one for one in counted}
    found = {key for key, (begin, end) in expected.items() if end > begin and key not in seen}
    for key, one in seen.items():
        begin, end = expected.get(key, (one.lowest, one.highest + 1))
        is_whole = one.rows == one.distinct == end - begin
        if not is_whole or one.lowest < begin or one.highest >= end:
            found.add(key)
    return found


def missing(
    expected: OffsetRange, gaps: Iterable[tuple[int, int]], seen: Counted | None
) -> list[OffsetRange]:
    if seen is None or seen.highest < expected.begin or seen.lowest >= expected.end:
        return [expected] if expected.end > expected.begin else []
    ends = [(expected.begin, seen.lowest), *gaps, (seen.highest + 1, expected.end)]
    clipped = [(max(b, expected.begin), min(e, expected.end)) for b, e in ends]
    return [expected._replace(begin=b, end=e) for b, e in sorted(clipped) if b < e]


def without(
    spans: Sequence[OffsetRange], taken: Iterable[OffsetRange]
) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Divide spans into what remains without ``taken``, and what it covers."""
    by_key: dict[Key, list[OffsetRange]] = {}
    for span in sorted(set(taken)):
        by_key.setdefault(span[:2], []).append(span)
    rest: list[OffsetRange] = []
    gone: list[OffsetRange] = []
    for span in spans:
        begin = span.begin
        for other in by_key.get(span[:2], []):
            low, high = max(begin, other.begin), min(span.end, other.end)
            if low < high:
                rest += [span._replace(begin=begin, end=low)] * (begin < low)
                gone.append(span._replace(begin=low, end=high))
                begin = high
        rest += [span._replace(begin=begin)] * (begin < span.end)
    return rest, gone


def _length(spans: Iterable[OffsetRange]) -> int:
    return sum(span.end - span.begin for span in spans)


def text_of(report: AuditReport) -> str:
    proof = " and every signature verifies" if report.signed else ""
    verdict = f"PASSED: {report.what}: every offset is there exactly once{proof}"
    if not report.is_ok:
        verdict = f"FAILED: {report.what}: {'; '.join(report.faults())}"
    return "\n".join([verdict, *_figures(report), *_lists(report)])


def _figures(report: AuditReport) -> list[str]:
    figures = [
        ("rows", report.rows),
        ("topics", report.topics),
        ("holes", _length(report.holes)),
        ("doubles", report.doubled),
        ("lost, as reported", _length(report.lost)),
        ("deleted on purpose", _length(report.deleted)),
        ("not archived yet", report.waiting),
    ]
    if report.has_signatures:
        figures += [("signed", report.signed), ("verified", report.valid)]
        figures += [("unsigned", report.unsigned)]
    return [f"  {name:<20}{number:>15,}" for name, number in figures]


def _lists(report: AuditReport) -> list[str]:
    lines = [f"  damaged   {path}" for path in report.damaged[:SHOWN]]
    kinds = (("hole", report.holes), ("stray", report.strays), ("ahead", report.ahead))
    for kind, spans in kinds:
        for span in spans[:SHOWN]:
            where = f"{printable(span.topic)} {span.begin} to {span.end - 1}"
            lines.append(f"  {kind:<9} {where} (incarnation {span.incarnation})")
    doubles = report.doubles[:SHOWN]
    lines += [f"  double    {printable(d.topic)} {d.offset}, {d.times} times" for d in doubles]
    forged = report.forged[:SHOWN]
    lines += [f"  {x.verdict:<9} {printable(x.topic)} {x.offset}, key {x.key_id}" for x in forged]
    return lines
