"""Who is there: a connection's first principal, and what credentials make of it.

==================  ===========  ======================================================
listener            users        a connection without credentials
==================  ===========  ======================================================
loopback            none         may do everything
loopback            some         has the role ``local``, unless ``auth.anonymous = "deny"``
reachable           none         may do everything with ``allow_anonymous``, else nothing
reachable           some         must log in
any, anonymous      some         has the role ``anonymous``
==================  ===========  ======================================================

``log_in`` calls back, at once where a comparison of hashes decides and later where a slow hash has
to be computed. The door holds what the client sends meanwhile. The kind of credentials follows from
what is presented: user ``key:ID`` is a signing key, a secret ``pst_…`` is an API token whatever the
user, a JSON web token is one where they are configured; everything else is a user's.

Logins by SCRAM take two messages (``begin_scram``). They count, and are slowed down, as those with
a password are.

**All wrong logins are alike.** Every one is answered with the same text and costs the same slow
hash, whether the user exists or not, has a password or not, is disabled or not.

**A principal is renewed** when users or rules have changed (``renewed``), without its secret: it
keeps a ``proof``, which names what the secret was compared to.
"""

import os
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from penstock.access.client_ids import id_text, is_among
from penstock.access.jwt_logins import JwtLogins, looks_like_jwt
from penstock.access.key_logins import KeyLogins
from penstock.access.login_cache import KEY_BYTES, LoginCache
from penstock.access.new_secrets import (
    PasswordHashes,
    cost_of,
    hashes_anew,
    lacks_verifier,
    rehashed,
)
from penstock.access.password_pool import PasswordPool, check_password
from penstock.access.quotas import Quotas
from penstock.access.scram_logins import NOT_CHOSEN, UNPREPARED, ScramLogin, verifier_for
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus, Leadership
from penstock.config.schema import Config
from penstock.errors import RemoteProtocolError
from penstock.limits import KIB
from penstock.model.ip import block_of
from penstock.net.origin import Origin
from penstock.obs.counters import Counters
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.trust.backoff import Backoff
from penstock.trust.bans import Bans
from penstock.trust.book import AccessBook
from penstock.trust.key_logins import key_id_of
from penstock.trust.keys import KeyRing
from penstock.trust.passwords import (
    PASSWORD_BYTES_MAX,
    dummy_hash,
    is_proof_of,
    is_weak,
    password_proof,
)
from penstock.trust.principal import ANYONE, STRANGER, Principal, anyone
from penstock.trust.rows import NAME, Token, User
from penstock.trust.rules import Action
from penstock.trust.scram import read_client_first
from penstock.trust.scram_verifier import SALT_KEY_BYTES, read_verifier
from penstock.trust.secrets import matching, parse_token

SECRET_BYTES_MAX = 8 * KIB  # of JSON web tokens; passwords are shorter

_log = ThrottledLogger(get_logger("access"))

_NOT_IN_BOOK = {"jwt", "configuration"}  # kinds of credentials whose users need not be there


class Credentials:
    """What a client presents. Never shown: not in ``repr``, not in a log."""

    __slots__ = ("client_id", "nonce", "secret", "user")

    def __init__(
        self, user: str, secret: bytes, client_id: bytes = b"", nonce: bytes = b""
    ) -> None:
        """``nonce``: of the broker's challenge, if the secret is a signature of one."""
        self.user = user
        self.secret = secret
        self.client_id = client_id
        self.nonce = nonce

    def __repr__(self) -> str:
        return "Credentials(…)"


class LoginFault(Enum):
    """Why a login failed, as far as the client may know."""

    WRONG = "wrong"
    BUSY = "busy"  # too many logins at once, or too many wrong ones: try again later
    BANNED = "banned"
    NOT_ALLOWED = "not allowed"  # the credentials are right, the client id or the way is not
    UNAVAILABLE = "unavailable"  # the node is cut off from the cluster, or has yet to join


class LoginRefusal(NamedTuple):
    """A failed login: what to tell the client, what to count, when to try again."""

    fault: LoginFault
    reason: DisconnectReason
    text: str
    retry_after_s: float = 0.0


WRONG = LoginRefusal(
    LoginFault.WRONG, DisconnectReason.BAD_CREDENTIALS, "wrong user name, password or token"
)
BUSY = LoginRefusal(
    LoginFault.BUSY, DisconnectReason.LOGIN_BUSY, "too many logins at once; try again", 5.0
)
UNAVAILABLE = LoginRefusal(
    LoginFault.UNAVAILABLE,
    DisconnectReason.NO_QUORUM,
    "this node is cut off from its cluster and cannot tell who may log in; try another node",
    5.0,
)
REVOKED = LoginRefusal(
    LoginFault.WRONG, DisconnectReason.CREDENTIALS_REVOKED, "the credentials are no longer valid"
)
CLEAR_TEXT = LoginRefusal(
    LoginFault.NOT_ALLOWED,
    DisconnectReason.TLS_REQUIRED,
    "administrators log in over TLS, or on the broker's machine (auth.clear_text_admins)",
)

ANOTHER_USER = LoginRefusal(
    LoginFault.NOT_ALLOWED,
    DisconnectReason.NOT_AUTHORIZED,
    "a connection stays its user's: connect anew to log in as another one",
)

_TOKENS = {"token", "console"}
_SECRETS = {"password", "secret", "jwt", *_TOKENS}  # kinds that whoever sees can use

LoginDone = Callable[[Principal | LoginRefusal], None]
Rehashed = Callable[[User, str], None]  # store this row, for the user with this address


class _Attempt(NamedTuple):
    """A login that is being judged."""

    origin: Origin
    door: str
    credentials: Credentials
    done: LoginDone
    started_at: float
    block: str  # of addresses, that failures are counted for
    account: str  # that failures are counted for; empty if there can be none of that name
    holder: str = ""  # who has this connection already, and proves again who it is


class Logins:
    """Makes principals, for all doors."""

    def __init__(
        self,
        config: Config,
        book: AccessBook,
        keys: KeyRing,
        *,
        cluster: Consensus,
        quotas: Quotas,
        clock: Clock,
        counters: Counters,
        pool: PasswordPool[bool | PasswordHashes],
        rehashed: Rehashed = lambda _row, _peer: None,
    ) -> None:
        """``rehashed``: a user's password was hashed anew; the row is to be stored."""
        self._config = config.auth
        self._allow_anonymous = config.allow_anonymous
        self._book = book
        self._cluster = cluster
        self._quotas = quotas
        self._bans = Bans(book)
        self._clock = clock
        self._counters = counters
        self._pool = pool
        self._rehashed = rehashed
        # user, address, door and time of a wrong login, for the audit log
        self.on_failed: Callable[[str, str, str, int], None] = lambda *_attempt: None
        self._cost = cost_of(config.auth)
        self._salt_key = os.urandom(SALT_KEY_BYTES)  # while the book has none
        self._dummy = dummy_hash(self._cost)
        self._backoff = Backoff(config.auth.failures_max)
        self._cache = LoginCache(os.urandom(KEY_BYTES), config.auth.cache_s)
        self._key_logins = KeyLogins(keys, book, cluster, clock.wall_ms())
        self._jwt = JwtLogins(config.auth) if config.auth.jwt_keys_file else None
        self._led_at = clock.monotonic()  # when there was a leader last
        self._was_led = bool(cluster.leader)

    def close(self) -> None:
        self._pool.close()

    # ── without credentials ───────────────────────────────────────────────────────────────────

    def welcome(self, origin: Origin, door: str, client_id: bytes = b"") -> Principal:
        """The principal of a connection that has not presented credentials (yet)."""
        if self._book.is_open:
            is_friend = self._is_among_friends(origin)
            return anyone(door, origin.peer) if is_friend else self._stranger(origin, door)
        for user, via in ((origin.certificate, "certificate"), (origin.listener_user, "listener")):
            found = self._usable(user)
            if found is not None:
                named = self._admitted(origin, door, found, via, client_id)
                return self._stranger(origin, door) if isinstance(named, LoginRefusal) else named
        is_local = origin.is_local and self._config.anonymous == "local"
        role = "local" if is_local else "anonymous" if self._allow_anonymous else ""
        if not role or self._is_banned(origin, client_id):
            return self._stranger(origin, door)
        rights = self._book.rights_of_roles((role,), "", id_text(client_id))
        nobody = Principal("", rights, door, origin.peer)
        return replace(nobody, client_id=id_text(client_id), roles=(role,))

    def _is_among_friends(self, origin: Origin) -> bool:
        """Whether nobody needs to log in while there are no users.

        A node starts without users if they are yet to come from its cluster. Until then it must
        not serve whoever reaches it first.
        """
        is_here = origin.is_local or bool(origin.owner) or not origin.host
        return is_here or self._allow_anonymous

    def _stranger(self, origin: Origin, door: str) -> Principal:
        return replace(STRANGER, door=door, address=origin.peer)

    def _is_banned(self, origin: Origin, client_id: bytes) -> bool:
        now_ms = self._clock.wall_ms()
        of_client = client_id and self._bans.of_client(id_text(client_id), now_ms)
        return bool(of_client or self._bans.of_address(origin.host, now_ms))

    # ── with credentials ──────────────────────────────────────────────────────────────────────

    def log_in(self, origin: Origin, door: str, credentials: Credentials, done: LoginDone) -> None:
        """Judge credentials and call ``done``, at once or later, on the event loop."""
        now, block = self._clock.monotonic(), block_of(origin.host)
        attempt = _Attempt(origin, door, credentials, done, now, block, _account(credentials))
        if self._book.is_open:
            is_open = self._is_among_friends(origin)
            self._end(attempt, self.welcome(origin, door) if is_open else UNAVAILABLE)
            return
        refusal = self._refusal_at_once(attempt)
        if refusal is not None:
            self._end(attempt, refusal)
            return
        secret = credentials.secret
        if credentials.user.startswith("key:"):
            self._end(attempt, self._by_key(attempt))
        elif parse_token(secret) is not None:
            self._end(attempt, self._by_token(attempt))
        elif self._jwt is not None and looks_like_jwt(secret):
            self._end(attempt, self._by_jwt(attempt, self._jwt))
        elif not secret and origin.certificate and credentials.user in ("", origin.certificate):
            self._end(attempt, self._by_certificate(attempt))
        elif len(secret) > PASSWORD_BYTES_MAX:
            self._end(attempt, WRONG)
        else:
            self._by_user(attempt)

    def _refusal_at_once(self, attempt: _Attempt) -> LoginRefusal | None:
        """What can be said before anything is compared or hashed."""
        if self._is_stale():
            return UNAVAILABLE
        refusal = self._backoff_refusal(attempt)
        if refusal is None and len(attempt.credentials.secret) > SECRET_BYTES_MAX:
            return WRONG
        return refusal

    def _backoff_refusal(self, attempt: _Attempt) -> LoginRefusal | None:
        return self._wait_refusal(attempt.block, attempt.account)

    def must_wait(self, origin: Origin, credentials: Credentials) -> LoginRefusal | None:
        """Ask before a secret of the configuration is compared; then call ``note``."""
        return self._wait_refusal(block_of(origin.host), _account(credentials))

    def note(self, origin: Origin, door: str, credentials: Credentials, *, is_right: bool) -> None:
        """Count a login with a secret of the configuration, as others are counted."""
        block, account = block_of(origin.host), _account(credentials)
        word = "accepted" if is_right else WRONG.reason.value
        self._counters.logins[door, word] = self._counters.logins.get((door, word), 0) + 1
        if is_right:
            self._backoff.succeeded(block, account)
        else:
            self._backoff.failed(block, account, self._clock.monotonic())

    def _wait_refusal(self, block: str, account: str) -> LoginRefusal | None:
        wait_s = self._backoff.wait_s(block, account, self._clock.monotonic())
        if not wait_s:
            return None
        text = f"too many wrong logins; try again in {wait_s:.0f} s"
        return LoginRefusal(LoginFault.BUSY, DisconnectReason.LOGIN_BACKOFF, text, wait_s)

    def led(self, leadership: Leadership) -> None:
        """Another node leads, or none."""
        if leadership.leader or self._was_led:
            self._led_at = self._clock.monotonic()
        self._was_led = bool(leadership.leader)

    def _is_stale(self) -> bool:
        """Whether this node has known no leader for so long that its users may be out of date."""
        now = self._clock.monotonic()
        if not self._cluster.is_clustered or self._cluster.leader:
            self._led_at, self._was_led = now, True
        return now - self._led_at >= self._config.stale_s

    def _end(self, attempt: _Attempt, outcome: Principal | LoginRefusal) -> None:
        """Count the outcome and tell it."""
        counters, door = self._counters, attempt.door
        word = "accepted"
        if isinstance(outcome, LoginRefusal):
            word = outcome.reason.value
            if outcome.fault is LoginFault.WRONG:
                now = self._clock.monotonic()
                self._backoff.failed(attempt.block, attempt.account, now)
                now_ms = self._clock.wall_ms()
                self.on_failed(attempt.credentials.user, attempt.origin.host, door, now_ms)
        else:
            counters.login_kinds[outcome.via] = counters.login_kinds.get(outcome.via, 0) + 1
            is_safe = attempt.origin.is_encrypted or attempt.origin.is_local
            counters.logins_clear_text_total += not is_safe and outcome.via in _SECRETS
        counters.logins[door, word] = counters.logins.get((door, word), 0) + 1
        counters.logins_waiting = self._pool.waiting
        counters.login_seconds.observe(self._clock.monotonic() - attempt.started_at)
        attempt.done(outcome)

    # ── kinds of credentials ──────────────────────────────────────────────────────────────────

    def _by_user(self, attempt: _Attempt) -> None:
        """A generated secret is compared at once; a password is hashed, unless it was just now."""
        credentials = attempt.credentials
        user = self._usable(credentials.user)
        found = user and matching(user.secrets, credentials.secret)
        if user is not None and found:
            self._end(attempt, self._right(attempt, user, "secret", found))
            return
        text = user.password if user is not None and user.password else self._dummy
        mark = self._cache.mark(credentials.user, text, credentials.secret)
        if user is not None and self._cache.knows(mark, attempt.started_at):
            self._password_checked(attempt, text, mark, is_right=True, is_known=True)
            return
        work = partial(check_password, text, credentials.secret, self._dummy, self._cost)
        done = partial(self._hashed, attempt, text, mark)
        self._pool.run(
            mark, attempt.block, work, done, lambda: self._backoff_refusal(attempt) is None
        )
        self._counters.logins_waiting = self._pool.waiting

    def _hashed(
        self, attempt: _Attempt, text: str, mark: bytes, result: bool | PasswordHashes | None
    ) -> None:
        if result is None:
            self._end(attempt, self._backoff_refusal(attempt) or BUSY)
            return
        self._password_checked(attempt, text, mark, is_right=bool(result))

    def _password_checked(
        self, attempt: _Attempt, text: str, mark: bytes, *, is_right: bool, is_known: bool = False
    ) -> None:
        user = self._usable(attempt.credentials.user)  # it may have changed meanwhile
        if not is_right or user is None or user.password != text:
            self._end(attempt, WRONG)
            return
        self._cache.note(mark, self._clock.monotonic())
        if is_weak(text, self._cost) or (not is_known and self._may_make_verifier(user)):
            self._hash_anew(attempt, user)
        self._end(attempt, self._right(attempt, user, "password", password_proof(text)))

    def _may_make_verifier(self, user: User) -> bool:
        """Whether to make a user's verifier now. It takes long, and nobody may wait for it."""
        return not self._pool.waiting and lacks_verifier(user, self._cost)

    def _hash_anew(self, attempt: _Attempt, user: User) -> None:
        """Replace a weak hash, or make the verifier, now that the password is at hand."""
        before, password = user.password, attempt.credentials.secret

        def hashed(hashes: bool | PasswordHashes | None) -> None:
            now = self._book.users.get(user.name)
            if isinstance(hashes, PasswordHashes) and now is not None and now.password == before:
                row = rehashed(now, before, hashes)
                if row != now:
                    self._rehashed(row, attempt.origin.peer)

        work = partial(hashes_anew, user, password, self._cost, self._book.salt_key)
        mark = b"rehash " + user.name.encode()
        self._pool.run(mark, attempt.block, work, hashed)

    # ── SCRAM ─────────────────────────────────────────────────────────────────────────────────

    @property
    def takes_scram(self) -> bool:
        return self._config.scram and not self._book.is_open

    def begin_scram(
        self,
        origin: Origin,
        door: str,
        client_id: bytes,
        message: bytes,
        done: LoginDone,
        *,
        holder: str = "",
    ) -> ScramLogin | None:
        """Judge a client's first message; call ``done`` after its last one, or now if it failed.

        ``holder``: whose connection it is already; nobody else may log in on it.
        """
        try:
            client = read_client_first(message)
        except RemoteProtocolError:
            client = None
        credentials = Credentials("" if client is None else client.user, b"", client_id)
        now, account = self._clock.monotonic(), _account(credentials)
        block = block_of(origin.host)
        attempt = _Attempt(origin, door, credentials, done, now, block, account, holder)
        refusal = self._refusal_at_once(attempt)
        if client is None or refusal is not None:
            self._end(attempt, refusal or WRONG)
            return None
        if holder and client.user != holder:
            self._end(attempt, ANOTHER_USER)
            return None
        user, key = self._book.users.get(client.user), self._book.salt_key or self._salt_key
        verifier = verifier_for(user, client.user, key, self._config.scram_iterations)
        return ScramLogin(client, verifier, partial(self._proved, attempt, user))

    def _proved(self, attempt: _Attempt, before: User | None, is_right: bool) -> None:
        attempt = attempt._replace(started_at=self._clock.monotonic())
        if refusal := self._backoff_refusal(attempt):
            self._end(attempt, refusal)  # somebody guesses on many connections at once
            return
        user = self._usable(attempt.credentials.user)
        if user is not None and not read_verifier(user.scram, user.password):
            advice = UNPREPARED if user.password else NOT_CHOSEN
            _log.warning("scram_unprepared", user=user.name, advice=advice)
        if user is None or before is None or not is_right or user.scram != before.scram:
            self._end(attempt, WRONG)
            return
        self._end(attempt, self._right(attempt, user, "scram", password_proof(user.password)))

    def token_of(self, secret: bytes) -> Token | None:
        """The row of a token, valid and of whatever purpose; None if it is wrong or expired."""
        presented = parse_token(secret)
        row = presented and self._book.tokens.get(presented.id)
        if row is None or presented is None or matching((row.digest,), presented.secret) is None:
            return None
        is_expired = row.expires_ms and self._clock.wall_ms() >= row.expires_ms
        return None if is_expired or self._usable(row.owner) is None else row

    def _by_token(self, attempt: _Attempt) -> Principal | LoginRefusal:
        row = self.token_of(attempt.credentials.secret)
        owner = None if row is None else self._usable(row.owner)
        purposes = ("", "console") if attempt.door == "http" else ("",)
        if row is None or owner is None or row.purpose not in purposes:
            return WRONG
        via = row.purpose or "token"
        proof = row.name.encode()
        return self._right(
            attempt, owner, via, proof, roles=self._token_roles(row), expires_ms=row.expires_ms
        )

    def _token_roles(self, row: Token) -> tuple[str, ...]:
        """Roles that a token names and its owner has (still)."""
        roles = self._book.users[row.owner].roles
        if not row.roles:
            return roles
        included = self._book.with_included(roles)
        return tuple(role for role in row.roles if role in included)

    def _by_certificate(self, attempt: _Attempt) -> Principal | LoginRefusal:
        user = self._usable(attempt.origin.certificate)
        return WRONG if user is None else self._right(attempt, user, "certificate")

    def _by_jwt(self, attempt: _Attempt, jwt: JwtLogins) -> Principal | LoginRefusal:
        claims = jwt.claims_of(attempt.credentials.secret, self._clock.wall_ms())
        if claims is None or not NAME.fullmatch(claims.user):
            return WRONG
        roles = tuple(role for role in claims.roles if self._book.role(role) is not None)
        user = self._usable(claims.user) or User(claims.user)
        if (row := self._book.users.get(claims.user)) is not None and row is not user:
            return WRONG  # disabled or expired
        return self._right(attempt, user, "jwt", roles=roles, expires_ms=claims.expires_ms)

    def _by_key(self, attempt: _Attempt) -> Principal | LoginRefusal:
        credentials, now_ms = attempt.credentials, self._clock.wall_ms()
        key = self._key_logins.valid_key(credentials.user, now_ms)
        if key is None or not self._key_logins.is_signed(
            key,
            credentials.secret,
            now_ms,
            client_id=credentials.client_id,
            nonce=credentials.nonce,
            is_encrypted=attempt.origin.is_encrypted,
        ):
            return WRONG
        if refusal := self._last_refusal(attempt.origin, key.device, credentials.client_id):
            return refusal
        client_id = id_text(credentials.client_id)
        return Principal(
            credentials.user,
            self._key_logins.rights_of(key, client_id),
            attempt.door,
            attempt.origin.peer,
            expires_ms=key.expires_ms,
            via="key",
            client_id=client_id,
            proof=key.public_key,
        )

    # ── right credentials ─────────────────────────────────────────────────────────────────────

    def _usable(self, name: str) -> User | None:
        """A user that may log in now."""
        user = self._book.users.get(name)
        if user is None or user.is_disabled:
            return None
        is_expired = user.expires_ms and self._clock.wall_ms() >= user.expires_ms
        return None if is_expired else user

    def _right(
        self,
        attempt: _Attempt,
        user: User,
        via: str,
        proof: bytes = b"",
        *,
        roles: tuple[str, ...] | None = None,
        expires_ms: int = 0,
    ) -> Principal | LoginRefusal:
        """The credentials are right; whether they may be used here and now remains to be seen."""
        origin, client_id = attempt.origin, attempt.credentials.client_id
        self._backoff.succeeded(attempt.block, attempt.account)
        found = self._admitted(
            origin,
            attempt.door,
            user,
            via,
            client_id,
            proof,
            roles,
            expires_ms=expires_ms,
            holder=attempt.holder,
        )
        is_safe = origin.is_encrypted or origin.is_local or self._config.clear_text_admins
        if isinstance(found, Principal) and not is_safe and found.rights.may(Action.ADMIN, b""):
            return CLEAR_TEXT
        return found

    def _admitted(
        self,
        origin: Origin,
        door: str,
        user: User,
        via: str,
        client_id: bytes,
        proof: bytes = b"",
        roles: tuple[str, ...] | None = None,
        *,
        expires_ms: int = 0,
        holder: str = "",
    ) -> Principal | LoginRefusal:
        text = id_text(client_id)
        if client_id and user.client_ids and not is_among(text, user.client_ids):
            fault = f"user {user.name} may not use this client id"
            return LoginRefusal(LoginFault.NOT_ALLOWED, DisconnectReason.BAD_CREDENTIALS, fault)
        if refusal := self._last_refusal(origin, user.name, client_id):
            return refusal
        is_counted = door == "http" or user.name == holder
        if not is_counted and (fault := self._quotas.admit_connection(user.name)):
            return LoginRefusal(LoginFault.NOT_ALLOWED, DisconnectReason.QUOTA, fault)
        if via == "certificate":
            expires_ms = origin.certificate_expires_ms
        return Principal(
            user.name,
            self._book.rights_of_roles(user.roles if roles is None else roles, user.name, text),
            door,
            origin.peer,
            expires_ms=_earliest(expires_ms, user.expires_ms),
            via=via,
            client_id=text,
            roles=roles or (),
            proof=proof,
        )

    def _last_refusal(self, origin: Origin, user: str, client_id: bytes) -> LoginRefusal | None:
        now_ms = self._clock.wall_ms()
        ban = self._bans.of_user(user, now_ms) or self._bans.of_address(origin.host, now_ms)
        if ban is None and client_id:
            ban = self._bans.of_client(id_text(client_id), now_ms)
        if ban is None:
            return None
        return LoginRefusal(LoginFault.BANNED, DisconnectReason.BANNED, f"banned: {ban.name}")

    def named(
        self, principal: Principal, origin: Origin, client_id: bytes
    ) -> Principal | LoginRefusal:
        """A principal that has a client id from now on, where that comes after the login."""
        if self._book.is_open:
            return principal
        user, text = self._book.users.get(principal.user), id_text(client_id)
        if user is not None and user.client_ids and not is_among(text, user.client_ids):
            fault = f"user {user.name} may not use this client id"
            return LoginRefusal(LoginFault.NOT_ALLOWED, DisconnectReason.BAD_CREDENTIALS, fault)
        if refusal := self._last_refusal(origin, principal.user, client_id):
            return refusal
        return self.renewed(replace(principal, client_id=text))

    # ── after a change ────────────────────────────────────────────────────────────────────────

    def ban(self, principal: Principal, origin: Origin) -> LoginRefusal | None:
        """Why somebody who is connected may not stay; None if there is no ban."""
        return self._last_refusal(origin, principal.user, principal.client_id.encode())

    def renewed(self, principal: Principal) -> Principal | LoginRefusal:
        """What has become of a principal, now that users, roles or keys have changed.

        A refusal means that its connection must end: its credentials are gone.
        """
        if not principal.user:
            return self._renewed_nobody(principal)
        if principal.via == "key":
            return self._renewed_key(principal)
        user = self._usable(principal.user)
        is_elsewhere = principal.via in _NOT_IN_BOOK and principal.user not in self._book.users
        if user is None and not is_elsewhere:
            return REVOKED
        if self._bans.of_user(principal.user, self._clock.wall_ms()):
            return REVOKED
        return self._renewed_user(principal, user or User(principal.user))

    def _renewed_nobody(self, principal: Principal) -> Principal | LoginRefusal:
        if principal.roles:
            rights = self._book.rights_of_roles(principal.roles, "", principal.client_id)
            return replace(principal, rights=rights)
        if principal.rights is ANYONE.rights and not self._book.is_open:
            return LoginRefusal(
                LoginFault.WRONG, DisconnectReason.LOGIN_REQUIRED, "there are users now: log in"
            )
        return principal

    def _renewed_key(self, principal: Principal) -> Principal | LoginRefusal:
        key = self._key_logins.valid_key(principal.user, self._clock.wall_ms())
        if key is None or key.public_key != principal.proof:
            return REVOKED
        return replace(principal, rights=self._key_logins.rights_of(key, principal.client_id))

    def _renewed_user(self, principal: Principal, user: User) -> Principal | LoginRefusal:
        if not self._is_in_force(principal, user):
            return REVOKED
        roles, expires_ms = user.roles, 0
        if principal.via in ("jwt", "certificate"):
            expires_ms = principal.expires_ms
        if principal.via == "jwt" or (principal.via == "configuration" and principal.roles):
            roles = principal.roles
        elif principal.via in _TOKENS:
            row = self._book.tokens[principal.proof.decode()]
            roles, expires_ms = self._token_roles(row), row.expires_ms
        rights = self._book.rights_of_roles(roles, user.name, principal.client_id)
        return replace(principal, rights=rights, expires_ms=_earliest(expires_ms, user.expires_ms))

    def _is_in_force(self, principal: Principal, user: User) -> bool:
        """Whether the credentials that a principal came with are still the user's."""
        if principal.via == "secret":
            return principal.proof in user.secrets
        if principal.via in ("password", "scram"):
            return is_proof_of(principal.proof, user.password, user.rehashed)
        if principal.via in _TOKENS:
            row = self._book.tokens.get(principal.proof.decode())
            return row is not None and row.owner == user.name
        return True


def _earliest(*times_ms: int) -> int:
    return min(filter(None, times_ms), default=0)


def _account(credentials: Credentials) -> str:
    """Whose failures a login counts for: a user's, a key's or a token's."""
    token = parse_token(credentials.secret)
    if token is not None:
        return f"token:{token.id}"
    user = credentials.user
    return user if NAME.fullmatch(user) or key_id_of(user) else ""
