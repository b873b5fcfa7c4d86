"""Chosen passwords: their hashes, how to check one, and which may be chosen.

A hash is a text that names its method. New ones are argon2id in PHC form. Those that were imported
are verified as they are, and are ``weak``: the next right login replaces them.

=======================================  =========================================================
``$argon2id$v=19$m=19456,t=2,p=1$S$H``   argon2id; ``m`` in KiB
``$7$101$S$H``                           PBKDF2 with HMAC-SHA-512, as Mosquitto 2.0 writes it
``$6$S$H``                               SHA-512 of password and salt, as Mosquitto 1.x writes it
=======================================  =========================================================

A hash says how much it costs to check. Those that would cost too much are refused when they are
read and verify nothing: a row is not a way to make the broker work.

Hashing takes milliseconds and megabytes by design, so a server does it in threads
(``access.password_pool``). Salts are passed in.
"""

import re
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256, sha512
from hmac import compare_digest
from typing import NamedTuple

from nacl.bindings import (
    crypto_pwhash_alg,
    crypto_pwhash_ALG_ARGON2ID13,
    crypto_pwhash_str_verify,
)
from nacl.exceptions import InvalidkeyError

from penstock.limits import KIB, MIB

SALT_BYTES = 16
HASH_BYTES = 32
MEMORY_BYTES = 19 * MIB  # with two passes, the least that OWASP recommends
PASSES = 2

PASSWORD_CHARACTERS_MIN = 12
PASSWORD_BYTES_MAX = KIB  # longer ones are refused unhashed

MEMORY_KIB_MAX = 256 * KIB  # of a hash that is read
PASSES_MAX = 16
LANES_MAX = 4
ITERATIONS_MAX = 1_000_000
HASH_CHARACTERS_MAX = 127  # the library reads no longer one

_ARGON2 = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})",
    re.ASCII,
)
_PBKDF2 = re.compile(
    r"\$7\$(\d{1,7})\$([A-Za-z0-9+/]{8,88}={0,2})\$([A-Za-z0-9+/]{86}==)", re.ASCII
)
_SHA512 = re.compile(r"\$6\$([A-Za-z0-9+/]{8,88}={0,2})\$([A-Za-z0-9+/]{86}==)", re.ASCII)


class Cost(NamedTuple):
    """What hashing a new password takes."""

    memory_bytes: int = MEMORY_BYTES
    passes: int = PASSES
    scram_iterations: int = 0  # of the verifier that is made beside the hash; 0: none is


def password_fault(password: bytes) -> str:
    """Why a password may not be chosen; empty if it may."""
    if len(password) > PASSWORD_BYTES_MAX:
        return f"a password has at most {PASSWORD_BYTES_MAX} bytes"
    try:
        characters = password.decode()
    except UnicodeDecodeError:
        return "a password is UTF-8 text"
    if len(characters) < PASSWORD_CHARACTERS_MIN:
        return f"a password has at least {PASSWORD_CHARACTERS_MIN} characters"
    return ""


def hash_password(password: bytes, salt: bytes, cost: Cost = Cost()) -> str:  # noqa: B008 - frozen
    """The PHC text of a password. ``salt``: 16 random bytes. Takes tens of milliseconds."""
    if len(salt) != SALT_BYTES or len(password) > PASSWORD_BYTES_MAX:
        raise ValueError("a salt has 16 bytes, and a password at most 1 KiB")
    memory_kib = cost.memory_bytes // KIB
    key = crypto_pwhash_alg(
        HASH_BYTES, password, salt, cost.passes, memory_kib * KIB, crypto_pwhash_ALG_ARGON2ID13
    )
    return f"$argon2id$v=19$m={memory_kib},t={cost.passes},p=1${_base64(salt)}${_base64(key)}"


def hash_fault(text: str) -> str:
    """Why a hash can not be used; empty if it can. Ask before storing an imported one."""
    if found := _ARGON2.fullmatch(text):
        memory_kib, passes, lanes = map(int, found.groups()[:3])
        if not 8 * lanes <= memory_kib <= MEMORY_KIB_MAX or not 1 <= passes <= PASSES_MAX:
            return f"argon2id takes up to {MEMORY_KIB_MAX // KIB} MiB and {PASSES_MAX} passes here"
        if not 1 <= lanes <= LANES_MAX or len(text) > HASH_CHARACTERS_MAX:
            return f"argon2id with more than {LANES_MAX} lanes, or a hash that is too long"
        return ""
    if found := _PBKDF2.fullmatch(text):
        is_bounded = 1 <= int(found[1]) <= ITERATIONS_MAX
        return "" if is_bounded else f"PBKDF2 takes 1 to {ITERATIONS_MAX} iterations here"
    if _SHA512.fullmatch(text):
        return ""
    return "not a password hash that is known here: $argon2id$, $7$ or $6$"


def verify(text: str, password: bytes) -> bool:
    """Whether this is the password of a hash. Takes as long as the hash says, within bounds."""
    if len(password) > PASSWORD_BYTES_MAX or hash_fault(text):
        return False
    if text.startswith("$argon2id$"):
        try:
            return bool(crypto_pwhash_str_verify(text.encode(), password))
        except InvalidkeyError:
            return False
    if found := _PBKDF2.fullmatch(text):
        derived = pbkdf2_hmac("sha512", password, b64decode(found[2]), int(found[1]))
        return compare_digest(derived, b64decode(found[3]))
    if found := _SHA512.fullmatch(text):
        return compare_digest(sha512(password + b64decode(found[1])).digest(), b64decode(found[2]))
    return False


def is_weak(text: str, cost: Cost = Cost()) -> bool:  # noqa: B008 - frozen
    """Whether a hash is cheaper to guess against than a new one would be."""
    found = _ARGON2.fullmatch(text)
    if found is None:
        return True
    return int(found[1]) * KIB < cost.memory_bytes or int(found[2]) < cost.passes


def dummy_hash(cost: Cost) -> str:
    """A hash that no password has; checking one against it takes as long as against a new hash."""
    salt, key = _base64(bytes(SALT_BYTES)), _base64(bytes(HASH_BYTES))
    return f"$argon2id$v=19$m={cost.memory_bytes // KIB},t={cost.passes},p=1${salt}${key}"


def password_proof(text: str) -> bytes:
    """What a principal keeps of the hash that its password was checked against."""
    return sha256(text.encode()).digest()


def rehash_mark(before: str, after: str) -> bytes:
    """Says that two hashes are of the same password, so that nobody has to log in again."""
    return _mark(password_proof(before), after)


def is_proof_of(proof: bytes, text: str, mark: bytes) -> bool:
    """Whether a proof is of this hash, or of the one that it replaced for the same password."""
    is_same = compare_digest(proof, password_proof(text))
    return is_same or (bool(mark) and compare_digest(_mark(proof, text), mark))


def _mark(proof: bytes, after: str) -> bytes:
    return sha256(b"penstock-rehash" + proof + after.encode()).digest()


def _base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")
