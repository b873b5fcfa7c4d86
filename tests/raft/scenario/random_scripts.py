"""Scripts made by a seed, with what this core prints: ``python -m tests.raft.scenario.random_scripts``.

Their use is to be given to etcd, which knows the same language: ``docs/internals/raft.md`` says how.
Whatever it prints otherwise is a fault here, or a deviation that is to be explained. Of scripts for
which it prints the same, ``confirmed.txt`` keeps a digest each, so that the suite notices a change.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.raft.datadriven import parse
from tests.raft.scenario import commands
from tests.raft.scenario.environment import Environment

T = TypeVar("T")
FLAGS = (
    "prevote=true",
    "checkquorum=true",
    "async-storage-writes=true",
    "step-down-on-removal=true",
)
SIZES = ("max-committed-size-per-ready", "max-uncommitted-size")
CONFIRMED = Path(__file__).with_name("confirmed.txt")
LENGTH = 120
KINDS = ("MsgApp", "MsgAppResp", "MsgHeartbeat", "MsgHeartbeatResp", "MsgVote", "MsgVoteResp")


class Dice:
    """Only ``Random.random`` is the same in all versions of Python."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def chance(self, of: float) -> bool:
        return self._random() < of

    def number(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return low + int(self._random() * (high - low + 1))

    def one_of(self, things: Sequence[T]) -> T:
        return things[self.number(0, len(things) - 1)]

    def some_of(self, things: Sequence[T], count: int) -> list[T]:
        rest = list(things)
        return [rest.pop(self.number(0, len(rest) - 1)) for _ in range(count)]

    def weighted(self, weights: Mapping[str, int]) -> str:
        place = self._random() * sum(weights.values())
        for name, weight in weights.items():
            place -= weight
            if place < 0:
                return name
        return name


class Author:
    """Writes a script command by command, looking at what the last ones have led to."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed)
        self._env = Environment()
        self._count = 0
        self._has_sizes = False
        self._written: list[str] = []

    def write(self, length: int = LENGTH) -> str:
        """A script of this many commands, and a final state dump."""
        self._set_up()
        for _ in range(length):
            name = self._dice.weighted(WEIGHTS_WITH_SIZES if self._has_sizes else WEIGHTS)
            for line in getattr(self, f"_{name}")():
                self._do(line)
        for line in ("stabilize", "raft-state", *(f"raft-log {node}" for node in self._env.nodes)):
            self._do(line)
        return "\n".join(self._written)

    def _do(self, line: str) -> None:
        (directive,) = parse(f"{line}\n----\n")
        self._written.append(f"{line}\n----\n{commands.run(self._env, directive)}")

    def _set_up(self) -> None:
        dice = self._dice
        count = dice.one_of((2, 3, 3, 3, 4, 5))
        voters = dice.number(max(1, count - 1), count)
        options = " ".join([*self._options(), *self._sizes()])
        learners = f"learners=({count})" if voters < count else ""
        ids = ",".join(map(str, range(1, voters + 1)))
        self._do(f"add-nodes {count} voters=({ids}) {learners} index=10 {options}")
        self._do(f"campaign {dice.number(1, voters)}")
        self._do("stabilize")
        if dice.chance(0.3):
            self._do(f"add-nodes 1 {options}")

    def _options(self) -> Iterator[str]:
        dice = self._dice
        flags = [flag for flag in FLAGS if dice.chance(0.5)]
        yield from flags
        if dice.chance(0.4):
            yield f"inflight={dice.number(1, 3)}"
        if "checkquorum=true" in flags and dice.chance(0.2):
            yield "read-only=lease-based"

    def _sizes(self) -> list[str]:
        dice = self._dice
        sizes = [f"{size}={dice.one_of((1, 3, 5, 10))}" for size in SIZES if dice.chance(0.15)]
        if dice.chance(0.15):
            # All that may be under way must be at least one message's.
            most = dice.one_of((4, 7, 12))
            sizes += [f"max-size-per-msg={dice.one_of((2, 4))}", f"max-inflight-bytes={most}"]
        self._has_sizes = bool(sizes)
        return sizes

    def _node(self) -> int:
        return self._dice.one_of(list(self._env.nodes))

    def _some(self) -> str:
        nodes = list(self._env.nodes)
        return " ".join(map(str, self._dice.some_of(nodes, self._dice.number(1, len(nodes)))))

    def _ready(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        if node.raw.has_ready():
            yield f"process-ready {node.id}"

    def _deliver(self) -> Iterator[str]:
        yield f"deliver-msgs {self._node()}"

    def _deliver_kind(self) -> Iterator[str]:
        yield f"deliver-msgs {self._node()} type={self._dice.one_of(KINDS)}"

    def _drop(self) -> Iterator[str]:
        yield f"deliver-msgs drop={self._node()}"

    def _threads(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        if node.append_work:
            yield f"process-append-thread {node.id}"
        if node.apply_work and self._dice.chance(0.7):
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
        dice, others = self._dice, range(2, len(self._env.nodes) + 1)
        count = min(dice.one_of((0, 1, 1, 1, 2, 3)), len(others))
        steps = " ".join(f"{dice.one_of('vlr')}{node}" for node in dice.some_of(others, count))
        form = dice.one_of(("", "transition=explicit", "transition=implicit")) if steps else ""
        if count == 1 and dice.chance(0.3):
            form = "v1=true"
        yield f"propose-conf-change {self._node()} {form}" + (f"\n{steps}" if steps else "")

    def _transfer(self) -> Iterator[str]:
        yield f"transfer-leadership from={self._node()} to={self._node()}"

    def _forget(self) -> Iterator[str]:
        yield f"forget-leader {self._node()}"

    def _unreachable(self) -> Iterator[str]:
        yield f"report-unreachable {self._node()} {self._node()}"

    def _snapshot(self) -> Iterator[str]:
        how = self._dice.one_of(("ok", "failed"))
        yield f"report-snapshot {self._node()} {self._node()} {how}"

    def _restart(self) -> Iterator[str]:
        yield f"restart {self._node()}"

    def _compact(self) -> Iterator[str]:
        node = self._env.nodes[self._node()]
        first, applied = node.log.first_index(), node.raw.status().applied
        if first <= applied <= node.log.last_index():
            yield f"compact {node.id} {self._dice.number(first, applied)}"

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

WEIGHTS_WITH_SIZES = {name: weight for name, weight in WEIGHTS.items() if name != "change"}
"""Changes of the configuration are left out: etcd encodes them otherwise, and sizes would differ."""


def digest(script: str) -> str:
    """Of what matters of a script: etcd sets empty lines otherwise, and ends of lines."""
    lines = "\n".join(line.rstrip() for line in script.splitlines() if line.strip())
    return sha256(lines.encode()).hexdigest()[:16]


def confirmed() -> dict[int, str]:
    """The digests of scripts for which etcd was seen to print the same, by seed."""
    lines = CONFIRMED.read_text(encoding="utf-8").splitlines()
    return {int(seed): found for seed, found in map(str.split, lines)}


def compare(folder: Path, seeds: Sequence[int]) -> dict[int, str]:
    """The digests of the files in the folder as this core prints them; others are reported."""
    found = {}
    for seed in seeds:
        ours, theirs = Author(seed).write(), _file(folder, seed).read_text(encoding="utf-8")
        if digest(ours) == digest(theirs):
            found[seed] = digest(ours)
        else:
            print(f"{_file(folder, seed)}: etcd prints something else")
    return found


def _file(folder: Path, seed: int) -> Path:
    return folder / f"seed_{seed}.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the scripts are, or are to be")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--compare", action="store_true", help="with what etcd made of them")
    parser.add_argument("--confirm", action="store_true", help=f"the same; write {CONFIRMED.name}")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    if given.compare or given.confirm:
        found = compare(given.folder, seeds)
        print(f"{len(found)} of {len(seeds)} are the same")
        if given.confirm:
            CONFIRMED.write_text("".join(f"{seed} {text}\n" for seed, text in found.items()))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        _file(given.folder, seed).write_text(Author(seed).write(), encoding="utf-8")


if __name__ == "__main__":
    main()
