"""Comparisons as a text table."""

from collections.abc import Iterable, Sequence

from benchmarks.comparison import Comparison, Side
from benchmarks.shapes import Workload

__all__ = ["columns", "compact", "program", "render", "render_field"]


def compact(value: float | None) -> str:
    """Format a number with three digits: 1.76M, 155k, 53.2."""
    if value is None:
        return "-"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return _three_digits(value / size) + letter
    return _three_digits(value)


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}"


def columns(rows: Sequence[Sequence[str]], left: Iterable[int]) -> str:
    """Return lines with a rule under the first; columns in ``left`` are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if n in left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def render(comparisons: Iterable[Comparison], ours: str, theirs: str) -> str:
    """Return the whole table. Figures are best (median)."""
    head = ("", "workload", "unit", ours, theirs, "best/best", "median ratio", "target", "met")
    rows: list[tuple[str, ...]] = [(*head, "notes")]
    rows.extend(_row(comparison) for comparison in comparisons)
    return columns(rows, left=(0, 1, len(head)))


def render_field(comparisons: Sequence[Comparison], ours: str) -> str:
    """Return the table of workloads with several peers: a column for each of them."""
    names = [program(rival.name) for c in comparisons for rival in c.rivals]
    peers = sorted(set(names))
    ratios = ("best/best", "median ratio", "by CPU", "of")
    head = ("", "workload", "unit", ours, *peers, *ratios, "target", "met")
    rows: list[tuple[str, ...]] = [(*head, "notes")]
    rows.extend(_field_row(comparison, peers) for comparison in comparisons)
    return columns(rows, left=(0, 1, head.index("of"), len(head)))


def program(broker: str) -> str:
    """Return whose column it is: whether Redis flushes is not a matter of another column."""
    return broker if broker.startswith("penstock") else broker.split("-", maxsplit=1)[0]


def _field_row(comparison: Comparison, peers: Sequence[str]) -> tuple[str, ...]:
    sides = {program(rival.name): rival.side for rival in comparison.rivals}
    id_, title, unit, ours, _, best, middle, target, met, notes = _row(comparison)
    theirs = [_figure(sides[name]) if name in sides else "" for name in peers]
    of = program(comparison.hardest.name)
    ratios = (best, middle, _times(comparison.hardest.cpu_ratio), of)
    return (id_, title, unit, ours, *theirs, *ratios, target, met, notes)


def _row(comparison: Comparison) -> tuple[str, ...]:
    workload = comparison.workload
    return (
        workload.id,
        workload.title,
        workload.figure.unit,
        _figure(comparison.ours),
        _figure(comparison.theirs),
        _times(comparison.best_ratio),
        _times(comparison.median_ratio),
        _target(workload),
        comparison.met,
        "; ".join(comparison.notes),
    )


def _figure(side: Side) -> str:
    return "-" if side.best is None else f"{compact(side.best)} ({compact(side.median)})"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _target(workload: Workload) -> str:
    sign = "<=" if workload.figure.smaller_is_better else ">="
    return ", ".join(
        f"{sign} {bound:,.0f}" if absolute else f"{sign} {bound:g}x"
        for bound, absolute in workload.targets
    )
