"""Answers leave in the order of the questions: RESP has no numbers to tell them apart."""

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Answerable(Protocol):
    """A call; ``answer`` is None until it is known."""

    answer: bytes | None


class _Answered:
    """A call that was answered before it was asked for."""

    __slots__ = ("answer",)

    def __init__(self, answer: bytes) -> None:
        self.answer: bytes | None = answer


class ReplyQueue:
    """The calls of one connection; ``answered`` is called when all of them are answered."""

    __slots__ = ("_answered", "_calls", "_send")

    def __init__(self, send: Callable[[bytes], None], answered: Callable[[], None]) -> None:
        self._send = send
        self._answered = answered
        self._calls: deque[Answerable] = deque()

    @property
    def is_waiting(self) -> bool:
        return bool(self._calls)

    def open(self, call: Answerable) -> None:
        self._calls.append(call)

    def add(self, answer: bytes) -> None:
        """The answer to a call that need not wait."""
        if self._calls:
            self._calls.append(_Answered(answer))
        else:
            self._send(answer)

    def fill(self, call: Answerable, answer: bytes) -> None:
        assert call.answer is None, "answered twice"
        call.answer = answer
        calls = self._calls
        if call is not calls[0]:
            return
        while calls and (ready := calls[0].answer) is not None:
            calls.popleft()
            if ready:
                self._send(ready)
        if not calls:
            self._answered()
