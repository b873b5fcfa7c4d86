"""JSON web tokens: those of the issuer, and all the ways of forging one."""

import base64
import hashlib
import hmac
import json

import msgspec
import pytest
from tests.unit.access.login_setup import LOCAL, Setup

from penstock.access.jwt_logins import JwtLogins
from penstock.access.logins import WRONG
from penstock.config.schema import Auth
from penstock.errors import Refused
from penstock.trust.book import put
from penstock.trust.rows import User
from penstock.trust.rules import Action

jwt = pytest.importorskip("jwt")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

NOW_S = 1_700_000_000
GOOD = {
    "iss": "https://issuer",
    "aud": "penstock",
    "exp": NOW_S + 60,
    "sub": "ann",
    "roles": ["client", "nonsense"],
}
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)


def jwk(key, kid: str, algorithm: str) -> dict[str, object]:
    kind = jwt.algorithms.get_default_algorithms()[algorithm]
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "alg": algorithm}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [jwk(EC_KEY, "e", "ES256"), jwk(RSA_KEY, "r", "RS256")]}))
    return path


def config(file, **changes: object) -> Auth:
    plain = {"jwt_keys_file": str(file), "jwt_issuer": "https://issuer", "jwt_audience": "penstock"}
    return msgspec.convert({**plain, **changes}, Auth)


def token(key=EC_KEY, algorithm: str = "ES256", kid: str = "e", **claims: object) -> bytes:
    values = {name: value for name, value in {**GOOD, **claims}.items() if value is not None}
    return jwt.encode(values, key, algorithm, headers={"kid": kid}).encode()


def segment(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_token_of_the_issuer_names_user_roles_and_end(file):
    logins = JwtLogins(config(file))
    for secret in (token(), token(RSA_KEY, "RS256", "r")):
        assert logins.claims_of(secret, NOW_S * 1000) == (
            "ann",
            ("client", "nonsense"),
            (NOW_S + 60) * 1000,
        )


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": NOW_S - 1},
        {"exp": "soon"},
        {"exp": True},
        {"iss": None},
        {"iss": "https://other"},
        {"aud": None},
        {"aud": "other"},
        {"sub": None},
        {"sub": ""},
        {"nbf": NOW_S + 1_000},
    ],
)
def test_a_token_without_the_fixed_claims_is_refused(file, claims):
    found = JwtLogins(config(file)).claims_of(token(**claims), NOW_S * 1000)
    assert found is None or not found.user


def test_a_token_without_signature_is_refused(file):
    for algorithm in ("none", "None", "NONE", ""):
        unsigned = f"{segment({'alg': algorithm, 'kid': 'e'})}.{segment(GOOD)}."
        assert JwtLogins(config(file)).claims_of(unsigned.encode(), NOW_S * 1000) is None


def test_a_public_key_is_no_shared_secret(file):
    """The classic: sign by HMAC with the public key, which everybody has."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{segment({'alg': 'HS256', 'kid': 'r'})}.{segment(GOOD)}"
    forged = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    assert (
        JwtLogins(config(file)).claims_of(f"{signed}.{segment(forged)}".encode(), NOW_S * 1000)
        is None
    )


def test_a_token_of_another_key_or_kid_is_refused(file):
    other = ec.generate_private_key(ec.SECP256R1())
    logins = JwtLogins(config(file))
    for secret in (
        token(other),
        token(kid="x"),
        token(kid="r"),
        token()[:-4] + b"AAAA",
        b"eyJ.a.b",
    ):
        assert logins.claims_of(secret, NOW_S * 1000) is None


def test_an_algorithm_that_is_not_configured_is_refused(file):
    logins = JwtLogins(config(file, jwt_algorithms=["ES256"]))
    assert logins.claims_of(token(RSA_KEY, "RS256", "r"), NOW_S * 1000) is None
    assert logins.claims_of(token(), NOW_S * 1000) is not None


@pytest.mark.parametrize(
    "changes", [{"jwt_issuer": ""}, {"jwt_audience": ""}, {"jwt_keys_file": "/none"}]
)
def test_a_half_configuration_is_refused(file, changes):
    with pytest.raises(Refused):
        JwtLogins(config(file, **changes))


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AAAA", "kid": "e"}]}'],
)
def test_a_file_without_public_keys_is_refused(file, content):
    file.write_text(content)
    with pytest.raises(Refused):
        JwtLogins(config(file))


@pytest.mark.asyncio
async def test_the_token_is_a_password_whose_roles_exist_and_which_ends(file):
    options = {
        name: getattr(config(file), name)
        for name in ("jwt_keys_file", "jwt_issuer", "jwt_audience")
    }
    s = Setup(put(User("root", ("admin",))), put(User("bob", is_disabled=True)), **options)
    now_s = s.clock.wall_ms() // 1000
    found = await s.log_in("", token(exp=now_s + 60), LOCAL)
    assert (found.user, found.via, found.roles) == ("ann", "jwt", ("client",))
    assert found.expires_ms == (now_s + 60) * 1000
    assert found.rights.may(Action.PUBLISH, b"t")
    assert not (await s.log_in("", token(exp=now_s + 60, sub="root", roles=[]), LOCAL)).rights.may(
        Action.ADMIN, b""
    )
    assert await s.log_in("", token(exp=now_s + 60, sub="bob"), LOCAL) == WRONG
    assert await s.log_in("", token(exp=now_s - 1), LOCAL) == WRONG
    s.close()
