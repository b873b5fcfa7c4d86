"""Faults injected in the middle of a round. Each fault undoes its effect, except for links.

A fault is a coroutine that takes the ground and a random generator, and returns a description. The
round restores all links at once, so that held packets arrive late or never.
"""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tests.chaos.ground import Ground
from tests.chaos.history import now

__all__ = ["FAULTS", "Fault", "Outcome"]


class Outcome:
    """What a fault did."""

    def __init__(self, text: str, leader_lost: float = 0.0) -> None:
        self.text = text
        self.leader_lost = leader_lost
        """When the leader was killed, if it was."""


Fault: TypeAlias = Callable[[Ground, random.Random], Awaitable[Outcome]]


async def _roles(ground: Ground, dice: random.Random) -> tuple[int, list[int]]:
    """Return the leader (any node, if there is none), and the others in random order."""
    leader = await ground.leader() or dice.choice(list(ground.nodes))
    others = [number for number in ground.nodes if number != leader]
    dice.shuffle(others)
    return leader, others


async def _a_while(dice: random.Random, low: float, high: float) -> None:
    await asyncio.sleep(dice.uniform(low, high))


async def kill_leader(ground: Ground, dice: random.Random) -> Outcome:
    leader, _ = await _roles(ground, dice)
    lost = now()
    ground.kill(leader)
    await _a_while(dice, 0.0, 4.0)
    ground.launch(leader)
    return Outcome(f"killed the leader, {leader}", lost)


async def kill_follower(ground: Ground, dice: random.Random) -> Outcome:
    _, [follower, *_] = await _roles(ground, dice)
    ground.kill(follower)
    await _a_while(dice, 0.0, 2.0)
    ground.launch(follower)
    return Outcome(f"killed follower {follower}")


async def kill_all(ground: Ground, dice: random.Random) -> Outcome:
    numbers = list(ground.nodes)
    ground.kill(*numbers)
    dice.shuffle(numbers)
    for number in numbers:
        ground.launch(number)
        await _a_while(dice, 0.0, 0.3)
    return Outcome("killed all")


async def kill_most(ground: Ground, dice: random.Random) -> Outcome:
    """Kill the leader and enough others to lose the majority, one after the other."""
    leader, others = await _roles(ground, dice)
    victims = [leader, *others[: len(ground.nodes) // 2]]
    dice.shuffle(victims)
    for victim in victims:
        ground.kill(victim)
        await _a_while(dice, 0.0, 0.2)
    await _a_while(dice, 0.0, 2.0)
    for victim in victims:
        ground.launch(victim)
    return Outcome(f"killed {victims}")


async def kill_twice(ground: Ground, dice: random.Random) -> Outcome:
    """Kill the leader, and soon after it the next one."""
    first, _ = await _roles(ground, dice)
    ground.kill(first)
    await _a_while(dice, 1.0, 3.0)
    ground.launch(first)
    second, _ = await _roles(ground, dice)
    ground.kill(second)
    await _a_while(dice, 0.0, 1.0)
    ground.launch(second)
    return Outcome(f"killed {first}, then {second}")


async def pause_leader(ground: Ground, dice: random.Random) -> Outcome:
    leader, _ = await _roles(ground, dice)
    return await _pause(ground, dice, leader, "the leader")


async def pause_follower(ground: Ground, dice: random.Random) -> Outcome:
    _, [follower, *_] = await _roles(ground, dice)
    return await _pause(ground, dice, follower, "follower")


async def _pause(ground: Ground, dice: random.Random, number: int, name: str) -> Outcome:
    seconds = dice.uniform(0.5, 4.0)
    ground.signal(number, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    ground.signal(number, signal.SIGCONT)
    return Outcome(f"stopped {name}, {number}, for {seconds:.1f} s")


async def cut_leader(ground: Ground, dice: random.Random) -> Outcome:
    leader, others = await _roles(ground, dice)
    return await _cut(ground, dice, leader, others, "the leader")


async def cut_follower(ground: Ground, dice: random.Random) -> Outcome:
    leader, [follower, *others] = await _roles(ground, dice)
    return await _cut(ground, dice, follower, [leader, *others], "follower")


async def _cut(
    ground: Ground, dice: random.Random, number: int, others: list[int], name: str
) -> Outcome:
    """Cut a node off: outgoing, incoming or both; dropping packets or closing connections."""
    how = dice.choice(["both", "both", "out", "in"])
    refuses = dice.random() < 0.3
    for other in others:
        if how in {"both", "out"}:
            await _shut(ground, number, other, refuses=refuses)
        if how in {"both", "in"}:
            await _shut(ground, other, number, refuses=refuses)
    await _a_while(dice, 1.0, 4.0)
    return Outcome(f"cut off {name}, {number}: {how}{', refused' if refuses else ''}")


async def _shut(ground: Ground, source: int, target: int, *, refuses: bool) -> None:
    way = ground.network.way(source, target)
    if refuses:
        way.refuses = True
        await ground.network.drop(source, target)
    else:
        way.is_open.clear()


async def cut_pair(ground: Ground, dice: random.Random) -> Outcome:
    """The leader and one follower do not reach each other; others reach both."""
    leader, [follower, *_] = await _roles(ground, dice)
    await _shut(ground, leader, follower, refuses=False)
    await _shut(ground, follower, leader, refuses=False)
    await _a_while(dice, 1.0, 4.0)
    return Outcome(f"cut {leader} and {follower} off from each other")


async def drop_links(ground: Ground, dice: random.Random) -> Outcome:
    """Connections between nodes are lost, again and again."""
    count = dice.randint(3, 12)
    for _ in range(count):
        source, target = dice.sample(list(ground.nodes), 2)
        await ground.network.drop(source, target)
        await _a_while(dice, 0.0, 0.3)
    return Outcome(f"dropped connections {count} times")


async def delay_links(ground: Ground, dice: random.Random) -> Outcome:
    """All links are slow; some trickle."""
    delay_s, jitter_s = dice.uniform(0.02, 0.1), dice.uniform(0.0, 0.1)
    for source in ground.nodes:
        for target in ground.nodes:
            way = ground.network.way(source, target)
            way.delay_s, way.jitter_s = delay_s, jitter_s
            way.rate = 100_000 if dice.random() < 0.2 else 0
    await _a_while(dice, 1.0, 3.0)
    return Outcome(f"delayed links by {delay_s * 1000:.0f} to {(delay_s + jitter_s) * 1000:.0f} ms")


async def transfer(ground: Ground, dice: random.Random) -> Outcome:
    """Leadership moves around: no node is lost, and requests in flight survive."""
    named = []
    for _ in range(dice.randint(2, 8)):
        _, [follower, *_] = await _roles(ground, dice)
        named.append(follower)
        await ground.transfer(follower)
        await _a_while(dice, 0.1, 0.5)
    return Outcome(f"handed the lead to {named}")


async def rolling_restart(ground: Ground, dice: random.Random) -> Outcome:
    leader, others = await _roles(ground, dice)
    for number in (*others, leader):
        status = await ground.terminate(number)
        if status:
            raise AssertionError(f"node {number} stopped with status {status}")
        ground.launch(number)
        await ground.until_healthy()
    return Outcome("restarted all, one by one")


async def away_for_long(ground: Ground, dice: random.Random) -> Outcome:
    """A follower is down while much is written: what it missed is not in the log any more."""
    _, [follower, *_] = await _roles(ground, dice)
    ground.kill(follower)
    await _a_while(dice, 3.0, 4.0)
    ground.launch(follower)
    return Outcome(f"follower {follower} was away for long")


async def replace(ground: Ground, dice: random.Random) -> Outcome:
    """A node loses its disk; a new one joins in its place, under a new number."""
    leader, others = await _roles(ground, dice)
    victim = dice.choice([leader, *others])
    ground.kill(victim)
    number = max(node.number for node in (*ground.nodes.values(), *ground.gone)) + 1
    await ground.join(number)
    await ground.remove(victim)
    return Outcome(f"replaced {victim} by {number}")


FAULTS: dict[str, tuple[Fault, int]] = {
    "kill_leader": (kill_leader, 5),
    "kill_follower": (kill_follower, 2),
    "kill_all": (kill_all, 2),
    "kill_most": (kill_most, 2),
    "kill_twice": (kill_twice, 1),
    "pause_leader": (pause_leader, 3),
    "pause_follower": (pause_follower, 1),
    "cut_leader": (cut_leader, 4),
    "cut_follower": (cut_follower, 2),
    "cut_pair": (cut_pair, 2),
    "drop_links": (drop_links, 2),
    "delay_links": (delay_links, 2),
    "transfer": (transfer, 6),
    "rolling_restart": (rolling_restart, 1),
    "away_for_long": (away_for_long, 1),
    "replace": (replace, 1),
}
"""Faults by name, with their weights."""
