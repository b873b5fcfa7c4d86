"""The API against its own description: every operation, valid and invalid requests, a real broker.

Schemathesis makes the requests from the OpenAPI document and compares each answer with it.
"""

import json
from base64 import b64encode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import __version__
from penstock.api.openapi import openapi
from penstock.api.resources import RESOURCES, all_operations
from penstock.api.throttle import Throttle
from penstock.testing import Broker
from tests.api_kit import BASE, ApiClient

schemathesis = pytest.importorskip("schemathesis")
conformance = pytest.importorskip("schemathesis.specs.openapi.checks")

OPERATIONS = all_operations()
CHECKS = [
    pytest.importorskip("schemathesis.checks").not_a_server_error,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
]
KNOWN = {"topic": "plant/p7/temp", "group": "send"}  # names that made-up requests would never hit
ENDLESS = {"get_stream"}  # tests/unit/api/test_stream.py has it


@pytest.fixture(scope="module")
def broker():
    """With something of everything, and patient with those who ask a thousand things."""
    with pytest.MonkeyPatch.context() as patch, Broker(sys={"interval_s": 1}) as broker:
        patch.setattr(Throttle, "check", lambda *_arguments: None)
        fill(ApiClient(broker.port))
        yield broker


def fill(api):
    for topic in ("plant/p7/temp", "plant/p8/temp", "jobs", "grüße/🌡"):
        for n in range(3):
            payload = b64encode(json.dumps({"c": n}).encode()).decode()
            answer = api.post("messages", {"topic": topic, "base64": payload, "retain": n == 2})
            assert answer.status == 200, answer
    for group in ("send", "count"):
        assert api.ask("PUT", "/groups", {"topic": "jobs", "group": group}).status == 200


@pytest.fixture(scope="module")
def schema(broker):
    document = openapi(OPERATIONS, __version__)
    made = schemathesis.openapi.from_dict(document)
    made.config.update(base_url=f"http://127.0.0.1:{broker.port}{BASE}")
    return made


@pytest.mark.parametrize("id_", [o.id for o in OPERATIONS if o.id not in ENDLESS])
def test_operation_answers_as_it_is_described(schema, id_):
    described = next(o for o in OPERATIONS if o.id == id_)

    @settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=schema[f"/{described.path}"][described.method].as_strategy(), is_known=st.booleans()
    )
    def ask(case, is_known):
        if is_known:
            use_known_names(case)
        case.call_and_validate(checks=CHECKS)

    ask()


def use_known_names(case):
    for part in (case.query, case.body):
        if isinstance(part, dict):
            part.update({name: text for name, text in KNOWN.items() if name in part})
    if case.headers is not None:
        case.headers.pop("Idempotency-Key", None)  # else most changes repeat another one


def test_description_and_routes_are_the_same(broker):
    served = ApiClient(broker.port).get("openapi.json").document
    named = {
        (method.upper(), path.lstrip("/"))
        for path, methods in served["paths"].items()
        for method in methods
    }
    assert named == {(o.method, o.path) for o in OPERATIONS}
    for method, path in named:
        other = {"GET", "POST", "PUT", "DELETE", "PATCH"} - {m for m, p in named if p == path}
        answer = ApiClient(broker.port).ask(other.pop(), path)
        assert (answer.status, answer.document["code"]) == (405, "method_not_allowed")
        assert method in answer.headers["allow"]


def test_every_operation_is_explained():
    assert len({o.id for o in OPERATIONS}) == len(OPERATIONS)
    for operation in OPERATIONS:
        assert operation.summary.endswith("."), operation.id
        assert operation.answer is not None or operation.media_type, operation.id
    assert len(RESOURCES) == len(set(RESOURCES))
