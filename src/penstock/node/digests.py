"""Digests of this node's state and log at an entry, to compare with those of other nodes.

State can only be compared at the same entry, and it keeps changing. So the process is **forked**
when the entry is applied, as Redis does to save: the child has the state of that moment, computes
the digests while the broker continues, writes them to a pipe and exits. It touches neither sockets
nor the store.

The bytes of the log are the same on all nodes; a thread reads them.
"""

import asyncio
import os
import warnings
from hashlib import blake2b

import msgspec

from penstock.api.documents.cluster import NodeDigests
from penstock.cluster.consensus import Consensus
from penstock.core.broker import Broker
from penstock.core.digest import DIGEST_BYTES, digests_of
from penstock.errors import PenstockError, Refused
from penstock.limits import MIB
from penstock.store.store import LogStore

WAIT_S = 5.0  # for an entry to be applied

CHILD_S = 60.0  # for the digests of the state

LOG_BYTES_AT_ONCE = 4 * MIB

FILES_MAX = 1 << 20  # files that the broker may have open


class Digests:
    """Computes the digests of one node, one request at a time."""

    def __init__(self, cluster: Consensus, broker: Broker, store: LogStore) -> None:
        self._cluster = cluster
        self._broker = broker
        self._store = store
        self._turn = asyncio.Lock()

    async def at(self, index: int, log_first: int) -> NodeDigests:
        """The digests at an entry, or at the last one for 0. Raises Refused."""
        async with self._turn:
            child, index = await self._begin(index)
            state = await child.result()
        first = max(log_first, self._store.first_index)
        log = await asyncio.to_thread(_log_digest, self._store, first, index)
        node_id = self._cluster.node_id
        return NodeDigests(node_id=node_id, index=index, state=state, log_first=first, log=log)

    async def _begin(self, index: int) -> tuple["_Child", int]:
        applied = self._cluster.status().applied
        if index in {0, applied}:
            return _Child(self._broker), applied
        if index < applied:
            raise Refused(
                f"entry {applied} is already applied; the state at entry {index} is gone",
                "ask for a later entry",
            )
        return await self._begin_later(index), index

    async def _begin_later(self, index: int) -> "_Child":
        begun: asyncio.Future[_Child] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            begun.set_result(_Child(self._broker))

        self._cluster.at_index(index, begin)
        try:
            async with asyncio.timeout(WAIT_S):
                return await begun
        except TimeoutError:
            self._cluster.off_index(index, begin)
            raise Refused(
                f"entry {index} was not applied within {WAIT_S:g} s", "ask for an earlier one"
            ) from None


def _log_digest(store: LogStore, first: int, last: int) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    try:
        while first <= last:
            for entry in store.log_entries(first, last + 1, LOG_BYTES_AT_ONCE):
                digest.update(msgspec.msgpack.encode((entry.index, entry.kind, entry.data)))
                first = entry.index + 1
    except LookupError as error:
        raise Refused(f"part of the log was removed: {error}", "retry") from error
    return digest.hexdigest()


class _Child:
    """A process that computes the digests of the current state."""

    def __init__(self, broker: Broker) -> None:
        self._pipe, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child takes no locks
            self._pid = os.fork()
        if not self._pid:
            _write_digests(broker, write)
        os.close(write)

    async def result(self) -> dict[str, str]:
        loop = asyncio.get_running_loop()
        data, over = bytearray(), loop.create_future()

        def read() -> None:
            found = os.read(self._pipe, 65_536)
            data.extend(found)
            if not found and not over.done():
                over.set_result(None)

        loop.add_reader(self._pipe, read)
        try:
            async with asyncio.timeout(CHILD_S):
                await over
            return msgspec.json.decode(data, type=dict[str, str])
        except (TimeoutError, msgspec.DecodeError) as error:
            raise PenstockError("cannot compute the digests of the state", "retry") from error
        finally:
            loop.remove_reader(self._pipe)
            os.close(self._pipe)
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        os.kill(self._pid, 9)  # it has ended, or takes too long
        os.waitpid(self._pid, 0)


def _write_digests(broker: Broker, write: int) -> None:
    """In the child: write the digests and exit without any clean-up."""
    try:
        os.closerange(3, write)
        os.closerange(write + 1, FILES_MAX)  # or sockets that the broker closes would stay open
        os.write(write, msgspec.json.encode(digests_of(broker)))
    finally:
        os._exit(0)
