"""``penstock cluster``: begin a cluster, have nodes join and leave, see how it is.

Any node may be asked: what only the leader knows or does is asked of the leader, whose address the
others tell. Where nodes are reached they say themselves (``cluster.advertise``), so a node is named
by its number alone.

What takes a while (a leader is elected, a node catches up) is waited for, and told as it goes.
"""

import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from penstock.cli.admin_client import (
    AdminClient,
    Unavailable,
    admin_options,
    confirm,
    duration,
    json_option,
    print_result,
    yes_option,
)
from penstock.cli.cluster_try import try_cluster
from penstock.cli.columns import columns
from penstock.cli.connection import CONTEXT
from penstock.cli.lazy import CommandGroup
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState, diagnosis, tolerance
from penstock.config.address import Address, parse_listen
from penstock.errors import PenstockError
from penstock.obs.reasons import PeerReason

if TYPE_CHECKING:
    from penstock.cluster.recovery import StoppedNode


PROBE_S = 2.0
"""How long a node may take to answer, where we only want to know whether it does."""

LOOK_S = 0.25
"""How often to look whether what was asked for has happened."""

ELECTION_S = 15.0
"""How long to wait for a leader: several elections with the default timers."""

TROUBLE_S = 3.0
"""How long a new node may be out of reach before that is told: it starts anew with its copy."""

_timeout_option = click.option(
    "--timeout",
    "timeout_s",
    callback=duration,
    default="10m",
    show_default=True,
    metavar="TIME",
    help="How long to wait until the node has caught up; it goes on by itself afterwards.",
)
_node_argument = click.argument("node", type=click.IntRange(1, 65_535), metavar="NODE")


@click.group(cls=CommandGroup, context_settings=CONTEXT)
def cluster() -> None:
    """Begin, join, look at and change a cluster.

    Start each node with --node-id and --peer-listen, run init on one of them, and join on each of
    the others. To see one first: try.
    """


cluster.add_command(try_cluster)


# ── Looking ───────────────────────────────────────────────────────────────────────────────────


@cluster.command(context_settings=CONTEXT)
@json_option
@admin_options
def status(*, as_json: bool, broker: AdminClient) -> None:
    """Show who takes part, who leads and who is behind.

    With a sentence on whether all is well, and what to do if not.
    """
    _show(broker, as_json=as_json)


def _show(broker: AdminClient, *, as_json: bool) -> None:
    own = _status_of(broker)
    found = _seen_from(broker, own)
    is_cut_off = own.state is NodeState.MEMBER and not own.leader and bool(found.leader)
    text = f"{_table(found)}\n\n{_cut_off(own)}" if is_cut_off else _table(found)
    print_result(
        {**_document(found), "asked": own.node_id, "is_cut_off": is_cut_off}, text, as_json=as_json
    )


def _cut_off(own: ClusterStatus) -> str:
    return (
        f"node {own.node_id}, which was asked, hears of no leader: it is cut off from the others;"
        " look at the network between nodes"
    )


def _document(found: ClusterStatus) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(found)
    del shown["counts"]
    return {"diagnosis": diagnosis(found), **shown}


def _seen(broker: AdminClient) -> ClusterStatus:
    return _seen_from(broker, _status_of(broker))


def _seen_from(broker: AdminClient, own: ClusterStatus) -> ClusterStatus:
    """How the cluster is: as the leader says; without one, as the node that is asked sees it."""
    if own.state is not NodeState.MEMBER or own.is_leader:
        return own
    if own.leader and own.leader_addr:
        try:
            told = _status_of(broker.at(parse_listen(own.leader_addr), PROBE_S))
        except (PenstockError, ValueError):
            return own
        return told if told.is_leader else own
    return _probed(broker, own)


def _status_of(broker: AdminClient) -> ClusterStatus:
    return msgspec.convert(broker.get("/cluster"), ClusterStatus)


def _probed(broker: AdminClient, own: ClusterStatus) -> ClusterStatus:
    """Ask every other node ourselves: one may know a leader, and all may be up though cut off.

    Whether a node answers us says nothing of whether nodes hear of each other: that stays as the
    node that was asked sees it.
    """
    told = {m.id: _told(broker, m.client_addr) for m in own.members if m.id != own.node_id}
    of_ours = [s for s in told.values() if s is not None and s.cluster_id == own.cluster_id]
    leaders = [status for status in of_ours if status.is_leader]
    if leaders:
        return max(leaders, key=lambda status: status.term)
    members = [
        msgspec.structs.replace(m, answers=bool(told.get(m.id)) if m.client_addr else None)
        if m.id != own.node_id
        else m
        for m in own.members
    ]
    return msgspec.structs.replace(own, members=tuple(members))


def _told(broker: AdminClient, address: str) -> ClusterStatus | None:
    """How a node sees the cluster, if it answers."""
    try:
        return _status_of(broker.at(parse_listen(address), PROBE_S))
    except (PenstockError, ValueError):
        return None


def _table(found: ClusterStatus) -> str:
    facts = [
        ("cluster", found.cluster_id or "none"),
        ("leader", f"node {found.leader}, in term {found.term}" if found.leader else "none"),
        ("committed", f"{found.commit:,} entries"),
    ]
    if not found.members:
        return f"node {found.node_id}: {diagnosis(found)}"
    head = ("NODE", "ROLE", "LAG", "LAST SEEN", "FOR NODES", "FOR CLIENTS")
    rows = [_row(found, place) for place in range(len(found.members))]
    parts = [columns(facts), columns([head, *rows]), diagnosis(found)]
    return "\n\n".join([*parts, *filter(None, [_troubles(found)])])


def _troubles(found: ClusterStatus) -> str:
    """Why nodes are not reached, as the one that was asked knows it."""
    known = f" ({PeerReason.NOT_REACHED.value})"  # the table says so
    lines = [f"node {m.id}: {m.trouble.removesuffix(known)}" for m in found.members if m.trouble]
    return "\n".join(lines)


def _row(found: ClusterStatus, place: int) -> tuple[str, ...]:
    member = found.members[place]
    return (
        str(member.id),
        _role(found, place),
        "-" if member.lag is None else f"{member.lag:,}",
        _last_seen(found, place),
        member.peer_addr or "-",
        f"{member.client_addr or '-'}{_answer(member.answers)}",
    )


def _role(found: ClusterStatus, place: int) -> str:
    member = found.members[place]
    if member.id == found.leader:
        return "leader"
    return "learner" if member.is_learner else "follower"


def _last_seen(found: ClusterStatus, place: int) -> str:
    member = found.members[place]
    if member.id == found.node_id:
        return "now"
    if member.is_active is None:
        return "-"
    if member.contact_s is None:
        return "reachable" if member.is_active else "unreachable"
    return f"{member.contact_s:.1f} s ago{'' if member.is_active else ' (unreachable)'}"


def _answer(answers: bool | None) -> str:
    if answers is None:
        return ""
    return " (answers)" if answers else " (no answer)"


@cluster.command(context_settings=CONTEXT)
@json_option
@admin_options
def compare(*, as_json: bool, broker: AdminClient) -> None:
    """Check whether all nodes have the same state and log.

    Each node makes digests of its state (sessions, groups, keys, …) at the same entry, and of the
    last 1,000 entries of its log, while it goes on working. Exit status 1 if they differ.
    """
    from penstock.cli.cluster_compare import compared  # noqa: PLC0415 - seldom needed

    found = compared(broker, _seen(broker))
    print_result(msgspec.to_builtins(found), found.table(), as_json=as_json)
    raise SystemExit(not found.is_equal)


# ── Beginning ─────────────────────────────────────────────────────────────────────────────────


def _nodes(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Take nodes as in 1=10.0.0.1:7700@10.0.0.1:1883 (a click callback)."""
    return [_node(text) for text in texts]


def _node(text: str) -> dict[str, Any]:
    number, equals, addresses = text.partition("=")
    peer, _, client = addresses.partition("@")
    if not equals or not (number.isascii() and number.isdecimal()):
        raise click.BadParameter(f"{text!r}: write NUMBER=HOST:PEERPORT@HOST:CLIENTPORT")
    try:
        for address in filter(None, (peer, client)):
            parse_listen(address)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from None
    return {"id": int(number), "peer_addr": peer, "client_addr": client}


@cluster.command(context_settings=CONTEXT)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    callback=_nodes,
    metavar="NUMBER=PEER[@CLIENT]",
    help="A node to begin with, as in 1=10.0.0.1:7700@10.0.0.1:1883; repeated for each, the one"
    " that is asked included. Without any, the cluster begins with the one that is asked.",
)
@json_option
@admin_options
def init(*, nodes: list[dict[str, Any]], as_json: bool, broker: AdminClient) -> None:
    """Begin a cluster of one node, or of those named.

    Once, at one of them. To do it again changes nothing.
    """
    before = _status_of(broker)
    broker.post("/cluster/init", nodes=nodes)
    if before.state is NodeState.MEMBER:
        is_in = f"node {before.node_id} is in cluster {before.cluster_id} already"
        click.echo(f"{is_in}: nothing was changed", err=True)
    _await(lambda: bool(_status_of(broker).leader), ELECTION_S)
    _show(broker, as_json=as_json)


@cluster.command(context_settings=CONTEXT)
@click.option(
    "--to",
    "existing",
    required=True,
    metavar="HOST:PORT",
    help="Any node of the cluster, at its address for clients.",
)
@_timeout_option
@json_option
@admin_options
def join(*, existing: str, timeout_s: float, as_json: bool, broker: AdminClient) -> None:
    """Have a new node join a cluster, and wait until it has caught up.

    The node that is asked (-h, -p, --server) is the new one. It learns first, and has a vote once
    it has what the others have.
    """
    there = broker.at(_address(existing))
    own, cluster_there = broker.get("/cluster"), _status_of(there)
    if cluster_there.state is not NodeState.MEMBER:
        raise PenstockError(
            f"the node at {there.server} cannot be joined", diagnosis(cluster_there)
        )
    if not _is_part(own, cluster_there):
        addresses = {name: own[name] for name in ("peer_addr", "client_addr")}
        _patiently(lambda: there.post("/cluster/members", id=own["node_id"], **addresses))
    _follow(there, own["node_id"], timeout_s)
    _show(there, as_json=as_json)


def _address(text: str) -> Address:
    try:
        return parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None


def _is_part(own: dict[str, Any], there: ClusterStatus) -> bool:
    """Whether the node belongs to the cluster already; an error if it cannot join it."""
    name = f"node {own['node_id']}"
    if own["state"] == NodeState.LONE:
        advice = "start it with --node-id and --peer-listen, and with an empty data directory"
        raise PenstockError(f"{name} stands alone: it cannot join a cluster", advice)
    if own["state"] == NodeState.REMOVED:
        advice = "start it with another --node-id and an empty data directory"
        raise PenstockError(f"{name} was removed from a cluster: it cannot come back so", advice)
    if own["state"] == NodeState.WAITING and own.get("emptied_of"):
        raise PenstockError(f"{name} cannot join", own["diagnosis"])
    if own["state"] == NodeState.WAITING:
        _check_disk(own["node_id"], there)
        return False
    if own["cluster_id"] == there.cluster_id:
        return True
    raise PenstockError(
        f"{name} is part of another cluster",
        "is --to right? A node joins with an empty data directory only: stop it, empty its own or"
        " name another with --data, start it and join again",
    )


def _check_disk(node: int, there: ClusterStatus) -> None:
    """A voter that has nothing has lost its disk, and with it what it has promised."""
    if node in {member.id for member in there.voters}:
        raise PenstockError(
            f"node {node} is part of the cluster already, but its data directory is empty",
            "if its data are lost, start it with a number that was never used, join, and then"
            f" run penstock cluster remove {node}",
        )


def _follow(leader: AdminClient, node: int, timeout_s: float) -> None:
    """Tell how far a node is, until it has a vote."""
    watch = _Watch(leader, node)
    if not _await(watch.has_vote, timeout_s):
        late = f"node {node} has not caught up within {timeout_s:g} s"
        if watch.trouble:
            raise PenstockError(f"{late}: {watch.trouble}", _mending(node))
        raise PenstockError(
            late, "it goes on by itself; penstock cluster status tells how far it is"
        )
    _progress(f"node {node} has caught up, and has a vote", is_last=True)


def _mending(node: int) -> str:
    return (
        "mend it and restart the node: then it goes on by itself; if the address is wrong, run"
        f" penstock cluster remove {node}, and have it join under another number"
    )


class _Watch:
    """Looks how far a new node is, and tells what has changed since the last look."""

    def __init__(self, leader: AdminClient, node: int) -> None:
        self._leader = leader
        self._node = node
        self._told = ""
        self._since = 0.0
        self.trouble = ""
        """Why the leader does not reach the node."""

    def has_vote(self) -> bool:
        found = _seen(self._leader)
        member = next((m for m in found.members if m.id == self._node), None)
        if member is not None and member.is_blank:
            raise PenstockError(f"node {self._node} has lost its data", diagnosis(found))
        if member is not None and not member.is_learner:
            return True
        self._complain(member.trouble if member else "")
        self._tell(f"node {self._node} is learning: {_behind(member)}")
        return False

    def _complain(self, trouble: str) -> None:
        """Tell of a trouble that stays, once. One that passes is part of joining."""
        now = time.monotonic()
        if trouble != self.trouble:
            self.trouble, self._since = trouble, now
        elif trouble and now - self._since >= TROUBLE_S:
            self._since = float("inf")
            _progress(f"node {self._node}: {trouble}; {_mending(self._node)}", is_last=True)

    def _tell(self, text: str) -> None:
        if text != self._told:
            _progress(text)
        self._told = text


def _behind(member: MemberStatus | None) -> str:
    if member is not None and member.snapshot_bytes:
        return f"{member.snapshot_bytes / 1e6:,.1f} MB of a copy of the store sent"
    lag = member.lag if member is not None else None
    return "not heard of yet" if lag is None else f"{lag:,} entries behind"


def _progress(text: str, *, is_last: bool = False) -> None:
    """One line that changes, for whoever watches; for logs, a line at the end."""
    if sys.stderr.isatty():
        click.echo(f"\r{text:<60}", err=True, nl=is_last)
    elif is_last:
        click.echo(text, err=True)


# ── Changing ──────────────────────────────────────────────────────────────────────────────────


@cluster.command(context_settings=CONTEXT)
@_node_argument
@yes_option
@json_option
@admin_options
def remove(node: int, *, is_sure: bool, as_json: bool, broker: AdminClient) -> None:
    """Remove NODE from the cluster.

    Its data are of no use to the cluster any more, and its number is not to be given again. If it
    leads, another node takes over first.
    """
    found = _seen(broker)
    if not found.members:
        raise PenstockError(f"there is no node {node} to remove", diagnosis(found))
    if node not in {member.id for member in found.members}:
        known = ", ".join(str(member.id) for member in found.members)
        raise PenstockError(f"there is no node {node}", f"there are {known}")
    left = len([member for member in found.voters if member.id != node])
    loss = f"the nodes that are left, {left}, survive the loss of {tolerance(left)}"
    confirm(f"Remove node {node}, for good? ({loss})", is_sure=is_sure)
    _patiently(lambda: broker.delete("/cluster/members", id=node))
    print_result({"removed": node}, f"removed node {node}: stop it now", as_json=as_json)


@cluster.command(context_settings=CONTEXT)
@_node_argument
@json_option
@admin_options
def transfer(node: int, *, as_json: bool, broker: AdminClient) -> None:
    """Have NODE lead, as before a restart of the one that does.

    Clients notice a short delay at most.
    """
    _patiently(lambda: broker.post("/cluster/transfer", to=node))
    if not _await(lambda: _status_of(broker).leader == node, ELECTION_S):
        raise PenstockError(
            f"node {node} does not lead after {ELECTION_S:g} s",
            "is it up, and not behind? penstock cluster status tells",
        )
    print_result({"leader": node}, f"node {node} leads", as_json=as_json)


@cluster.command(context_settings=CONTEXT)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--i-understand-that-acknowledged-messages-may-be-lost",
    "is_understood",
    is_flag=True,
    help="Do it. Without this the command shows what the directory has and changes nothing.",
)
@json_option
def recover(directory: Path, *, is_understood: bool, as_json: bool) -> None:
    """Turn a node whose peers are lost into a cluster of one.

    DIRECTORY is the node's data directory. What the lost nodes had acknowledged and this one never
    received is lost; all that this one has is kept. The cluster gets a new id: a lost node that
    turns up again cannot come back to it. Start the node as before and have new nodes join, with
    numbers that were never used and empty directories.

    With several nodes left, look at each of them first and recover the one whose last entry has the
    greatest term and, of those, the greatest index. Empty the others, and join them anew.
    """
    from penstock.cluster.recovery import inspect_stopped_node  # noqa: PLC0415 - the same
    from penstock.cluster.recovery import recover as begin_anew  # noqa: PLC0415 - needs the store

    if not is_understood:
        found = inspect_stopped_node(directory)
        print_result(msgspec.to_builtins(found), _remains(found), as_json=as_json)
        raise PenstockError(
            "nothing was changed: messages that only the lost nodes had would be lost for good",
            "give --i-understand-that-acknowledged-messages-may-be-lost to go on",
        )
    cluster_id = secrets.token_bytes(16)
    found = begin_anew(directory, cluster_id)
    document = {**msgspec.to_builtins(found), "new_cluster_id": cluster_id.hex()}
    text = (
        f"{_remains(found)}\n\nnode {found.node_id} is cluster {cluster_id.hex()} of its own: start"
        " it as before, and have new nodes join it (penstock cluster join). Never start the lost"
        " nodes again with their old directories."
    )
    print_result(document, text, as_json=as_json)


def _remains(found: "StoppedNode") -> str:
    members = ", ".join(str(node) for node in found.members)
    return columns(
        [
            ("node", str(found.node_id)),
            ("cluster", f"{found.cluster_id}, of nodes {members}"),
            ("last entry", f"{found.last_index:,}, of term {found.last_term:,}"),
            ("committed", f"{found.committed:,} entries, as far as this node knew"),
        ]
    )


def _patiently(ask: Callable[[], Any]) -> None:
    """Ask for a change, again while an election is under way."""
    deadline = time.monotonic() + ELECTION_S
    while True:
        try:
            ask()
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOOK_S)
        else:
            return


def _await(is_so: Callable[[], bool], timeout_s: float) -> bool:
    """Look until something is so; whoever cannot be asked for a moment is asked again."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if is_so():
                return True
        except PenstockError:
            if time.monotonic() >= deadline:
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
