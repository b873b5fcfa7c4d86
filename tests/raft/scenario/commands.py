"""The commands of the language. What they do is etcd's.

Ours are ``read-index``, ``report-snapshot`` and ``restart``, and the options ``max-size-per-msg``,
``max-inflight-bytes`` and ``max-uncommitted-size`` of ``add-nodes``.
"""

from collections.abc import Callable, Iterator

from penstock.raft.config import RaftConfig
from penstock.raft.errors import ProposalDropped
from penstock.raft.types import (
    NO_LIMIT,
    ConfChange,
    ConfChangeKind,
    ConfChangeTransition,
    ConfState,
    MessageKind,
    RaftMessage,
    SnapshotMeta,
)
from tests.raft.datadriven import Directive
from tests.raft.scenario import describe
from tests.raft.scenario.environment import Environment, Node
from tests.raft.scenario.storage import MemoryLog

Command = Callable[[Environment, Directive], None]

ELECTION_TICKS = 3
HEARTBEAT_TICKS = 1
KINDS = {name: kind for kind, name in describe.MESSAGES.items()}
STEPS = {letter: kind for kind, letter in describe.STEPS.items()}
TRANSITIONS = {
    "auto": ConfChangeTransition.AUTO,
    "implicit": ConfChangeTransition.JOINT_IMPLICIT,
    "explicit": ConfChangeTransition.JOINT_EXPLICIT,
}


def _ids(directive: Directive, name: str) -> tuple[int, ...]:
    return tuple(map(int, directive.values(name) or ()))


def _number(directive: Directive, name: str, default: int) -> int:
    return int(directive.value(name, str(default)))


def _node(env: Environment, directive: Directive, place: int = 0) -> Node:
    return env.nodes[int(directive.names[place])]


def _nodes(env: Environment, directive: Directive) -> list[Node]:
    """The nodes that are named, or else all."""
    return [env.nodes[int(name)] for name in directive.names] or list(env.nodes.values())


def add_nodes(env: Environment, directive: Directive) -> None:
    """More participants; with ``index=``, with a snapshot of that index and of term 1."""
    index = _number(directive, "index", 0)
    conf = ConfState(voters=_ids(directive, "voters"), learners=_ids(directive, "learners"))
    start = SnapshotMeta(index, 1, conf) if index else SnapshotMeta()
    for _ in range(int(directive.names[0])):
        config = _config(env, directive, node_id=len(env.nodes) + 1, applied=index)
        is_async = directive.flag("async-storage-writes")
        env.nodes[config.node_id] = Node(config, MemoryLog(start), is_async=is_async)


def _config(env: Environment, directive: Directive, *, node_id: int, applied: int) -> RaftConfig:
    per_message = _number(directive, "max-size-per-msg", NO_LIMIT)
    return RaftConfig(
        node_id=node_id,
        election_ticks=ELECTION_TICKS,
        heartbeat_ticks=HEARTBEAT_TICKS,
        bytes_per_message_max=per_message,
        committed_bytes_per_ready_max=_number(
            directive, "max-committed-size-per-ready", per_message
        ),
        uncommitted_bytes_max=_number(directive, "max-uncommitted-size", NO_LIMIT),
        inflight_messages_max=_number(directive, "inflight", 1 << 31),
        inflight_bytes_max=_number(directive, "max-inflight-bytes", 0),
        check_quorum=directive.flag("checkquorum"),
        pre_vote=directive.flag("prevote"),
        read_only_lease=directive.value("read-only", "safe") == "lease-based",
        forwards_proposals=True,
        validates_conf_changes=not directive.flag("disable-conf-change-validation"),
        steps_down_on_removal=directive.flag("step-down-on-removal"),
        applies_unstable=not directive.flag("async-storage-writes"),
        applied=applied,
        roll=lambda _sides: 0,
        trace=env.output.trace,
    )


def campaign(env: Environment, directive: Directive) -> None:
    _node(env, directive).raw.campaign()


def compact(env: Environment, directive: Directive) -> None:
    _node(env, directive).log.compact(int(directive.names[1]))
    raft_log(env, directive)


def deliver_msgs(env: Environment, directive: Directive) -> None:
    """To the nodes that are named; those under ``drop=`` lose theirs. ``type=`` picks a kind."""
    name = directive.value("type", "")
    kind = KINDS[name] if name else None
    moved = 0
    for key, values in directive.arguments:
        if not values:
            moved += env.deliver(int(key), kind)
        elif key == "drop":
            moved += sum(env.drop(int(node), kind) for node in values)
    if not moved:
        env.output.say("no messages")


def process_ready(env: Environment, directive: Directive) -> None:
    for node in _announced(env, directive, "handling Ready"):
        env.process_ready(node)


def process_append_thread(env: Environment, directive: Directive) -> None:
    for node in _announced(env, directive, "processing append thread"):
        env.process_append(node)


def process_apply_thread(env: Environment, directive: Directive) -> None:
    for node in _announced(env, directive, "processing apply thread"):
        env.process_apply(node)


def _announced(env: Environment, directive: Directive, what: str) -> Iterator[Node]:
    """The nodes one by one; if there are several, each under its own heading."""
    nodes = _nodes(env, directive)
    if len(nodes) == 1:
        yield nodes[0]
        return
    for node in nodes:
        env.output.say(f"> {node.id} {what}")
        with env.output.indented():
            yield node


def log_level(env: Environment, directive: Directive) -> None:
    env.output.set_level(directive.names[0])


def raft_log(env: Environment, directive: Directive) -> None:
    log = _node(env, directive).log
    if found := log.all_entries():
        env.output.say("\n".join(map(describe.entry, found)))
        return
    first, last = log.first_index(), log.last_index()
    env.output.say(f"log is empty: first index={first}, last index={last}")


def raft_state(env: Environment, directive: Directive) -> None:
    for node in _nodes(env, directive):
        found = node.raw.status()
        voter = "Voter" if node.is_voter() else "Non-Voter"
        env.output.say(
            f"{node.id}: {describe.ROLES[found.role]} ({voter}) Term:{found.term} Lead:{found.lead}"
        )


def set_randomized_election_timeout(env: Environment, directive: Directive) -> None:
    _node(env, directive).set_election_timeout(int(directive.value("timeout", "")))


def stabilize(env: Environment, directive: Directive) -> None:
    with env.output.at_level(directive.value("log-level", "") or None):
        env.stabilize(_nodes(env, directive))


def status(env: Environment, directive: Directive) -> None:
    """What a leader knows of each participant."""
    for peer, text in _node(env, directive).progress():
        env.output.say(f"{peer}: {text}")


def tick_election(env: Environment, directive: Directive) -> None:
    for _ in range(ELECTION_TICKS):
        _node(env, directive).raw.tick()


def tick_heartbeat(env: Environment, directive: Directive) -> None:
    for _ in range(HEARTBEAT_TICKS):
        _node(env, directive).raw.tick()


def transfer_leadership(env: Environment, directive: Directive) -> None:
    leader = env.nodes[int(directive.value("from", ""))]
    leader.raw.transfer_leader(int(directive.value("to", "")))


def forget_leader(env: Environment, directive: Directive) -> None:
    _node(env, directive).raw.forget_leader()


def send_snapshot(env: Environment, directive: Directive) -> None:
    """One that the leader did not ask for: as when an operator copies a state by hand."""
    sender, to = _node(env, directive), int(directive.names[1])
    sent = RaftMessage(
        MessageKind.SNAPSHOT,
        to=to,
        sender=sender.id,
        term=sender.raw.term,
        snapshot=sender.log.snapshot(),
    )
    env.messages.append(sent)
    env.output.say(describe.message(sent))


def propose(env: Environment, directive: Directive) -> None:
    _node(env, directive).raw.propose(directive.names[1].encode())


def propose_conf_change(env: Environment, directive: Directive) -> None:
    """``v`` a voter, ``l`` a learner, ``r`` removes; nothing: leave the joint configuration."""
    change = ConfChange(
        steps=tuple(_step(text) for text in directive.text.split()),
        transition=TRANSITIONS[directive.value("transition", "auto")],
        is_single=directive.flag("v1"),
    )
    _node(env, directive).raw.propose_conf_change(change)


def _step(text: str) -> tuple[ConfChangeKind, int]:
    return STEPS[text[0]], int(text[1:])


def report_unreachable(env: Environment, directive: Directive) -> None:
    _node(env, directive).raw.report_unreachable(int(directive.names[1]))


def read_index(env: Environment, directive: Directive) -> None:
    _node(env, directive).raw.read_index(directive.names[1].encode())


def report_snapshot(env: Environment, directive: Directive) -> None:
    """Sending a snapshot has ended: ``ok`` or ``failed``."""
    _, to, how = directive.names
    _node(env, directive).raw.report_snapshot(int(to), how == "ok")


def restart(env: Environment, directive: Directive) -> None:
    env.restart(_node(env, directive))


COMMANDS: dict[str, Command] = {
    command.__name__.replace("_", "-"): command
    for command in (
        add_nodes,
        campaign,
        compact,
        deliver_msgs,
        forget_leader,
        log_level,
        process_append_thread,
        process_apply_thread,
        process_ready,
        propose,
        propose_conf_change,
        raft_log,
        raft_state,
        read_index,
        report_snapshot,
        report_unreachable,
        restart,
        send_snapshot,
        set_randomized_election_timeout,
        stabilize,
        status,
        tick_election,
        tick_heartbeat,
        transfer_leadership,
    )
}


def run(env: Environment, directive: Directive) -> str:
    """Carry out one command; what it prints. A dropped proposal is printed as etcd's error."""
    try:
        COMMANDS[directive.command](env, directive)
    except ProposalDropped:
        return env.output.take("raft proposal dropped")
    return env.output.take()
