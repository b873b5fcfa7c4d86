"""SCRAM-SHA-256 by its vectors, and with what nobody should send."""

import base64
from hmac import digest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LocalProtocolError, Refused, RemoteProtocolError
from penstock.trust.saslprep import prepared
from penstock.trust.scram import (
    MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX,
    NONCE_BYTES_MAX,
    ScramClient,
    ScramServer,
    read_client_first,
)
from penstock.trust.scram_verifier import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Verifier,
    keys_of,
    made_up_verifier,
    new_verifier,
    read_verifier,
    salt_key_of,
    salt_of,
    verifier_fault,
    verifier_text,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = b"rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = new_verifier("pencil", SALT, 4_096)

CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(first: bytes = CLIENT_FIRST, verifier: Verifier = PENCIL) -> ScramServer:
    return ScramServer(read_client_first(first), verifier, SERVER_NONCE)


def client(password: str = "pencil", user: str = "user") -> ScramClient:
    return ScramClient(user, password, CLIENT_NONCE)


def outcome(password: str, verifier: Verifier, user: str = "user") -> bytes | None:
    """What the server answers to a client with this password."""
    one = client(password, user)
    other = server(one.first, verifier)
    answer = other.finish(one.final(other.first))
    if answer is not None:
        one.check(answer)
    return answer


# ── the exchange ──────────────────────────────────────────────────────────────────────────────


def test_the_server_says_what_rfc_7677_says():
    one = server()
    assert one.first == SERVER_FIRST
    assert one.finish(CLIENT_FINAL) == SERVER_FINAL


def test_the_client_says_what_rfc_7677_says():
    one = client()
    assert one.first == CLIENT_FIRST
    assert one.final(SERVER_FIRST) == CLIENT_FINAL
    one.check(SERVER_FINAL)


def test_a_wrong_password_is_a_wrong_proof():
    assert outcome("pencil", PENCIL)
    assert outcome("pencils", PENCIL) is None


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", "ä", "a" * NAME_BYTES_MAX])
def test_names_are_escaped_and_come_back(name):
    assert read_client_first(client(user=name).first).user == name


def proved(one: ScramServer, bare: bytes, header: bytes) -> bytes:
    """The last message of a client that knows the password and began with this header."""
    keys = keys_of("pencil", SALT, 4_096)
    unproved = b"c=%b,r=%b" % (base64.b64encode(header), CLIENT_NONCE + SERVER_NONCE)
    signature = digest(keys.stored_key, b",".join((bare, one.first, unproved)), "sha256")
    proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
    return unproved + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize("header", [b"n,,", b"y,,", b"n,a=user,", b"y,a=user,"])
def test_clients_without_channel_binding_are_served_and_repeat_their_header(header):
    bare = CLIENT_FIRST[3:]
    one = server(header + bare)
    assert one.finish(proved(one, bare, header))
    other = server(header + bare)
    with pytest.raises(RemoteProtocolError, match="header"):
        other.finish(proved(other, bare, b"y,a=other,"))


def test_extensions_are_ignored_but_covered_by_the_proof():
    assert read_client_first(CLIENT_FIRST + b",x=1,y=2").user == "user"
    assert server().finish(CLIENT_FINAL.replace(b",p=", b",x=1,p=")) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abcdefgh",
        b"n,,n=user,r=",
        b"n,,r=abcdefgh,n=user",
        b"p=tls-unique,,n=user,r=abcdefgh",
        b"p=tls-exporter,,n=user,r=abcdefgh",
        b"z,,n=user,r=abcdefgh",
        b"N,,n=user,r=abcdefgh",
        b"n,a=admin,n=user,r=abcdefgh",
        b"n,a=,n=user,r=abcdefgh",
        b"n,admin,n=user,r=abcdefgh",
        b"n,,m=x,n=user,r=abcdefgh",
        b"n,,n=user,r=abcdefgh,m=x",
        b"n,,n=us=er,r=abcdefgh",
        b"n,,n=us=2c,r=abcdefgh",
        b"n,,n=us\x00er,r=abcdefgh",
        b"n,,n=us\xffer,r=abcdefgh",
        b"n,,n=user,r=ab cdefgh",
        b"n,,n=user,r=ab\x7fcdefgh",
        b"n,,n=user,r=abcdefgh,",
        b"n,,n=user,r=abcdefgh\n",
        b"n,,n=" + b"u" * (NAME_BYTES_MAX + 1) + b",r=abcdefgh",
        b"n,,n=user,r=" + b"r" * (NONCE_BYTES_MAX + 1),
        b"n,,n=user,r=abcdefgh,x=" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_a_first_message_that_is_none_is_refused(message):
    with pytest.raises(RemoteProtocolError):
        read_client_first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        CLIENT_FINAL[:-1],
        CLIENT_FINAL + b"=",
        CLIENT_FINAL + b",x=1",
        CLIENT_FINAL.replace(b"biws", b"eSws"),  # y,,
        CLIENT_FINAL.replace(b"biws", b""),
        CLIENT_FINAL.replace(b"biws", b"biw"),
        CLIENT_FINAL.replace(b"$k0", b"$k"),
        CLIENT_FINAL.replace(b"$k0", b"$k0x"),
        CLIENT_FINAL.replace(SERVER_NONCE, b""),
        CLIENT_FINAL.replace(CLIENT_NONCE, b""),
        CLIENT_FINAL.replace(b"p=d", b"p=*"),
        CLIENT_FINAL.replace(b"c=", b"m=x,c="),
        CLIENT_FINAL.replace(b"p=", b"p=AAAA"),
    ],
)
def test_a_last_message_that_is_none_is_refused(message):
    with pytest.raises(RemoteProtocolError):
        server().finish(message)


def test_a_login_is_finished_once():
    one = server()
    assert one.finish(CLIENT_FINAL.replace(b"p=d", b"p=e")) is None
    with pytest.raises(LocalProtocolError):
        one.finish(CLIENT_FINAL)


def test_a_recorded_login_does_not_fit_another_nonce():
    again = ScramServer(read_client_first(CLIENT_FIRST), PENCIL, b"another-nonce")
    with pytest.raises(RemoteProtocolError):
        again.finish(CLIENT_FINAL)
    forged = CLIENT_FINAL.replace(SERVER_NONCE, b"another-nonce")
    other = ScramServer(read_client_first(CLIENT_FIRST), PENCIL, b"another-nonce")
    assert other.finish(forged) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        SERVER_FIRST.replace(b"rOpr", b"rOps"),
        SERVER_FIRST.replace(SERVER_NONCE, b""),
        SERVER_FIRST.replace(SERVER_NONCE, b"short"),
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=1"),
        SERVER_FIRST.replace(b"i=4096", b"i=%d" % (ITERATIONS_MAX + 1)),
        SERVER_FIRST.replace(b"i=4096", b"i=99999999999999999999"),
        SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        SERVER_FIRST.replace(b"s=W22Z", b"s=*22Z"),
        SERVER_FIRST.replace(b"s=", b"s=" + b"AAAA" * 100),
        b"m=x," + SERVER_FIRST,
        SERVER_FIRST + b"\xff",
    ],
)
def test_a_client_does_not_go_on_with_a_server_that_asks_for_too_little_or_too_much(message):
    with pytest.raises(RemoteProtocolError):
        client().final(message)


def test_a_client_trusts_no_server_that_does_not_know_the_verifier():
    one = client()
    one.final(SERVER_FIRST)
    with pytest.raises(RemoteProtocolError, match="verifier"):
        one.check(b"v=" + base64.b64encode(bytes(32)))
    with pytest.raises(RemoteProtocolError, match="verifier"):
        client().check(SERVER_FINAL)  # nothing was proved yet
    with pytest.raises(Refused, match="invalid-proof"):
        one.check(b"e=invalid-proof")


def test_secrets_are_not_shown():
    assert "pencil" not in repr(client())
    assert repr(PENCIL) == "Verifier(…)"


@pytest.mark.parametrize("nonce", [b"", b"short", b"with,comma", b"with space", b"x" * 257])
def test_bad_nonces_of_our_own_are_a_mistake(nonce):
    with pytest.raises(LocalProtocolError):
        ScramClient("user", "pencil", nonce)
    with pytest.raises(LocalProtocolError):
        ScramServer(read_client_first(CLIENT_FIRST), PENCIL, nonce)


# ── anything ──────────────────────────────────────────────────────────────────────────────────

WORDS = ["n,,", "y,,", "n=", "r=", "c=", "p=", "s=", "i=", "v=", ",", "=2C", "biws"]
LATIN = st.text(st.characters(max_codepoint=255), max_size=12)
MESSAGES = st.lists(st.sampled_from(WORDS) | LATIN).map(
    lambda words: "".join(words).encode("latin")
)


@given(MESSAGES)
def test_no_message_does_more_than_being_refused(message):
    for take in (read_client_first, server().finish, client().final, client().check):
        try:
            take(message)
        except (RemoteProtocolError, Refused):
            continue


@given(st.data())
def test_a_changed_byte_never_logs_in(data):
    place = data.draw(st.integers(0, len(CLIENT_FINAL) - 1))
    byte = data.draw(st.integers(0, 255))
    changed = CLIENT_FINAL[:place] + bytes([byte]) + CLIENT_FINAL[place + 1 :]
    try:
        answer = server().finish(changed)
    except RemoteProtocolError:
        return
    is_same_proof = base64.b64decode(changed[-44:]) == base64.b64decode(CLIENT_FINAL[-44:])
    is_same = changed[:-44] == CLIENT_FINAL[:-44] and is_same_proof
    assert (answer == SERVER_FINAL) == is_same


# ── the password's form ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("a\u0308", "ä"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
    ],
)
def test_a_password_is_prepared_as_rfc_4013_says(text, form):
    assert prepared(text) == form


@pytest.mark.parametrize(
    "text", ["\x07bell", "\u0627\u0031", "a\u0627", "🐎 battery", "\u00ad", "\ue000", "x\u200e"]
)
def test_a_password_that_cannot_be_prepared_is_used_as_it_is(text):
    assert prepared(text) == text
    assert outcome(text, new_verifier(text, SALT, 4_096))


@given(st.text())
def test_preparing_twice_changes_nothing_more(text):
    assert prepared(prepared(text)) == prepared(text)


# ── verifiers ─────────────────────────────────────────────────────────────────────────────────

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA"
SALT_KEY = bytes(range(24))


def test_a_verifier_comes_back_from_its_row_only_beside_its_hash():
    text = verifier_text(PENCIL, HASH, SALT_KEY)
    assert text.startswith("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$")
    assert not verifier_fault(text)
    assert read_verifier(text, HASH) == PENCIL
    assert salt_key_of(text) == SALT_KEY
    assert read_verifier(text, HASH + "x") is None
    assert read_verifier(text, "") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text + "x",
        lambda text: text.rpartition("$")[0],
        lambda text: text.replace("$4096:", "$4095:"),
        lambda text: text.replace("$4096:", f"${ITERATIONS_MAX + 1}:"),
        lambda text: text.replace("256$", "512$"),
        lambda text: text.replace("==$", "=$"),
        lambda text: text + "\n",
    ],
)
def test_a_text_that_is_no_verifier_lets_nobody_in(change):
    text = change(verifier_text(PENCIL, HASH, SALT_KEY))
    assert verifier_fault(text)
    assert read_verifier(text, HASH) is None
    assert not salt_key_of("")


@pytest.mark.parametrize(("salt", "iterations"), [(b"short", 4_096), (SALT, ITERATIONS_MIN - 1)])
def test_a_verifier_is_not_made_too_weak(salt, iterations):
    with pytest.raises(ValueError):
        new_verifier("pencil", salt, iterations)


def test_salts_of_names_are_constant_and_made_alike_for_all():
    key, other = bytes(32), bytes([1] * 32)
    made_up = made_up_verifier(key, "nobody", 4_096)
    assert made_up == made_up_verifier(key, "nobody", 4_096)
    assert made_up.salt == salt_of(key, "nobody")
    assert len({salt_of(key, "ann"), salt_of(key, "bob"), salt_of(other, "ann")}) == 3
    assert len(made_up.salt) == 16
    assert outcome("pencil", made_up, "nobody") is None
