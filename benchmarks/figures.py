"""The result of a benchmark: a figure, its goal, and whether it was reached."""

from typing import NamedTuple

from benchmarks.table import columns, compact

__all__ = ["Figure", "render"]


class Figure(NamedTuple):
    """One line of the table. A goal that begins with ``<`` is a ceiling."""

    id: str
    what: str
    value: float
    unit: str
    goal: str = ""
    rounds: tuple[float, ...] = ()

    @property
    def is_met(self) -> bool | None:
        """Whether the goal was reached; None without one."""
        if not self.goal:
            return None
        limit = float(self.goal.lstrip("<>"))
        return self.value <= limit if self.goal.startswith("<") else self.value >= limit

    def record(self) -> dict[str, object]:
        """Return a line of JSON."""
        return {**self._asdict(), "is_met": self.is_met}


def render(figures: list[Figure]) -> str:
    """Return all figures as a table."""
    rows: list[tuple[str, ...]] = [("", "what", "figure", "unit", "goal", "met", "rounds")]
    rows += [_row(figure) for figure in figures]
    return columns(rows, left=(0, 1, 3))


def _row(figure: Figure) -> tuple[str, ...]:
    met = {None: "", True: "yes", False: "NO"}[figure.is_met]
    goal = ""
    if figure.goal:
        sign = "≤" if figure.goal.startswith("<") else "≥"
        goal = f"{sign} {compact(float(figure.goal.lstrip('<>')))}"
    rounds = " ".join(map(compact, figure.rounds))
    return (figure.id, figure.what, compact(figure.value), figure.unit, goal, met, rounds)
