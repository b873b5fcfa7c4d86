"""What a seed chooses before anything happens: how large, how fast and how hostile its world is.

Each kind of fault is on in some worlds and off in others. A world that has all of them at once
spends its time recovering and seldom comes far enough for the rarer ones to matter.
"""

from dataclasses import dataclass
from random import Random

from penstock.raft.types import NO_LIMIT

FAULTS = (
    "crash",
    "crash_all",
    "crash_leader",
    "stall",
    "partition",
    "cut_leader",
    "isolate",
    "cut_one_way",
    "replay",
    "disk_full",
    "sync_error",
    "slow_disk",
    "lose_disk",
    "campaign",
)
CHANGES = ("add_learner", "promote", "remove", "transfer", "forget_leader")
TICK = 10
"""About how many units of time a tick takes."""
PLAIN_EVERY = 3
"""Every third seed is without pre-vote and check-quorum, which must be safe, too."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Time is counted in units, shares are of one."""

    nodes: int
    election_ticks: int
    heartbeat_ticks: int
    is_plain: bool
    forwards: bool
    applies_early: bool
    """Conf changes take effect when they are handed out, not when that is durable."""
    depth: int
    """How many Readys may wait for the disk at once."""
    bytes_per_message_max: int
    committed_bytes_per_ready_max: int
    uncommitted_bytes_max: int
    inflight_messages_max: int
    inflight_bytes_max: int
    drop: float
    duplicate: float
    far: float
    """The share of messages that take long, and so arrive after later ones."""
    jitter: int
    sync_jitter: int
    told_late: float
    """The share of batches that are durable some time before the core is notified."""
    fault_every: int
    faults: tuple[str, ...]
    change_every: int
    changes: tuple[str, ...]
    propose_every: int
    read_every: int
    compact_every: int


def choose(seed: int, random: Random) -> Profile:
    """Choose a world; the same one for the same seed."""
    pick = random.choice
    faults = _some(FAULTS, random)
    # Who lost a disk is to be replaced.
    changes = CHANGES if "lose_disk" in faults else _some(CHANGES, random)
    election_ticks = pick((3, 3, 5, 10))
    return Profile(
        nodes=pick((1, 3, 3, 3, 3, 3, 5)),
        election_ticks=election_ticks,
        heartbeat_ticks=pick((1, 1, 2)),
        is_plain=seed % PLAIN_EVERY == PLAIN_EVERY - 1,
        forwards=random.random() < 0.25,
        applies_early=random.random() < 0.5,
        depth=pick((1, 1, 2, 4)),
        bytes_per_message_max=pick((0, 40, 1 << 20)),
        committed_bytes_per_ready_max=pick((30, 1 << 20)),
        uncommitted_bytes_max=pick((120, NO_LIMIT, NO_LIMIT)),
        inflight_messages_max=pick((1, 3, 256)),
        inflight_bytes_max=pick((0, 100)),
        drop=pick((0.0, 0.02, 0.1, 0.25)),
        duplicate=pick((0.0, 0.02, 0.15)),
        far=pick((0.0, 0.02, 0.1, 0.2)),
        jitter=pick((1, 4, 12, 40)),
        sync_jitter=pick((1, 4, 25)),
        told_late=pick((0.0, 0.3)),
        fault_every=pick((1, 2, 5)) * election_ticks * TICK,
        faults=faults,
        change_every=pick((60, 200)),
        changes=changes,
        propose_every=pick((4, 12, 30)),
        read_every=pick((20, 60)),
        compact_every=pick((40, 150)),
    )


def _some(kinds: tuple[str, ...], random: Random) -> tuple[str, ...]:
    """Return about half of them, at least one; some often, to be chosen more often."""
    chosen = [kind for kind in kinds if random.random() < 0.5] or [random.choice(kinds)]
    return tuple(kind for kind in chosen for _ in range(random.choice((1, 1, 4))))
