"""The matrix, over real sockets: door x kind of credential, and door x action x verdict."""

import subprocess
import sys
from hashlib import sha256

import pytest

from penstock.client import TlsOptions
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.passwords import hash_password
from penstock.trust.rows import Role, Token, User
from tests.matrix.doors import ALLOWED, DENIED, DOORS, BinaryDoor, Login

SECRET = "psd_" + "a" * 32
PASSWORD = "correct horse battery"
TOPIC_ACTIONS = ("publish", "subscribe", "read", "work", "manage")
GLOBAL_ACTIONS = ("monitor", "admin")
VERDICTS = {"allow": ALLOWED, "deny": DENIED, "default": DENIED}


def token_of(id_: str) -> str:
    return f"pst_{id_}_{'b' * 32}"


def token_row(id_: str, owner: str, **fields) -> Token:
    return Token(id_, owner, sha256(b"b" * 32).digest(), **fields)


def rules_of(action: str, verdict: str) -> tuple[str, ...]:
    """Everything but the one right that is meant."""
    others = ",".join(one for one in TOPIC_ACTIONS if one != action or verdict != "default")
    rules = [f"allow {others} m/#", f"allow {others} q:m/#"]
    rules += [f"allow {one}" for one in GLOBAL_ACTIONS if one != action or verdict != "default"]
    if verdict == "deny":
        is_global = action in GLOBAL_ACTIONS
        rules += [f"deny {action}"] if is_global else [f"deny {action} m/#", f"deny {action} q:m/#"]
    return tuple(rules)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    command = [sys.executable, "-m", "penstock", "certs", "dev", str(folder), "--client", "ann"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def broker(certificates):
    folder = certificates
    with Broker(
        tls={
            "cert": str(folder / "server.crt"),
            "key": str(folder / "server.key"),
            "client_ca": str(folder / "ca.crt"),
        },
        auth={"anonymous": "deny", "failures_max": 1_000_000},
    ) as own:
        digest = sha256(SECRET.encode()).digest()
        changes = [
            put(User("root", ("admin",), secrets=(digest,))),
            put(User("ann", ("client",), secrets=(digest,))),
            put(User("paula", ("client",), password=hash_password(PASSWORD.encode(), b"s" * 16))),
            put(User("gone", ("client",), secrets=(digest,), is_disabled=True)),
            put(User("old", ("client",), secrets=(digest,), expires_ms=1)),
            put(token_row("token001", "ann")),
            put(token_row("token002", "ann", expires_ms=1)),
            put(token_row("token003", "gone")),
        ]
        for action in (*TOPIC_ACTIONS, *GLOBAL_ACTIONS):
            for verdict in VERDICTS:
                name = f"{action}-{verdict}"
                changes.append(put(Role(name, rules_of(action, verdict))))
                changes.append(put(User(name, (name,), secrets=(digest,))))
        own.change_access(*changes)
        for _ in range(20):  # for those who subscribe, and those who work
            BinaryDoor(own.host, own.port).attempt(Login("root", SECRET), "publish", "m/1")
            BinaryDoor(own.host, own.port).attempt(Login("root", SECRET), "publish", "q:m/1")
        yield own


LOGINS = {
    "nothing": (Login(), False),
    "a device's secret": (Login("ann", SECRET), True),
    "a password": (Login("paula", PASSWORD), True),
    "a token": (Login("", token_of("token001")), True),
    "a wrong secret": (Login("ann", SECRET + "x"), False),
    "another's password": (Login("ann", PASSWORD), False),
    "an unknown user": (Login("nobody", SECRET), False),
    "a disabled user": (Login("gone", SECRET), False),
    "an expired user": (Login("old", SECRET), False),
    "a wrong token": (Login("", token_of("token001")[:-1] + "c"), False),
    "an unknown token": (Login("", token_of("token009")), False),
    "an expired token": (Login("", token_of("token002")), False),
    "a disabled user's token": (Login("", token_of("token003")), False),
}


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("kind", LOGINS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_credentials_let_in_whom_they_should(broker, certificates, door, kind, is_encrypted):
    login, is_right = LOGINS[kind]
    if is_encrypted:
        login = login._replace(tls=TlsOptions(ca_file=str(certificates / "ca.crt")))
    assert door(broker.host, broker.port).let_in(login) is is_right


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_certificate_is_a_login(broker, certificates, door):
    tls = TlsOptions(
        ca_file=str(certificates / "ca.crt"),
        cert_file=str(certificates / "ann.crt"),
        key_file=str(certificates / "ann.key"),
    )
    assert door(broker.host, broker.port).let_in(Login(tls=tls))


def cases():
    for door in DOORS:
        for action in door("", 0).tries:
            for verdict in VERDICTS:
                yield pytest.param(door, action, verdict, id=f"{door.name}-{action}-{verdict}")


@pytest.mark.parametrize(("door", "action", "verdict"), list(cases()))
def test_an_action_is_allowed_where_a_rule_allows_it_and_none_denies_it(
    broker, door, action, verdict
):
    login = Login(f"{action}-{verdict}", SECRET)
    found = door(broker.host, broker.port).attempt(login, action, "m/1")
    assert found == VERDICTS[verdict]


def test_every_action_is_covered():
    known = {action for door in DOORS for action in door("", 0).tries}
    assert known == {*TOPIC_ACTIONS, *GLOBAL_ACTIONS}
