"""An administrator who changes users and rules all the time, and the user whom that is about.

There is one administrator, and each change is bound to the version of the access book that it read.
So the book is always in the state of the last acknowledged change, or of a later one whose outcome
is unknown. Each change is one document: a number, whether the guest may read, whether it may log in.
"""

import asyncio
import random
from hashlib import sha256
from typing import Any, NamedTuple

from tests.chaos.actors import Actor
from tests.chaos.ground import SECRET, Ground
from tests.chaos.history import History
from tests.chaos.resp import RespClient, RespError

__all__ = ["Administrator"]

PAUSE_S = 0.2
DIGEST = sha256(SECRET.encode()).hexdigest()
ALLOWED = "allow read guest/#"


class _State(NamedTuple):
    number: int
    is_allowed: bool
    is_disabled: bool


class Administrator(Actor):
    """Changes a role and a user; looks whether the user is denied what it must be denied."""

    def __init__(self, name: str, ground: Ground, dice: random.Random, history: History) -> None:
        super().__init__(name, lambda: [node.port for node in ground.nodes.values()], dice, history)
        self._ground = ground
        self._tried = [_State(0, False, False)]
        self.acknowledged = 0  # the number of the last change that was
        self.made = 0  # changes that were acknowledged
        self._version = 0  # as it was read last

    async def run(self) -> None:
        while not self.is_stopping:
            try:
                await self.work()
            except (OSError, TimeoutError, ValueError, KeyError):
                await asyncio.sleep(0.05)

    async def work(self) -> None:
        while not self.is_stopping:
            await self.read()
            for number in self._dice.sample(list(self._ground.nodes), len(self._ground.nodes)):
                if await self.change(number):  # it leads
                    break
            await asyncio.sleep(PAUSE_S * self._dice.random())

    # ── reading and changing ──────────────────────────────────────────────────────────────────

    async def read(self) -> None:
        """Read the book at any node: nothing acknowledged before may be missing."""
        known, node = self.acknowledged, self._dice.choice(list(self._ground.nodes))
        told = await self._ground.ask(node, "GET", "/access/export")
        if "error" in told:
            return
        found = self._state(told["document"])
        if found.number < known or found != self._tried[found.number]:
            self._complain(f"node {node} has {found}, and change {known} was acknowledged")
        self._version = told["version"]

    async def change(self, number: int) -> bool:
        """Change something at a node; return whether that was acknowledged."""
        wanted = _State(len(self._tried), self._dice.random() < 0.5, self._dice.random() < 0.15)
        self._tried.append(wanted)
        process = self._ground.nodes[number].child
        body = {"document": self._document(wanted), "expected": self._version}
        told = await self._ground.ask(number, "POST", "/access/apply", body)
        if "error" in told:
            return False
        self.acknowledged, self._version = wanted.number, told["version"]
        self.made += 1
        fault = await self._fault(number, wanted)
        if fault and self._ground.nodes[number].child is process:  # it was not restarted meanwhile
            self._complain(f"node {number} acknowledged {wanted}, and then {fault}")
        return True

    def _document(self, state: _State) -> dict[str, Any]:
        rules = [f"allow read number/{state.number}", *[ALLOWED] * state.is_allowed]
        guest = {"roles": [self.name], "secrets": [DIGEST], "disabled": state.is_disabled}
        return {"roles": {self.name: {"rules": rules}}, "users": {f"guest-{self.name}": guest}}

    def _state(self, document: dict[str, Any]) -> _State:
        role = document.get("roles", {}).get(self.name)  # empty tables are left out
        user = document["users"].get(f"guest-{self.name}")
        if role is None or user is None:
            return self._tried[0]
        number = int(role["rules"][0].rpartition("/")[2])
        return _State(number, ALLOWED in role["rules"], user.get("disabled", False))

    # ── the guest ─────────────────────────────────────────────────────────────────────────────

    async def _fault(self, number: int, state: _State) -> str:
        """What a guest at a node may do against the rules, or not do; empty: all is well."""
        try:
            client = await RespClient.open(self._ground.nodes[number].port)
        except (OSError, TimeoutError):
            return ""
        try:
            return await self._tried_out(client, state)
        except (OSError, TimeoutError):
            return ""
        finally:
            client.close()

    async def _tried_out(self, client: RespClient, state: _State) -> str:
        try:
            await client.ask("AUTH", f"guest-{self.name}", SECRET)
        except RespError as error:
            is_fault = not state.is_disabled and "WRONGPASS" in str(error)
            return "the guest was not let in" if is_fault else ""
        if state.is_disabled:
            return "the guest was let in"
        try:
            await client.ask("XLEN", "guest/x")
        except RespError as error:
            is_denied = "NOPERM" in str(error)
            return "the guest was denied" if is_denied and state.is_allowed else ""
        return "" if state.is_allowed else "the guest was allowed"

    def _complain(self, text: str) -> None:
        self._history.complaints.append(f"{self.name}: {text}")

    # ── the end of a round ────────────────────────────────────────────────────────────────────

    async def finish(self) -> None:
        """Make a last change; then all nodes have it, and judge by it."""
        await self._ground.until(self._is_changed, "the last change is acknowledged", 60)
        await self._ground.until_healthy()
        last = self._tried[self.acknowledged]
        for number in self._ground.nodes:
            told = await self._ground.ask(number, "GET", "/access/export?stale=true")
            if (found := self._state(told["document"])) != last:
                self._complain(f"node {number} has {found} in the end, not {last}")
            elif fault := await self._fault(number, last):
                self._complain(f"at node {number}, with {last}, {fault}")

    async def _is_changed(self) -> bool:
        try:
            await self.read()
            return await self.change(await self._ground.leader())
        except (OSError, TimeoutError, ValueError, KeyError):
            return False
