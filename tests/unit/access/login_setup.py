"""Logins with real threads and hashes, a virtual clock, and a book that a test fills."""

import asyncio
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from penstock.access.logins import Credentials, LoginRefusal, Logins
from penstock.access.new_secrets import PasswordHashes
from penstock.access.password_pool import PasswordPool
from penstock.access.quotas import Quotas
from penstock.cluster.consensus import Leadership
from penstock.config.schema import Config
from penstock.net.origin import Approach, Origin
from penstock.obs.counters import Counters
from penstock.testing import VirtualClock
from penstock.trust.book import AccessBook, Change, put
from penstock.trust.keys import KeyRing
from penstock.trust.passwords import Cost, hash_password
from penstock.trust.principal import Principal
from penstock.trust.rows import User
from penstock.trust.scram_verifier import ITERATIONS_MIN

MIB = 1024 * 1024
CHEAP = Cost(8 * MIB, 1)
LOCAL = Origin(0.0, "127.0.0.1:1", Approach(is_local=True))
REMOTE = Origin(0.0, "192.0.2.1:1")
ENCRYPTED = replace(REMOTE, approach=Approach(is_encrypted=True))
CLUSTER_ID = bytes(range(16))


class Status(NamedTuple):
    cluster_id: str


class OneCluster:
    """A cluster as one node sees it; a test cuts the node off."""

    is_clustered = True

    def __init__(self) -> None:
        self.leader = 1

    def status(self) -> Status:
        return Status(CLUSTER_ID.hex())


class Setup:
    """``logins`` and everything around it."""

    def __init__(self, *changes: Change, allow_anonymous: bool = False, **auth: object) -> None:
        cost = {
            "argon2_memory_bytes": CHEAP.memory_bytes,
            "argon2_passes": CHEAP.passes,
            "scram_iterations": ITERATIONS_MIN,
        }
        plain = {"auth": {**cost, **auth}, "allow_anonymous": allow_anonymous}
        self.book = AccessBook()
        self.clock = VirtualClock()
        self.counters = Counters()
        self.cluster = OneCluster()
        self.keys = KeyRing()
        self.quotas = Quotas(self.book)
        self.rehashed: list[User] = []
        self.pool: PasswordPool[bool | PasswordHashes] = PasswordPool(asyncio.get_running_loop(), 2)
        self.logins = Logins(
            msgspec.convert(plain, Config),
            self.book,
            self.keys,
            cluster=self.cluster,
            quotas=self.quotas,
            clock=self.clock,
            counters=self.counters,
            pool=self.pool,
            rehashed=lambda row, _peer: self.rehashed.append(row),
        )
        self.index = 0
        self.change(*changes)

    def lead(self, leader: int) -> None:
        self.cluster.leader = leader
        self.logins.led(Leadership(leader, 1, is_leader=False))

    def change(self, *changes: Change) -> None:
        self.index += 1
        assert not self.book.apply(changes, -1, self.index)

    async def log_in(
        self,
        user: str,
        secret: str | bytes,
        origin: Origin = LOCAL,
        client_id: bytes = b"",
        *,
        door: str = "mqtt",
        nonce: bytes = b"",
    ) -> Principal | LoginRefusal:
        data = secret.encode() if isinstance(secret, str) else secret
        answer = asyncio.get_running_loop().create_future()
        credentials = Credentials(user, data, client_id, nonce)
        self.logins.log_in(origin, door, credentials, answer.set_result)
        return await answer

    def close(self) -> None:
        self.logins.close()


def with_password(name: str, password: str, **fields: object) -> Change:
    text = hash_password(password.encode(), name.encode().ljust(16)[:16], CHEAP)
    return put(User(name, password=text, **fields))
