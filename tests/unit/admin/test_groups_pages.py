"""``/groups``: who is how far, and how to steer them."""

import asyncio
import time

import pytest
from asking import Api
from queue_bench import Book

from penstock.admin import groups
from penstock.admin.pages import SLICE_ITEMS
from penstock.core.commands import (
    GroupCommitted,
    GroupConfigured,
    GroupMade,
    Leased,
    LeasesReturned,
    TopicConfigured,
)
from penstock.errors import StorageError

MAIL, SEND = b"mail", b"send"
NAMED = {"topic": "mail", "group": "send"}


@pytest.fixture
def book():
    """A topic of ten messages."""
    book = Book()
    book.topics.configure(TopicConfigured(MAIL), 1, recovering=False)
    book.store.have(MAIL, 10)
    return book


@pytest.fixture
def api(view, book):
    return Api(view, queue_admin=book)


def lease(book, count, now_ms=1_000):
    """Hand out the first messages of a new group."""
    book.apply(GroupMade(MAIL, SEND, 0))
    runs = [(0, 0, count)]
    shares = [(b"", now_ms + 30_000, runs)]
    version = book.groups.get(MAIL, SEND).version
    book.apply(Leased(MAIL, SEND, version, 0, [count], 0, 0, now_ms, shares))


def shown(api):
    return api.ask("GET", "/groups?topic=mail&group=send").document["groups"][0]


# ── Looking


def test_a_group_is_shown_with_what_it_has_done_and_has_not(api, book):
    lease(book, 5)
    book.apply(GroupConfigured(MAIL, SEND, 4, 500, 8_000))
    book.apply(LeasesReturned(MAIL, SEND, [(0, 1)], 2_000, 0, b"", counts=False))
    book.apply(LeasesReturned(MAIL, SEND, [(1, 3)], 2_000, 0, b"no paper"))
    book.working[MAIL, SEND] = 3
    assert shown(api) == {
        "topic": "mail",
        "group": "send",
        "position": 0,
        "lag": 10,
        "in_flight": 2,
        "returned": 1,
        "delayed": 2,
        "dead_letters": 0,
        "redeliveries": 0,
        "consumers": 3,
        "max_deliveries": 4,
        "backoff_s": 0.5,
        "backoff_max_s": 8.0,
        "reader": False,
        "began": 0,
    }


def test_a_reader_is_shown_as_such_with_where_it_began(api, book):
    book.store.have(MAIL, end=10)
    book.apply(GroupMade(MAIL, SEND, 4, reader=True))
    book.apply(GroupCommitted(MAIL, SEND, 7, 0))
    found = shown(api)
    assert (found["reader"], found["began"]) == (True, 4)
    assert (found["position"], found["lag"]) == (7, 3)


def test_what_retention_took_is_not_behind(api, book):
    book.apply(GroupMade(MAIL, SEND, 0))
    book.store.have(MAIL, end=10, first=7)
    assert shown(api)["lag"] == 3


def test_groups_are_listed_by_topic_and_name_in_pages(api, book):
    for topic, name in [(b"a", b"z"), (b"b", b"x"), (b"b", b"y"), (b"c", b"a")]:
        book.apply(GroupMade(topic, name, 0))

    def page(query):
        answer = api.ask("GET", f"/groups?{query}").document
        return [(g["topic"], g["group"]) for g in answer["groups"]], answer["more"]

    assert page("limit=2") == ([("a", "z"), ("b", "x")], True)
    assert page("after_topic=b&after_group=x") == ([("b", "y"), ("c", "a")], False)
    assert page("topic=b") == ([("b", "x"), ("b", "y")], False)


def test_others_have_a_turn_while_a_long_list_is_made(api, book):
    for number in range(200):
        book.apply(GroupMade(MAIL, b"g%d" % number, 0))
    turns = 0

    async def ask():
        nonlocal turns
        asking = asyncio.create_task(api.ask_soon("GET", "/groups?limit=1000"))
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        return await asking

    assert len(asyncio.run(ask()).document["groups"]) == 200
    assert turns > 200 // SLICE_ITEMS


def test_groups_of_the_brokers_own_topics_are_listed_only_when_asked_for(api, book):
    book.apply(GroupMade(b"$dlq/mail/send", b"redrive", 0))
    assert api.ask("GET", "/groups").document["groups"] == []
    assert len(api.ask("GET", "/groups?topic=$dlq/mail/send").document["groups"]) == 1


@pytest.mark.parametrize("query", ["topic=mial", "topic=mail&group=sned"])
def test_what_is_not_there_is_not_found(api, query):
    assert api.ask("GET", f"/groups?{query}").status == 404


# ── Steering


def test_a_group_is_made_where_it_is_to_begin(api, book):
    answer = api.ask("PUT", "/groups", NAMED | {"start": "latest", "max_deliveries": 5})
    group = book.groups.get(MAIL, SEND)
    assert (group.next, group.max_deliveries) == (10, 5)
    assert (answer.document["position"], answer.document["lag"]) == (10, 0)


def test_a_group_may_be_there_before_its_topic(api, book):
    answer = api.ask("PUT", "/groups", {"topic": "post", "group": "carry", "start": "latest"})
    assert (answer.status, answer.document["position"]) == (200, 0)
    assert book.groups.get(b"post", b"carry") is not None


def test_a_group_that_exists_stays_where_it_is(api, book):
    book.apply(GroupMade(MAIL, SEND, 4))
    api.ask("PUT", "/groups", NAMED | {"start": "latest", "backoff_s": 0.25})
    group = book.groups.get(MAIL, SEND)
    assert (group.next, group.backoff_ms, group.max_deliveries) == (4, 250, 0)


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("earliest", ("earliest", 0)),
        ("latest", ("latest", 0)),
        (7, ("offset", 7)),
        ("2030-01-01T00:00:00Z", ("time", 1_893_456_000_000)),
        ("2030-01-01T01:00:00+01:00", ("time", 1_893_456_000_000)),
        ("2030-01-01", ("time", 1_893_456_000_000)),
    ],
)
def test_a_group_is_moved_to_an_end_an_offset_or_a_time(api, book, place, meant):
    book.apply(GroupMade(MAIL, SEND, 4))
    assert api.ask("PUT", "/groups", NAMED | {"seek": place}).status == 200
    assert book.moved_to[-1] == meant


def test_a_time_without_a_zone_is_utc_wherever_the_broker_stands(api, book, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    book.apply(GroupMade(MAIL, SEND, 4))
    api.ask("PUT", "/groups", NAMED | {"seek": "2030-01-01T00:00:00"})
    monkeypatch.undo()
    time.tzset()
    assert book.moved_to[-1] == ("time", 1_893_456_000_000)


def test_a_group_that_is_not_there_cannot_be_moved(api, book):
    assert api.ask("PUT", "/groups", NAMED | {"seek": 0}).status == 404
    assert book.groups.get(MAIL, SEND) is None


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"topic": "mial", "seek": 0}, 404, "no topic 'mial'"),
        ({"topic": "mail/#"}, 400, "mail/#"),
        ({"topic": "$SYS/mail"}, 400, "are reserved"),
        ({"start": "soon"}, 400, "start is not a position"),
        ({"seek": -1}, 400, "seek"),
        ({"max_deliveries": -1}, 400, "max_deliveries"),
        ({"max_deliveries": 2**32}, 400, "max_deliveries"),
        ({"group": "g" * 257}, 400, "256"),
        (
            {"backoff_s": 5, "backoff_max_s": 0.5},
            400,
            "backoff_max, 500ms, is less than backoff, 5s",
        ),
        ({"colour": "red"}, 400, "colour"),
    ],
)
def test_what_cannot_be_is_refused_with_advice(api, book, fields, status, error):
    answer = api.ask("PUT", "/groups", NAMED | fields)
    assert answer.status == status
    assert error in answer.document["error"]
    assert answer.document["advice"]
    assert book.groups.count == 0


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"backoff_s": 9}, 400),
        ({"backoff_max_s": 1}, 400),
        ({"backoff_s": 9, "backoff_max_s": 9}, 200),
        ({"backoff_max_s": 0}, 200),
        ({"backoff_s": 0, "backoff_max_s": 1}, 200),
        ({"max_deliveries": 3}, 200),
    ],
)
def test_the_longest_pause_is_not_less_than_the_first_whichever_of_them_is_changed(
    api, book, wanted, status
):
    book.apply(GroupMade(MAIL, SEND, 0))
    book.apply(GroupConfigured(MAIL, SEND, 0, 2_000, 8_000))
    answer = api.ask("PUT", "/groups", NAMED | wanted)
    assert answer.status == status
    if status == 400:
        group = book.groups.get(MAIL, SEND)
        assert (group.backoff_ms, group.backoff_max_ms) == (2_000, 8_000)


def test_there_are_no_more_groups_than_clients_may_make(api, book, monkeypatch):
    monkeypatch.setattr(groups, "GROUPS_MAX", 1)
    book.apply(GroupMade(MAIL, SEND, 4))
    assert api.ask("PUT", "/groups", NAMED | {"group": "archive"}).status == 409
    assert api.ask("PUT", "/groups", NAMED | {"max_deliveries": 5}).status == 200


def test_a_group_without_consumers_is_deleted(api, book):
    book.apply(GroupMade(MAIL, SEND, 4))
    assert api.ask("DELETE", "/groups?topic=mail&group=send").document["position"] == 4
    assert book.groups.count == 0


def test_a_group_with_consumers_is_not_for_they_would_make_it_anew(api, book):
    book.apply(GroupMade(MAIL, SEND, 4))
    book.working[MAIL, SEND] = 2
    answer = api.ask("DELETE", "/groups?topic=mail&group=send")
    assert (answer.status, book.groups.count) == (409, 1)
    assert "stop them first" in answer.document["advice"]


def test_whoever_deletes_must_say_what(api, book):
    book.apply(GroupMade(MAIL, SEND, 4))
    assert api.ask("DELETE", "/groups?topic=mail").status == 400
    assert book.groups.count == 1


def test_storage_that_fails_is_said(api, book):
    book.error = StorageError("the disk failed")
    assert api.ask("PUT", "/groups", NAMED).status == 503
