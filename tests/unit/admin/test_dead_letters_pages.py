"""``/dlq``: what failed for good, looked at, sent back and dropped."""

import pytest
from asking import Api
from queue_bench import Book

from penstock.core.commands import GroupMade, TopicConfigured
from penstock.model.dead_letters import dead_letter_topic

NAMED = {"topic": "mail", "group": "send"}
WHOSE = "topic=mail&group=send"


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def api(view, book):
    return Api(view, queue_admin=book)


def bury(book, topic, group, *payloads, **options):
    letters = TopicConfigured(dead_letter_topic(topic, group))
    book.topics.configure(letters, 1, recovering=False)
    book.bury(topic, group, *payloads, **options)


def test_groups_with_dead_letters_are_listed_with_their_number(api, book):
    bury(book, b"mail", b"send", b"1", b"2")
    bury(book, b"post", b"carry")
    assert api.ask("GET", "/dlq").document == {
        "dead_letters": [
            {
                "topic": "mail",
                "group": "send",
                "letters_topic": "$dlq/mail/send",
                "letters": 2,
            }
        ],
        "more": False,
    }


@pytest.mark.parametrize(("topic", "group"), [(b"a/b", b"c"), (b"a", b"b/c")])
def test_the_name_tells_where_the_topic_ends_and_the_group_begins(api, book, topic, group):
    bury(book, topic, group, b"x")
    row = api.ask("GET", "/dlq").document["dead_letters"][0]
    assert (row["topic"], row["group"]) == (topic.decode(), group.decode())


def test_a_long_list_comes_in_pages(api, book):
    for number in range(3):
        bury(book, b"t%d" % number, b"g", b"x")
    first = api.ask("GET", "/dlq?limit=2").document
    assert ([row["topic"] for row in first["dead_letters"]], first["more"]) == (["t0", "t1"], True)
    rest = api.ask("GET", f"/dlq?after={first['dead_letters'][-1]['letters_topic']}").document
    assert [row["topic"] for row in rest["dead_letters"]] == ["t2"]


def test_a_letter_tells_its_story(api, book):
    bury(book, b"mail", b"send", b"hello", own=[(b"trace", b"7")])
    assert api.ask("GET", f"/dlq/letters?{WHOSE}").document == {
        "letters_topic": "$dlq/mail/send",
        "letters": 1,
        "shown": [
            {
                "offset": 0,
                "time": "2023-11-14T22:13:20.000+00:00",
                "topic": "mail",
                "topic_offset": 40,
                "attempts": 5,
                "reason": "no paper",
                "headers": [["trace", "7"]],
                "payload_bytes": 5,
                "payload": "hello",
            }
        ],
    }


def test_letters_are_shown_in_pages_from_the_first_that_is_left(api, book):
    bury(book, b"mail", b"send", b"1", b"2", b"3", b"4")
    book.settled_letters[b"$dlq/mail/send"] = 1

    def payloads(query):
        answer = api.ask("GET", f"/dlq/letters?{WHOSE}{query}").document
        return [letter["payload"] for letter in answer["shown"]]

    assert payloads("&limit=2") == payloads("&limit=2&offset=0") == ["2", "3"]
    assert payloads("&offset=3") == ["4"]


@pytest.mark.parametrize(
    ("payload", "field", "shown"),
    [
        (b"x" * 3_000, "payload", "x" * 1_024),
        ("€".encode() * 1_000, "payload", "€" * 341),
        (b"\xff" * 3, "payload_base64", "////"),
        (b"\xff" * 3_000, "payload_base64", "////" * 341 + "/w=="),
    ],
)
def test_of_a_long_payload_the_beginning_is_shown(api, book, payload, field, shown):
    bury(book, b"mail", b"send", payload)
    letter = api.ask("GET", f"/dlq/letters?{WHOSE}").document["shown"][0]
    assert (letter["payload_bytes"], letter[field]) == (len(payload), shown)


def test_where_there_are_no_letters_none_are_shown(api, book):
    book.apply(GroupMade(b"mail", b"send", 0))
    answer = api.ask("GET", f"/dlq/letters?{WHOSE}").document
    assert (answer["letters"], answer["shown"]) == (0, [])


def test_letters_are_sent_back_some_at_a_time(api, book):
    bury(book, b"mail", b"send", b"1", b"2", b"3")
    first = api.ask("POST", "/dlq/redrive", NAMED | {"max": 2})
    assert first.document == {"redriven": 2, "left": 1}
    assert api.ask("POST", "/dlq/redrive", NAMED).document == {"redriven": 1, "left": 0}
    assert api.ask("POST", "/dlq/redrive", NAMED).document == {"redriven": 0, "left": 0}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/dlq/redrive", NAMED), ("DELETE", f"/dlq?{WHOSE}", None)],
)
def test_letters_that_are_being_sent_back_are_left_alone(api, book, method, path, body):
    bury(book, b"mail", b"send", b"1")
    book.is_redriving = True
    answer = api.ask(method, path, body)
    assert answer.status == 409
    assert "already" in answer.document["error"]


def test_letters_are_dropped(api, book):
    bury(book, b"mail", b"send", b"1", b"2")
    assert api.ask("DELETE", f"/dlq?{WHOSE}").document == {"dropped": 2}
    assert api.ask("GET", "/dlq").document["dead_letters"] == []


@pytest.mark.parametrize(
    "request_for_letters",
    [
        ("GET", f"/dlq/letters?{WHOSE}"),
        ("POST", "/dlq/redrive", NAMED),
        ("DELETE", f"/dlq?{WHOSE}"),
    ],
)
def test_letters_of_nobody_are_not_found(api, book, request_for_letters):
    """A slip in a name must not look like work that is done."""
    answer = api.ask(*request_for_letters)
    assert (answer.status, answer.document["error"]) == (404, "there is no topic 'mail'")
    book.apply(GroupMade(b"mail", b"archive", 0))
    answer = api.ask(*request_for_letters)
    assert answer.status == 404
    assert answer.document["error"] == "there is no group 'send' of the topic 'mail'"


@pytest.mark.parametrize("maximum", [0, 10_001])
def test_how_many_are_sent_back_at_a_time_is_bounded(api, book, maximum):
    assert api.ask("POST", "/dlq/redrive", NAMED | {"max": maximum}).status == 400
