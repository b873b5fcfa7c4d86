"""Answers leave in the order of the questions, whenever they are ready.

RESP has no numbers by which a client could tell answers apart: the order is all it has. Each call
takes a place when it begins; an answer that is ready before those of earlier calls waits for them.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Place(Protocol):
    """A call in the line; ``answer`` is None until it is known."""

    answer: bytes | None


class Replies:
    """The line of one connection; ``answered`` is called when nobody waits any more."""

    __slots__ = ("_answered", "_line", "_send")

    def __init__(self, send: Callable[[bytes], None], answered: Callable[[], None]) -> None:
        self._send = send
        self._answered = answered
        self._line: deque[Place] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether some call is not answered yet."""
        return bool(self._line)

    def open(self, place: Place) -> None:
        """A call begins."""
        self._line.append(place)

    def fill(self, place: Place, answer: bytes) -> None:
        """A call is answered; send what can be sent."""
        assert place.answer is None, "answered twice"
        place.answer = answer
        line = self._line
        if place is not line[0]:
            return
        while line and (ready := line[0].answer) is not None:
            line.popleft()
            if ready:
                self._send(ready)
        if not line:
            self._answered()
