"""The audit log: what is recorded with which commit, and what is not in it."""

import pytest
from msgspec.structs import replace

from penstock.access.audit import TOPIC, AuditLog, broken_links, latest, read
from penstock.errors import Refused
from penstock.node.access_admin import NodeAccessAdmin
from penstock.node.key_admin import NodeKeyAdmin
from penstock.testing import Broker
from penstock.trust.book import put, removed
from penstock.trust.keys import Key
from penstock.trust.principal import ANYONE
from penstock.trust.rows import User
from penstock.trust.rules import Action
from penstock.trust.touched import touched

CANARY = "$argon2id$canary-in-a-hash"
DIGEST = b"canary-digest-of-32-bytes-------"
ROOT = replace(ANYONE, user="root", door="http", address="192.0.2.7:4711")
ADMIN = User("root", ("admin",), secrets=(DIGEST,))


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


def changed(broker, *changes, expected=-1):
    parts = broker.server.parts

    async def change():
        admin = NodeAccessAdmin(
            parts.config.auth,
            parts.broker,
            parts.admission.denials,
            parts.pipeline,
            parts.cluster,
            parts.clock,
            parts.audit,
        )
        await admin.change(list(changes), ROOT, expected)

    broker._run(change)


def entries(broker):
    return latest(broker.server.parts.store, 100)


def test_a_change_is_recorded_with_who_and_what_in_the_same_commit(broker):
    changed(broker, put(ADMIN))
    changed(broker, put(User("ann", ("client",), password=CANARY)))
    before = broker.server.parts.store.next_index
    changed(broker, put(User("ann", ("client", "monitor"), password=CANARY + "2")))
    last = entries(broker)[-1].record
    assert (last.user, last.door, last.address, last.action) == (
        "root",
        "http",
        "192.0.2.7:4711",
        "access",
    )
    (change,) = last.changes
    assert change["before"]["roles"] == ["client"]
    assert change["after"]["roles"] == ["client", "monitor"]
    assert change["has_new_credentials"] is True
    assert broker.server.parts.store.next_index == before + 1


def test_no_hash_of_a_password_or_secret_is_in_the_log(broker):
    changed(broker, put(ADMIN), put(User("ann", password=CANARY)))
    changed(broker, put(User("ann", password=CANARY + "2")), put(ADMIN))
    changed(broker, removed(User("ann")))
    store = broker.server.parts.store
    payloads = b"".join(m.payload for m in store.read_topic(TOPIC, 0, 100, 1 << 20).messages())
    assert b"canary" not in payloads
    assert b"Y2FuYXJ5" not in payloads  # in base 64


def test_records_are_chained_across_a_kill_and_a_gap_shows(broker):
    changed(broker, put(ADMIN))
    changed(broker, put(User("ann")))
    broker.restart(kill=True)
    changed(broker, put(User("bob")))
    found = entries(broker)
    assert len(found) == 3
    assert broken_links(found) == []
    assert broken_links([found[0], found[2]]) == [found[2].offset]


def test_a_change_that_cannot_be_is_not_recorded(broker):
    changed(broker, put(ADMIN))
    with pytest.raises(Refused, match="last administrator"):
        changed(broker, removed(ADMIN))
    assert len(entries(broker)) == 1


def test_a_change_that_was_overtaken_is_recorded_as_void(broker):
    changed(broker, put(ADMIN))
    with pytest.raises(Refused, match="at the same time"):
        changed(broker, put(User("ann")), expected=99)
    broker._run(broker.server.parts.pipeline.drain)
    assert [one.record.note[:5] for one in entries(broker)] == ["", "", "void:"]
    assert broken_links(entries(broker)) == []


def test_keys_are_recorded(broker):
    parts = broker.server.parts
    key = Key(1, bytes(32), "pump", "plant/*", 1)

    async def store():
        admin = NodeKeyAdmin(
            parts.broker.keys, parts.pipeline, parts.cluster, parts.clock, parts.audit
        )
        await admin.store_keys(key)

    broker._run(store)
    (entry,) = entries(broker)
    assert (entry.record.action, entry.record.changes[0]["after"]["device"]) == ("keys", "pump")


def test_failed_logins_of_the_last_minute_are_recorded_when_the_broker_stops(broker):
    changed(broker, put(ADMIN), put(User("ann")))
    parts = broker.server.parts
    broker.call(lambda: parts.audit.login_failed("ann", "10.0.0.1", "mqtt", parts.wall_ms()))
    broker.restart()
    assert [one.record.user for one in entries(broker) if one.record.count] == ["ann"]


def test_failed_logins_are_summed_up_and_bounded(broker):
    changed(broker, put(ADMIN), put(User("ann")))
    parts = broker.server.parts

    async def fail():
        now_ms = parts.wall_ms()
        for number in range(300):
            for _ in range(2):
                parts.audit.login_failed(
                    "ann", f"10.0.{number // 250}.{number % 250}", "mqtt", now_ms
                )
        parts.audit.login_failed("hunter2", "10.9.9.9", "mqtt", now_ms)
        parts.audit.turn(now_ms + 59_999)
        assert parts.audit._failed
        parts.audit.turn(now_ms + 60_000)
        await parts.pipeline.drain()

    broker._run(fail)
    records = [one.record for one in entries(broker) + read(parts.store, 0)]
    failed = {(one.user, one.address, one.note): one.count for one in records if one.count}
    assert failed["", "", "others"] == 401
    assert failed["ann", "10.0.0.1", ""] == 2
    assert len(failed) == 101
    assert not any("hunter2" in str(one) for one in records)


def test_reading_the_log_needs_an_administrator():
    assert touched(b"$audit/access", Action.READ) == (b"", Action.ADMIN)
    assert touched(b"$audit/#", Action.SUBSCRIBE) == (b"", Action.ADMIN)
    assert touched(b"$signed/$audit/access", Action.SUBSCRIBE) == (b"", Action.ADMIN)


def test_clients_cannot_publish_to_the_log(broker):
    refusal = broker.server.parts.admission.admit(ANYONE, TOPIC)
    assert refusal.reason.value == "topic_reserved"


def test_a_commit_that_fails_leaves_the_chain_as_it_was(broker):
    changed(broker, put(ADMIN))
    audit: AuditLog = broker.server.parts.audit
    before = audit._last
    written = []
    audit_publish, audit._pipeline = (
        audit._pipeline,
        type("P", (), {"publish": lambda *a, **k: written.append(a)})(),
    )
    audit.changed("access", [], ROOT, 1)()
    audit._pipeline = audit_publish
    assert written
    assert audit._last == before
