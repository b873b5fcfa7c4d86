"""Calls as JSON: what can be sent, what is refused, and what the refusal says."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from uuid import UUID

import pytest

from penstock.client.errors import ArgumentError
from penstock.tasks.signature import Signature


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


def draw(
    at: Point, colour: Colour = Colour.RED, when: datetime | None = None, *, tag: bytes = b""
) -> UUID:
    return UUID(int=7)


def there_and_back(function, *arguments, **keywords):
    signature = Signature(function)
    return signature.decode(signature.encode(arguments, keywords))


def test_arguments_arrive_as_the_types_of_their_annotations():
    when = datetime(2026, 1, 31, tzinfo=UTC)
    found = there_and_back(draw, Point(1, 2), Colour.RED, when=when, tag=b"\xff")
    assert found == {"at": Point(1, 2), "colour": Colour.RED, "when": when, "tag": b"\xff"}


def test_only_what_was_given_is_sent_and_the_worker_adds_its_defaults():
    assert Signature(draw).encode((Point(1),), {}) == b'{"at":{"x":1,"y":0}}'
    found = there_and_back(draw, Point(1))
    assert found == {"at": Point(1), "colour": Colour.RED, "when": None, "tag": b""}


def test_a_result_arrives_as_the_type_of_its_annotation():
    signature = Signature(draw)
    assert signature.decode_result(signature.encode_result(draw(Point(1)))) == UUID(int=7)


def test_without_annotations_json_is_taken_as_it_is():
    def loose(one, two=(3, 4)):
        pass

    assert there_and_back(loose, {"a": [1, None]}) == {"one": {"a": [1, None]}, "two": (3, 4)}


def test_a_default_that_can_change_is_taken_as_it_is():
    shared = {"a": 1}

    def task(options: dict[str, int] = shared) -> None:
        pass

    assert there_and_back(task) == {"options": {"a": 1}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "missing a required argument: 'at'"), ((1, 2, 3, 4), "too many positional arguments")],
)
def test_a_call_that_python_would_refuse_is_refused_in_the_same_words(arguments, said):
    with pytest.raises(TypeError, match=rf"^draw\(\) {said}"):
        Signature(draw).encode(arguments, {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((Point("1"),), r"Expected `int`, got `str` - at `\$.at.x`"),
        ((object(),), "type object is unsupported"),
    ],
)
def test_a_wrong_type_is_told_to_the_sender(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        Signature(draw).encode(arguments, {})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"at": {"x": 1}, "size": 3}', "unknown field `size`"),
        (b"{}", "missing required field `at`"),
        (b"4.2", "Expected `object`, got `float`"),
        (b"\xff", "malformed|utf-8"),
        (b"", "truncated"),
    ],
)
def test_a_job_that_does_not_fit_is_refused_by_the_worker(body, said):
    with pytest.raises(ArgumentError, match=said):
        Signature(draw).decode(body)


def positional(one, /):
    pass


def many(*ones):
    pass


def named(**options):
    pass


def opaque(one: Signature):
    pass


def secret() -> Signature:
    pass


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional, "positional-only"),
        (many, r"take a list instead of \*ones"),
        (named, r"take a dict instead of \*\*options"),
        (opaque, "the annotations of opaque are not for JSON"),
        (secret, "the annotations of secret are not for JSON"),
    ],
)
def test_a_function_whose_calls_are_no_json_objects_is_refused_when_it_is_declared(function, said):
    with pytest.raises(ArgumentError, match=said):
        Signature(function)


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentError, match="is no function"):
        Signature(partial(draw, tag=b""))
