"""The gate: policy, key, permission and replay in their order, counted, with the right texts."""

import pytest
from msgspec.structs import replace

from penstock.config.schema import Signing, SigningRule
from penstock.trust.faults import TEXT_BYTES_MAX, SignatureFault, SignatureRefusal
from penstock.trust.gate import Gate
from penstock.trust.keys import Key, KeyRing
from penstock.trust.policy import Demand, Policy
from penstock.trust.replay import ReplayWindow
from penstock.trust.signatures import key_pair, sign_1, sign_2

SEED = bytes(range(32))
NOW = 1_700_000_000_000
TOPIC = b"secure/pump"
KEY = Key(7, key_pair(SEED).public_key, "pump", "secure/*,free,strict", NOW)
BOTH = frozenset({1, 2})


def gate(signing=None, key=KEY, nonces_max=10):
    ring = KeyRing()
    ring.put(key)
    return Gate(ring, Policy(signing or Signing()), ReplayWindow(300_000, nonces_max, NOW - 1_000))


def signed(topic=TOPIC, nonce=b"nonce..1", signed_ms=NOW, key_id=7, seed=SEED):
    return sign_2(seed, key_id, topic, b"x", signed_ms=signed_ms, nonce=nonce)


def reason(refusal):
    return refusal and refusal.reason


# ── The policy


@pytest.mark.parametrize("topic", [b"secure/", b"secure/a", b"secure/a/b"])
def test_topics_under_secure_demand_a_signature(topic):
    assert Policy(Signing()).of(topic) == Demand(True, BOTH)
    assert gate().demands_signature(topic)


@pytest.mark.parametrize("topic", [b"secure", b"Secure/a", b"a/secure/b", b"", b"/secure/a"])
def test_other_topics_are_free(topic):
    assert Policy(Signing()).of(topic) == Demand(False, BOTH)
    assert not gate().demands_signature(topic)


def test_first_rule_that_matches_decides_and_rules_come_before_required():
    rules = (
        SigningRule(filter="secure/open/#", required=False),
        SigningRule(filter="secure/open/not", versions=(1,)),
        SigningRule(filter="plant/+/commands", versions=(2,)),
        SigningRule(filter="edge/*"),
    )
    policy = Policy(Signing(versions=(1, 2), rules=rules))
    assert policy.of(b"secure/open/not") == Demand(False, BOTH)
    assert policy.of(b"secure/else") == Demand(True, BOTH)
    assert policy.of(b"plant/7/commands") == Demand(True, frozenset({2}))
    assert policy.of(b"edge/x") == Demand(True, BOTH)
    assert policy.of(b"edge") == Demand(False, BOTH)


def test_rule_without_versions_has_those_of_the_section():
    policy = Policy(Signing(versions=(2,), rules=(SigningRule(filter="a"),)))
    assert policy.of(b"a").versions == {2}
    assert policy.of(b"other").versions == {2}


def test_nothing_is_demanded_where_nothing_is_required():
    assert not Policy(Signing(required=())).of(b"secure/a").required


# ── The gate


def test_unsigned_publish_is_refused_where_a_signature_is_demanded():
    door = gate()
    assert door.admit_unsigned(b"free") is None
    assert door.admit_unsigned(TOPIC) == SignatureRefusal(
        SignatureFault.UNSIGNED,
        "Topic 'secure/pump' requires signed publish (CMD_SIGNED_PUBLISH)",
    )
    assert door.failures[SignatureFault.UNSIGNED] == 1
    assert door.verifications_total == 0


def test_version_1_is_accepted_again_and_again():
    door, signature = gate(), sign_1(SEED, 7, TOPIC, b"x")
    assert [door.admit_signed(TOPIC, b"x", signature, NOW) for _ in range(2)] == [None, None]


def test_version_2_is_accepted_once():
    door = gate()
    assert door.admit_signed(TOPIC, b"x", signed(), NOW) is None
    assert reason(door.admit_signed(TOPIC, b"x", signed(), NOW)) is SignatureFault.REPLAYED


def test_signature_on_a_free_topic_must_be_right_too():
    refusal = gate().admit_signed(b"free", b"tampered", signed(b"free"), NOW)
    assert reason(refusal) is SignatureFault.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("key", "signature"),
    [
        (KEY, signed(key_id=8)),
        (KEY, signed(seed=bytes(32))),
        (replace(KEY, revoked_ms=1), signed()),
        (replace(KEY, expires_ms=1), signed()),
    ],
    ids=["unknown_key", "bad_signature", "revoked_key", "expired_key"],
)
def test_client_cannot_tell_why_a_signature_is_invalid_but_the_operator_can(
    key, signature, request
):
    door = gate(key=key)
    refusal = door.admit_signed(TOPIC, b"x", signature, NOW)
    assert refusal.text == "Invalid signature or unknown key"
    assert refusal.reason.value == request.node.callspec.id
    assert [fault for fault, count in door.failures.items() if count] == [refusal.reason]


def test_key_without_permission_is_told_so():
    refusal = gate().admit_signed(b"other", b"x", signed(b"other"), NOW)
    assert refusal == SignatureRefusal(
        SignatureFault.NOT_AUTHORIZED,
        "Key not authorized for topic 'other'",
        "not_authorized: key 7",
    )


def test_version_that_a_topic_does_not_accept_is_refused():
    door = gate(Signing(rules=(SigningRule(filter="strict", versions=(2,)),)))
    signature = sign_1(SEED, 7, b"strict", b"x")
    assert reason(door.admit_signed(b"strict", b"x", signature, NOW)) is (
        SignatureFault.VERSION_REFUSED
    )
    assert door.admit_signed(b"strict", b"x", signed(b"strict"), NOW) is None


def test_unknown_version_is_refused():
    strange = replace(signed(), version=3)
    assert reason(gate().admit_signed(TOPIC, b"x", strange, NOW)) is SignatureFault.VERSION_REFUSED


@pytest.mark.parametrize(
    ("signed_ms", "fault"),
    [
        (NOW - 300_001, SignatureFault.STALE),
        (NOW + 60_000, SignatureFault.AHEAD),
        (NOW - 1_001, SignatureFault.BEFORE_START),
    ],
)
def test_version_2_of_the_wrong_time_is_refused(signed_ms, fault):
    refusal = gate().admit_signed(TOPIC, b"x", signed(signed_ms=signed_ms), NOW)
    assert reason(refusal) is fault


def test_full_window_refuses():
    door = gate(nonces_max=1)
    assert door.admit_signed(TOPIC, b"x", signed(), NOW) is None
    other = signed(nonce=b"nonce..2")
    assert reason(door.admit_signed(TOPIC, b"x", other, NOW)) is SignatureFault.WINDOW_FULL


def test_refused_signatures_take_no_place_in_the_window():
    """Else a stranger could fill it, or use up the nonce of an honest device."""
    door = gate(nonces_max=1)
    forged = replace(signed(), signature=bytes(64))
    assert reason(door.admit_signed(TOPIC, b"x", forged, NOW)) is SignatureFault.BAD_SIGNATURE
    refused = door.admit_signed(b"other", b"x", signed(b"other"), NOW)
    assert reason(refused) is SignatureFault.NOT_AUTHORIZED
    assert door.admit_signed(TOPIC, b"x", signed(), NOW) is None


def test_every_judgement_and_every_failure_is_counted():
    door = gate()
    assert set(door.failures) == set(SignatureFault)
    door.admit_signed(TOPIC, b"x", signed(), NOW)
    door.admit_signed(TOPIC, b"x", signed(), NOW)
    door.admit_signed(TOPIC, b"y", signed(), NOW)
    assert door.verifications_total == 3
    assert {f: n for f, n in door.failures.items() if n} == {
        SignatureFault.REPLAYED: 1,
        SignatureFault.BAD_SIGNATURE: 1,
    }


# ── The texts


@pytest.mark.parametrize("fault", SignatureFault)
@pytest.mark.parametrize(
    "topic", [b"t" * 1_024, "ü".encode() * 512, "€".encode() * 341, b"\xff" * 1_024]
)
def test_text_for_the_client_is_bounded_and_whole_characters(fault, topic):
    text = SignatureRefusal.of(fault, topic).text
    assert 0 < len(text.encode()) <= TEXT_BYTES_MAX
    assert "{" not in text


def test_topic_is_cut_only_where_it_must_be():
    longest = b"t" * (TEXT_BYTES_MAX - len("Key not authorized for topic ''"))
    assert "…" not in SignatureRefusal.of(SignatureFault.NOT_AUTHORIZED, longest).text
    assert "t…'" in SignatureRefusal.of(SignatureFault.NOT_AUTHORIZED, longest + b"t").text


def test_topic_with_braces_is_shown_as_it_is():
    text = SignatureRefusal.of(SignatureFault.NOT_AUTHORIZED, b"{topic}{0}").text
    assert text == "Key not authorized for topic '{topic}{0}'"
