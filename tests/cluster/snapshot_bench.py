"""Stores with a log and a record, as nodes of a cluster have them."""

import os

from penstock.cluster.frames import Member
from penstock.cluster.record import encode_record, genesis_record, terms_with
from penstock.raft.types import RaftEntry
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import LogEntry, Write
from tests.cluster.peer_bench import CLUSTER

MEMBERS = [Member(n, f"127.0.0.1:770{n}", f"127.0.0.1:188{n}") for n in (1, 2, 3)]
MESSAGES = 100
BLOCK_BYTES = 4096


def record_of(node, cluster_id=CLUSTER):
    return genesis_record(node, cluster_id, MEMBERS)


def batch(payloads, topic=b"a"):
    made = Batch()
    made.append(topic, payloads, 1_000, 1)
    return made


class LogMaker:
    """Writes entries of given terms; ``committed`` of them are folded."""

    def __init__(self, path, record):
        self.store = LmdbStore(path, folder=inline_folder, block_bytes=BLOCK_BYTES)
        self.record = record

    def append(self, term, *, size=10, folds=True, marker=b""):
        """One entry, which is committed and folded (the log has no tail then), or neither."""
        index = self.store.last_index + 1
        data = b""
        if folds:
            payloads = [marker + os.urandom(size) for _ in range(MESSAGES)]
            data = self.store.encode_batch(batch(payloads)).data
        self.record.terms = terms_with(self.record.terms, [RaftEntry(term, index)])
        self.record.term = max(self.record.term, term)
        done = index if folds else self.store.next_index - 1
        self.record.applied = done
        entry = LogEntry(index, 0, data)
        self.store.write(Write([entry], encode_record(self.record), committed=done))
        if folds:
            self.store.apply(index)
        return self

    def vote(self, term, vote):
        self.record.term, self.record.vote = term, vote
        done = self.store.next_index - 1
        self.store.write(Write((), encode_record(self.record), committed=done))
        return self

    def fold(self):
        """Make blocks of all that is applied, as a broker does that has written its rows."""
        done = self.store.next_index - 1
        record = encode_record(self.record)
        self.store.write(Write((), record, committed=done, checkpoint=done))
        self.store.fold()
        return self

    def close(self):
        self.store.close()


def make_log(path, node, terms, tail=(), *, has_blocks=False, **options):
    """A closed store with entries of ``terms``, then those of ``tail``, not committed.

    With ``has_blocks`` all committed entries but the last are in blocks.
    """
    maker = LogMaker(path, record_of(node))
    for term in terms[:-1]:
        maker.append(term, **options)
    if has_blocks:
        maker.fold()
    for term in terms[-1:]:
        maker.append(term, **options)
    for term in tail:
        maker.append(term, folds=False)
    maker.close()
    return maker


def payloads_in(path):
    """All payloads of the topic, in order."""
    store = LmdbStore(path)
    try:
        assert not store._blocks.damage.found
        found, offset = [], 0
        while messages := list(store.read_topic(b"a", offset, 1_000, 8 << 20).messages()):
            found += [message.payload for message in messages]
            offset += len(messages)
        return found
    finally:
        store.close()
