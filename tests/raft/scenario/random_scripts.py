"""Scripts made by a seed, with what this core prints: ``python -m tests.raft.scenario.random_scripts``.

Their use is to be given to etcd, which knows the same language: ``docs/internals/raft.md`` says how.
Whatever it prints otherwise is a fault here, or a deviation that is to be explained.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.raft.datadriven import parse
from tests.raft.scenario import commands
from tests.raft.scenario.environment import Environment

FLAGS = (
    "prevote=true",
    "checkquorum=true",
    "async-storage-writes=true",
    "step-down-on-removal=true",
)
SIZES = ("max-size-per-msg", "max-committed-size-per-ready", "max-uncommitted-size")
KINDS = ("MsgApp", "MsgAppResp", "MsgHeartbeat", "MsgHeartbeatResp", "MsgVote", "MsgVoteResp")


class Author:
    """Writes a script command by command, looking at what the last ones have led to."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._env = Environment()
        self._count = 0
        self._has_sizes = False
        """Sizes are bounded. Changes of the configuration are left out: etcd encodes them otherwise."""
        self._written: list[str] = []

    def write(self, length: int) -> str:
        """A script of so many commands, and a last look at everything."""
        self._set_up()
        names = [name for name in WEIGHTS if not (self._has_sizes and name == "change")]
        for name in self._random.choices(names, [WEIGHTS[name] for name in names], k=length):
            for line in getattr(self, f"_{name}")():
                self._do(line)
        for line in ("stabilize", "raft-state", *(f"raft-log {node}" for node in self._env.nodes)):
            self._do(line)
        return "\n".join(self._written)

    def _do(self, line: str) -> None:
        (directive,) = parse(f"{line}\n----\n")
        self._written.append(f"{line}\n----\n{commands.run(self._env, directive)}")

    def _set_up(self) -> None:
        random = self._random
        count = random.choice((2, 3, 3, 3, 4, 5))
        voters = random.randint(max(1, count - 1), count)
        flags = [flag for flag in FLAGS if random.random() < 0.5]
        if random.random() < 0.4:
            flags.append(f"inflight={random.randint(1, 3)}")
        if "checkquorum=true" in flags and random.random() < 0.2:
            flags.append("read-only=lease-based")
        if random.random() < 0.1:
            flags += ["max-size-per-msg=4", f"max-inflight-bytes={random.choice((4, 7, 12))}"]
        sizes = [size for size in SIZES if random.random() < 0.15 and f"{size}=4" not in flags]
        self._has_sizes = bool(sizes) or "max-size-per-msg=4" in flags
        flags += [f"{size}={random.choice((1, 3, 5, 10))}" for size in sizes]
        learners = f"learners=({count})" if voters < count else ""
        self._do(
            f"add-nodes {count} voters=({','.join(map(str, range(1, voters + 1)))}) {learners}"
            f" index=10 {' '.join(flags)}"
        )
        self._do(f"campaign {random.randint(1, voters)}")
        self._do("stabilize")
        if random.random() < 0.3:
            self._do(f"add-nodes 1 {' '.join(flags)}")

    def _node(self) -> int:
        return self._random.choice(list(self._env.nodes))

    def _some(self) -> str:
        nodes = list(self._env.nodes)
        chosen = self._random.sample(nodes, self._random.randint(1, len(nodes)))
        return " ".join(map(str, chosen))

    def _ready(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        if node.raw.has_ready():
            yield f"process-ready {node.id}"

    def _deliver(self) -> Iterator[str]:
        yield f"deliver-msgs {self._node()}"

    def _deliver_kind(self) -> Iterator[str]:
        yield f"deliver-msgs {self._node()} type={self._random.choice(KINDS)}"

    def _drop(self) -> Iterator[str]:
        yield f"deliver-msgs drop={self._node()}"

    def _threads(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        if node.append_work:
            yield f"process-append-thread {node.id}"
        if node.apply_work and self._random.random() < 0.7:
            yield f"process-apply-thread {node.id}"

    def _stabilize(self) -> Iterator[str]:
        yield f"stabilize {self._some()}"

    def _settle(self) -> Iterator[str]:
        yield "stabilize"

    def _heartbeat(self) -> Iterator[str]:
        yield f"tick-heartbeat {self._node()}"

    def _election(self) -> Iterator[str]:
        yield f"tick-election {self._node()}"

    def _campaign(self) -> Iterator[str]:
        yield f"campaign {self._node()}"

    def _propose(self) -> Iterator[str]:
        self._count += 1
        yield f"propose {self._node()} p{self._count}"

    def _change(self) -> Iterator[str]:
        """Node 1 stays a voter: a configuration without any is a programming error to etcd."""
        random = self._random
        count = random.choice((0, 1, 1, 1, 2, 3))
        nodes = random.sample(
            range(2, len(self._env.nodes) + 1), min(count, len(self._env.nodes) - 1)
        )
        steps = " ".join(f"{random.choice('vlr')}{node}" for node in nodes)
        form = random.choice(("", "transition=explicit", "transition=implicit")) if steps else ""
        if count == 1 and random.random() < 0.3:
            form = "v1=true"
        yield f"propose-conf-change {self._node()} {form}" + (f"\n{steps}" if steps else "")

    def _transfer(self) -> Iterator[str]:
        yield f"transfer-leadership from={self._node()} to={self._node()}"

    def _forget(self) -> Iterator[str]:
        yield f"forget-leader {self._node()}"

    def _unreachable(self) -> Iterator[str]:
        yield f"report-unreachable {self._node()} {self._node()}"

    def _snapshot(self) -> Iterator[str]:
        how = self._random.choice(("ok", "failed"))
        yield f"report-snapshot {self._node()} {self._node()} {how}"

    def _restart(self) -> Iterator[str]:
        yield f"restart {self._node()}"

    def _compact(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        first, applied = node.log.first_index(), node.raw.status().applied
        if first <= applied <= node.log.last_index():
            yield f"compact {node.id} {self._random.randint(first, applied)}"

    def _read(self) -> Iterator[str]:
        self._count += 1
        yield f"read-index {self._node()} r{self._count}"

    def _status(self) -> Iterator[str]:
        yield f"status {self._node()}"


WEIGHTS = {
    "ready": 30,
    "deliver": 25,
    "deliver_kind": 4,
    "drop": 5,
    "threads": 25,
    "stabilize": 6,
    "settle": 2,
    "heartbeat": 10,
    "election": 4,
    "campaign": 3,
    "propose": 12,
    "change": 3,
    "transfer": 2,
    "forget": 1,
    "unreachable": 2,
    "snapshot": 1,
    "restart": 2,
    "compact": 3,
    "read": 3,
    "status": 3,
}
"""How often each is done, compared with the others: mostly, what was begun goes on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--length", type=int, default=120, help="commands of each")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(given.first, given.first + given.count):
        text = Author(seed).write(given.length)
        (given.folder / f"seed_{seed}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
