"""From measurements to a verdict: best, median, ratio.

There are two ratios, because each is misleading alone. *Best to best* shows what each broker can do
under the best conditions. *The median of the ratios round by round* compares them under the same
conditions. A target is met if both reach it, missed if neither does, and ``close`` if they
disagree: then the machine was too noisy. A question mark means that most of the measurements were
noisy.

Ratios are ours to theirs, so for a rate more than 1 is better, and for a latency less than 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from benchmarks.rounds import Measurement
from benchmarks.workloads import MEMORY, Target, Workload

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, slots=True)
class Side:
    """One broker's figures by round, without rounds that cannot be compared."""

    by_round: dict[int, float]
    best: float | None
    median: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table, as numbers."""

    workload: Workload
    ours: Side
    theirs: Side
    best_ratio: float | None
    median_ratio: float | None
    met: str
    notes: tuple[str, ...]

    def record(self) -> dict[str, object]:
        """Return one line of the results."""
        return {
            "type": "comparison",
            "workload": self.workload.id,
            "title": self.workload.title,
            "load": self.workload.load,
            "figure": self.workload.figure.key,
            "ours_best": self.ours.best,
            "ours_median": self.ours.median,
            "theirs_best": self.theirs.best,
            "theirs_median": self.theirs.median,
            "best_ratio": self.best_ratio,
            "median_ratio": self.median_ratio,
            "targets": [target._asdict() for target in self.workload.targets],
            "met": self.met,
            "notes": self.notes,
        }


def compare(workload: Workload, measurements: Iterable[Measurement]) -> Comparison:
    """Compare the two sides of ``measurements`` of ``workload``."""
    measurements = list(measurements)
    ours, theirs = (_side(workload, measurements, name) for name in ("ours", "theirs"))
    best_ratio = _ratio(ours.best, theirs.best)
    both = ours.by_round.keys() & theirs.by_round.keys()
    ratios = [r for n in both if (r := _ratio(ours.by_round[n], theirs.by_round[n])) is not None]
    median_ratio = median(ratios) if ratios else None
    return Comparison(
        workload,
        ours,
        theirs,
        best_ratio,
        median_ratio,
        _verdict(workload, ours, best_ratio, median_ratio) + _doubt(workload, measurements),
        tuple(_notes(workload, measurements)),
    )


def _side(workload: Workload, measurements: list[Measurement], side: str) -> Side:
    key = workload.figure.key
    values = {
        m.round: v for m in measurements if m.side == side and (v := m.value(key)) is not None
    }
    best = min if workload.figure.smaller_is_better else max
    return Side(
        values,
        best(values.values()) if values else None,
        median(values.values()) if values else None,
    )


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _verdict(
    workload: Workload, ours: Side, best_ratio: float | None, median_ratio: float | None
) -> str:
    verdicts = [
        _judged(workload, target, pair)
        for target in workload.targets
        for pair in [(ours.best, ours.median) if target.absolute else (best_ratio, median_ratio)]
    ]
    return next((worst for worst in ("no", "?", "close", "yes") if worst in verdicts), "")


def _judged(workload: Workload, target: Target, pair: tuple[float | None, ...]) -> str:
    kept = {_keeps(value, target, workload) for value in pair}
    if None in kept:
        return "?"
    return "close" if len(kept) == 2 else "yes" if True in kept else "no"


def _doubt(workload: Workload, measurements: list[Measurement]) -> str:
    """Return a question mark if most measurements were noisy; memory does not depend on noise."""
    if not workload.targets or workload.figure == MEMORY:
        return ""
    return "?" if 2 * sum(m.noisy for m in measurements) > len(measurements) else ""


def _keeps(value: float | None, target: Target, workload: Workload) -> bool | None:
    if value is None:
        return None
    if workload.figure.smaller_is_better:
        return value <= target.bound
    return value >= target.bound


def _notes(workload: Workload, measurements: list[Measurement]) -> Iterable[str]:
    ours = [m for m in measurements if m.side == "ours"]
    yield from _capture_note(ours)
    if workload.figure.key == "p50_us":
        yield f"p90 {_both_sides(measurements, 'p90_us', '.0f')} us"
    if workload.is_flushed:
        yield f"p50 {_both_sides(measurements, 'p50_us', '.0f')} us"
        yield from _flush_note(measurements)
    if workload.group == "queue" and workload.figure.smaller_is_better:
        for name, key in (("p99", "p99_us"), ("p99.9", "p999_us"), ("reply", "reply_p50_us")):
            yield f"{name} {_both_sides(measurements, key, '.0f')} us"
    if workload.group != "core":
        yield f"CPU {_both_sides(measurements, 'broker_us_per_message', '.2f')} us/msg"
    bound = {m.side for m in measurements if m.load and m.load.generator_bound}
    if bound and not workload.figure.smaller_is_better:
        yield f"generator-bound: {', '.join(sorted(bound))}"
    noisy = sum(m.noisy for m in measurements)
    if noisy:
        yield f"noisy {noisy} of {len(measurements)}"
    for measurement in measurements:
        for flaw in measurement.flaws:
            yield f"{measurement.side} {measurement.round}: {flaw.splitlines()[0]}"


def _capture_note(ours: list[Measurement]) -> Iterable[str]:
    books = [m.capture for m in ours if m.capture is not None]
    if not books:
        return
    worst = max(capture.dropped_share for capture in books)
    yield "all captured" if worst == 0 else f"captures dropped: up to {worst:.1%}"


def _flush_note(measurements: list[Measurement]) -> Iterable[str]:
    told = [m.flush_us for m in measurements if m.flush_us is not None]
    if told:
        yield f"a flush of this disk {median(told):.0f} us"


def _both_sides(measurements: list[Measurement], key: str, form: str) -> str:
    """The medians of a second figure, ours and theirs."""
    told = []
    for side in ("ours", "theirs"):
        loads = [m.load for m in measurements if m.side == side and m.load and not m.flaws]
        values = [load[key] for load in loads if key in load.figures]
        told.append(format(median(values), form) if values else "-")
    return " / ".join(told)
