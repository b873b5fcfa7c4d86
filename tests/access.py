"""What tests of access share."""

from penstock.limits import MIB
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.passwords import Cost, hash_password
from penstock.trust.rows import Role, Token, User
from penstock.trust.secrets import digest_of, token_text

SECRET = "a-secret-of-20-bytes"

LOGIN_REQUIRED = {"anonymous": "deny"}  # for ``Broker(auth=…)``: also of clients on this machine

PRESENTED = ("secret", "password", "token")  # kinds of credentials that clients send
_CHEAP = Cost(8 * MIB, 1)


def add_with(broker: Broker, kind: str, *rules: str) -> str:
    """Add a user, named like the kind of its credentials; return what it presents."""
    rows = {
        "secret": User(kind, (kind,), secrets=(digest_of(SECRET.encode()),)),
        "password": User(kind, (kind,), password=hash_password(SECRET.encode(), bytes(16), _CHEAP)),
        "token": User(kind, (kind,)),
    }
    broker.change_access(put(Role(kind, rules)), put(rows[kind]))
    if kind != "token":
        return SECRET
    text = token_text("abcdefgh", bytes(20))
    secret = text.rpartition("_")[2].encode()
    broker.change_access(put(Token("abcdefgh", kind, digest_of(secret))))
    return text
