"""Access files of Mosquitto and Redis: what they become, and which lines are refused."""

import shutil
import subprocess
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.documents import changes_of, read_document
from penstock.access.imports import mosquitto, redis
from penstock.access.imports.faults import ImportFault
from penstock.trust.book import AccessBook
from penstock.trust.passwords import verify
from penstock.trust.rules import Action

HASH_7 = "$7$101$" + "c2FsdHNhbHRzYWx0" + "$" + "A" * 86 + "=="
DIGEST = sha256(b"sesame").hexdigest()


def book_of(document):
    after = AccessBook().preview(changes_of(AccessBook(), document, 1))
    assert not isinstance(after, str), after
    return after


def may(book, user, action, topic, client_id=""):
    return book.rights_of(user, client_id).may(action, topic)


# ── Mosquitto's passwords


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="needs Mosquitto's tools")
@pytest.mark.parametrize("method", ["sha512", "sha512-pbkdf2"])
def test_files_of_mosquitto_passwd_are_imported_and_verify(tmp_path, method):
    file = tmp_path / "passwords"
    for number, name in enumerate(("ann", "bob")):
        words = ["-c"] * (number == 0) + ["-H", method, "-b", str(file), name, f"{name}s password"]
        subprocess.run(["mosquitto_passwd", *words], check=True, capture_output=True)
    book = book_of(mosquitto.imported(file.read_text(), None))
    assert book.users.keys() == {"ann", "bob"}
    assert verify(book.users["ann"].password, b"anns password")
    assert not verify(book.users["ann"].password, b"bobs password")


def test_without_an_acl_file_users_may_publish_and_subscribe_everywhere():
    book = book_of(mosquitto.imported(f"ann:{HASH_7}\n", None))
    assert may(book, "ann", Action.PUBLISH, b"a/b")
    assert not may(book, "ann", Action.ADMIN, b"")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ann:secret", "clear text"),
        ("ann", "not NAME:HASH"),
        ("a/b:" + HASH_7, "not NAME:HASH"),
        ("x" * 60 + ":" + HASH_7, "not NAME:HASH"),
        ("ann:$7$101$short$x", "not a password hash"),
        ("ann:$9$101$a$b", "not a password hash"),
        (f"bob:{HASH_7}", "twice"),
    ],
)
def test_a_bad_line_of_passwords_imports_nothing_and_is_named(line, why):
    with pytest.raises(ImportFault, match=why) as fault:
        mosquitto.imported(f"# users\nbob:{HASH_7}\n{line}\n", None)
    assert fault.value.line == 3
    assert "secret" not in str(fault.value)


# ── Mosquitto's rules

ACL = """
# everybody
topic read news/#

user ann
topic plant/#
topic deny plant/secret
topic read office/door

user bob
topic write plant/bob

pattern write device/%u/%c/out
"""


@pytest.fixture(scope="module")
def plant():
    return book_of(mosquitto.imported(f"ann:{HASH_7}\nbob:{HASH_7}\neve:{HASH_7}\n", ACL))


@pytest.mark.parametrize(
    ("user", "action", "topic", "is_allowed"),
    [
        ("ann", Action.PUBLISH, b"plant/a", True),
        ("ann", Action.SUBSCRIBE, b"plant/a", True),
        ("ann", Action.PUBLISH, b"plant/secret", False),
        ("ann", Action.SUBSCRIBE, b"plant/secret", False),
        ("ann", Action.SUBSCRIBE, b"office/door", True),
        ("ann", Action.PUBLISH, b"office/door", False),
        ("ann", Action.READ, b"plant/a", False),
        ("ann", Action.SUBSCRIBE, b"news/a", False),
        ("bob", Action.PUBLISH, b"plant/bob", True),
        ("bob", Action.SUBSCRIBE, b"plant/bob", False),
        ("eve", Action.PUBLISH, b"plant/bob", False),
        ("eve", Action.PUBLISH, b"device/eve/c1/out", True),
        ("eve", Action.PUBLISH, b"device/ann/c1/out", False),
    ],
)
def test_rules_of_mosquitto_decide_the_same_here(plant, user, action, topic, is_allowed):
    assert may(plant, user, action, topic, "c1") is is_allowed


def test_topics_before_the_first_user_are_for_clients_without_a_name(plant):
    anonymous = plant.rights_of_roles(("anonymous",))
    assert anonymous.may(Action.SUBSCRIBE, b"news/a")
    assert not anonymous.may(Action.PUBLISH, b"news/a")


def test_an_empty_acl_file_allows_nothing():
    book = book_of(mosquitto.imported(f"ann:{HASH_7}\n", "# nothing\n"))
    assert not may(book, "ann", Action.SUBSCRIBE, b"a")
    assert not book.rights_of_roles(("anonymous",)).may(Action.SUBSCRIBE, b"a")


@pytest.mark.parametrize(
    "line",
    [
        "topics a",
        "topic",
        "user",
        "user a/b",
        "user two words",
        "topic read",
        "topic read a/#/b",
        "pattern write dev-%u/a",
        "topic read %u/a",
        "allow read a",
        "topic write a\0b",
    ],
)
def test_a_bad_line_of_rules_imports_nothing_and_is_named(line):
    text = f"user ann\ntopic plant/#\n{line}\n"
    if line == "topic read":  # the topic "read", for both
        assert mosquitto.imported("", text).roles["mosquitto-ann"].rules[1].endswith(" read")
        return
    with pytest.raises(ImportFault) as fault:
        mosquitto.imported(f"ann:{HASH_7}", text)
    assert fault.value.line == 3


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_imported_whole_or_refused(passwords, acl):
    try:
        document = mosquitto.imported(passwords, acl)
    except ImportFault:
        return
    assert not isinstance(AccessBook().preview(changes_of(AccessBook(), document, 1)), str)


# ── Redis


def redis_book(line):
    return book_of(redis.imported(line + "\n"))


@pytest.mark.parametrize(
    ("rules", "action", "topic", "is_allowed"),
    [
        ("~jobs", Action.PUBLISH, b"jobs", True),
        ("~jobs", Action.READ, b"jobs", True),
        ("~jobs", Action.SUBSCRIBE, b"jobs", False),
        ("&news", Action.SUBSCRIBE, b"news", True),
        ("&news", Action.READ, b"news", False),
        ("%R~jobs", Action.READ, b"jobs", True),
        ("%R~jobs", Action.PUBLISH, b"jobs", False),
        ("%W~jobs", Action.PUBLISH, b"jobs", True),
        ("%W~jobs", Action.READ, b"jobs", False),
        ("%RW~jobs", Action.WORK, b"jobs", True),
        ("~plant/*", Action.READ, b"plant/a/b", True),
        ("~plant/*", Action.READ, b"plant", False),
        ("~*", Action.READ, b"a/b", True),
        ("allkeys", Action.READ, b"a/b", True),
        ("~* resetkeys", Action.READ, b"a/b", False),
        ("allchannels", Action.SUBSCRIBE, b"a", True),
        ("&* reset ~a", Action.SUBSCRIBE, b"a", False),
        ("~user#42", Action.READ, b"user%2342", True),
    ],
)
def test_keys_are_streams_and_channels_are_topics(rules, action, topic, is_allowed):
    book = redis_book(f"user ann on #{DIGEST} {rules} +@all")
    assert may(book, "ann", action, topic) is is_allowed


def test_hashes_of_redis_are_secrets_here():
    book = redis_book(f"user ann on sanitize-payload #{DIGEST} resetchannels -@all +get")
    assert book.users["ann"].secrets == (sha256(b"sesame").digest(),)
    assert redis_book(f"user ann off #{DIGEST}").users["ann"].is_disabled


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("user ann on nopass ~*", "without a password"),
        ("user ann on >sesame ~*", "clear text"),
        ("user ann on <sesame ~*", "clear text"),
        ("user ann on #12 ~*", "64 hexadecimal digits"),
        ("user ann on ~a:*", "no topic filter"),
        ("user ann on ~a?b", "no topic filter"),
        ("user ann on &[ab]", "no topic filter"),
        ("user ann on %X~a", "not %R~"),
        ("user ann on %R", "not %R~"),
        ("user ann on (~a +get)", "selectors"),
        ("user ann on fly", "not a rule"),
        ("user", "not user NAME"),
        ("ann on", "not user NAME"),
        ("user a/b on", "not user NAME"),
        ("user bob off", "twice"),
    ],
)
def test_a_bad_line_of_redis_imports_nothing_and_is_named(line, why):
    with pytest.raises(ImportFault, match=why) as fault:
        redis.imported(f"user bob off\n{line}\n")
    assert fault.value.line == 2
    assert "sesame" not in str(fault.value)


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_words_are_imported_whole_or_refused(words):
    try:
        document = redis.imported("user ann " + " ".join(words))
    except ImportFault:
        return
    assert not isinstance(AccessBook().preview(changes_of(AccessBook(), document, 1)), str)


# ── Documents


@given(st.text(max_size=200))
def test_any_text_is_a_document_or_refused(text):
    try:
        document = read_document(text)
    except ValueError:
        return
    assert set(document.builtins()) <= {"users", "roles", "bans"}


@pytest.mark.parametrize(
    "text",
    ['[users.ann]\nrole = "x"', "[users.ann]\nroles = 3", "users = 3", '{"users": 3}', "[x]", "{"],
)
def test_a_document_with_anything_unknown_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_document(text)


def test_a_password_in_clear_text_is_refused():
    document = read_document('[users.ann]\npassword = "sesame"')
    with pytest.raises(ValueError, match="not a password hash") as fault:
        changes_of(AccessBook(), document, 1)
    assert "sesame" not in str(fault.value)
