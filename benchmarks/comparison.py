"""From measurements to a verdict: best, median, ratio.

There are two ratios, because each is misleading alone. *Best to best* shows what each broker can do
under the best conditions. *The median of the ratios round by round* compares them under the same
conditions. A target is met if both reach it, missed if neither does, and ``close`` if they
disagree: then the machine was too noisy. A question mark means that most of the measurements were
noisy.

A workload may have several peers. Each has its ratios, and a target must be reached against every
peer that is a goal; the line shows the ratios of the one that is hardest to beat.

Ratios are ours to theirs, so for a rate more than 1 is better, and for a latency less than 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from benchmarks.rounds import Measurement
from benchmarks.shapes import COST, MEMORY, Target, Workload

__all__ = ["Comparison", "Rival", "Side", "compare"]


@dataclass(frozen=True, slots=True)
class Side:
    """One broker's figures by round, without rounds that cannot be compared."""

    by_round: dict[int, float]
    best: float | None
    median: float | None


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer, and our figures divided by its figures.

    ``cpu_ratio`` is what the ratio would be if processor time per message were all that counts.
    """

    name: str
    side: Side
    best_ratio: float | None
    median_ratio: float | None
    cpu_ratio: float | None = None
    is_goal: bool = True

    def record(self) -> dict[str, object]:
        """Return it as a part of a line of the results."""
        return {
            "name": self.name,
            "best": self.side.best,
            "median": self.side.median,
            "best_ratio": self.best_ratio,
            "median_ratio": self.median_ratio,
            "cpu_ratio": self.cpu_ratio,
            "is_goal": self.is_goal,
        }


NOBODY = Rival("-", Side({}, None, None), None, None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table, as numbers. ``hardest`` is the peer that the ratios are of."""

    workload: Workload
    ours: Side
    rivals: tuple[Rival, ...]
    hardest: Rival
    met: str
    notes: tuple[str, ...]

    @property
    def theirs(self) -> Side:
        return self.hardest.side

    @property
    def best_ratio(self) -> float | None:
        return self.hardest.best_ratio

    @property
    def median_ratio(self) -> float | None:
        return self.hardest.median_ratio

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
            "rivals": [rival.record() for rival in self.rivals],
            "hardest": self.hardest.name,
            "best_ratio": self.best_ratio,
            "median_ratio": self.median_ratio,
            "targets": [target._asdict() for target in self.workload.targets],
            "met": self.met,
            "notes": self.notes,
        }


def compare(workload: Workload, measurements: Iterable[Measurement]) -> Comparison:
    """Compare our side of ``measurements`` with each peer."""
    measurements = list(measurements)
    ours = _side(workload, (m for m in measurements if m.side == "ours"))
    rivals = tuple(_rivals(workload, ours, measurements))
    return Comparison(
        workload,
        ours,
        rivals,
        _hardest(workload, rivals),
        _verdict(workload, ours, rivals) + _doubt(workload, measurements),
        tuple(_notes(workload, measurements)),
    )


def _side(workload: Workload, measurements: Iterable[Measurement]) -> Side:
    key = workload.figure.key
    values = {m.round: v for m in measurements if (v := m.value(key)) is not None}
    best = min if workload.figure.smaller_is_better else max
    return Side(
        values,
        best(values.values()) if values else None,
        median(values.values()) if values else None,
    )


def _by_peer(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    parts: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        if measurement.side == "theirs":
            parts.setdefault(measurement.broker, []).append(measurement)
    return parts


def _rivals(workload: Workload, ours: Side, measurements: list[Measurement]) -> Iterable[Rival]:
    for name, part in _by_peer(measurements).items():
        side = _side(workload, part)
        both = ours.by_round.keys() & side.by_round.keys()
        ratios = [r for n in both if (r := _ratio(ours.by_round[n], side.by_round[n])) is not None]
        best_ratio = _ratio(ours.best, side.best)
        median_ratio = median(ratios) if ratios else None
        cpu_ratio = _cpu_ratio(workload, measurements, part)
        is_goal = all(m.is_goal for m in part)
        yield Rival(name, side, best_ratio, median_ratio, cpu_ratio, is_goal)


def _cpu_ratio(
    workload: Workload, measurements: list[Measurement], part: list[Measurement]
) -> float | None:
    """Return a ratio that other processes hardly change: of the least CPU time per message."""
    if workload.figure == MEMORY:
        return None
    ours = _least_cpu(m for m in measurements if m.side == "ours")
    theirs = _least_cpu(part)
    return _ratio(ours, theirs) if workload.figure.smaller_is_better else _ratio(theirs, ours)


def _least_cpu(measurements: Iterable[Measurement]) -> float | None:
    loads = [m.load.figures for m in measurements if m.load and not m.flaws]
    return min((f[COST.key] for f in loads if COST.key in f), default=None)


def _hardest(workload: Workload, rivals: tuple[Rival, ...]) -> Rival:
    """Return the goal that we do worst against; without figures, none is harder than another."""
    goals = [rival for rival in rivals if rival.is_goal] or list(rivals)
    told = [rival for rival in goals if rival.median_ratio is not None]
    worst = max if workload.figure.smaller_is_better else min
    return worst(told, key=lambda rival: rival.median_ratio or 0.0) if told else (*goals, NOBODY)[0]


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _verdict(workload: Workload, ours: Side, rivals: tuple[Rival, ...]) -> str:
    goals = [rival for rival in rivals if rival.is_goal] or [NOBODY]
    verdicts = []
    for target in workload.targets:
        pairs = [(ours.best, ours.median)]
        if not target.absolute:
            pairs = [(rival.best_ratio, rival.median_ratio) for rival in goals]
        verdicts += [_judged(workload, target, pair) for pair in pairs]
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
    if workload.group != "core" and workload.figure != MEMORY:
        yield f"CPU {_both_sides(measurements, 'broker_us_per_message', '.2f')} us/msg"
    bound = {_who(m, measurements) for m in measurements if m.load and m.load.generator_bound}
    if bound and not workload.figure.smaller_is_better:
        yield f"generator-bound: {', '.join(sorted(bound))}"
    noisy = sum(m.noisy for m in measurements)
    if noisy:
        yield f"noisy {noisy} of {len(measurements)}"
    for measurement in measurements:
        for flaw in measurement.flaws:
            who = _who(measurement, measurements)
            yield f"{who} {measurement.round}: {flaw.splitlines()[0]}"


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


def _who(measurement: Measurement, measurements: list[Measurement]) -> str:
    """Return the side; of several peers, which one."""
    if measurement.side == "ours" or len(_by_peer(measurements)) < 2:
        return measurement.side
    return measurement.broker


def _both_sides(measurements: list[Measurement], key: str, form: str) -> str:
    """Return the medians of a second figure, ours and theirs; several peers are named."""
    ours = _median_of([m for m in measurements if m.side == "ours"], key, form)
    theirs = {name: _median_of(part, key, form) for name, part in _by_peer(measurements).items()}
    if len(theirs) > 1:
        return " / ".join([ours, *(f"{name} {value}" for name, value in theirs.items())])
    return " / ".join([ours, *(theirs.values() or ["-"])])


def _median_of(measurements: list[Measurement], key: str, form: str) -> str:
    loads = [m.load for m in measurements if m.load and not m.flaws]
    values = [load[key] for load in loads if key in load.figures]
    return format(median(values), form) if values else "-"
