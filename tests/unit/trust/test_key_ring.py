"""The ring: which keys are in force, what they may do, and what a checkpoint takes."""

import pytest

from penstock.errors import StorageDamaged
from penstock.trust.faults import SignatureFault
from penstock.trust.keys import KEY_ID_MAX, Key, KeyRing, key_fault, rotate
from penstock.trust.signatures import key_pair, sign_1

SEED = bytes(range(32))
NOW = 1_700_000_000_000
HOUR = 3_600_000


def key(key_id=7, seed=SEED, **fields):
    made = {"device": "pump", "topics": "", "created_ms": NOW} | fields
    return Key(id=key_id, public_key=key_pair(seed).public_key, **made)


def ring_with(*keys):
    ring = KeyRing()
    for each in keys:
        ring.put(each)
    return ring


def judge(ring, topic=b"plant/t", key_id=7, seed=SEED, now_ms=NOW):
    return ring.judge(topic, b"x", sign_1(seed, key_id, topic, b"x"), now_ms)


# ── Judging


def test_registered_key_is_accepted():
    assert judge(ring_with(key())) is None


def test_unknown_key_is_told_from_a_bad_signature():
    assert judge(ring_with(key()), key_id=8) is SignatureFault.UNKNOWN_KEY
    assert judge(ring_with(key()), seed=bytes(32)) is SignatureFault.BAD_SIGNATURE


def test_revocation_bites_on_the_next_frame_and_enabling_undoes_it():
    ring = ring_with(key())
    ring.put(key(revoked_ms=NOW))
    assert judge(ring) is SignatureFault.REVOKED_KEY
    ring.put(key())
    assert judge(ring) is None


def test_key_is_in_force_until_the_moment_it_expires():
    ring = ring_with(key(expires_ms=NOW + HOUR))
    assert judge(ring, now_ms=NOW + HOUR - 1) is None
    assert judge(ring, now_ms=NOW + HOUR) is SignatureFault.EXPIRED_KEY


def test_removed_key_is_unknown():
    ring = ring_with(key())
    ring.remove(7)
    ring.remove(8)
    assert judge(ring) is SignatureFault.UNKNOWN_KEY
    assert ring.get(7) is None


def test_permission_is_checked_after_the_signature():
    ring = ring_with(key(topics="plant/*"))
    assert judge(ring) is None
    assert judge(ring, topic=b"other") is SignatureFault.NOT_AUTHORIZED
    assert judge(ring, topic=b"other", seed=bytes(32)) is SignatureFault.BAD_SIGNATURE


def test_changed_topics_are_in_force_at_once():
    ring = ring_with(key(topics="plant/*"))
    ring.put(key(topics="other"))
    assert judge(ring) is SignatureFault.NOT_AUTHORIZED
    assert judge(ring, topic=b"other") is None


# ── Rotation


def test_both_keys_are_in_force_during_the_overlap_and_the_new_one_after_it():
    old = key(topics="plant/*")
    ring = ring_with(old)
    for each in rotate(old, 8, key_pair(bytes(32)).public_key, NOW, HOUR):
        assert not key_fault(each)
        ring.put(each)
    for now_ms, fault in [(NOW, None), (NOW + HOUR, SignatureFault.EXPIRED_KEY)]:
        assert judge(ring, now_ms=now_ms) is fault
        assert judge(ring, key_id=8, seed=bytes(32), now_ms=now_ms) is None
    assert ring.get(7).successor == 8
    assert (ring.get(8).device, ring.get(8).topics) == ("pump", "plant/*")


def test_new_key_is_stored_first_so_that_a_failure_locks_nobody_out():
    assert [each.id for each in rotate(key(), 8, bytes(32), NOW, HOUR)] == [8, 7]


def test_rotation_keeps_the_lifetime_and_never_lengthens_the_old_key():
    old = key(created_ms=NOW - 9 * HOUR, expires_ms=NOW + HOUR)
    new, ending = rotate(old, 8, bytes(32), NOW, 5 * HOUR)
    assert new.expires_ms == NOW + 10 * HOUR
    assert ending.expires_ms == NOW + HOUR


# ── Ids


def test_ids_are_given_above_all_others():
    assert KeyRing().next_id() == 1
    assert ring_with(key(3), key(41)).next_id() == 42


def test_lowest_free_id_is_given_when_the_highest_is_taken():
    assert ring_with(key(1), key(2), key(KEY_ID_MAX)).next_id() == 3


def test_keys_are_listed_by_id():
    ring = ring_with(key(9), key(2), key(5))
    assert [each.id for each in ring.all()] == [2, 5, 9]
    assert len(ring) == 3


# ── What may be registered


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"key_id": 0}, "key id"),
        ({"key_id": KEY_ID_MAX + 1}, "key id"),
        ({"device": ""}, "device name"),
        ({"device": "../etc"}, "device name"),
        ({"device": "-rf"}, "device name"),
        ({"device": "a" * 65}, "device name"),
        ({"device": "pump\n"}, "device name"),
        ({"device": "pümp"}, "device name"),
        ({"topics": "a/#/b"}, "topics: 'a/#/b'"),
    ],
)
def test_key_that_may_not_be_registered(fields, fault):
    assert fault in key_fault(key(**fields))


def test_key_that_may_be_registered():
    assert key_fault(key(KEY_ID_MAX, device="a" * 64, topics="a/+,b*")) == ""
    assert "32 bytes" in key_fault(Key(1, b"", "pump", "", NOW))


# ── Rows


def test_row_is_read_back():
    original = key(topics="a,b", expires_ms=1, revoked_ms=2, successor=3)
    assert Key.decode(original.encode()) == original


@pytest.mark.parametrize("row", [b"", b"\xc1", b"\x90", key().encode()[:-1]])
def test_row_that_is_no_key_is_damage(row):
    with pytest.raises(StorageDamaged):
        Key.decode(row)


def test_changes_leave_once_in_the_order_in_which_they_began():
    ring = ring_with(key(2), key(1), key(2, topics="a"))
    ring.remove(1)
    assert ring.dirty_count == 2
    assert ring.take_dirty(1) == [(b"\0\0\0\2", key(2, topics="a"))]
    assert ring.take_dirty(5) == [(b"\0\0\0\1", None)]
    assert ring.take_dirty(5) == []


def test_row_of_a_removed_key_is_deleted():
    ring = ring_with(key(1))
    ring.take_dirty(9)
    ring.remove(1)
    assert ring.take_dirty(9) == [(b"\0\0\0\1", None)]


def test_rows_that_were_not_written_are_taken_again():
    ring = ring_with(key(2))
    ((row_key, _),) = ring.take_dirty(9)
    ring.mark_dirty([row_key])
    assert ring.take_dirty(9) == [(row_key, key(2))]


def test_restored_key_is_in_force_and_not_dirty():
    ring = KeyRing()
    ring.restore(key())
    assert judge(ring) is None
    assert ring.dirty_count == 0
