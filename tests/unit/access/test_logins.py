"""Who is let in, by every kind of credentials, and what everybody else is told."""

import asyncio
from base64 import b64encode
from hashlib import sha256, sha512

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.access.login_setup import (
    CHEAP,
    CLUSTER_ID,
    ENCRYPTED,
    LOCAL,
    REMOTE,
    Setup,
    with_password,
)

from penstock.access import logins as module
from penstock.access import password_pool
from penstock.access.logins import BUSY, UNAVAILABLE, WRONG, Credentials, LoginFault, LoginRefusal
from penstock.net.origin import Approach
from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import put, removed
from penstock.trust.key_logins import key_password
from penstock.trust.keys import Key
from penstock.trust.passwords import is_weak, verify
from penstock.trust.principal import Principal
from penstock.trust.rows import Ban, Quotas, Role, Token, User
from penstock.trust.rules import Action
from penstock.trust.secrets import digest_of, token_text
from penstock.trust.signatures import key_pair, sign_login

pytestmark = pytest.mark.asyncio

SECRET = "psd_" + "a" * 32
TOKEN = token_text("token123", bytes(20))


def with_secret(name: str, **fields: object) -> User:
    return User(name, secrets=(digest_of(SECRET.encode()),), **fields)


def token_row(**fields: object) -> Token:
    return Token("token123", "ann", digest_of(TOKEN.rpartition("_")[2].encode()), **fields)


@pytest.fixture
def setup():
    made = []

    def make(*changes, **options):
        made.append(Setup(*changes, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ── without credentials ───────────────────────────────────────────────────────────────────────


async def test_without_users_everybody_may_do_everything(setup):
    s = setup()
    assert s.logins.welcome(LOCAL, "mqtt").rights.may(Action.ADMIN, b"")
    assert (await s.log_in("who", "ever")).is_known


async def test_without_users_nobody_from_elsewhere_is_served_unless_that_is_meant(setup):
    s = setup()
    assert not s.logins.welcome(REMOTE, "mqtt").is_known
    refusal = await s.log_in("who", "ever", REMOTE)
    assert refusal.fault is LoginFault.UNAVAILABLE
    opened = setup(allow_anonymous=True)
    assert opened.logins.welcome(REMOTE, "mqtt").rights.may(Action.PUBLISH, b"t")


@pytest.mark.parametrize(
    ("origin", "options", "role"),
    [
        (LOCAL, {}, "local"),
        (LOCAL, {"anonymous": "deny"}, ""),
        (LOCAL, {"allow_anonymous": True}, "local"),
        (LOCAL, {"allow_anonymous": True, "anonymous": "deny"}, "anonymous"),
        (REMOTE, {}, ""),
        (REMOTE, {"allow_anonymous": True}, "anonymous"),
    ],
)
async def test_with_users_the_nameless_have_the_role_of_where_they_come_from(
    setup, origin, options, role
):
    found = setup(put(User("ann")), **options).logins.welcome(origin, "mqtt")
    assert found.is_known == bool(role)
    assert found.roles == ((role,) if role else ())
    assert found.user == ""
    assert not found.rights.may(Action.ADMIN, b"")


async def test_a_certificate_or_the_listener_names_an_enabled_user(setup):
    s = setup(put(User("ann", ("client",))), put(User("bob", is_disabled=True)))
    approach = Approach(
        is_encrypted=True, certificate="ann", certificate_expires_ms=s.clock.wall_ms() + 9
    )
    of_ann = replace(REMOTE, approach=approach)
    found = s.logins.welcome(of_ann, "mqtt")
    assert (found.user, found.via, found.expires_ms) == (
        "ann",
        "certificate",
        s.clock.wall_ms() + 9,
    )
    of_listener = replace(REMOTE, approach=Approach(listener_user="ann"))
    assert s.logins.welcome(of_listener, "binary").via == "listener"
    for user in ("bob", "nobody"):
        assert not s.logins.welcome(
            replace(REMOTE, approach=Approach(certificate=user)), "mqtt"
        ).is_known
    assert (await s.log_in("ann", "", of_ann)).via == "certificate"
    assert await s.log_in("bob", "", of_ann) == WRONG


# ── users ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_generated_secret_is_judged_at_once_and_never_hashed(setup, monkeypatch):
    s = setup(put(with_secret("ann", roles=("client",))))
    monkeypatch.setattr(s.pool, "run", lambda *_: pytest.fail("hashed"))
    found = await s.log_in("ann", SECRET, REMOTE)
    assert (found.user, found.via, found.door) == ("ann", "secret", "mqtt")
    assert found.rights.may(Action.PUBLISH, b"t")


async def test_a_password_is_right_or_wrong(setup):
    s = setup(with_password("ann", "correct horse", roles=("client",)))
    assert (await s.log_in("ann", "correct horse")).via == "password"
    assert await s.log_in("ann", "correct house") == WRONG
    assert s.counters.logins == {("mqtt", "accepted"): 1, ("mqtt", "bad_credentials"): 1}
    assert s.counters.login_kinds == {"password": 1}


@pytest.mark.parametrize(
    "user", ["ann", "secretive", "disabled", "expired", "nobody", "", "a/b", "key:1", "key:x"]
)
async def test_all_wrong_logins_are_answered_alike(setup, user):
    s = setup(
        with_password("ann", "correct horse"),
        put(with_secret("secretive")),
        with_password("disabled", "wrong", is_disabled=True),
        with_password("expired", "wrong", expires_ms=1),
    )
    assert await s.log_in(user, "wrong") == WRONG


@pytest.mark.parametrize("user", ["ann", "secretive", "disabled", "weak", "nobody"])
async def test_all_wrong_logins_cost_the_same_hash(setup, user, monkeypatch):
    weak = (
        "$6$"
        + b64encode(b"s" * 12).decode()
        + "$"
        + b64encode(sha512(b"x" + b"s" * 12).digest()).decode()
    )
    s = setup(
        with_password("ann", "correct horse"),
        put(with_secret("secretive")),
        with_password("disabled", "wrong", is_disabled=True),
        put(User("weak", password=weak)),
    )
    hashed = []

    def refuse(text: str, _secret: bytes) -> bool:
        hashed.append(text)
        return False

    monkeypatch.setattr(password_pool, "verify", refuse)
    assert await s.log_in(user, "wrong") == WRONG
    assert [text for text in hashed if not is_weak(text, CHEAP)]
    assert len([text for text in hashed if not is_weak(text, CHEAP)]) == 1


async def test_a_giant_secret_is_refused_unhashed(setup, monkeypatch):
    s = setup(with_password("ann", "correct horse"))
    monkeypatch.setattr(s.pool, "run", lambda *_: pytest.fail("hashed"))
    assert await s.log_in("ann", b"x" * 1_025) == WRONG
    assert await s.log_in("ann", b"eyJ.." + b"x" * 100_000) == WRONG


async def test_a_password_that_was_right_is_not_hashed_again_until_it_changes(setup, monkeypatch):
    s = setup(with_password("ann", "correct horse"))
    await s.log_in("ann", "correct horse")
    hashed = []
    run = s.pool.run
    monkeypatch.setattr(s.pool, "run", lambda *a: (hashed.append(1), run(*a)))
    assert (await s.log_in("ann", "correct horse")).user == "ann"
    assert not hashed
    s.change(with_password("ann", "another horse"))
    assert await s.log_in("ann", "correct horse") == WRONG
    assert hashed == [1]


async def test_a_cached_password_does_not_outlive_its_time_nor_the_user(setup, monkeypatch):
    s = setup(with_password("ann", "correct horse"), cache_s=60)
    await s.log_in("ann", "correct horse")
    s.change(with_password("ann", "correct horse", is_disabled=True))
    assert await s.log_in("ann", "correct horse") == WRONG
    s.change(with_password("ann", "correct horse"))
    s.clock.advance(61)
    hashed = []
    run = s.pool.run
    monkeypatch.setattr(s.pool, "run", lambda *a: (hashed.append(1), run(*a)))
    assert (await s.log_in("ann", "correct horse")).user == "ann"
    assert hashed


async def test_the_cache_can_be_turned_off(setup):
    s = setup(with_password("ann", "correct horse"), cache_s=0)
    await s.log_in("ann", "correct horse")
    assert not len(s.logins._cache)


async def test_a_password_that_changes_while_it_is_hashed_is_wrong(setup):
    s = setup(with_password("ann", "correct horse"))
    login = asyncio.ensure_future(s.log_in("ann", "correct horse"))
    await asyncio.sleep(0)
    s.change(with_password("ann", "another horse"))
    assert await login == WRONG


async def test_a_weak_hash_is_replaced_at_the_next_right_login_and_nobody_is_revoked(setup):
    salt = b"saltsaltsalt"
    digest = sha512(b"correct horse" + salt).digest()
    weak = f"$6${b64encode(salt).decode()}${b64encode(digest).decode()}"
    s = setup(put(User("ann", ("client",), password=weak)))
    assert await s.log_in("ann", "wrong") == WRONG
    before = await s.log_in("ann", "correct horse")
    give_up = asyncio.get_running_loop().time() + 60
    while not s.rehashed:
        assert asyncio.get_running_loop().time() < give_up
        await asyncio.sleep(0)
    (row,) = s.rehashed
    assert verify(row.password, b"correct horse")
    assert not is_weak(row.password, CHEAP)
    s.change(put(row))
    assert isinstance(s.logins.renewed(before), Principal)
    assert (await s.log_in("ann", "correct horse")).user == "ann"
    assert len(s.rehashed) == 1


async def test_client_ids_are_bound_by_patterns(setup):
    s = setup(put(with_secret("ann", client_ids=("pump-*", "ann"))))
    for client_id in (b"pump-1", b"pump-", b"ann"):
        assert (await s.log_in("ann", SECRET, client_id=client_id)).user == "ann"
    for client_id in (b"xpump-1", b"ann2", b"pump", b"\xff"):
        refusal = await s.log_in("ann", SECRET, client_id=client_id)
        assert refusal.fault is LoginFault.NOT_ALLOWED


async def test_a_users_expiry_ends_the_connection_and_the_login(setup):
    s = setup(put(User("bob")))
    ends_ms = s.clock.wall_ms() + 5_000
    s.change(put(with_secret("ann", expires_ms=ends_ms)))
    assert (await s.log_in("ann", SECRET)).expires_ms == ends_ms
    s.clock.advance(6)
    assert await s.log_in("ann", SECRET) == WRONG


@pytest.mark.parametrize("ban", ["user:ann", "client:one", "address:192.0.2.0/24"])
async def test_bans_of_user_client_and_address_are_told_to_the_right_one_only(setup, ban):
    s = setup(put(with_secret("ann")))
    s.change(put(Ban(ban, until_ms=s.clock.wall_ms() + 60_000)))
    refusal = await s.log_in("ann", SECRET, REMOTE, b"one")
    assert (refusal.fault, refusal.reason) == (LoginFault.BANNED, DisconnectReason.BANNED)
    assert await s.log_in("ann", "wrong", REMOTE, b"one") == WRONG
    s.clock.advance(61)
    assert (await s.log_in("ann", SECRET, REMOTE, b"one")).user == "ann"


async def test_one_connection_beyond_the_quota_is_refused(setup):
    s = setup(put(with_secret("ann", quotas=Quotas(connections=1))))
    assert (await s.log_in("ann", SECRET)).user == "ann"
    meter = s.quotas.meter("ann")
    refusal = await s.log_in("ann", SECRET)
    assert (refusal.fault, refusal.reason) == (LoginFault.NOT_ALLOWED, DisconnectReason.QUOTA)
    assert (await s.log_in("ann", SECRET, door="http")).user == "ann"
    meter.leave()
    assert (await s.log_in("ann", SECRET)).user == "ann"


async def test_administrators_do_not_log_in_in_clear_text_from_elsewhere(setup):
    s = setup(put(with_secret("ann", roles=("admin",))), put(with_secret("bob")))
    refusal = await s.log_in("ann", SECRET, REMOTE)
    assert refusal.reason is DisconnectReason.TLS_REQUIRED
    for origin in (LOCAL, ENCRYPTED):
        assert (await s.log_in("ann", SECRET, origin)).user == "ann"
    assert not s.counters.logins_clear_text_total
    assert (await s.log_in("bob", SECRET, REMOTE)).user == "bob"
    assert s.counters.logins_clear_text_total == 1


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("user", ["", "ann", "anything at all"])
async def test_a_token_is_its_owner_whatever_the_user_name(setup, user):
    s = setup(put(User("ann", ("client", "monitor"))), put(token_row(roles=("monitor", "admin"))))
    found = await s.log_in(user, TOKEN)
    assert (found.user, found.via) == ("ann", "token")
    assert found.rights.may(Action.MONITOR, b"")
    assert not found.rights.may(Action.PUBLISH, b"t")
    assert not found.rights.may(Action.ADMIN, b""), "roles are within the owner's"


async def test_a_wrong_expired_or_foreign_token_is_wrong(setup):
    s = setup(put(User("ann", ("client",))), put(token_row()))
    assert (await s.log_in("", TOKEN)).rights.may(Action.PUBLISH, b"t")
    assert await s.log_in("", TOKEN[:-1] + "b") == WRONG
    assert await s.log_in("", TOKEN.replace("token123", "token124")) == WRONG
    s.change(put(token_row(expires_ms=s.clock.wall_ms() + 1_000)))
    assert (await s.log_in("", TOKEN)).expires_ms == s.clock.wall_ms() + 1_000
    s.clock.advance(2)
    assert await s.log_in("", TOKEN) == WRONG
    s.change(put(token_row()), put(User("ann", is_disabled=True)))
    assert await s.log_in("", TOKEN) == WRONG


async def test_tokens_for_a_purpose_are_no_login_elsewhere(setup):
    s = setup(put(User("ann")), put(token_row(purpose="invite")))
    assert await s.log_in("", TOKEN) == WRONG
    assert await s.log_in("", TOKEN, door="http") == WRONG
    assert s.logins.token_of(TOKEN.encode()).purpose == "invite"
    s.change(put(token_row(purpose="console")))
    assert await s.log_in("", TOKEN) == WRONG
    assert (await s.log_in("", TOKEN, door="http")).via == "console"


# ── keys ──────────────────────────────────────────────────────────────────────────────────────

SEED = bytes(range(32))


def device_key(**fields: object) -> Key:
    plain = {"public_key": key_pair(SEED).public_key, "device": "pump", "topics": "plant/*"}
    return Key(**{"id": 7, "created_ms": 1, **plain, **fields})


def signed(s: Setup, *, client_id: bytes = b"one", nonce: bytes = b"12345678", **changes) -> str:
    values = {"cluster_id": CLUSTER_ID, "signed_ms": s.clock.wall_ms(), **changes}
    return key_password(SEED, 7, client_id=client_id, nonce=nonce, **values)


async def test_a_signed_password_logs_in_once_over_tls(setup):
    s = setup(put(User("ann")))
    s.keys.put(device_key())
    password = signed(s)
    found = await s.log_in("key:7", password, ENCRYPTED, b"one")
    assert (found.user, found.via) == ("key:7", "key")
    assert found.rights.may(Action.PUBLISH, b"plant/1")
    assert not found.rights.may(Action.PUBLISH, b"other")
    assert not found.rights.may(Action.SUBSCRIBE, b"plant/1")
    assert await s.log_in("key:7", password, ENCRYPTED, b"one") == WRONG, "replayed"
    assert (await s.log_in("key:7", signed(s, nonce=b"87654321"), ENCRYPTED, b"one")).is_known


async def test_a_signed_password_is_good_for_nothing_else(setup):
    s = setup(put(User("ann")), failures_max=100)
    s.keys.put(device_key())
    s.keys.put(device_key(id=8))
    assert await s.log_in("key:7", signed(s), REMOTE, b"one") == WRONG, "clear text"
    assert await s.log_in("key:7", signed(s), ENCRYPTED, b"two") == WRONG
    assert await s.log_in("key:8", signed(s), ENCRYPTED, b"one") == WRONG
    assert await s.log_in("key:7", signed(s, cluster_id=bytes(16)), ENCRYPTED, b"one") == WRONG
    old_ms = s.clock.wall_ms()
    s.clock.advance(31)
    assert await s.log_in("key:7", signed(s, signed_ms=old_ms), ENCRYPTED, b"one") == WRONG
    s.keys.put(device_key(revoked_ms=1))
    assert await s.log_in("key:7", signed(s), ENCRYPTED, b"one") == WRONG


async def test_a_signed_password_of_before_the_start_is_refused(setup):
    """Nobody knows whether it was used at the last process."""
    s = setup(put(User("ann")))
    s.keys.put(device_key())
    assert (
        await s.log_in("key:7", signed(s, signed_ms=s.clock.wall_ms() - 1), ENCRYPTED, b"one")
        == WRONG
    )


async def test_a_signed_challenge_logs_in(setup):
    s = setup(put(User("ann")))
    s.keys.put(device_key())
    nonce = bytes(32)
    assert (await s.log_in("key:7", sign_login(SEED, nonce), REMOTE, nonce=nonce)).user == "key:7"
    assert await s.log_in("key:7", sign_login(SEED, nonce), REMOTE, nonce=bytes(31) + b"1") == WRONG


async def test_what_else_a_key_may_do_is_in_the_role_keys(setup):
    s = setup(
        put(User("ann")),
        put(Role("keys", ("allow subscribe devices/%u/#", "deny publish plant/9"))),
    )
    s.keys.put(device_key())
    found = await s.log_in("key:7", signed(s), ENCRYPTED, b"one")
    assert found.rights.may(Action.SUBSCRIBE, b"devices/pump/x")
    assert not found.rights.may(Action.PUBLISH, b"plant/9")
    assert found.rights.may_publish(b"plant/1")


# ── back-off, busy, unavailable ───────────────────────────────────────────────────────────────


async def test_guessing_from_one_address_is_refused_unhashed(setup, monkeypatch):
    s = setup(put(with_secret("ann")), put(with_secret("bob")))
    for number in range(11):
        assert await s.log_in(f"user{number}", "wrong", REMOTE) == WRONG
    monkeypatch.setattr(s.pool, "run", lambda *_: pytest.fail("hashed"))
    refusal = await s.log_in("bob", "wrong", REMOTE)
    assert (refusal.fault, refusal.reason) == (LoginFault.BUSY, DisconnectReason.LOGIN_BACKOFF)
    assert refusal.retry_after_s == 1
    assert (await s.log_in("bob", SECRET, LOCAL)).user == "bob", "elsewhere"
    s.clock.advance(1)
    assert (await s.log_in("bob", SECRET, REMOTE)).user == "bob"


async def test_guesses_that_wait_are_not_hashed_once_their_address_has_to_wait(setup, monkeypatch):
    s = setup(with_password("ann", "correct horse"))
    hashed = []
    check = module.check_password
    monkeypatch.setattr(module, "check_password", lambda *a: (hashed.append(1), check(*a))[1])
    outcomes = await asyncio.gather(*(s.log_in(f"user{n}", "wrong", REMOTE) for n in range(200)))
    assert len(hashed) <= 10 + 1 + 2, "free ones, the one too many, and those under way"
    assert {outcome.reason for outcome in outcomes} == {
        DisconnectReason.BAD_CREDENTIALS,
        DisconnectReason.LOGIN_BACKOFF,
    }


async def test_guessing_from_many_addresses_does_not_lock_a_user_out_at_home(setup):
    s = setup(put(with_secret("ann")))
    assert (await s.log_in("ann", SECRET, REMOTE)).user == "ann"
    for number in range(30):
        await s.log_in("ann", "wrong", replace(REMOTE, peer=f"198.51.100.{number}:1"))
    elsewhere = await s.log_in("ann", SECRET, replace(REMOTE, peer="203.0.113.1:1"))
    assert elsewhere.reason is DisconnectReason.LOGIN_BACKOFF
    assert (await s.log_in("ann", SECRET, REMOTE)).user == "ann"


async def test_a_node_without_leader_accepts_no_logins_after_a_while(setup):
    s = setup(put(with_secret("ann")), stale_s=300)
    s.clock.advance(1_000)
    s.lead(0)
    s.clock.advance(299)
    assert (await s.log_in("ann", SECRET)).user == "ann"
    s.clock.advance(2)
    assert await s.log_in("ann", SECRET) == UNAVAILABLE
    s.lead(2)
    assert (await s.log_in("ann", SECRET)).user == "ann"


async def test_busy_is_never_wrong_and_costs_no_failures(setup, monkeypatch):
    s = setup(with_password("ann", "correct horse"))
    monkeypatch.setattr(s.pool, "run", lambda _mark, _block, _work, done, _is_wanted: done(None))
    for _ in range(50):
        assert await s.log_in("ann", "correct horse") == BUSY


# ── renewal ───────────────────────────────────────────────────────────────────────────────────


async def test_a_principal_is_renewed_with_its_new_rights(setup):
    s = setup(put(with_secret("ann", roles=("client",))))
    found = await s.log_in("ann", SECRET, client_id=b"one")
    s.change(put(with_secret("ann", roles=("monitor",))))
    renewed = s.logins.renewed(found)
    assert renewed.rights.may(Action.MONITOR, b"")
    assert not renewed.rights.may(Action.PUBLISH, b"t")
    assert replace(renewed, rights=found.rights) == found


async def test_a_changed_expiry_reaches_who_is_connected(setup):
    s = setup(put(with_secret("ann")), put(token_row()))
    found = [await s.log_in("ann", SECRET), await s.log_in("", TOKEN)]
    assert [one.expires_ms for one in found] == [0, 0]
    ends_ms = s.clock.wall_ms() + 60_000
    s.change(put(with_secret("ann", expires_ms=ends_ms)), put(token_row(expires_ms=ends_ms - 1)))
    assert [s.logins.renewed(one).expires_ms for one in found] == [ends_ms, ends_ms - 1]


async def test_a_user_of_the_configuration_is_renewed_with_its_roles(setup):
    s = setup(put(with_secret("ann")))
    rights = s.book.rights_of_roles(("client",))
    default = Principal("default", rights, "resp", via="configuration", roles=("client",))
    s.change(put(Role("client", ("allow publish a",))))
    assert not s.logins.renewed(default).rights.may(Action.PUBLISH, b"b")


async def test_guessing_a_secret_of_the_configuration_is_slowed_down_too(setup):
    s = setup()
    wrong = Credentials("default", b"guess")
    for _ in range(11):
        assert s.logins.must_wait(REMOTE, wrong) is None
        s.logins.note(REMOTE, "resp", wrong, is_right=False)
    assert s.logins.must_wait(REMOTE, wrong).reason is DisconnectReason.LOGIN_BACKOFF
    assert s.counters.logins == {("resp", "bad_credentials"): 11}


async def revoked(s: Setup, found: Principal) -> bool:
    outcome = s.logins.renewed(found)
    return (
        isinstance(outcome, LoginRefusal) and outcome.reason is DisconnectReason.CREDENTIALS_REVOKED
    )


async def test_credentials_are_revoked_with_what_they_were_compared_to(setup):
    s = setup(put(with_secret("ann")), with_password("bob", "correct horse"), put(token_row()))
    s.keys.put(device_key())
    by_secret = await s.log_in("ann", SECRET)
    by_password = await s.log_in("bob", "correct horse")
    by_token = await s.log_in("", TOKEN)
    by_key = await s.log_in("key:7", signed(s), ENCRYPTED, b"one")
    found = [by_secret, by_password, by_token, by_key]
    assert not [one for one in found if await revoked(s, one)]
    s.change(put(User("ann", secrets=(sha256(b"new").digest(),))))
    s.change(with_password("bob", "another horse"), removed(token_row()))
    s.keys.put(device_key(revoked_ms=1))
    assert [await revoked(s, one) for one in found] == [True] * 4


async def test_a_disabled_or_deleted_user_is_revoked(setup):
    s = setup(put(with_secret("ann")), put(with_secret("bob")), put(with_secret("carol")))
    found = [await s.log_in(user, SECRET) for user in ("ann", "bob", "carol")]
    s.change(
        put(with_secret("ann", is_disabled=True)),
        removed(with_secret("bob")),
        put(Ban("user:carol")),
    )
    assert [await revoked(s, one) for one in found] == [True] * 3


async def test_who_could_do_everything_must_log_in_once_there_are_users(setup):
    s = setup()
    anyone = s.logins.welcome(LOCAL, "mqtt")
    assert s.logins.renewed(anyone) == anyone
    s.change(put(User("ann")))
    assert s.logins.renewed(anyone).reason is DisconnectReason.LOGIN_REQUIRED


async def test_no_secret_is_shown(setup):
    s = setup(put(with_secret("ann")), put(token_row()))
    for found in (await s.log_in("ann", SECRET), await s.log_in("", TOKEN)):
        assert SECRET not in repr(found)
        assert TOKEN not in repr(found)
    assert SECRET not in repr(module.Credentials("ann", SECRET.encode()))
    assert msgspec.structs.astuple(with_secret("ann"))[3][0].hex() not in repr(with_secret("ann"))
