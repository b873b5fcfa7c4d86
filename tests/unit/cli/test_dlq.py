"""Sending dead letters back takes several requests; each may be the one that fails."""

import sys

import pytest

from penstock.cli import dlq as module
from penstock.cli.dlq import _moved
from penstock.errors import PenstockError


class Letters:
    """A broker that sends back what it is asked to, until something happens."""

    def __init__(self, left, error_at=None, stuck_at=None, refusal=""):
        self.left, self.error_at, self.stuck_at = left, error_at, stuck_at
        self.refusal = refusal
        self.asked = []

    def post(self, path, **fields):
        assert path == "dlq/redrive"
        if self.left == self.error_at:
            raise PenstockError("the disk is full", "make room")
        count = 0 if self.left == self.stuck_at else min(fields["max"], self.left)
        self.asked.append(fields["max"])
        self.left -= count
        return {"moved": count, "left": self.left, "refused": self.refusal}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(module, "REDRIVEN_AT_ONCE", 10)


def redrive(letters, total):
    return _moved(letters, "redrive", "mail", "send", total)


def test_no_more_are_sent_back_than_were_there_at_the_beginning():
    letters = Letters(left=1_000)
    assert redrive(letters, 25) == (25, 975)
    assert letters.asked == [10, 10, 5]


def test_an_error_on_the_way_says_how_many_were_sent_back_before():
    with pytest.raises(PenstockError) as caught:
        redrive(Letters(left=25, error_at=5), 25)
    assert caught.value.message == "sent 20 letters back, then the disk is full"
    assert caught.value.advice == "make room"


def test_letters_that_must_stay_are_an_error_that_says_why():
    with pytest.raises(PenstockError) as caught:
        redrive(Letters(left=25, refusal="it has no signature"), 25)
    assert caught.value.message == "sent 10 letters back, then: it has no signature"


def test_it_ends_when_somebody_else_was_faster():
    assert redrive(Letters(left=25, stuck_at=15), 25) == (10, 15)


@pytest.mark.parametrize(
    ("total", "is_terminal", "told"),
    [
        (25, True, "\rsent back 10 of 25\rsent back 20 of 25\rsent back 25 of 25\n"),
        (10, True, ""),
        (25, False, ""),
    ],
)
def test_whoever_watches_a_long_redrive_sees_how_far_it_is(
    monkeypatch, capsys, total, is_terminal, told
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    redrive(Letters(left=total), total)
    assert capsys.readouterr().err == told
