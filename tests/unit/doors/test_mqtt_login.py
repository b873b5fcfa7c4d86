"""Which parts of a CONNECT are credentials."""

import pytest

from penstock.doors.mqtt.login import credentials_of
from penstock.wire.mqtt.events import Connect


def connect(username, password=None):
    return Connect(b"id", True, 60, None, username, password)


@pytest.mark.parametrize(
    ("username", "password", "is_named", "expected"),
    [
        (None, None, False, None),
        (b"", None, False, None),
        (b"", b"", False, None),
        (b"ann", None, False, ("ann", b"")),
        (b"ann", b"s", False, ("ann", b"s")),
        (b"", b"token", False, ("", b"token")),
        # A certificate is enough, whatever name stands beside it; a password is judged.
        (None, None, True, None),
        (b"?SDK=Python", None, True, None),
        (b"bob", b"", True, None),
        (b"ann", b"s", True, ("ann", b"s")),
    ],
)
def test_what_counts_as_credentials(username, password, is_named, expected):
    found = credentials_of(connect(username, password), b"id", is_named=is_named)
    assert (found and (found.user, found.secret)) == expected
    assert found is None or found.client_id == b"id"


def test_a_connect_does_not_show_its_password():
    event = connect(b"ann", b"s3cret")
    assert "s3cret" not in repr(event)
