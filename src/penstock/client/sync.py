"""Blocking methods, derived from coroutine functions, so that each operation is written once.

An operation is an ``async def`` over a link. The asyncio client awaits it over a link of its event
loop. The blocking client gives it a link whose methods block the calling thread instead of
suspending: its coroutine then runs to the end in one step, without event loop and thread hop
(``run``). ``blocking`` turns a coroutine function into such a method and keeps its parameters, for
type checkers and ``help`` alike.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import GenericAlias
from typing import Concatenate, Generic, ParamSpec, TypeVar, get_args

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class BlockingFacade(Generic[C_co]):
    """A class whose methods are derived from those of its ``_operations``."""

    _operations: C_co


def run(coroutine: Coroutine[object, None, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise _suspended(coroutine)


def _suspended(coroutine: Coroutine[object, None, object]) -> RuntimeError:
    coroutine.close()
    return RuntimeError("an operation of a blocking client was suspended")


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[BlockingFacade[C], P], T]:
    """Derive a method that returns the result of a coroutine function."""

    @wraps(method)
    def call(self: BlockingFacade[C], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        coroutine = method(self._operations, *arguments, **keywords)
        try:  # as ``run`` does, without another call
            coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise _suspended(coroutine)

    call.__doc__ = _without_await(method.__doc__)
    return call


def blocking_iterator(
    method: Callable[Concatenate[C, P], AsyncIterator[T]],
) -> Callable[Concatenate[BlockingFacade[C], P], Iterator[T]]:
    """Derive a generator from an asynchronous one."""

    @wraps(method)
    def iterate(
        self: BlockingFacade[C], /, *arguments: P.args, **keywords: P.kwargs
    ) -> Iterator[T]:
        items = method(self._operations, *arguments, **keywords)
        while True:
            try:
                item = run(_next(items))
            except StopAsyncIteration:
                return
            yield item

    iterate.__doc__ = _without_await(method.__doc__)
    signature = inspect.signature(method)
    result = GenericAlias(Iterator, get_args(signature.return_annotation))
    iterate.__dict__["__signature__"] = signature.replace(return_annotation=result)
    return iterate


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def forwarded(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[BlockingFacade[C], P], T]:
    """Derive a method from one that does not wait."""

    @wraps(method)
    def call(self: BlockingFacade[C], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return method(self._operations, *arguments, **keywords)

    call.__doc__ = _without_await(method.__doc__)
    return call


def _without_await(text: str | None) -> str | None:
    """Turn the examples of a docstring into those of the blocking client."""
    return None if text is None else text.replace("async ", "").replace("await ", "")
