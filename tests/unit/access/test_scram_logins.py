"""Logins by SCRAM: who has a verifier, since when, and what everybody else is told."""

import asyncio
import re
from base64 import b64decode

import msgspec
import pytest
from tests.unit.access.login_setup import CHEAP, ENCRYPTED, LOCAL, REMOTE, Setup, with_password

from penstock.access import logins as module
from penstock.access.logins import ANOTHER_USER, WRONG, LoginFault, LoginRefusal
from penstock.access.new_secrets import NO_PASSWORD, cost_of, new_hashes, with_hashes
from penstock.config.schema import Auth
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import Change, put
from penstock.trust.passwords import hash_password, verify
from penstock.trust.principal import Principal
from penstock.trust.rows import Ban, Quotas, User
from penstock.trust.scram import ScramClient
from penstock.trust.scram_verifier import ITERATIONS_MIN, read_verifier, salt_of
from penstock.trust.secrets import digest_of

pytestmark = pytest.mark.asyncio

PASSWORD = "correct horse battery"
NONCE = b"nonce-of-a-client"
SALT_KEY = bytes(range(24))
COST = CHEAP._replace(scram_iterations=ITERATIONS_MIN)


def prepared(name: str, password: str = PASSWORD, **fields: object) -> Change:
    return put(with_hashes(User(name, **fields), new_hashes(name, password, COST, SALT_KEY)))


@pytest.fixture
def setup():
    made = []

    def make(*changes, **options):
        made.append(Setup(*changes, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Exchange:
    """One login from the client's first message on."""

    def __init__(self, s: Setup, user: str, password: str = PASSWORD, **options: object) -> None:
        self.outcome: Principal | LoginRefusal | None = None
        self._client = ScramClient(user, password, NONCE)
        origin = options.pop("origin", LOCAL)
        client_id = options.pop("client_id", b"")
        self.login = s.logins.begin_scram(
            origin, "mqtt", client_id, self._client.first, self._ended, **options
        )

    def _ended(self, outcome: Principal | LoginRefusal) -> None:
        assert self.outcome is None
        self.outcome = outcome

    def finish(self) -> Principal | LoginRefusal | None:
        if self.login is not None:
            self.login.finish(self._client.final(self.login.first))
            if isinstance(self.outcome, Principal):
                self._client.check(self.login.last)
        return self.outcome


def log_in(s: Setup, user: str, password: str = PASSWORD, origin: Origin = LOCAL, **options):
    return Exchange(s, user, password, origin=origin, **options).finish()


def salt_shown(s: Setup, user: str) -> bytes:
    login = Exchange(s, user).login
    found = re.fullmatch(rb"r=[^,]+,s=([^,]+),i=(\d+)", login.first)
    assert int(found[2]) == ITERATIONS_MIN
    return b64decode(found[1])


async def until(condition) -> None:
    give_up = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < give_up
        await asyncio.sleep(0)


# ── right and wrong ───────────────────────────────────────────────────────────────────────────


async def test_a_right_password_logs_in_without_a_slow_hash(setup, monkeypatch):
    s = setup(prepared("ann", roles=("client",)))
    monkeypatch.setattr(s.pool, "run", lambda *_: pytest.fail("hashed"))
    found = log_in(s, "ann", client_id=b"pump")
    assert (found.user, found.via, found.client_id) == ("ann", "scram", "pump")
    assert s.counters.logins == {("mqtt", "accepted"): 1}
    assert s.counters.login_kinds == {"scram": 1}


@pytest.mark.parametrize(
    "user", ["ann", "secretive", "unprepared", "disabled", "expired", "nobody", "a/b", "ä", "key:1"]
)
async def test_all_wrong_logins_are_answered_alike_and_at_the_end(setup, user):
    s = setup(
        prepared("ann"),
        prepared("disabled", is_disabled=True),
        prepared("expired", expires_ms=1),
        with_password("unprepared", PASSWORD),
        put(User("secretive", secrets=(digest_of(PASSWORD.encode()),))),
    )
    failed = []
    s.logins.on_failed = lambda *attempt: failed.append(attempt[:3])
    exchange = Exchange(s, user, "wrong horse battery" if user == "ann" else PASSWORD)
    assert exchange.outcome is None, "there is a challenge for everybody"
    assert exchange.finish() == WRONG
    assert s.counters.logins == {("mqtt", "bad_credentials"): 1}
    assert failed == [(user, "127.0.0.1", "mqtt")]


async def test_salts_are_those_of_names_whether_there_is_such_a_user_or_not(setup):
    s, again = setup(prepared("ann")), setup(prepared("ann"))
    s.change(with_password("bob", PASSWORD))
    assert salt_shown(s, "ann") == salt_of(SALT_KEY, "ann")
    for name in ("bob", "nobody", "x" * 100):
        assert salt_shown(s, name) == salt_of(SALT_KEY, name)
        assert salt_shown(s, name) == salt_shown(again, name), "after a restart, on another node"
    s.change(prepared("bob"))
    s.change(prepared("ann", "another horse battery"))
    s.change(prepared("nobody"))
    for name in ("ann", "bob", "nobody"):
        assert salt_shown(s, name) == salt_shown(again, name), "after a change"


async def test_before_there_is_a_verifier_salts_are_constant_while_the_broker_runs(setup):
    s = setup(put(User("ann")))
    assert salt_shown(s, "ann") == salt_shown(s, "ann") != salt_shown(s, "bob")


@pytest.mark.parametrize("message", [b"", b"n,,", b"p=tls-unique,,n=ann,r=abcdefgh", b"\xff" * 9])
async def test_a_message_that_is_none_is_a_wrong_login(setup, message):
    s = setup(prepared("ann"))
    outcome = []
    assert s.logins.begin_scram(LOCAL, "mqtt", b"", message, outcome.append) is None
    assert outcome == [WRONG]
    exchange = Exchange(s, "ann")
    exchange.login.finish(message)
    assert exchange.outcome == WRONG
    assert s.counters.logins == {("mqtt", "bad_credentials"): 2}


async def test_a_user_that_changes_between_the_messages_does_not_get_in(setup):
    s = setup(prepared("ann"), prepared("bob"))
    of_ann, of_bob, of_eve = Exchange(s, "ann"), Exchange(s, "bob"), Exchange(s, "eve")
    s.change(prepared("ann"))  # the same password, set again
    s.change(prepared("bob", is_disabled=True), prepared("eve"))
    assert [one.finish() for one in (of_ann, of_bob, of_eve)] == [WRONG] * 3
    assert log_in(s, "ann").user == "ann"


# ── limits, as for passwords ──────────────────────────────────────────────────────────────────


async def test_guessing_is_slowed_down_like_guessing_passwords(setup):
    s = setup(prepared("ann"), failures_max=3)
    for _ in range(4):
        assert log_in(s, "ann", "wrong", REMOTE) == WRONG
    refusal = log_in(s, "ann", PASSWORD, REMOTE)
    assert (refusal.fault, refusal.reason) == (LoginFault.BUSY, DisconnectReason.LOGIN_BACKOFF)
    assert (await s.log_in("ann", PASSWORD, REMOTE)).reason is DisconnectReason.LOGIN_BACKOFF
    s.clock.advance(1)
    assert log_in(s, "ann", PASSWORD, REMOTE).user == "ann"


async def test_guesses_that_began_together_are_slowed_down_too(setup):
    s = setup(prepared("ann"), failures_max=3)
    together = [Exchange(s, "ann", f"wrong {n}", origin=REMOTE) for n in range(20)]
    outcomes = [one.finish() for one in together]
    assert outcomes[:4] == [WRONG] * 4
    assert {one.reason for one in outcomes[4:]} == {DisconnectReason.LOGIN_BACKOFF}
    right = Exchange(s, "ann", PASSWORD, origin=REMOTE)
    assert right.outcome.reason is DisconnectReason.LOGIN_BACKOFF


async def test_bans_client_ids_and_quotas_hold(setup):
    s = setup(
        prepared("ann", client_ids=("pump-*",)),
        prepared("bob"),
        prepared("eve", quotas=Quotas(connections=1)),
        put(Ban("user:bob")),
    )
    assert log_in(s, "ann", client_id=b"other").fault is LoginFault.NOT_ALLOWED
    assert log_in(s, "ann", client_id=b"pump-1").user == "ann"
    assert log_in(s, "bob").fault is LoginFault.BANNED
    assert log_in(s, "eve").user == "eve"
    s.quotas.meter("eve")
    assert log_in(s, "eve").reason is DisconnectReason.QUOTA


async def test_administrators_still_need_tls(setup):
    s = setup(prepared("ann", roles=("admin",)))
    assert log_in(s, "ann", origin=REMOTE).reason is DisconnectReason.TLS_REQUIRED
    assert log_in(s, "ann", origin=ENCRYPTED).user == "ann"
    assert s.counters.logins_clear_text_total == 0


async def test_without_users_or_if_it_is_turned_off_it_is_not_offered(setup):
    s = setup()
    assert not s.logins.takes_scram
    s.change(prepared("ann"))
    assert s.logins.takes_scram
    assert not setup(prepared("ann"), scram=False).logins.takes_scram


# ── on a connection that is somebody's already ────────────────────────────────────────────────


async def test_only_its_user_logs_in_again_and_counts_once_for_the_quota(setup):
    s = setup(prepared("ann", quotas=Quotas(connections=1)), prepared("bob"))
    s.quotas.meter("ann")
    assert log_in(s, "ann", holder="ann").user == "ann"
    assert Exchange(s, "bob", holder="ann").outcome == ANOTHER_USER
    assert Exchange(s, "nobody", holder="ann").outcome == ANOTHER_USER
    assert log_in(s, "ann", "wrong", holder="ann") == WRONG


# ── revocation ────────────────────────────────────────────────────────────────────────────────


async def test_who_came_by_scram_stays_until_the_password_changes(setup):
    s = setup(prepared("ann"))
    found = log_in(s, "ann")
    row = s.book.users["ann"]
    s.change(put(msgspec.structs.replace(row, roles=("client",))))
    assert isinstance(s.logins.renewed(found), Principal)
    s.change(prepared("ann", "another horse battery"))
    assert s.logins.renewed(found).reason is DisconnectReason.CREDENTIALS_REVOKED


async def test_a_verifier_beside_another_hash_lets_nobody_in(setup):
    """As an earlier version leaves it behind when it changes the password."""
    s = setup(prepared("ann"))
    text = hash_password(b"another horse battery", bytes(16), CHEAP)
    s.change(put(msgspec.structs.replace(s.book.users["ann"], password=text)))
    assert log_in(s, "ann") == WRONG
    assert log_in(s, "ann", "another horse battery") == WRONG


# ── how a verifier comes to be ────────────────────────────────────────────────────────────────


async def test_the_next_login_with_the_password_makes_the_verifier_and_nobody_is_revoked(setup):
    s = setup(with_password("ann", PASSWORD))
    assert log_in(s, "ann") == WRONG
    before = await s.log_in("ann", PASSWORD)
    await until(lambda: s.rehashed)
    (row,) = s.rehashed
    assert row.password == s.book.users["ann"].password
    s.change(put(row))
    assert isinstance(s.logins.renewed(before), Principal)
    by_scram = log_in(s, "ann")
    assert by_scram.user == "ann"
    s.change(put(msgspec.structs.replace(row, note="x")))
    assert isinstance(s.logins.renewed(by_scram), Principal)


async def test_a_weak_hash_and_the_verifier_are_made_in_one_go(setup):
    weak = hash_password(PASSWORD.encode(), bytes(16), CHEAP._replace(memory_bytes=2**20))
    s = setup(put(User("ann", password=weak)))
    await s.log_in("ann", PASSWORD)
    await until(lambda: s.rehashed)
    (row,) = s.rehashed
    assert verify(row.password, PASSWORD.encode())
    assert read_verifier(row.scram, row.password)
    s.change(put(row))
    assert log_in(s, "ann").user == "ann"


async def test_a_verifier_follows_the_configured_iterations(setup):
    s = setup(prepared("ann"), scram_iterations=ITERATIONS_MIN + 1)
    await s.log_in("ann", PASSWORD)
    await until(lambda: s.rehashed)
    row = s.rehashed[0]
    assert read_verifier(row.scram, row.password).iterations == ITERATIONS_MIN + 1
    off = setup(prepared("ann"), scram=False)
    await off.log_in("ann", PASSWORD)
    await until(lambda: off.rehashed)
    assert off.rehashed[0].scram == ""


async def test_nobody_waits_for_a_verifier(setup, monkeypatch):
    s = setup(with_password("ann", PASSWORD))
    assert s.logins._may_make_verifier(s.book.users["ann"])
    monkeypatch.setattr(s.pool, "waiting", 1)
    assert not s.logins._may_make_verifier(s.book.users["ann"])


async def test_a_password_that_is_no_text_has_no_verifier(setup):
    text = hash_password(b"\xff" * 12, bytes(16), CHEAP)
    s = setup(put(User("ann", password=text)))
    assert (await s.log_in("ann", b"\xff" * 12)).user == "ann"
    other = setup(with_password("bob", PASSWORD))
    await other.log_in("bob", PASSWORD)
    await until(lambda: other.rehashed)
    assert not s.rehashed


async def test_the_log_says_what_a_user_without_verifier_must_do(setup, monkeypatch):
    told = []
    monkeypatch.setattr(
        module._log, "warning", lambda event, **values: told.append((event, values))
    )
    s = setup(with_password("unprepared", PASSWORD), prepared("ann"), put(User("device")))
    assert log_in(s, "ann", "wrong") == WRONG
    assert log_in(s, "nobody") == WRONG
    assert told == []
    assert log_in(s, "unprepared") == WRONG
    assert log_in(s, "device") == WRONG
    (event, values), (_, of_device) = told
    assert (event, values["user"]) == ("scram_unprepared", "unprepared")
    assert "penstock users password" in values["advice"]
    assert of_device["user"] == "device"
    assert "log in without SCRAM" in of_device["advice"]


async def test_one_salt_key_serves_all_and_outlives_who_brought_it(setup):
    first = new_hashes("ann", PASSWORD, COST, b"")
    s = setup(put(with_hashes(User("ann", created_ms=1), first)))
    key = s.book.salt_key
    assert len(key) == 24
    second = new_hashes("bob", PASSWORD, COST, key)
    s.change(put(with_hashes(User("bob", created_ms=2), second)))
    s.change(Change("user", "ann", None))
    assert s.book.salt_key == key
    s.change(put(with_hashes(s.book.users["bob"], NO_PASSWORD)))
    assert s.book.salt_key == b""
    assert s.book.users["bob"].scram == ""


async def test_secrets_are_not_shown():
    hashes = new_hashes("ann", PASSWORD, COST, SALT_KEY)
    assert hashes.scram not in repr(hashes)
    assert hashes.scram not in repr(with_hashes(User("ann"), hashes))


async def test_the_cost_of_a_verifier_is_what_owasp_recommends():
    assert cost_of(Auth()).scram_iterations == 600_000
    assert cost_of(Auth(scram=False)).scram_iterations == 0
