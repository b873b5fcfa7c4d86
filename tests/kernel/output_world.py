"""What an output queue needs around it."""

from types import SimpleNamespace
from typing import Any

from penstock.obs.counters import Counters


def output_world() -> Any:
    """Connections whose flusher notes what is due, and whose budget notes what is held."""
    due: list[Any] = []
    held: list[int] = []

    def note(queue: Any, size: int) -> None:
        queue.counted = size
        held.append(size)

    return SimpleNamespace(
        counters=Counters(),
        due=due,
        held=held,
        flusher=SimpleNamespace(flush_soon=due.append),
        budget=SimpleNamespace(is_tight=False, note=note),
    )
