"""``penstock cluster compare``: whether all nodes have the same state and the same log.

State can be compared only at the same entry. On a cluster at rest that is the last one, which all
have applied. On one that works an entry is chosen that is yet to come, further ahead each time that
some node was quicker than the question; if nothing comes after all, it was the last one.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from penstock.cli.admin_client import AdminClient
from penstock.cli.columns import columns
from penstock.cluster.status import ClusterStatus
from penstock.config.address import parse_listen
from penstock.errors import PenstockError, Refused

AHEAD = (0, 4, 16, 64, 256, 1_024, 0, 64, 512, 4_096)
"""How far ahead of the foremost node to choose the entry, one attempt after another."""

LOG_ENTRIES = 1_000
"""How many of the last entries of the log are compared."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes have at one entry."""

    index: int
    is_equal: bool
    differences: tuple[str, ...]
    """Parts that are not the same everywhere: of the state, or the log."""
    nodes: tuple[dict[str, Any], ...]
    """What each node answered."""
    not_reached: tuple[int, ...]
    """Nodes that did not answer."""

    def table(self) -> str:
        """For people."""
        parts = [*self.nodes[0]["state"], "log"]
        rows = [
            (part, "differs" if part in self.differences else "same", *self._shown(part))
            for part in parts
        ]
        heads = [f"NODE {node['node_id']}" for node in self.nodes]
        lines = [f"at entry {self.index:,}", "", columns([("PART", "", *heads), *rows]), ""]
        verdict = (
            f"DIFFERENT: {', '.join(self.differences)}" if self.differences else "all the same"
        )
        if self.not_reached:
            verdict += f"; not reached: {', '.join(str(node) for node in self.not_reached)}"
        return "\n".join([*lines, verdict])

    def _shown(self, part: str) -> list[str]:
        return [_digest(node, part)[:12] for node in self.nodes]


def compared(broker: AdminClient, status: ClusterStatus) -> Comparison:
    """Ask all members of a cluster for what they have. Raises a PenstockError."""
    addresses = {m.id: m.client_addr for m in status.members if m.client_addr}
    with ThreadPoolExecutor(max(len(addresses), 1)) as threads:
        asked = _NodeDigests(broker, addresses, threads.map)
        for ahead in AHEAD:
            if (found := asked.at_entry(ahead)) is not None:
                return _judged(found, {m.id for m in status.members})
    raise PenstockError(
        "the nodes could not be asked at the same entry: they work too fast, or one lags behind",
        "look at penstock cluster status, and try again",
    )


class _NodeDigests:
    """The nodes, asked all at once."""

    def __init__(
        self, broker: AdminClient, addresses: dict[int, str], each: Callable[..., Any]
    ) -> None:
        self._broker = broker
        self._addresses = addresses
        self._each = each

    def at_entry(self, ahead: int) -> list[dict[str, Any]] | None:
        """What all that answer have at an entry; None if some were beyond it or never got there."""
        states = [found for found in self._each(self._status, self._addresses) if found]
        if not states:
            raise PenstockError("no node answers", "are --server and --token right?")
        index = max(state.applied for _, state in states) + ahead
        first = max(*(state.first_index for _, state in states), index - LOG_ENTRIES)
        found = list(self._each(lambda pair: self._digests(pair[0], index, first), states))
        return None if None in found else found

    def _status(self, node: int) -> tuple[int, ClusterStatus] | None:
        try:
            return node, msgspec.convert(self._at(node).get("/cluster"), ClusterStatus)
        except PenstockError:
            return None

    def _digests(self, node: int, index: int, first: int) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = self._at(node).get(
                "/cluster/digests", index=index, log_first=first
            )
        except Refused:
            return None
        return answer

    def _at(self, node: int) -> AdminClient:
        return self._broker.at(parse_listen(self._addresses[node]))


def _judged(found: list[dict[str, Any]], members: set[int]) -> Comparison:
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


def _digest(node: dict[str, Any], part: str) -> str:
    """One of a node's digests; that of the log says where it begins, too."""
    if part == "log":
        return f"{node['log']} from {node['log_first']}"
    return str(node["state"].get(part, "none"))
