"""From the declaration of an operation to its route, its checks and its description."""

import threading
from typing import Annotated

import msgspec
import pytest
from tests.api_kit import served

from penstock import errors
from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import Count, ListQuery, Query, moment
from penstock.api.openapi import openapi
from penstock.api.operations import Resource, operation, operations_of
from penstock.api.paging import first_of
from penstock.api.problems import Problem
from penstock.trust.rules import Action


class Fruit(msgspec.Struct):
    """A fruit."""

    name: str
    grams: int = 0


class Basket(msgspec.Struct):
    """Fruits by name."""

    items: list[Fruit]
    next: str | None = None


class FruitQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ripe: bool = False
    colour: list[str] = []
    least: Annotated[Count, msgspec.Meta(description="In grams.")] = 0


class Wrong(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    how: str


class NewFruit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    grams: int = 0


class Fruits(Resource):
    """Fruits."""

    @operation("GET", "fruits", Action.MONITOR)
    async def list(self, call: Call, query: FruitQuery) -> Basket:
        """List fruits.

        In the order of their names.
        """
        after = key_of("fruits", query.cursor, str) or ""
        names = [name for name in ("apple", "fig", "pear", "plum") if name > after]
        part = first_of("fruits", names, query.limit, Fruit, lambda name: name)
        return Basket(*part)

    @operation("GET", "fruits/asked", Action.MONITOR)
    async def asked(self, call: Call, query: FruitQuery) -> Fruit:
        """Repeat the question."""
        return Fruit(f"{query.ripe} {query.colour} {query.least}", query.limit)

    @operation("POST", "fruits", Action.MANAGE)
    async def add(self, call: Call, body: NewFruit) -> Fruit:
        """Add a fruit."""
        return Fruit(body.name, body.grams)

    @operation("PUT", "fruits/raw", Action.MANAGE, body_bytes_max=10)
    async def raw(self, call: Call, body: bytes) -> Fruit:
        """Add a fruit by its bytes."""
        return Fruit(body.decode())

    @operation("GET", "fruits/thread", Action.MONITOR)
    async def thread(self, call: Call) -> Fruit:
        """Name the thread that reads."""
        return Fruit(str(await call.read(threading.get_ident) == threading.get_ident()))

    @operation("GET", "fruits/huge", Action.MONITOR)
    async def huge(self, call: Call) -> Fruit:
        """Answer too much."""
        return Fruit("x" * (4 << 20))

    @operation("GET", "fruits/wrong", Action.MONITOR)
    async def wrong(self, call: Call, query: Wrong) -> Fruit:
        """Go wrong."""
        raise {
            "gone": Problem(404, "not_found", "no such fruit", "look elsewhere"),
            "follower": errors.NotLeader(2, "node-2:1883"),
            "disk": errors.StorageFull("the disk is full"),
            "quorum": errors.NoQuorum("cut off"),
            "changed": errors.AccessConflict("changed since"),
            "refused": errors.Refused("too many"),
            "bug": KeyError("oops"),
        }[query.how]


@pytest.fixture(scope="module")
def api():
    class View:
        version = "9.8.7"

    with served(View(), Fruits) as client:
        yield client


def test_answer_is_the_struct(api):
    answer = api.get("fruits")
    assert answer.status == 200
    assert [fruit["name"] for fruit in answer.document["items"]] == ["apple", "fig", "pear", "plum"]
    assert answer.document["next"] is None
    assert answer.headers["cache-control"] == "no-store"


def test_list_goes_on_at_its_cursor(api):
    first = api.get("fruits", limit=3).document
    rest = api.get("fruits", limit=3, cursor=first["next"]).document
    assert [fruit["name"] for fruit in rest["items"]] == ["plum"]
    assert rest["next"] is None


@pytest.mark.parametrize("cursor", ["x", "!!", "gqR4eHh4", "wA", "gqZmcnVpdHMF", "%00", "é"])
def test_cursor_that_is_none_of_this_list_is_refused(api, cursor):
    answer = api.get("fruits", cursor=cursor)
    assert (answer.status, answer.document["code"]) == (400, "invalid_cursor")


def test_parameters_become_their_types(api):
    answer = api.get("fruits/asked", ripe="", colour=["red", "green"], least="7", limit="1000")
    assert answer.document == {"name": "True ['red', 'green'] 7", "grams": 1000}


def test_unknown_parameter_is_refused_with_those_that_are_known(api):
    answer = api.get("fruits", offset="1")
    assert (answer.status, answer.document["code"]) == (400, "unknown_parameter")
    assert answer.document["advice"] == "this operation takes cursor, limit, ripe, colour, least"
    assert answer.document["fields"] == [{"name": "offset", "detail": "is unknown"}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "1001"),
        ("limit", "ten"),
        ("limit", ["1", "2"]),
        ("least", "-1"),
        ("least", str(2**53 + 1)),
        ("ripe", "maybe"),
    ],
)
def test_wrong_parameter_is_named(api, name, value):
    answer = api.get("fruits", **{name: value})
    assert (answer.status, answer.document["code"]) == (400, "invalid_parameter")
    assert [field["name"] for field in answer.document["fields"]] == [name]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, ""),
        ({"name": 7}, "name"),
        ({"name": "fig", "grams": "1"}, "grams"),
        ({"name": "fig", "weight": 1}, ""),
        ([], ""),
        (b"", None),
        (b"{", None),
        (b"\xff", None),
        (b'{"name": "\xff"}', None),
        (b'{"name":' + b"[" * 9_000, "name"),
    ],
)
def test_wrong_body_is_refused_with_what_is_expected(api, body, name):
    answer = api.post("fruits", body)
    assert (answer.status, answer.document["code"]) == (400, "invalid_body")
    assert answer.document["advice"] == "send a JSON object with name, grams"
    assert [f["name"] for f in answer.document["fields"]] == ([] if name is None else [name])


def test_body_comes_as_bytes_if_that_is_declared(api):
    assert api.ask("PUT", "fruits/raw", b"fig").document["name"] == "fig"


def test_body_is_bounded(api):
    answer = api.ask("PUT", "fruits/raw", b"x" * 11)
    assert (answer.status, answer.document["code"]) == (413, "too_large")


def test_reading_is_done_in_a_thread(api):
    assert api.get("fruits/thread").document["name"] == "False"


def test_too_large_an_answer_is_refused(api):
    answer = api.get("fruits/huge")
    assert (answer.status, answer.document["code"]) == (400, "answer_too_large")


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("gone", 404, "not_found"),
        ("follower", 421, "not_leader"),
        ("disk", 503, "storage_failed"),
        ("quorum", 503, "no_quorum"),
        ("changed", 409, "conflict"),
        ("refused", 409, "refused"),
        ("bug", 500, "internal_error"),
    ],
)
def test_error_becomes_a_problem_document(api, how, status, code):
    answer = api.get("fruits/wrong", how=how)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.document["type"] == f"urn:penstock:problem:{code}"
    assert answer.document["code"] == code
    assert answer.document["status"] == status
    assert answer.document["instance"] == "/api/v1/fruits/wrong"


def test_refusal_of_a_follower_names_the_leader(api):
    assert api.get("fruits/wrong", how="follower").document["leader_addr"] == "node-2:1883"


def test_unknown_path_is_a_problem(api):
    answer = api.get("vegetables")
    assert (answer.status, answer.document["code"]) == (404, "not_found")
    assert api.get("fruits/").status == 404


def test_other_method_is_refused_with_those_that_are_known(api):
    answer = api.ask("PATCH", "fruits")
    assert (answer.status, answer.document["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_declaration_is_described():
    document = openapi(operations_of(Fruits), "1")
    described = document["paths"]["/fruits"]["get"]
    assert described["operationId"] == "get_fruits"
    assert described["summary"] == "List fruits."
    assert described["description"] == "In the order of their names.\n\nNeeds: `monitor`."
    names = [parameter["name"] for parameter in described["parameters"]]
    assert names == ["cursor", "limit", "ripe", "colour", "least"]
    assert described["parameters"][-1]["description"] == "In grams."
    assert "FruitQuery" not in document["components"]["schemas"]
    assert document["components"]["schemas"]["Fruit"]["required"] == ["name"]


def test_page_is_cut_by_bytes():
    page = first_of("big", range(9), 9, lambda n: "x" * (1 << 20), lambda n: n)
    assert len(page.items) == 3
    assert key_of("big", page.next, int) == 2


def test_moment_has_milliseconds_and_is_in_utc():
    assert moment(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
