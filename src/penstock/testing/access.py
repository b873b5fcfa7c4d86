"""Users for a test's broker: rows of the access book, through the journal as an administrator's."""

from collections.abc import Iterable
from hashlib import sha256

from penstock.commit.completion import FutureCompletion
from penstock.core.commands import AccessChanged
from penstock.errors import LocalProtocolError
from penstock.server import Server
from penstock.trust.book import Change, put
from penstock.trust.rows import Role, User

__all__ = ["change_access", "user_with_rules"]


def user_with_rules(
    name: str, secret: str, roles: Iterable[str], rules: Iterable[str]
) -> list[Change]:
    """A user whose secret counts as a generated one, so that no test waits for a slow hash."""
    digests = (sha256(secret.encode()).digest(),) if secret else ()
    if not (rules := tuple(rules)):
        return [put(User(name, tuple(roles), secrets=digests))]
    return [put(Role(name, rules)), put(User(name, (name,), secrets=digests))]


async def change_access(server: Server, *changes: Change) -> None:
    waiter = FutureCompletion("the access change is not stored")
    now_ms = server.parts.clock.wall_ms()
    command = AccessChanged([*changes], by="test", via="test", peer="test", now_ms=now_ms)
    with server.parts.pipeline.as_leader():
        server.parts.pipeline.submit(command, waiter, durable=True)
    fault = await waiter.future
    if fault:
        raise LocalProtocolError(str(fault))
