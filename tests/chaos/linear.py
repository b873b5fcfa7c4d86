"""Linearizability check: the search by Wing and Gong, with memoisation (Lowe).

Every operation seems to happen at one moment between its invocation and its return. The search
builds such an order from the front: of the operations that may come next (those invoked before the
first return of the remaining ones) one is tried, if the model allows its result. Failed attempts (a
set of operations done and the resulting state) are not repeated.

A model is a function ``step(state, operation) -> state``, None where the result is not possible.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from tests.chaos.history import Op

__all__ = ["end_of_log", "is_linearizable", "log_fault"]

State = TypeVar("State", bound=Hashable)


def is_linearizable(
    ops: Sequence[Op], step: Callable[[State, Op], State | None], state: State
) -> bool:
    """Return whether some order of the operations explains all results and respects real time."""
    return _Search(ops, step, state).run()


class _Search(Generic[State]):
    """One search. ``_done`` has a bit for each operation that is in the order so far."""

    def __init__(
        self, ops: Sequence[Op], step: Callable[[State, Op], State | None], state: State
    ) -> None:
        self._ops = sorted(ops, key=lambda op: op.invoked)
        self._step = step
        self._done = 0
        self._state = state
        self._tried: set[tuple[int, State]] = set()

    def run(self) -> bool:
        trail: list[tuple[int, State, list[int]]] = []
        choices = self._candidates()
        while self._done != (1 << len(self._ops)) - 1:
            before = self._done, self._state, choices
            if self._advance(choices):
                trail.append(before)
                choices = self._candidates()
            elif trail:
                self._done, self._state, choices = trail.pop()
            else:
                return False
        return True

    def _advance(self, choices: list[int]) -> bool:
        """Take the first remaining choice that leads to an unvisited state."""
        while choices:
            place = choices.pop(0)
            state = self._step(self._state, self._ops[place])
            if state is None:
                continue
            reached = (self._done | 1 << place, state)
            if reached not in self._tried:
                self._tried.add(reached)
                self._done, self._state = reached
                return True
        return False

    def _candidates(self) -> list[int]:
        """Return the operations that may come next: invoked before any remaining one returned."""
        ops = self._ops
        left = [place for place in range(len(ops)) if not self._done >> place & 1]
        first_return = min((ops[place].returned for place in left), default=0.0)
        return [place for place in left if ops[place].invoked <= first_return]


def end_of_log(end: int, op: Op) -> int | None:
    """A log: an append returns its offset, a read returns the end."""
    if op.value != end:
        return None
    return end if op.kind == "end" else end + 1


def log_fault(ops: Sequence[Op]) -> str:
    """Return why operations on one topic are not those of one log; empty if they are.

    Long histories are split at quiet moments, because the search is fast on short ones: everything
    before a moment without pending operations comes before everything after it.
    """
    start = 0
    for part in _parts(sorted(ops, key=lambda op: op.invoked)):
        if not is_linearizable(part, end_of_log, start):
            shown = ", ".join(f"{op.who} {op.kind}={op.value}" for op in part[:8])
            return (
                f"{part[0].topic}: {len(part)} operations from {start} on are in no order: {shown}"
            )
        start += sum(op.kind != "end" for op in part)
    return ""


def _parts(ops: Sequence[Op]) -> list[list[Op]]:
    parts: list[list[Op]] = []
    latest = 0.0
    for op in ops:
        if not parts or op.invoked > latest:
            parts.append([])
        parts[-1].append(op)
        latest = max(latest, op.returned)
    return parts
