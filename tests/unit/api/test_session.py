"""``session``, asked of a real broker."""

import pytest
from tests.api_kit import ApiClient

from penstock.testing import Broker


def rights(answer):
    assert answer.status == 200, answer
    return {r["action"]: (r["allowed"], r["topics"]) for r in answer.document["rights"]}


def test_without_users_everybody_on_this_machine_may_do_everything():
    with Broker() as broker:
        answer = ApiClient(broker.port).get("session")
    assert answer.document["user"] == ""
    assert not answer.document["has_users"]
    assert rights(answer)["publish"] == (True, "all")
    assert rights(answer)["admin"] == (True, "")


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.add_user("root", "root-secret", roles=("admin",))
        broker.add_user("sensor", "sensor-secret", rules=("allow publish plant/#",))
        yield broker


def test_user_learns_what_they_may_do(broker):
    answer = ApiClient(broker.port, "sensor", "sensor-secret").get("session")
    assert (answer.document["user"], answer.document["via"]) == ("sensor", "secret")
    assert answer.document["has_users"]
    assert rights(answer) == {
        "publish": (True, "some"),
        "subscribe": (False, "none"),
        "read": (False, "none"),
        "work": (False, "none"),
        "manage": (False, "none"),
        "monitor": (False, ""),
        "admin": (False, ""),
    }


def test_wrong_secret_is_a_problem(broker):
    answer = ApiClient(broker.port, "sensor", "wrong").get("session")
    assert (answer.status, answer.document["code"]) == (401, "unauthenticated")
    assert answer.headers["content-type"] == "application/problem+json"


def test_description_is_there_for_everybody(broker):
    answer = ApiClient(broker.port).get("openapi.json")
    assert answer.document["openapi"] == "3.1.0"
    assert "/session" in answer.document["paths"]
