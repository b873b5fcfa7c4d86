"""Blocking methods that are derived from coroutine functions."""

import asyncio

import pytest

from penstock.client.sync import BlockingFacade, blocking, blocking_iterator, run


class Operations:
    async def double(self, number, *, plus=0):
        """Return twice a number.

        >>> await operations.double(2)  # doctest: +SKIP
        """
        if number < 0:
            raise ValueError("negative")
        return 2 * number + plus

    async def suspend(self):
        await asyncio.sleep(0)

    async def count(self, end):
        for number in range(end):
            yield await self.double(number)


class Facade(BlockingFacade[Operations]):
    def __init__(self):
        self._operations = Operations()

    double = blocking(Operations.double)
    suspend = blocking(Operations.suspend)
    count = blocking_iterator(Operations.count)


def test_a_derived_method_returns_and_raises_what_the_coroutine_does():
    assert Facade().double(2, plus=1) == 5
    with pytest.raises(ValueError, match="negative"):
        Facade().double(-1)


def test_a_derived_method_is_documented_without_await():
    assert "await" in Operations.double.__doc__
    assert ">>> operations.double(2)" in Facade.double.__doc__


def test_a_derived_iterator_can_be_left_early():
    assert list(Facade().count(3)) == [0, 2, 4]
    items = Facade().count(3)
    assert next(items) == 0
    items.close()


def test_an_operation_that_suspends_is_a_fault():
    with pytest.raises(RuntimeError, match="suspended"):
        Facade().suspend()
    with pytest.raises(RuntimeError, match="suspended"):
        run(Operations().suspend())


def test_a_derived_method_works_where_a_loop_runs():
    """As in a notebook, whose cells run in a loop."""

    async def main():
        return Facade().double(1), list(Facade().count(2))

    assert asyncio.run(main()) == (2, [0, 2])
