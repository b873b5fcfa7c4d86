"""What an audit has found, and what follows from it. Pure: figures in, a verdict out.

The claim is that of each topic every offset is there **exactly once**: for each incarnation of it,
rows = distinct offsets = length of the range that was archived. What is missing is a *hole*. Some
holes are explained: the loss was told when it happened (``Loss`` messages of the source), or the
broker still has that range and says that the message was deleted. What is left is a fault. So are
*doubles*, offsets outside of the range, signatures that do not verify, files that cannot be read,
and a broker that has less than the archive.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.obs.log import printable
from penstock.spark.offsets import OffsetRange

SHOWN: Final = 20
"""How many of each kind of fault the text lists; the document has all that were looked for."""

Key = tuple[str, int]
"""A topic and its incarnation."""


class Counted(NamedTuple):
    """How many rows and how many different offsets there are of one incarnation of a topic."""

    topic: str
    incarnation: int
    rows: int
    distinct: int
    lowest: int
    highest: int


class Double(NamedTuple):
    """An offset that is there more than once."""

    topic: str
    incarnation: int
    offset: int
    times: int


class Forged(NamedTuple):
    """A message whose signature does not hold, and why: ``invalid`` or ``unknown_key``."""

    topic: str
    offset: int
    key_id: int
    verdict: str


class AuditReport(msgspec.Struct, kw_only=True):
    """Everything found. Lists are bounded, figures are not."""

    what: str
    rows: int = 0
    topics: int = 0
    incarnations: int = 0
    missing: int = 0
    """Offsets that are not there, explained or not."""
    doubled: int = 0
    """Rows too many."""
    strays: list[OffsetRange] = []
    """Ranges with rows that the archive should not have."""
    holes: list[OffsetRange] = []
    doubles: list[Double] = []
    lost: list[OffsetRange] = []
    deleted: list[OffsetRange] = []
    ahead: list[OffsetRange] = []
    """Ranges that the archive has and the broker should have, but has not."""
    waiting: int = 0
    """Messages that the broker has, and that will be archived."""
    damaged: list[str] = []
    is_listed: bool = True
    """Whether all holes and doubles were listed; if there are too many, they are just counted."""
    signed: int = 0
    valid: int = 0
    unsigned: int = 0
    forged: list[Forged] = []
    has_signatures: bool = False
    is_void: bool = False
    """Whether there was no topic at all to look at."""
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the claim holds."""
        return not self.faults()

    def faults(self) -> list[str]:
        """Say what is wrong, a line each; empty if nothing is."""
        found = [
            (self.is_void, "there is no topic to prove anything of"),
            (bool(self.damaged), f"{len(self.damaged)} files cannot be read"),
            (bool(self.holes), f"{_length(self.holes):,} offsets are missing"),
            (not self.is_listed, f"{self.missing:,} offsets are missing, in too many places"),
            (bool(self.doubled), f"{self.doubled:,} rows are there once too often"),
            (bool(self.strays), "there are rows of offsets that were never archived"),
            (bool(self.ahead), "the broker has less than was archived"),
            (self.signed != self.valid, f"{self.signed - self.valid:,} signatures do not hold"),
        ]
        return [text for is_so, text in found if is_so]


# ── Ranges ────────────────────────────────────────────────────────────────────────────────────


def suspects(counted: Iterable[Counted], expected: Mapping[Key, tuple[int, int]]) -> set[Key]:
    """Return those whose figures do not match what is expected: to be looked at more closely."""
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
    """Return what is missing of a range: at both ends, and the gaps between rows."""
    if seen is None or seen.highest < expected.begin or seen.lowest >= expected.end:
        return [expected] if expected.end > expected.begin else []
    ends = [(expected.begin, seen.lowest), *gaps, (seen.highest + 1, expected.end)]
    clipped = [(max(b, expected.begin), min(e, expected.end)) for b, e in ends]
    return [expected._replace(begin=b, end=e) for b, e in sorted(clipped) if b < e]


def without(
    spans: Sequence[OffsetRange], taken: Iterable[OffsetRange]
) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Divide spans into what remains after ``taken`` is taken away, and what was."""
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


# ── Words ─────────────────────────────────────────────────────────────────────────────────────


def text_of(report: AuditReport) -> str:
    """Say it to people."""
    return "\n".join([_verdict(report), *_figures(report), *_lists(report)])


def _verdict(report: AuditReport) -> str:
    if report.is_ok:
        proof = " and every signature verifies" if report.signed else ""
        return f"PASSED: {report.what}: every offset is there exactly once{proof}"
    return f"FAILED: {report.what}: {'; '.join(report.faults())}"


def _figures(report: AuditReport) -> list[str]:
    figures = [
        ("rows", report.rows),
        ("topics", report.topics),
        ("holes", _length(report.holes)),
        ("doubles", report.doubled),
        ("lost, as told", _length(report.lost)),
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
        lines += [f"  {kind:<9} {_where(span)}" for span in spans[:SHOWN]]
    for double in report.doubles[:SHOWN]:
        lines.append(f"  double    {printable(double.topic)} {double.offset}, {double.times} times")
    for one in report.forged[:SHOWN]:
        lines.append(f"  {one.verdict:<9} {printable(one.topic)} {one.offset}, key {one.key_id}")
    return lines


def _where(span: OffsetRange) -> str:
    return (
        f"{printable(span.topic)} {span.begin} to {span.end - 1} (incarnation {span.incarnation})"
    )
