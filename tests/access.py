"""Users and roles for tests: rows of the access book, changed through the journal."""

from collections.abc import Iterable
from hashlib import sha256

from penstock.commit.completion import FutureCompletion
from penstock.core.commands import AccessChanged
from penstock.testing import Broker
from penstock.trust.book import Change, put
from penstock.trust.rows import Role, Row, User

__all__ = ["ROOT", "SECRET", "as_from_afar", "change", "role", "store", "user"]

SECRET = "a-secret-of-20-bytes"


def user(name: str, *roles: str, secret: str = SECRET, **fields: object) -> User:
    """A user with a generated secret."""
    return User(name, roles, secrets=(sha256(secret.encode()).digest(),), **fields)


def role(name: str, *rules: str) -> Role:
    """A role with these rules."""
    return Role(name, rules)


ROOT = user("root", "admin")


def store(broker: Broker, *rows: Row) -> None:
    """Put rows into the book; they are in force when this returns."""
    change(broker, map(put, rows))


def change(broker: Broker, changes: Iterable[Change]) -> None:
    """Change the book, all or nothing."""
    command = AccessChanged(list(changes), "test", "test", "", broker.clock.wall_ms())

    async def submit() -> object:
        waiter = FutureCompletion("nothing changed")
        broker.server.parts.pipeline.submit(command, waiter, durable=True)
        return await waiter.future

    fault = broker._run(submit)
    assert not fault, fault


def as_from_afar(broker: Broker) -> None:
    """Let connections count as those of another machine, which must log in."""
    logins = broker.server.parts.logins
    welcome = logins.welcome
    logins.welcome = lambda origin, door: welcome(origin._replace(is_local=False), door)
