"""How often one may ask, and changes that are asked for twice."""

import asyncio
import threading

import msgspec
import pytest
from starlette.responses import Response
from tests.api_kit import served

from penstock.api.call import Call
from penstock.api.idempotency import KEPT_S, KEYS_MAX, Answers
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem
from penstock.api.throttle import BURST, CALLERS_MAX, Throttle
from penstock.trust.rules import Action


class Number(msgspec.Struct):
    """A number."""

    value: int


class Step(msgspec.Struct, forbid_unknown_fields=True):
    by: int = 1
    hold: bool = False


class Counting(Resource):
    value = 0
    held = threading.Event()
    release = threading.Event()

    @operation("GET", "count", Action.MONITOR)
    async def show(self, call: Call) -> Number:
        """Show it."""
        return Number(self.value)

    @operation("POST", "count", Action.MONITOR)
    async def count(self, call: Call, body: Step) -> Number:
        """Count."""
        if body.by < 0:
            raise Problem(409, "backwards", "no")
        if body.hold:
            self.held.set()
            await call.read(self.release.wait)
        self.value += body.by
        return Number(self.value)


@pytest.fixture
def api():
    class View:
        version = "9"

    with served(View(), Counting) as client:
        yield client


def count(api, key, **body):
    return api.ask("POST", "count", body, headers={"Idempotency-Key": key})


def test_repetition_is_answered_and_not_done_again(api):
    first, again = count(api, "a"), count(api, "a")
    assert (first.document, again.document) == ({"value": 1}, {"value": 1})
    assert again.headers["idempotent-replay"] == "true"
    assert api.get("count").document == {"value": 1}
    assert count(api, "b").document == {"value": 2}


def test_key_is_of_one_change(api):
    count(api, "a")
    answer = count(api, "a", by=2)
    assert (answer.status, answer.document["code"]) == (422, "idempotency_key_reused")


def test_refused_change_may_be_tried_again(api):
    assert count(api, "a", by=-1).status == 409
    assert count(api, "a", by=1).document == {"value": 1}


def test_change_that_is_under_way_is_not_begun_again(api):
    Counting.held.clear()
    Counting.release.clear()
    slow = threading.Thread(target=count, args=(api, "a"), kwargs={"hold": True})
    slow.start()
    assert Counting.held.wait(30)
    answer = count(api, "a", hold=True)
    Counting.release.set()
    slow.join()
    assert (answer.status, answer.document["code"]) == (409, "in_progress")
    assert count(api, "a", hold=True).document == {"value": 1}


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "\xe9"])
def test_key_must_be_one(api, key):
    answer = count(api, key)
    assert (answer.status, answer.document["code"]) == (400, "invalid_idempotency_key")


def once(answers, caller, key, now, made):
    async def make():
        made.append(key)
        return Response(b"{}")

    asyncio.run(answers.once(caller, key, b"asked", now, make))


def test_answers_are_kept_for_a_while_and_so_many():
    answers, made = Answers(), []
    for n in range(KEYS_MAX + 1):
        once(answers, "ann", str(n), 0.0, made)
    assert len(made) == KEYS_MAX + 1
    once(answers, "ann", "1", 1.0, made)
    once(answers, "bob", "1", 1.0, made)
    assert len(made) == KEYS_MAX + 2
    once(answers, "ann", "0", 1.0, made)  # pushed out
    once(answers, "ann", str(KEYS_MAX), KEPT_S, made)  # forgotten
    assert len(made) == KEYS_MAX + 4


def test_who_asks_too_often_is_told_when_to_come_back(api):
    api.is_patient = False
    answers = [api.get("count") for _ in range(BURST + 40)]
    refused = next(answer for answer in answers if answer.status != 200)
    assert (refused.status, refused.document["code"]) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "1"


def test_callers_do_not_slow_each_other_down():
    throttle = Throttle(per_s=2, burst=3)
    for _ in range(3):
        throttle.check("ann", 0.0)
    with pytest.raises(Problem):
        throttle.check("ann", 0.1)
    throttle.check("bob", 0.1)
    throttle.check("ann", 0.6)


def test_callers_are_bounded():
    throttle = Throttle(per_s=1, burst=1)
    for n in range(CALLERS_MAX + 1):
        throttle.check(n, 0.0)
    throttle.check(0, 0.0)  # forgotten
    with pytest.raises(Problem):
        throttle.check(CALLERS_MAX, 0.0)
