"""Pages that show what the cluster has agreed upon: current, or refused, or old on request."""

import pytest
from asking import Api
from queue_bench import Book
from test_keys_pages import MemoryBook

from penstock.errors import NoQuorum

READ = ["/topics", "/queues", "/groups", "/dlq", "/keys"]
LOCAL = ["/health", "/ready"]


@pytest.fixture
def api(view):
    books = [view, MemoryBook(), Book()]
    for book in books:
        book.unconfirmed = NoQuorum("cut off", "ask with ?stale=true")
    view, keys, queues = books
    return Api(view, key_admin=keys, queue_admin=queues)


@pytest.mark.parametrize("path", READ)
def test_page_is_refused_while_nobody_can_say_that_it_is_current(api, path):
    answer = api.ask("GET", path)
    assert answer.status == 503
    assert answer.document == {"error": "cut off", "advice": "ask with ?stale=true"}


@pytest.mark.parametrize("path", READ)
@pytest.mark.parametrize("query", ["stale=true", "stale=1", "stale"])
def test_page_shows_what_the_node_has_if_asked_for_that(api, path, query):
    assert api.ask("GET", f"{path}?{query}").status == 200


def test_flag_must_be_one(api):
    assert api.ask("GET", "/topics?stale=maybe").status == 400
    assert api.ask("GET", "/topics?stale=false").status == 503


@pytest.mark.parametrize("path", LOCAL)
def test_what_a_node_tells_of_itself_needs_nobody_else(api, path):
    assert api.ask("GET", path).status == 200
