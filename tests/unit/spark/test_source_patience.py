"""Patience with a broker that is away: what is asked again, and what is not."""

import pytest

from penstock.client.errors import (
    BadRequestError,
    BrokerFailedError,
    ClientError,
    ConnectionLostError,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.spark.broker import map_concurrently, with_retries
from penstock.spark.options import RetryPolicy

TWICE = RetryPolicy(retries=2, pause_s=0.0)


class Broker:
    """Fails the given number of times, then answers."""

    def __init__(self, error: ClientError, failures: int) -> None:
        self.error = error
        self.failures = failures
        self.asked = 0

    def ask(self) -> str:
        self.asked += 1
        if self.asked <= self.failures:
            raise self.error
        return "answer"


@pytest.mark.parametrize(
    "kind", [UnreachableError, ConnectionLostError, ReplyTimeoutError, BrokerFailedError]
)
def test_trouble_that_may_pass_is_waited_for(kind):
    assert with_retries(TWICE, Broker(kind("away"), 2).ask) == "answer"


def test_but_not_for_ever():
    broker = Broker(UnreachableError("away"), 9)
    with pytest.raises(UnreachableError):
        with_retries(TWICE, broker.ask)
    assert broker.asked == 3


def test_what_would_be_refused_again_is_not_asked_again():
    broker = Broker(BadRequestError("no such thing"), 9)
    with pytest.raises(BadRequestError):
        with_retries(TWICE, broker.ask)
    assert broker.asked == 1


def test_answers_about_many_are_in_the_order_of_the_questions():
    assert map_concurrently(lambda number: number * 2, range(100)) == list(range(0, 200, 2))
    assert map_concurrently(str, []) == []
