"""Every change that the API offers leaves a record in the audit log, of who made it."""

import pytest

from penstock.api.resources import all_operations
from penstock.client import Credentials, connect
from penstock.testing import Broker
from penstock.trust.signatures import key_pair
from tests.api_kit import ApiClient
from tests.conformance.wire_client import wait_until

CHANGES_NOTHING = {"post_csp_reports", "post_why_publish", "post_access_plan"}
NO_ADMINISTRATION = {"post_session", "delete_session", "post_messages"}
OF_NODES = {"post_cluster_init", "post_cluster_transfer", "post_cluster_members"}
OF_NODES |= {"delete_cluster_members"}  # tests/e2e/test_api_cluster.py has those
OF_SPARK = {"delete_sinks"}  # tests/unit/api/test_spark.py
GROUP = {"topic": "jobs", "group": "send"}
SECRET = "root-secret"


def hexadecimal(seed):
    return key_pair(bytes([seed]) * 32).public_key.hex()


def steps():
    """Method, path and fields, in an order that works; or what makes fields of earlier answers."""
    once = {"name": "later", "topic": "jobs", "text": "x", "in_s": 3600}
    letters = {**GROUP, "max": 1}
    return [
        ("POST", "users", {"name": "ann", "roles": ["client"]}),
        ("PATCH", "users", {"name": "ann", "note": "x"}),
        ("PUT", "roles", {"name": "r", "rules": ["allow read a"]}),
        ("DELETE", "roles", {"name": "r"}),
        ("POST", "tokens", {"owner": "ann"}),
        ("DELETE", "tokens", lambda made: {"name": made["tokens"]["id"]}),
        ("POST", "tokens", {"owner": "ann", "invitation": True}),
        (
            "POST",
            "users/password",
            lambda made: {"invitation": made["tokens"]["token"], "password": "a long new one"},
        ),
        ("DELETE", "users", {"name": "ann"}),
        ("PUT", "bans", {"name": "user:eve"}),
        ("DELETE", "bans", {"name": "user:eve"}),
        ("POST", "access/apply", {"document": {"roles": {"s": {"rules": ["allow read b"]}}}}),
        ("POST", "keys", {"device": "d", "topics": "*", "public_key": hexadecimal(1)}),
        ("POST", "keys/revoke", {"id": 1}),
        ("POST", "keys/enable", {"id": 1}),
        ("POST", "keys/rotate", {"id": 1, "public_key": hexadecimal(2), "overlap_s": 60}),
        ("POST", "schedules", once),
        ("DELETE", "schedules", {"name": "later"}),
        ("PATCH", "queues", {"topic": "other", "keep": True}),
        ("DELETE", "queues", {"topic": "other"}),
        ("POST", "groups", {"topic": "jobs", "group": "count"}),
        ("PATCH", "groups", {"topic": "jobs", "group": "count", "seek": "latest"}),
        ("DELETE", "groups", {"topic": "jobs", "group": "count"}),
        ("POST", "dlq/redrive", letters),
        ("POST", "dlq/delete", letters),
        ("DELETE", "retained", {"filter": "kept"}),
        ("POST", "retained/undo", lambda made: {"undo": made["retained"]["undo"]}),
        ("DELETE", "clients", {"client_id": "pump"}),
        ("DELETE", "sessions", {"client_id": "pump"}),
        ("DELETE", "topics", {"name": "jobs"}),
    ]


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.add_user("root", SECRET, rules=["allow all"])
        yield broker


def prepare(broker):
    """Two dead letters, a retained message, a client with a session that stays connected."""
    login = Credentials("root", SECRET)
    with connect([f"127.0.0.1:{broker.port}"], credentials=login) as client:
        client.create_group("jobs", "send")
        client.configure_group("jobs", "send", max_deliveries=1)
        client.produce_many("jobs", [b"1", b"2"])
        client.nack(client.poll("jobs", "send", max=2), reason="broken")
        wait_until(lambda: len(list(client.dead_letters("jobs", "send"))) == 2)
    connected = connect(
        "127.0.0.1", broker.port, "pump", clean_session=False, credentials=login, version=5
    )
    connected.publish("kept", b"x", 1, retain=True)
    return connected


def test_every_change_is_recorded_with_who_made_it(broker):
    operations = {(one.method, one.path): one for one in all_operations() if one.is_change}
    api = ApiClient(broker.port, "root", SECRET)

    def last():
        (latest,) = api.get("audit", limit=1).document["items"]
        return latest

    made, tried = {}, set()
    with prepare(broker):
        for method, path, fields in steps():
            asked = fields(made) if callable(fields) else fields
            operation, before = operations[method, path], last()["offset"]
            if operation.body is None:
                answer = api.ask(method, path, **asked)
            else:
                answer = api.ask(method, path, asked)
            assert answer.status == 200, (method, path, answer)
            made[path], record = answer.document, last()
            assert record["offset"] > before, f"{method} {path} leaves no record"
            who = "ann" if path == "users/password" else "root"
            assert record["user"] == who, (method, path)
            tried.add(operation.id)
    exempt = CHANGES_NOTHING | NO_ADMINISTRATION | OF_NODES | OF_SPARK
    assert {one.id for one in operations.values()} - exempt == tried
