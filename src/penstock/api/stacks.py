"""``debug/stacks``: what every task and thread of the broker is doing."""

import asyncio
import sys
import threading
import traceback
from types import FrameType

from penstock.api.call import Call
from penstock.api.documents.stacks import StackRow, Stacks
from penstock.api.operations import Resource, operation
from penstock.trust.rules import Action

TASKS_MAX = 1_000
FRAMES_MAX = 20


class Debugging(Resource):
    """A look inside, for reports of faults."""

    @operation("GET", "debug/stacks", Action.ADMIN)
    async def stacks(self, call: Call) -> Stacks:  # noqa: ARG002 - as every operation
        """Show the stacks of tasks and threads: names of functions and lines, never values."""
        tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return Stacks(
            tasks=[
                StackRow(task.get_name(), [_line(one) for one in task.get_stack(limit=FRAMES_MAX)])
                for task in tasks[:TASKS_MAX]
            ],
            tasks_left_out=max(0, len(tasks) - TASKS_MAX),
            threads=[
                StackRow(names.get(ident, str(ident)), _lines(frame))
                for ident, frame in sys._current_frames().items()  # noqa: SLF001 - meant for this
            ],
        )


def _lines(frame: FrameType) -> list[str]:
    found = [one for one, _ in traceback.walk_stack(frame)]
    return [_line(one) for one in reversed(found[:FRAMES_MAX])]


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno} {code.co_qualname}"
