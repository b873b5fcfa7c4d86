"""Checks that a handler fits its client, blocking or asyncio.

A blocking client that calls an ``async def`` function gets a coroutine that never runs; taken for
a result, it would acknowledge work that was not done. A generator function has the same effect. An
asyncio client cannot await the result of a plain function. Both mistakes are refused when the
handler is given, if its code shows them, and otherwise at its first call, before anything is
acknowledged.

A coroutine function has a flag in its code. A plain function certainly returns no awaitable if it
is built in or returns only None; any other may return one, as ``lambda job: resize(job, size)``.
"""

import dis
import inspect
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from functools import partial
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Final

ASYNC_ADVICE: Final = (
    "give a plain function, or use the asynchronous client (connect_async, AsyncSubscriber,"
    " AsyncWorker)"
)
BLOCKING_ADVICE: Final = (
    "write `async def`, with `await asyncio.to_thread(...)` around what blocks, or use the blocking"
    " client (connect, Subscriber, Worker)"
)
GENERATOR_ADVICE: Final = "remove the `yield`"


class HandlerMismatchError(TypeError):
    """An ``async def`` handler for a blocking client, or a plain one for an asyncio client."""


def check_callback(argument: str, function: object) -> None:
    """Refuse an ``async def`` function as a callback."""
    if function is not None and inspect.iscoroutinefunction(_function(function)):
        raise HandlerMismatchError(
            f"{argument} is called, not awaited: give a plain function, which may start a task"
        )


def check_blocking_handler(handler: object) -> None:
    function = _function(handler)
    if inspect.iscoroutinefunction(function):
        raise _mismatch("is an `async def` function, which this client cannot await", ASYNC_ADVICE)
    _refuse_generators(function)


def check_async_handler(handler: object) -> None:
    function = _function(handler)
    _refuse_generators(function)
    if isinstance(function, BuiltinFunctionType) or _returns_only_none(function):
        raise _mismatch("is a plain function, which this client cannot await", BLOCKING_ADVICE)


def check_result(result: object) -> None:
    """Refuse a result of a blocking handler whose work has not begun yet."""
    if isinstance(result, Generator | AsyncGenerator):
        raise _mismatch("returned a generator, so its work has not begun", GENERATOR_ADVICE)
    if isinstance(result, Awaitable):
        if isinstance(result, Coroutine):
            result.close()  # or Python warns that it was never awaited
        raise _mismatch("returned an awaitable, so its work has not begun", ASYNC_ADVICE)


def as_awaitable(result: object) -> Awaitable[object]:
    if not isinstance(result, Awaitable):
        returned = type(result).__name__
        raise _mismatch(f"returned {returned}, which cannot be awaited", BLOCKING_ADVICE)
    return result


def _function(handler: object) -> object:
    """Return the function behind a ``partial``, a method or a callable object."""
    if not callable(handler):
        kind = type(handler).__name__
        raise TypeError(f"handler must be a function, not {kind}")
    while isinstance(handler, partial):
        handler = handler.func
    if isinstance(handler, FunctionType | BuiltinFunctionType | type):
        return handler
    method = handler if isinstance(handler, MethodType) else type(handler).__call__
    return getattr(method, "__func__", method)


def _refuse_generators(function: object) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _mismatch("is a generator function, so a call would not run it", GENERATOR_ADVICE)


def _returns_only_none(function: object) -> bool:
    """Whether every return statement of a function returns None."""
    if not isinstance(function, FunctionType) or inspect.iscoroutinefunction(function):
        return False
    code = list(dis.get_instructions(function))
    ends = [(before, end) for before, end in pairwise(code) if end.opname.startswith("RETURN_")]
    return bool(ends) and all(_is_none(before, end) for before, end in ends)


def _is_none(before: dis.Instruction, end: dis.Instruction) -> bool:
    if end.opname == "RETURN_CONST":
        return end.argval is None
    is_plain = end.opname == "RETURN_VALUE" and not end.is_jump_target
    return is_plain and before.opname == "LOAD_CONST" and before.argval is None


def _mismatch(what: str, advice: str) -> HandlerMismatchError:
    return HandlerMismatchError(f"the handler {what}: {advice}")
