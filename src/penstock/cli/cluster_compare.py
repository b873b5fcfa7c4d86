"""``penstock cluster compare``: whether all nodes have the same state and the same log.

State can be compared only at the same entry. In an idle cluster that is the last one, which all
nodes have applied. In a busy one it is a future entry, further ahead with each attempt that some
node overtook. The log, too, is compared from the same entry on; a node that removed the beginning
of its log meanwhile, as retention does, makes another attempt necessary.
"""

from concurrent.futures import ThreadPoolExecutor

import msgspec

from penstock.cli.admin_client import AdminClient, Document
from penstock.cli.cluster_status import PATH, status_of
from penstock.cli.output import columns
from penstock.cluster.status import ClusterStatus
from penstock.config.address import parse_listen
from penstock.errors import PenstockError, Refused

AHEAD = (0, 0, 4, 16, 64, 256, 1_024, 0, 64, 512, 4_096)
"""How far ahead of the furthest node to choose the entry, by attempt.

The second is for an idle cluster in which a log was shortened: no further entry would come."""

LOG_ENTRIES = 1_000  # last entries of the log that are compared


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The digests of all nodes at one entry."""

    index: int
    is_equal: bool
    differences: tuple[str, ...]  # parts of the state, or the log
    nodes: tuple[Document, ...]
    not_reached: tuple[int, ...]

    def table(self) -> str:
        parts = [*self.nodes[0]["state"], "log"]
        rows = []
        for part in parts:
            digests = [_digest(node, part)[:12] for node in self.nodes]
            rows.append((part, "differs" if part in self.differences else "same", *digests))
        heads = [f"NODE {node['node_id']}" for node in self.nodes]
        lines = [f"at entry {self.index:,}", "", columns([("PART", "", *heads), *rows]), ""]
        verdict = (
            f"DIFFERENT: {', '.join(self.differences)}" if self.differences else "all the same"
        )
        if self.not_reached:
            verdict += f"; not reached: {', '.join(str(node) for node in self.not_reached)}"
        return "\n".join([*lines, verdict])


def compared(broker: AdminClient, status: ClusterStatus) -> Comparison:
    addresses = {m.id: m.client_addr for m in status.members if m.client_addr}
    with ThreadPoolExecutor(max(len(addresses), 1)) as threads:
        digests = _NodeDigests(broker, addresses, threads)
        for ahead in AHEAD:
            if (found := digests.at_entry(ahead)) is not None:
                return _comparison(found, {m.id for m in status.members})
    raise PenstockError(
        "the nodes could not be compared at the same entry: they are too busy, or one lags behind",
        "check penstock cluster status, and try again",
    )


class _NodeDigests:
    """Requests digests from all nodes at once."""

    def __init__(
        self, broker: AdminClient, addresses: dict[int, str], threads: ThreadPoolExecutor
    ) -> None:
        self._broker = broker
        self._addresses = addresses
        self._threads = threads

    def at_entry(self, ahead: int) -> list[Document] | None:
        states = [found for found in self._threads.map(self._status, self._addresses) if found]
        if not states:
            raise PenstockError("no node answers", "check --server, and that you may log in")
        index = max(state.applied for _, state in states) + ahead
        first = max(*(state.first_index for _, state in states), index - LOG_ENTRIES)
        found = list(self._threads.map(lambda pair: self._digests(pair[0], index, first), states))
        digests = [digest for digest in found if digest is not None]
        has_one_start = len({digest["log_first"] for digest in digests}) == 1
        return digests if len(digests) == len(found) and has_one_start else None

    def _status(self, node: int) -> tuple[int, ClusterStatus] | None:
        try:
            return node, status_of(self._at(node))
        except PenstockError:
            return None

    def _digests(self, node: int, index: int, first: int) -> Document | None:
        try:
            return self._at(node).get(f"{PATH}/digests", index=index, log_first=first)
        except Refused:
            return None

    def _at(self, node: int) -> AdminClient:
        return self._broker.at(parse_listen(self._addresses[node]))


def _comparison(found: list[Document], members: set[int]) -> Comparison:
    nodes = sorted(found, key=lambda node: int(node["node_id"]))
    parts = [*nodes[0]["state"], "log"]
    differing = [part for part in parts if len({_digest(node, part) for node in nodes}) > 1]
    return Comparison(
        index=nodes[0]["index"],
        is_equal=not differing,
        differences=tuple(differing),
        nodes=tuple(nodes),
        not_reached=tuple(sorted(members - {node["node_id"] for node in nodes})),
    )


def _digest(node: Document, part: str) -> str:
    if part == "log":
        return str(node["log"])
    return str(node["state"].get(part, "none"))
