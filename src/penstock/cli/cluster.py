"""``penstock cluster``: create a cluster, add and remove nodes, show its status.

Any node can be contacted: it redirects to the leader. Nodes advertise their own addresses
(``cluster.advertise``), so a node is named by its number alone.
"""

import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from penstock.cli.admin_client import (
    AdminClient,
    BrokerUnavailable,
    Document,
    NotFound,
    admin_options,
    parse_address,
)
from penstock.cli.cluster_status import PATH, status_of
from penstock.cli.cluster_try import try_cluster
from penstock.cli.inputs import confirm, duration, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import columns, counted, json_option, print_result
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState, diagnosis, tolerance
from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError
from penstock.obs.reasons import PeerReason

if TYPE_CHECKING:
    from penstock.cluster.recovery import StoppedNode


PROBE_S = 2.0  # timeout for finding out whether a node answers
POLL_S = 0.25
ELECTION_S = 15.0  # several elections with the default timers
TROUBLE_S = 3.0  # before a new node is reported as unreachable: it restarts with its snapshot

_timeout_option = click.option(
    "--timeout",
    "timeout_s",
    callback=duration,
    default="10m",
    show_default=True,
    metavar="TIME",
    help="How long to wait until the node has caught up; it continues without this command.",
)
_node_argument = click.argument("node", type=click.IntRange(1, 65_535), metavar="NODE")


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Create, inspect and change a cluster.

    Start each node with --node-id and --peer-listen, run init on one of them, and join on each of
    the others. To try it on this machine: try.
    """


cluster.add_command(try_cluster)


# ── Inspecting ────────────────────────────────────────────────────────────────────────────────


@cluster.command()
@admin_options
def status(broker: AdminClient) -> None:
    """Show the members, the leader and their lag, with a diagnosis."""
    _show(broker)


def _show(broker: AdminClient) -> None:
    own = status_of(broker)
    found = _leader_view(broker, own)
    is_cut_off = own.state is NodeState.MEMBER and not own.leader and bool(found.leader)
    text = _table(found)
    if is_cut_off:
        text += (
            f"\n\nnode {own.node_id}, which you contacted, sees no leader: it is cut off from the"
            " others; check the network between the nodes"
        )
    fields: Document = msgspec.to_builtins(found)
    del fields["counts"]
    document = {"diagnosis": diagnosis(found), **fields, "asked": own.node_id}
    print_result({**document, "is_cut_off": is_cut_off}, text)


def _leader_view(broker: AdminClient, own: ClusterStatus | None = None) -> ClusterStatus:
    own = own or status_of(broker)
    if own.state is not NodeState.MEMBER or own.is_leader:
        return own
    if own.leader and own.leader_addr:
        leader = _status_at(broker, own.leader_addr)
        return leader if leader is not None and leader.is_leader else own
    return _probed(broker, own)


def _probed(broker: AdminClient, own: ClusterStatus) -> ClusterStatus:
    """Contact every other node: one may know a leader, and all may be up but cut off.

    ``is_active`` remains as the contacted node sees it: nodes may not reach each other.
    """
    found = {m.id: _status_at(broker, m.client_addr) for m in own.members if m.id != own.node_id}
    same = [s for s in found.values() if s is not None and s.cluster_id == own.cluster_id]
    leaders = [status for status in same if status.is_leader]
    if leaders:
        return max(leaders, key=lambda status: status.term)
    members = [
        msgspec.structs.replace(m, answers=bool(found.get(m.id)) if m.client_addr else None)
        if m.id != own.node_id
        else m
        for m in own.members
    ]
    return msgspec.structs.replace(own, members=tuple(members))


def _status_at(broker: AdminClient, address: str) -> ClusterStatus | None:
    try:
        return status_of(broker.at(parse_listen(address), PROBE_S))
    except (PenstockError, ValueError):
        return None


def _table(found: ClusterStatus) -> str:
    facts = [
        ("cluster", found.cluster_id or "none"),
        ("leader", f"node {found.leader}, in term {found.term}" if found.leader else "none"),
        ("committed", counted(found.commit, "entry")),
    ]
    if not found.members:
        return f"node {found.node_id}: {diagnosis(found)}"
    head = ("NODE", "ROLE", "LAG", "LAST SEEN", "FOR NODES", "FOR CLIENTS")
    rows = [_row(found, member) for member in found.members]
    parts = [columns(facts), columns([head, *rows]), diagnosis(found)]
    return "\n\n".join([*parts, *filter(None, [_troubles(found)])])


def _troubles(found: ClusterStatus) -> str:
    known = f" ({PeerReason.NOT_REACHED.value})"  # the table shows it
    lines = []
    for member in found.members:
        if member.trouble:
            lines.append(f"node {member.id}: {member.trouble.removesuffix(known)}")
        if member.snapshot_bytes_total:
            lines.append(f"node {member.id}: {_snapshot(member)} sent")
        elif member.snapshot_trouble:
            failed = f"the last snapshot for it failed: {member.snapshot_trouble}"
            lines.append(f"node {member.id}: {failed}")
    return "\n".join(lines)


def _snapshot(member: MemberStatus) -> str:
    """How much of its snapshot a node has."""
    total = member.snapshot_bytes_total
    text = f"{member.snapshot_bytes / 1e6:,.1f} of {total / 1e6:,.1f} MB of a snapshot"
    if member.snapshot_blocks_total:
        text += f" ({member.snapshot_blocks:,} of {member.snapshot_blocks_total:,} blocks)"
    return text


_ANSWERS = {None: "", True: " (answers)", False: " (no answer)"}


def _row(found: ClusterStatus, member: MemberStatus) -> tuple[str, ...]:
    role = "learner" if member.is_learner else "follower"
    return (
        str(member.id),
        "leader" if member.id == found.leader else role,
        "-" if member.lag is None else f"{member.lag:,}",
        _last_seen(found, member),
        member.peer_addr or "-",
        f"{member.client_addr or '-'}{_ANSWERS[member.answers]}",
    )


def _last_seen(found: ClusterStatus, member: MemberStatus) -> str:
    if member.id == found.node_id:
        return "now"
    if member.is_active is None:
        return "-"
    if member.contact_s is None:
        return "reachable" if member.is_active else "unreachable"
    return f"{member.contact_s:.1f} s ago{'' if member.is_active else ' (unreachable)'}"


@cluster.command()
@admin_options
def compare(broker: AdminClient) -> None:
    """Check whether all nodes have the same state and log.

    Each node computes digests of its state (sessions, groups, keys, …) at the same entry, and of
    the last 1,000 entries of its log, while it keeps serving. Exits with 1 if they differ.
    """
    from penstock.cli.cluster_compare import compared  # noqa: PLC0415 - seldom needed

    found = compared(broker, _leader_view(broker))
    print_result(msgspec.to_builtins(found), found.table())
    raise SystemExit(not found.is_equal)


# ── Creating and joining ──────────────────────────────────────────────────────────────────────


def _node(text: str) -> Document:
    number, equals, addresses = text.partition("=")
    peer, _, client = addresses.partition("@")
    if not equals or not (number.isascii() and number.isdecimal()):
        raise click.BadParameter(f"{text!r}: write NUMBER=HOST:PEERPORT@HOST:CLIENTPORT")
    try:
        for address in filter(None, (peer, client)):
            parse_listen(address)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    return {"node": int(number), "peer_addr": peer, "client_addr": client}


@cluster.command()
@click.option(
    "--node",
    "nodes",
    multiple=True,
    callback=lambda _context, _parameter, texts: list(map(_node, texts)),
    metavar="NUMBER=PEER[@CLIENT]",
    help="An initial member, as in 1=10.0.0.1:7700@10.0.0.1:1883; repeat it for each member,"
    " including the contacted node. By default the contacted node is the only member.",
)
@admin_options
def init(*, nodes: list[Document], broker: AdminClient) -> None:
    """Create a cluster of one node, or of those named.

    Run it once, on one of them. Repeating it changes nothing.
    """
    before = status_of(broker)
    broker.post(f"{PATH}/init", nodes=nodes)
    if before.state is NodeState.MEMBER:
        member = f"node {before.node_id} is already in cluster {before.cluster_id}"
        click.echo(f"{member}: nothing was changed", err=True)
    _await(lambda: bool(status_of(broker).leader), ELECTION_S)
    _show(broker)


@cluster.command()
@click.option(
    "--to",
    "existing",
    required=True,
    callback=parse_address,
    metavar="HOST:PORT",
    help="Client address of any node of the cluster.",
)
@_timeout_option
@admin_options
def join(*, existing: Address, timeout_s: float, broker: AdminClient) -> None:
    """Add a new node to a cluster, and wait until it has caught up.

    The contacted node (-h, -p, --server) is the new one. It is a learner first, and becomes a voter
    once it has caught up.
    """
    there = broker.at(existing)
    seen, cluster_there = broker.get(f"{PATH}/status"), status_of(there)
    own = msgspec.convert(seen["status"], ClusterStatus)
    if cluster_there.state is not NodeState.MEMBER:
        raise PenstockError(
            f"the node at {there.server} cannot be joined", diagnosis(cluster_there)
        )
    if not _is_member(own, cluster_there):
        addresses = {name: seen[name] for name in ("peer_addr", "client_addr")}
        _retried(lambda: there.post(f"{PATH}/members", node=own.node_id, **addresses))
    _follow(there, own.node_id, timeout_s)
    _show(there)


def _is_member(own: ClusterStatus, there: ClusterStatus) -> bool:
    """Whether the node is a member already. Raises if it cannot join."""
    name = f"node {own.node_id}"
    if own.state is NodeState.LONE:
        advice = "start it with --node-id and --peer-listen, and with an empty data directory"
        raise PenstockError(f"{name} is standalone and cannot join a cluster", advice)
    if own.state is NodeState.REMOVED:
        advice = "start it with another --node-id and an empty data directory"
        raise PenstockError(
            f"{name} was removed from a cluster and cannot join under this number", advice
        )
    if own.state is NodeState.WAITING and own.emptied_of:
        raise PenstockError(f"{name} cannot join", diagnosis(own))
    if own.state is NodeState.WAITING:
        _check_disk(own.node_id, there)
        return False
    if own.cluster_id == there.cluster_id:
        return True
    raise PenstockError(
        f"{name} is a member of another cluster",
        "check --to. A node can join only with an empty data directory: stop it, empty the"
        " directory or choose another with --data, start it and join again",
    )


def _check_disk(node: int, there: ClusterStatus) -> None:
    """A voter without data has lost its disk, and with it its votes and log."""
    if node in {member.id for member in there.voters}:
        raise PenstockError(
            f"node {node} is already a member of the cluster, but its data directory is empty",
            "if its data is lost, start it with a number that was never used, join, and then"
            f" run penstock cluster remove {node}",
        )


def _follow(leader: AdminClient, node: int, timeout_s: float) -> None:
    progress = _JoinProgress(leader, node)
    if not _await(progress.is_voter, timeout_s):
        late = f"node {node} has not caught up within {timeout_s:g} s"
        if progress.trouble:
            raise PenstockError(f"{late}: {progress.trouble}", _repair_advice(node))
        raise PenstockError(late, "it continues; penstock cluster status shows its lag")
    _progress(f"node {node} has caught up and is a voter", is_last=True)


def _repair_advice(node: int) -> str:
    return (
        "fix that and restart the node, which then continues; if the address is wrong, run"
        f" penstock cluster remove {node}, and join with another number"
    )


class _JoinProgress:
    """Polls the progress of a new node, and reports changes."""

    def __init__(self, leader: AdminClient, node: int) -> None:
        self._leader = leader
        self._node = node
        self._reported = ""
        self._since = 0.0
        self.trouble = ""  # why the leader does not reach the node

    def is_voter(self) -> bool:
        found = _leader_view(self._leader)
        member = next((m for m in found.members if m.id == self._node), None)
        if member is not None and member.is_blank:
            raise PenstockError(f"node {self._node} has lost its data", diagnosis(found))
        if member is not None and not member.is_learner:
            return True
        self._report_trouble(member.trouble if member else "")
        text = f"node {self._node} is catching up: {_behind(member)}"
        if text != self._reported:
            _progress(text)
        self._reported = text
        return False

    def _report_trouble(self, trouble: str) -> None:
        """Report a problem that lasts, once. Short ones are normal when joining."""
        now = time.monotonic()
        if trouble != self.trouble:
            self.trouble, self._since = trouble, now
        elif trouble and now - self._since >= TROUBLE_S:
            self._since = float("inf")
            _progress(f"node {self._node}: {trouble}; {_repair_advice(self._node)}", is_last=True)


def _behind(member: MemberStatus | None) -> str:
    if member is not None and member.snapshot_bytes_total:
        return f"{_snapshot(member)} sent"
    lag = member.lag if member is not None else None
    return "not heard from yet" if lag is None else f"{counted(lag, 'entry')} behind"


def _progress(text: str, *, is_last: bool = False) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{text:<80}", err=True, nl=is_last)
    elif is_last:
        click.echo(text, err=True)


# ── Changing ──────────────────────────────────────────────────────────────────────────────────


@cluster.command()
@_node_argument
@yes_option
@admin_options
def remove(node: int, *, broker: AdminClient) -> None:
    """Remove NODE from the cluster.

    Its data becomes useless, and its number must not be reused. If it is the leader, another node
    takes over first.
    """
    found = _leader_view(broker)
    if not found.members:
        raise PenstockError(f"there is no node {node} to remove", diagnosis(found))
    if node not in {member.id for member in found.members}:
        known = ", ".join(str(member.id) for member in found.members)
        raise PenstockError(f"there is no node {node}", f"there are {known}")
    left = len([member for member in found.voters if member.id != node])
    lost = tolerance(left)
    rest = f"tolerates the loss of {counted(lost, 'node')}" if lost else "no fault tolerance"
    confirm(f"Remove node {node} permanently? ({counted(left, 'voter')} left: {rest})")
    with suppress(NotFound):  # a request that was not answered has removed it
        _retried(lambda: broker.delete(f"{PATH}/members", node=node))
    print_result({"removed": node}, f"removed node {node}: stop it now")


@cluster.command()
@_node_argument
@admin_options
def transfer(node: int, broker: AdminClient) -> None:
    """Transfer leadership to NODE.

    For example before the leader is restarted. Clients notice a short delay at most.
    """
    _retried(lambda: broker.post(f"{PATH}/transfer", to=node))
    if not _await(lambda: status_of(broker).leader == node, ELECTION_S):
        advice = "check with penstock cluster status that it is up and has caught up"
        raise PenstockError(f"node {node} is not the leader after {ELECTION_S:g} s", advice)
    print_result({"leader": node}, f"node {node} is the leader")


@cluster.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--i-understand-that-acknowledged-messages-may-be-lost",
    "is_understood",
    is_flag=True,
    help="Go ahead. Without it, the command shows what the directory contains and changes nothing.",
)
@json_option
def recover(directory: Path, *, is_understood: bool) -> None:
    """Turn a node that has lost its peers into a cluster of one.

    DIRECTORY is the node's data directory. Messages that the lost nodes acknowledged and this one
    never received are lost; everything on this node is kept. The cluster gets a new id, so that a
    lost node cannot return to it. Start the node as before, and join new nodes with empty
    directories and numbers that were never used.

    If several nodes are left, inspect each of them first, and recover the one whose last entry has
    the highest term and, among those, the highest index. Empty the others, and join them again.
    """
    from penstock.cluster.recovery import inspect_stopped_node  # noqa: PLC0415 - the same
    from penstock.cluster.recovery import recover as recover_directory  # noqa: PLC0415 - needs the store

    if not is_understood:
        found = inspect_stopped_node(directory)
        print_result(msgspec.to_builtins(found), _facts(found))
        raise PenstockError(
            "nothing was changed: messages that only the lost nodes had would be lost permanently",
            "use --i-understand-that-acknowledged-messages-may-be-lost to go ahead",
        )
    cluster_id = secrets.token_bytes(16)
    found = recover_directory(directory, cluster_id)
    document = {**msgspec.to_builtins(found), "new_cluster_id": cluster_id.hex()}
    text = (
        f"{_facts(found)}\n\nnode {found.node_id} is now the cluster {cluster_id.hex()}: start it"
        " as before, and join new nodes (penstock cluster join). Never start the lost nodes again"
        " with their old directories."
    )
    print_result(document, text)


def _facts(found: "StoppedNode") -> str:
    members = ", ".join(str(node) for node in found.members)
    return columns(
        [
            ("node", str(found.node_id)),
            ("cluster", f"{found.cluster_id}, of nodes {members}"),
            ("last entry", f"{found.last_index:,}, of term {found.last_term:,}"),
            ("committed", f"{counted(found.committed, 'entry')}, as far as this node knew"),
        ]
    )


def _retried(request: Callable[[], object]) -> None:
    deadline = time.monotonic() + ELECTION_S
    while True:
        try:
            request()
        except BrokerUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


def _await(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until a condition holds; ignore errors until the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return True
        except PenstockError:
            if time.monotonic() >= deadline:
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
