"""The administrator of the campaign complains about what must not be."""

import random

import pytest

from tests.chaos.access import Administrator
from tests.chaos.history import History
from tests.chaos.resp import RespClient

pytestmark = pytest.mark.asyncio


class Book:
    """Nodes that say what they are told to say."""

    def __init__(self):
        self.nodes = {1: type("Node", (), {"child": object(), "port": 1})()}
        self.document = {"users": {}}

    async def ask(self, _number, method, _path, body=None):
        if method == "POST":
            self.document = body["document"]
        return {"document": self.document, "version": 1}


class Guest:
    """A connection on which everything is allowed."""

    async def ask(self, *_words):
        return 0

    def close(self):
        pass


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def administrator(book, monkeypatch):
    async def opened(_port):
        return Guest()

    monkeypatch.setattr(RespClient, "open", opened)
    return Administrator("root", book, random.Random(1), History())


async def test_a_lost_change_is_found(book, administrator):
    earlier = book.document
    assert await administrator.change(1)
    administrator._history.complaints.clear()
    await administrator.read()
    assert administrator._history.complaints == []
    book.document = earlier
    await administrator.read()
    assert "change 1 was acknowledged" in administrator._history.complaints[0]


async def test_a_guest_who_is_let_in_though_denied_is_found(administrator):
    for _ in range(30):
        await administrator.change(1)
    denied = [s for s in administrator._tried[1:] if s.is_disabled or not s.is_allowed]
    complaints = administrator._history.complaints
    assert len(complaints) == len(denied) > 5
    assert {text.partition("and then ")[2] for text in complaints} == {
        "the guest was let in",
        "the guest was allowed",
    }
