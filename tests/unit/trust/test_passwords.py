"""Hashes of passwords: ours, those of others, and those that must not be worked on."""

import shutil
import subprocess

import pytest

from penstock.trust import passwords
from penstock.trust.passwords import (
    Cost,
    dummy_hash,
    hash_fault,
    hash_password,
    is_proof_of,
    is_weak,
    password_fault,
    password_proof,
    rehash_mark,
    verify,
)

CHEAP = Cost(8 * 1024 * 1024, 1)
SALT = bytes(range(16))

# From the tests of the reference implementation of Argon2.
VECTORS = [
    "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
]


@pytest.mark.parametrize("text", VECTORS)
def test_a_hash_of_the_reference_implementation_is_verified(text):
    assert verify(text, b"password")
    assert not verify(text, b"passwore")


def test_a_new_hash_says_what_it_cost_and_verifies_its_password_alone():
    text = hash_password(b"correct horse", SALT)
    assert text.startswith("$argon2id$v=19$m=19456,t=2,p=1$AAECAwQFBgcICQoLDA0ODw$")
    assert verify(text, b"correct horse")
    assert not verify(text, b"correct horse ")
    assert not is_weak(text)
    assert not hash_fault(text)


def test_another_salt_makes_another_hash():
    one, two = (hash_password(b"correct horse", salt, CHEAP) for salt in (SALT, SALT[::-1]))
    assert one != two


@pytest.mark.skipif(not shutil.which("mosquitto_passwd"), reason="needs mosquitto_passwd")
@pytest.mark.parametrize(("method", "prefix"), [("sha512", "$6$"), ("sha512-pbkdf2", "$7$")])
def test_hashes_of_mosquitto_are_verified_and_weak(tmp_path, method, prefix):
    file = tmp_path / "passwords"
    file.touch(mode=0o600)
    subprocess.run(
        ["mosquitto_passwd", "-H", method, "-b", str(file), "ann", "correct horse"], check=True
    )
    text = file.read_text().strip().partition(":")[2]
    assert text.startswith(prefix)
    assert not hash_fault(text)
    assert verify(text, b"correct horse")
    assert not verify(text, b"correct house")
    assert is_weak(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        "$argon2id$v=19$m=9999999,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=999,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=65536,t=2,p=64$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=4294967295,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        "$7$9999999$c2FsdHNhbHRzYWx0$" + "A" * 86 + "==",
        "$7$0$c2FsdHNhbHRzYWx0$" + "A" * 86 + "==",
        "$6$c2FsdA==$short",
    ],
)
def test_a_hash_that_is_malformed_or_costs_too_much_is_refused_unhashed(text, monkeypatch):
    def must_not_hash(*_arguments):
        raise AssertionError

    monkeypatch.setattr(passwords, "crypto_pwhash_str_verify", must_not_hash)
    monkeypatch.setattr(passwords, "pbkdf2_hmac", must_not_hash)
    monkeypatch.setattr(passwords, "sha512", must_not_hash)
    assert hash_fault(text)
    assert not verify(text, b"password")


def test_a_giant_password_is_refused_unhashed(monkeypatch):
    monkeypatch.setattr(passwords, "crypto_pwhash_str_verify", lambda *_: pytest.fail("hashed"))
    assert not verify(VECTORS[1], b"x" * 1025)
    assert "at most" in password_fault(b"x" * 1025)
    with pytest.raises(ValueError, match="1 KiB"):
        hash_password(b"x" * 1025, SALT)


def test_a_chosen_password_has_twelve_characters():
    assert "at least 12" in password_fault("ä".encode() * 11)
    assert not password_fault("ä".encode() * 12)
    assert "UTF-8" in password_fault(b"\xff" * 20)


def test_hashes_below_the_configured_cost_are_weak():
    text = hash_password(b"correct horse", SALT, CHEAP)
    assert not is_weak(text, CHEAP)
    assert is_weak(text, Cost(CHEAP.memory_bytes * 2, 1))
    assert is_weak(text, Cost(CHEAP.memory_bytes, 2))


def test_nobody_has_the_dummy_hash():
    text = dummy_hash(CHEAP)
    assert not hash_fault(text)
    assert not verify(text, b"")
    assert not verify(text, bytes(32))


def test_a_new_hash_of_the_same_password_keeps_the_proof_and_a_new_password_does_not():
    before, after, other = (
        hash_password(b"correct horse", bytes([n]) + SALT[1:], CHEAP) for n in (1, 2, 3)
    )
    proof, mark = password_proof(before), rehash_mark(before, after)
    assert is_proof_of(proof, before, b"")
    assert is_proof_of(proof, after, mark)
    assert not is_proof_of(proof, after, b"")
    assert not is_proof_of(proof, other, mark)
