"""What to publish when a schedule is due: also for firings that were missed. Pure.

A firing is **missed** if it is ``GRACE_MS`` late or more: no broker ran, or none led. What becomes
of it is the schedule's policy: ``skip`` nothing, ``once`` one message for all of them (the last is
the one it names), ``all`` a message for each. At most ``MISSED_MAX`` are told apart; further ones
are passed over, whatever the policy. Firings within the grace are made late, each of them.
"""

from typing import NamedTuple

from penstock.model.schedule import Timing
from penstock.schedules.timing import next_ms

GRACE_MS = 5_000  # a busy disk or an election takes less, as a rule
MISSED_MAX = 100


class Plan(NamedTuple):
    """What to do about a schedule that is due."""

    firings: tuple[int, ...]  # times for which a message is published
    skipped: int  # missed firings without a message of their own
    next_ms: int  # 0: it fires no more
    last_ms: int  # the last firing that was made or missed


def plan(timing: Timing, policy: str, due_ms: int, now_ms: int) -> Plan:
    """``due_ms`` is the first firing that was not made yet, at ``now_ms`` or before."""
    at, missed = due_ms, list[int]()
    while at and at <= now_ms - GRACE_MS and len(missed) < MISSED_MAX:
        missed.append(at)
        at = next_ms(timing, at)
    if at and at <= now_ms - GRACE_MS:
        at = next_ms(timing, now_ms - GRACE_MS)
    late = list[int]()
    while at and at <= now_ms:
        late.append(at)
        at = next_ms(timing, at)
    made_up = {"skip": [], "all": missed}.get(policy, missed[-1:])
    last_ms = (late or missed)[-1]
    return Plan((*made_up, *late), len(missed) - len(made_up), at, last_ms)
