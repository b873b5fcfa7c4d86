"""JSON web tokens of another issuer, as a password: verified with keys in a local file.

The configuration fixes what a token must have: the algorithm, the issuer, the audience and a time
at which it expires. The token itself is never asked how it wants to be verified: the algorithm must
be one that is configured, all of which are of public keys, and that of the key which its ``kid``
names. So neither ``none`` nor a public key used as a shared secret gets through.

Needs the extra ``jwt`` (PyJWT); without ``auth.jwt_keys_file`` it is not imported.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeGuard

from penstock.config.schema import Auth
from penstock.errors import Refused

ROLES_MAX = 64
AHEAD_MS_MAX = 30_000  # how far the issuer's clock may be ahead


class Claims(NamedTuple):
    """What a valid token says."""

    user: str
    roles: tuple[str, ...]
    expires_ms: int


class _PublicKey(Protocol):
    """A key as PyJWT has it."""

    key_id: str | None
    algorithm_name: str
    key: object


def looks_like_jwt(secret: bytes) -> bool:
    return secret.startswith(b"eyJ") and secret.count(b".") == 2


class JwtLogins:
    """The keys of the configured issuer. The file is read once; Refused if it can not be used."""

    def __init__(self, config: Auth) -> None:
        if not config.jwt_issuer or not config.jwt_audience:
            raise Refused(
                "JSON web tokens need auth.jwt_issuer and auth.jwt_audience",
                "Without them, tokens that were made for others would be accepted here.",
            )
        self._config = config
        self._decode = _decoder(config)

    def claims_of(self, secret: bytes, now_ms: int) -> Claims | None:
        """The claims of a valid token; None if it is not valid."""
        found = self._decode(secret)
        if found is None:
            return None
        expires, begins = found.get("exp"), found.get("nbf", 0)
        user = found.get(self._config.jwt_user_claim)
        if not isinstance(user, str) or not _is_time(expires) or not _is_time(begins):
            return None
        expires_ms = int(expires * 1000)
        if now_ms >= expires_ms or begins * 1000 > now_ms + AHEAD_MS_MAX:
            return None
        return Claims(user, _names(found.get(self._config.jwt_roles_claim)), expires_ms)


def _decoder(config: Auth) -> Callable[[bytes], dict[str, object] | None]:
    try:
        import jwt  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Refused(
            "auth.jwt_keys_file needs the package PyJWT",
            "Install it with: pip install 'penstock-mq[jwt]'",
        ) from error
    keys = _keys(config)
    options = {
        "require": ["exp", "iss", "aud", config.jwt_user_claim],
        "verify_exp": False,  # by the broker's clock, in ``claims_of``
        "verify_nbf": False,
        "verify_iat": False,
    }

    def decode(secret: bytes) -> dict[str, object] | None:
        try:
            header = jwt.get_unverified_header(secret)
            key = keys[str(header["kid"]) if "kid" in header or len(keys) > 1 else next(iter(keys))]
            found: dict[str, object] = jwt.decode(
                secret,
                key.key,
                algorithms=[key.algorithm_name],
                issuer=config.jwt_issuer,
                audience=config.jwt_audience,
                options=options,
            )
        except (jwt.PyJWTError, KeyError, ValueError, TypeError):
            return None
        return found

    return decode


def _keys(config: Auth) -> dict[str, _PublicKey]:
    """The keys by their ids; those of algorithms that are not configured are left out."""
    import jwt  # noqa: PLC0415 - an extra

    try:
        document = json.loads(Path(config.jwt_keys_file).read_bytes())
        found = jwt.PyJWKSet.from_dict(document).keys
    except (OSError, ValueError, AttributeError, jwt.PyJWTError) as error:
        raise Refused(
            f"the keys in {config.jwt_keys_file} cannot be read: {error}",
            'auth.jwt_keys_file must be a JSON Web Key Set: {"keys": […]}.',
        ) from error
    keys = {str(key.key_id): key for key in found if key.algorithm_name in config.jwt_algorithms}
    if not keys:
        raise Refused(
            f"{config.jwt_keys_file} has no key for {', '.join(config.jwt_algorithms)}",
            "Compare auth.jwt_algorithms with the algorithms of the keys.",
        )
    return keys


def _names(roles: object) -> tuple[str, ...]:
    """One role, or a list of them; whatever is no text is none."""
    named = roles.split() if isinstance(roles, str) else roles if isinstance(roles, list) else []
    return tuple(role for role in named[:ROLES_MAX] if isinstance(role, str))


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
