"""Which blocks to fold again: those of which little is alive, and small neighbours.

Folding again costs reading and writing what is alive. A block is worth it when at least half of it
is dead, so that it frees as much as it writes. Small blocks come from small commits, because the
tail is folded by number of entries as well as by bytes; eight neighbours of about the same size
become one, so that a message is written again once for each factor of eight, and the number of
blocks stays small.
"""

from collections.abc import Sequence
from typing import NamedTuple

FAN_IN = 8  # small neighbours of about the same size that become one block
TIERS = 6  # sizes that are told apart, each a factor of ``FAN_IN`` below the one before


class Candidate(NamedTuple):
    """A block: payload bytes that are alive and dead, and whether its predecessor is next to it."""

    number: int
    alive: int
    dead: int
    follows: bool = True


def blocks_to_fold(blocks: Sequence[Candidate], block_bytes: int) -> list[int]:
    """Numbers of neighbours that should become one block, oldest first; empty: none."""
    return _mostly_dead(blocks, block_bytes) or _small(blocks, block_bytes)


def _mostly_dead(blocks: Sequence[Candidate], block_bytes: int) -> list[int]:
    for place, block in enumerate(blocks):
        if block.dead > block.alive:
            return _with_neighbours(blocks[place:], block_bytes)
    return []


def _with_neighbours(blocks: Sequence[Candidate], block_bytes: int) -> list[int]:
    """The first block, and those after it that are mostly dead too, up to the size of one."""
    taken, size = [blocks[0].number], blocks[0].alive
    for block in blocks[1:]:
        size += block.alive
        if not block.follows or block.dead <= block.alive or size > block_bytes:
            break
        if len(taken) == FAN_IN:
            break  # what is dead is read, too
        taken.append(block.number)
    return taken


def _small(blocks: Sequence[Candidate], block_bytes: int) -> list[int]:
    for tier in range(TIERS, 0, -1):
        limit = block_bytes // FAN_IN**tier
        taken: list[int] = []
        for block in blocks:
            if block.alive > limit or not block.follows:
                taken = []
            if block.alive <= limit:
                taken.append(block.number)
            if len(taken) == FAN_IN:
                return taken
    return []
