"""Rounds: load, a fault in the middle, healing, check. Some rounds on one cluster, then a new one.

The seed decides what is done, not the outcome: a failed round may pass the next time. So its logs
and data are kept.
"""

import asyncio
import random
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import PenstockError, StorageError
from penstock.store.lmdb_store import LmdbStore
from penstock.store.verify import verify
from tests.chaos.faults import FAULTS, Outcome
from tests.chaos.ground import Ground
from tests.chaos.history import History, now
from tests.chaos.load import Audience, Load

__all__ = ["Campaign"]

ROUNDS_OF_A_CLUSTER = 20
WITH_USERS = 0.5
"""Share of clusters with users, where an administrator changes them all the time."""
DISTANT = 0.4
"""Share of clusters whose nodes are ``DISTANCE_S`` apart, so that many entries are in flight."""
DISTANCE_S = 0.01
FEW_ENTRIES = 500
"""Kept log entries on some clusters: a node that is away for seconds then needs a snapshot.

They must last for longer than a snapshot takes to arrive, some 1.5 s under this load: otherwise the
next one is needed as soon as the last one is there.
"""
BLOCK_SIZES = ("4KiB", "16KiB")
"""Blocks so small that a round folds and compacts many."""
BOUNDED = 0.5
"""Share of clusters whose stores may have ``TOTAL`` bytes, so that earlier rounds are removed."""
TOTAL = "4MiB"
TROUBLE = (AssertionError, OSError, TimeoutError, ValueError, PenstockError)
"""Errors that may end a round. The campaign continues with a new cluster, and has failed."""
SHOWN_MAX = 12
"""Maximum number of complaints printed per round."""


class Campaign:
    """All rounds, and the verdict."""

    def __init__(
        self,
        seed: int,
        faults: Sequence[str] = (),
        directory: Path | None = None,
        sizes: Sequence[int] = (3, 3, 3, 5),
    ) -> None:
        self.seed = seed
        self.failed: list[str] = []
        self.failovers: list[float] = []
        self.seen: Counter[str] = Counter()
        self._sizes = sizes
        self._dice = random.Random(seed)
        self._faults = list(faults) or list(FAULTS)
        self._directory = directory or Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        self._began = now()

    async def run(self, rounds: int) -> bool:
        """Run all rounds; return whether they passed."""
        done = 0
        while done < rounds:
            count = min(ROUNDS_OF_A_CLUSTER, rounds - done)
            done += await self._cluster(done, count)
        self._conclude(rounds)
        return not self.failed

    def _conclude(self, rounds: int) -> None:
        seen = ", ".join(f"{name} {count}" for name, count in sorted(self.seen.items()))
        print(f"{rounds} rounds, seed {self.seed}, {now() - self._began:.0f} s: {seen}")
        if self.failovers:
            times = sorted(self.failovers)
            print(
                f"leader killed to first acknowledged write, {len(times)} times:"
                f" median {statistics.median(times):.2f} s, longest {times[-1]:.2f} s"
            )
        if self.failed:
            print(f"FAILED: {len(self.failed)} complaints; kept in {self._directory}")
        else:
            shutil.rmtree(self._directory, ignore_errors=True)
            print("all was well: nothing acknowledged was lost, doubled or out of order")

    # ── One cluster ───────────────────────────────────────────────────────────────────────────

    async def _cluster(self, first: int, count: int) -> int:
        """Run some rounds on one cluster, up to the first that fails; return their number."""
        dice = random.Random(self._dice.random())
        size = dice.choice(self._sizes)
        settings: dict[str, object] = {
            "limits.queue_messages_max": 1_000_000,  # lose none of them
            "journal.block_bytes": "4KiB",  # fold all the time
        }
        is_short = dice.random() < 0.5
        if is_short:
            settings["cluster.log_kept_entries"] = FEW_ENTRIES
        settings["journal.block_bytes"] = dice.choice(BLOCK_SIZES)
        is_bounded = dice.random() < BOUNDED
        if is_bounded:
            settings["journal.total_bytes_max"] = TOTAL
        is_distant = dice.random() < DISTANT
        distance_s = DISTANCE_S if is_distant else 0.0
        ground = Ground(self._directory / f"rounds-{first}", dice, settings, distance_s)
        has_users = dice.random() < WITH_USERS
        said = [", distant" * is_distant, ", few entries kept" * is_short, ", users" * has_users]
        said.append(", bounded" * is_bounded)
        print(f"{size} nodes{''.join(said)}", flush=True)
        audience = Audience(ground, dice)
        before, done = len(self.failed), 0
        try:
            await ground.begin(size)
            if has_users:
                await ground.add_users()
            await audience.open()
            while done < count and len(self.failed) == before:
                done += 1
                await self._round(ground, audience, dice, first + done)
            await audience.close()
            if len(self.failed) == before:
                self._complain("at the end", await _compare_stores(ground))
        except TROUBLE as error:
            self._complain("cluster", [str(error) or repr(error)])
        finally:
            await audience.close()
            await ground.close()
        self._complain("logs", _faults_in_logs(ground))
        self.seen["snapshots"] += ground.count_in_logs('"snapshot_arrived"')
        if len(self.failed) == before:
            ground.remove_data()
        return max(done, 1)

    async def _round(
        self, ground: Ground, audience: Audience, dice: random.Random, number: int
    ) -> None:
        began = now()
        name = dice.choices(self._faults, [FAULTS[fault][1] for fault in self._faults])[0]
        load = Load(ground, audience, dice, str(number))
        print(f"{number:4d}  {name:16s}", end="", flush=True)
        complaints: list[str] = []
        outcome = Outcome("")
        try:
            await load.start()
            await asyncio.sleep(dice.uniform(0.5, 1.5))
            outcome = await FAULTS[name][0](ground, dice)
            await ground.network.heal(late=dice.random() < 0.5)
            await asyncio.sleep(dice.uniform(0.0, 0.5))
            await ground.until_healthy()
            complaints = load.check(await load.finish())
            self.seen["access changes"] += load.administrator.made
        except TROUBLE as error:
            complaints = [str(error) or repr(error), *load.history.complaints]
        finally:
            load.abandon()
        self._note(load.history, name, outcome)
        acknowledged = sum(op.is_ok for op in load.history.ops)
        print(f" {now() - began:5.1f} s  {acknowledged:5d} ok  {outcome.text}", flush=True)
        if complaints:
            story = ground.directory / "story.txt"
            story.write_text("\n".join(load.story()))
        self._complain(f"round {number} ({name})", complaints)

    def _note(self, history: History, name: str, outcome: Outcome) -> None:
        self.seen[name] += 1
        if outcome.leader_lost:
            heard = [
                op.returned
                for op in history.ops
                if op.kind == "numbered" and op.is_ok and op.returned > outcome.leader_lost + 0.1
            ]
            self.failovers.append(min(heard, default=outcome.leader_lost) - outcome.leader_lost)

    def _complain(self, where: str, complaints: Sequence[str]) -> None:
        for complaint in complaints[:SHOWN_MAX]:
            print(f"      {where}: {complaint}", flush=True)
        if len(complaints) > SHOWN_MAX:
            print(f"      … and {len(complaints) - SHOWN_MAX} more", flush=True)
        self.failed += [f"{where}: {complaint}" for complaint in complaints]


def _faults_in_logs(ground: Ground) -> list[str]:
    """What must not happen in a node, whatever happens to it."""
    counts = {fault: ground.count_in_logs(fault) for fault in ('"apply_failed"', "Traceback")}
    return [f"{fault} {count} times" for fault, count in counts.items() if count]


async def _compare_stores(ground: Ground) -> list[str]:
    """Stop all nodes; check that their stores are sound and their journals identical."""
    for number in ground.nodes:
        await ground.terminate(number)
    found, logs = [], {}
    for number, node in ground.nodes.items():
        try:
            found += [f"the store of node {number}: {fault}" for fault in verify(node.data).faults]
            logs[number] = _committed_log(node.data)
        except StorageError as error:
            found.append(f"the store of node {number}: {error}")
    for number, log in logs.items():
        for other, theirs in logs.items():
            differing = [i for i in log.keys() & theirs.keys() if log[i] != theirs[i]]
            if number < other and differing:
                found.append(f"nodes {number} and {other} differ in entry {min(differing)}")
    return found


def _committed_log(data: Path) -> dict[int, bytes]:
    store = LmdbStore(data)
    try:
        low, high = store.first_index, store.next_index
        return {entry.index: entry.data for entry in store.log_entries(low, high, 1 << 30)}
    finally:
        store.close()
