"""Stacks of tasks and threads: the answer of ``/api/v1/debug/stacks``."""

import msgspec


class StackRow(msgspec.Struct, frozen=True):
    """A task or thread: ``module:line function`` per frame, the outermost first."""

    name: str
    frames: list[str]


class Stacks(msgspec.Struct, frozen=True):
    """What the broker is doing at this moment."""

    tasks: list[StackRow]
    tasks_left_out: int
    threads: list[StackRow]
