"""A copy of the data directory holds users and rules, owners and the audit log."""

import shutil

import pytest
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance.wire_client import WireClient, connack, connect_packet, puback, publish

from penstock.access.audit import latest
from penstock.testing import Broker

NOT_AUTHORIZED = 5


def enter(broker, name, code=0, *, present=False):
    client = WireClient(broker.host, broker.port)
    client.send(connect_packet("pump", clean=False, username=name, password=SECRET.encode()))
    client.expect(connack(code=code, session_present=present))
    return client


def audited(broker):
    return [entry.record for entry in latest(broker.server.parts.store, 100)]


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_restored_backup_has_users_owners_and_the_audit_log(tmp_path, is_killed):
    with Broker(data=tmp_path / "data", auth=LOGIN_REQUIRED) as broker:
        broker.add_user("root", SECRET, roles=["admin"])
        for name in ("ann", "bob"):
            broker.add_user(name, SECRET)
        parts = broker.server.parts
        broker.call(parts.audit.cluster_changed, "something", parts.wall_ms())
        with enter(broker, "ann") as ann:
            ann.send(publish("kept", b"x", qos=1, packet_id=1, retain=True))
            ann.expect(puback(1))
        users, version, written = (
            parts.broker.access.users,
            parts.broker.access.version,
            audited(broker),
        )
        broker.stop(kill=is_killed)
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert written
    with Broker(data=tmp_path / "copy", auth=LOGIN_REQUIRED) as restored:
        book = restored.server.broker.access
        assert (book.users, book.version, audited(restored)) == (users, version, written)
        assert restored.server.broker.retained.get(b"kept").author == "ann"
        enter(restored, "bob", NOT_AUTHORIZED).__exit__()
        enter(restored, "ann", present=True).__exit__()
