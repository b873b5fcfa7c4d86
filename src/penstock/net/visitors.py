"""Who comes from which address: bounds on what one address, or many strangers, can take up.

An address is that of the client, behind a proxy too; of IPv6 it is the /64. It may have so many
connections, so many of them strangers (that have not logged in), and open so many per second: a
bucket of tokens, one per connection. All strangers together are bounded as well. What exceeds a
bound is refused; nobody is banned for it. Connections from this machine are not counted.

The state machine knows neither clock nor socket. A refusal costs a dictionary lookup.
"""

from itertools import islice

from penstock.config.schema import Limits
from penstock.model.ip import block_of, is_loopback

BLOCKS_MAX = 65_536  # addresses remembered that have no connection but used up tokens
_SWEEP_AT_ONCE = 4  # of those looked at when a new one comes


class Visitor:
    """One connection, from accept to its end."""

    __slots__ = ("_block", "_visitors", "is_stranger")

    def __init__(self, visitors: "Visitors", block: "_Block | None") -> None:
        self._visitors = visitors
        self._block = block
        self.is_stranger = True

    def known(self, *, is_known: bool = True) -> None:
        """It has logged in, or out."""
        if self.is_stranger == is_known:
            self.is_stranger = not is_known
            self._visitors.count_stranger(self._block, -1 if is_known else 1)

    def left(self) -> None:
        """The connection has ended; may be called again."""
        block, self._block = self._block, None
        if block is not None:
            block.connections -= 1
            if self.is_stranger:
                self._visitors.count_stranger(block, -1)


class _Block:
    """The connections of one address."""

    __slots__ = ("connections", "refilled_at", "strangers", "tokens")

    def __init__(self, tokens: float, now: float) -> None:
        self.connections = 0
        self.strangers = 0
        self.tokens = tokens
        self.refilled_at = now


class Visitors:
    """All connections by address. ``limits`` may be replaced at any time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.strangers = 0
        self._local = Visitor(self, None)  # stands for all connections that are not counted
        self._blocks: dict[str, _Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def admit(self, host: str, now: float, *, is_proxied: bool = False) -> Visitor | str:
        """A new connection, or why there is no room for it."""
        if not is_proxied and (not host or is_loopback(host)):
            return self._local
        name, limits = block_of(host), self.limits
        block = self._blocks.get(name) or self._new_block(name, now)
        if not self._take_token(block, now):
            return f"more than {limits.address_connects_per_second_max} connections a second"
        if block.connections >= limits.address_connections_max:
            return f"{block.connections} connections from {name}"
        if block.strangers >= limits.address_strangers_max:
            return f"{block.strangers} connections from {name} that have not logged in"
        if self.strangers >= limits.strangers_max:
            return f"{self.strangers} connections that have not logged in"
        block.connections += 1
        self.count_stranger(block, 1)
        return Visitor(self, block)

    def count_stranger(self, block: _Block | None, change: int) -> None:
        if block is not None:
            block.strangers += change
            self.strangers += change

    def _take_token(self, block: _Block, now: float) -> bool:
        self._refill(block, now)
        if block.tokens < 1:
            return False
        block.tokens -= 1
        return True

    def _refill(self, block: _Block, now: float) -> None:
        limits = self.limits
        earned = max(0.0, now - block.refilled_at) * limits.address_connects_per_second_max
        block.tokens = min(float(limits.address_connects_burst_max), block.tokens + earned)
        block.refilled_at = now

    def _new_block(self, name: str, now: float) -> _Block:
        self._sweep(now)
        block = self._blocks[name] = _Block(float(self.limits.address_connects_burst_max), now)
        return block

    def _sweep(self, now: float) -> None:
        """Forget addresses that nothing is known of; if there are too many, the oldest too."""
        blocks = self._blocks
        is_full = len(blocks) >= BLOCKS_MAX
        for name in list(islice(blocks, _SWEEP_AT_ONCE)):
            block = blocks.pop(name)
            self._refill(block, now)
            is_quiet = block.tokens >= self.limits.address_connects_burst_max
            if block.connections or not (is_quiet or is_full):
                blocks[name] = block  # behind the others, so that these are looked at next
