"""``/queues``: topics that are worked on, listed and steered by administrators only."""

import pytest
from asking import Api
from queue_bench import Book

from penstock.core.commands import GroupMade, TopicConfigured
from penstock.errors import StorageFull

TOKEN = "correct-horse-battery"


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def api(view, book):
    return Api(view, queue_admin=book)


def make(book, *topics, **settings):
    for topic in topics:
        book.topics.configure(TopicConfigured(topic, **settings), 1, recovering=False)


def listed(answer):
    return [queue["topic"] for queue in answer.document["queues"]]


# ── Looking


def test_topics_are_listed_that_were_made_or_have_groups(api, book):
    make(book, b"mail")
    book.apply(GroupMade(b"images", b"resize", 0))
    book.store.have(b"plant/pump", 7)
    answer = api.ask("GET", "/queues")
    assert listed(answer) == ["images", "mail"]
    assert answer.document["more"] is False


def test_a_topic_is_shown_with_its_settings_and_what_it_holds(api, book):
    make(book, b"mail/out", rate_milli=500, burst=3, max_messages=9, max_age_ms=1_500, max_bytes=8)
    book.store.have(b"mail/out", end=12, first=2)
    book.apply(GroupMade(b"mail/out", b"send", 2))
    assert api.ask("GET", "/queues/mail/out").document == {
        "topic": "mail/out",
        "messages": 10,
        "stored": 10,
        "bytes": 100,
        "first_offset": 2,
        "end_offset": 12,
        "rate_per_s": 0.5,
        "burst": 3,
        "max_messages": 9,
        "max_age_s": 1.5,
        "max_bytes": 8,
        "keep": False,
        "groups": 1,
    }


def test_a_topic_that_only_the_journal_knows_can_be_looked_at_and_is_a_log(api, book):
    book.store.have(b"plant/pump", 7)
    shown = api.ask("GET", "/queues/plant/pump").document
    assert (shown["messages"], shown["keep"], shown["groups"]) == (7, True, 0)


def test_an_unknown_topic_is_not_found_and_the_answer_says_what_to_do(api):
    answer = api.ask("GET", "/queues/mial")
    assert answer.status == 404
    assert "'mial'" in answer.document["error"]
    assert "penstock queue create" in answer.document["advice"]


def test_names_are_escaped_as_in_any_url(api, book):
    make(book, "/a b/ä?".encode())
    assert api.ask("GET", "/queues//a%20b/%C3%A4%3F").document["topic"] == "/a b/ä?"


def test_a_long_list_comes_in_pages(api, book):
    make(book, b"a", b"b", b"c", b"d", b"e")
    first = api.ask("GET", "/queues?limit=2")
    assert (listed(first), first.document["more"]) == (["a", "b"], True)
    second = api.ask("GET", "/queues?limit=3&after=b")
    assert (listed(second), second.document["more"]) == (["c", "d", "e"], False)


def test_a_list_can_be_of_names_that_begin_alike(api, book):
    make(book, b"mail/in", b"mail/out", b"post")
    assert listed(api.ask("GET", "/queues?prefix=mail/")) == ["mail/in", "mail/out"]


def test_topics_of_the_brokers_own_are_listed_only_when_asked_for(api, book):
    make(book, b"mail", b"$dlq/mail/send")
    assert listed(api.ask("GET", "/queues")) == ["mail"]
    assert listed(api.ask("GET", "/queues?prefix=$dlq/")) == ["$dlq/mail/send"]


def test_a_limit_that_is_none_is_refused(api):
    assert api.ask("GET", "/queues?limit=many").status == 400


# ── Steering


def test_a_topic_is_made_by_steering_it(api, book):
    answer = api.ask("PUT", "/queues/mail", {"rate_per_s": 0.5, "burst": 2, "max_age_s": 1.25})
    assert answer.status == 200
    settings = book.topics.get(b"mail")
    assert (settings.rate_milli, settings.burst, settings.max_age_ms) == (500, 2, 1_250)
    assert answer.document["rate_per_s"] == 0.5


def test_what_is_not_named_stays_as_it_is(api, book):
    make(book, b"mail", rate_milli=7, max_messages=8)
    api.ask("PUT", "/queues/mail", {"max_messages": 0, "keep": True})
    settings = book.topics.get(b"mail")
    assert (settings.rate_milli, settings.max_messages, settings.keep) == (7, 0, True)


def test_the_slowest_rate_does_not_become_no_limit(api, book):
    api.ask("PUT", "/queues/mail", {"rate_per_s": 0.0001})
    assert book.topics.get(b"mail").rate_milli == 1


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/queues/mail", {"rate_per_s": -1}, "rate_per_s"),
        ("/queues/mail", {"max_age_s": 1e12}, "max_age_s"),
        ("/queues/mail", {"max_messages": 1.5}, "max_messages"),
        ("/queues/mail", {"colour": "red"}, "colour"),
        ("/queues/mail", b"", "invalid request body"),
        ("/queues/a+b", {"burst": 1}, "wildcard"),
        ("/queues/", {"burst": 1}, "empty"),
        ("/queues/$SYS/uptime", {"burst": 1}, "are reserved"),
    ],
)
def test_what_cannot_be_set_is_refused_with_advice(api, book, path, body, error):
    answer = api.ask("PUT", path, body)
    assert answer.status == 400
    assert error in answer.document["error"]
    assert answer.document["advice"]
    assert len(book.topics) == 0


def test_topics_with_dead_letters_can_be_limited(api, book):
    api.ask("PUT", "/queues/$dlq/mail/send", {"max_messages": 100})
    assert book.topics.get(b"$dlq/mail/send").max_messages == 100


def test_a_deleted_topic_is_gone_and_the_answer_tells_what_it_was(api, book):
    make(book, b"mail")
    book.store.have(b"mail", 12)
    assert api.ask("DELETE", "/queues/mail").document["messages"] == 12
    assert api.ask("GET", "/queues/mail").status == 404
    assert api.ask("DELETE", "/queues/mail").status == 404


def test_storage_that_fails_is_said_and_nothing_changes(api, book):
    book.error = StorageFull("the disk is full", "make room")
    answer = api.ask("PUT", "/queues/mail", {"burst": 1})
    assert answer.status == 503
    assert answer.document == {"error": "the disk is full", "advice": "make room"}


# ── Who may

REQUESTS = [
    ("GET", "/queues", None),
    ("GET", "/queues/mail", None),
    ("PUT", "/queues/mail", {"burst": 1}),
    ("DELETE", "/queues/mail", None),
    ("GET", "/groups", None),
    ("PUT", "/groups", {"topic": "mail", "group": "send", "seek": 0}),
    ("DELETE", "/groups?topic=mail&group=send", None),
    ("GET", "/dlq", None),
    ("GET", "/dlq/letters?topic=mail&group=send", None),
    ("POST", "/dlq/redrive", {"topic": "mail", "group": "send"}),
    ("DELETE", "/dlq?topic=mail&group=send", None),
]


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda asked: f"{asked[0]}_{asked[1]}")
@pytest.mark.parametrize(
    ("token", "who", "status"),
    [
        ("", {"client": "192.0.2.7"}, 403),
        ("", {"origin": "https://evil.example"}, 403),
        ("", {"host": "evil.example"}, 403),
        (TOKEN, {}, 401),
        (TOKEN, {"authorization": "Bearer guess"}, 401),
    ],
)
def test_only_administrators_are_answered(view, book, asked, token, *, who, status):
    make(book, b"mail")
    book.store.have(b"mail", 3)
    book.apply(GroupMade(b"mail", b"send", 3))
    book.bury(b"mail", b"send", b"x")
    answer = Api(view, token=token, queue_admin=book).ask(*asked, **who)
    assert answer.status == status
    assert book.groups.get(b"mail", b"send").next == 3
    assert book.letter_count(b"$dlq/mail/send") == 1


def test_without_a_book_there_are_no_pages(view):
    for _, path, _ in REQUESTS:
        assert Api(view).ask("GET", path).status == 404
