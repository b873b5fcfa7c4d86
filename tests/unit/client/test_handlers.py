"""A handler of the wrong kind is refused when it is given, or at its first call."""

import asyncio
from functools import partial, wraps
from unittest.mock import AsyncMock

import pytest

from penstock.client.handlers import (
    HandlerMismatchError,
    as_awaitable,
    check_async_handler,
    check_blocking_handler,
    check_callback,
    check_result,
)


def plain(job):
    print(job)


async def awaited(job):
    await asyncio.sleep(0)


def generator(job):
    yield job


async def async_generator(job):
    yield job


def maybe_none(job):
    return job or None


def makes_coroutine(job):
    return awaited(job)


def runs_coroutine(job):
    return asyncio.run(awaited(job))


@wraps(awaited)
def wrapper(job):
    asyncio.run(awaited(job))


class Plain:
    def __call__(self, job):
        print(job)

    def method(self, job):
        print(job)


class Awaited:
    async def __call__(self, job):
        await asyncio.sleep(0)

    async def method(self, job):
        await asyncio.sleep(0)


ASYNC = [awaited, partial(awaited), partial(partial(awaited), job=1), Awaited(), Awaited().method]
PLAIN = [plain, partial(plain), Plain(), Plain().method, print, [].append, lambda _: None, wrapper]
GENERATORS = [generator, async_generator, partial(generator)]
UNCERTAIN = [makes_coroutine, lambda job: awaited(job + 1), maybe_none, AsyncMock()]


@pytest.mark.parametrize("handler", ASYNC)
def test_a_blocking_client_refuses_what_must_be_awaited(handler):
    with pytest.raises(HandlerMismatchError, match="use the asynchronous client"):
        check_blocking_handler(handler)


@pytest.mark.parametrize("handler", PLAIN)
def test_an_asynchronous_client_refuses_what_returns_nothing_to_await(handler):
    with pytest.raises(HandlerMismatchError, match="write `async def`"):
        check_async_handler(handler)


@pytest.mark.parametrize("handler", GENERATORS)
@pytest.mark.parametrize("check", [check_blocking_handler, check_async_handler])
def test_both_refuse_a_generator_which_a_call_would_not_run(handler, check):
    with pytest.raises(HandlerMismatchError, match="remove the `yield`"):
        check(handler)


@pytest.mark.parametrize("check", [check_blocking_handler, check_async_handler])
def test_both_refuse_what_cannot_be_called(check):
    with pytest.raises(TypeError, match="handler must be a function, not NoneType"):
        check(None)


@pytest.mark.parametrize("handler", [*PLAIN, *UNCERTAIN, runs_coroutine])
def test_a_blocking_client_takes_what_it_can_call(handler):
    check_blocking_handler(handler)


@pytest.mark.parametrize("handler", [*ASYNC, *UNCERTAIN])
def test_an_asynchronous_client_takes_what_may_return_an_awaitable(handler):
    check_async_handler(handler)


@pytest.mark.filterwarnings("error")
def test_an_awaitable_is_no_result_of_a_blocking_handler():
    with pytest.raises(HandlerMismatchError, match="its work has not begun"):
        check_result(makes_coroutine(1))


def test_a_generator_is_no_result_of_a_blocking_handler():
    with pytest.raises(HandlerMismatchError, match="its work has not begun"):
        check_result(generator(1))


def test_a_function_that_nobody_awaits_must_be_plain():
    check_callback("on_error", None)
    check_callback("on_error", plain)
    with pytest.raises(HandlerMismatchError, match="on_error is called, not awaited"):
        check_callback("on_error", awaited)


@pytest.mark.parametrize("result", [None, 7, b"", [1]])
def test_any_other_result_is_one(result):
    check_result(result)


def test_an_asynchronous_handler_must_return_an_awaitable():
    with pytest.raises(HandlerMismatchError, match="returned NoneType, which cannot be awaited"):
        as_awaitable(None)
    coroutine = awaited(1)
    assert as_awaitable(coroutine) is coroutine
    coroutine.close()
