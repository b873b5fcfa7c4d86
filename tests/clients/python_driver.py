"""The driver of the Python client (``penstock.client``); ``driver_process`` has the contract.

One event loop; a publisher per kind of signature and one subscriber make what other clients have in
one object.
"""

import asyncio
import base64
import json
import sys
from typing import Any

from penstock.client import (
    AsyncPublisher,
    AsyncSubscriber,
    Backoff,
    Credentials,
    Message,
    SigningKey,
    TlsOptions,
)
from penstock.client.binary import signing
from penstock.client.errors import ClientError, LoginFailedError, RefusedError, TakenOverError
from penstock.errors import PenstockError

ABILITIES = "publish signed subscribe worker verify users login tls hello nodes"
KINDS = (
    (LoginFailedError, "login"),
    (RefusedError, "refused"),
    (TakenOverError, "taken_over"),
    (PenstockError, "failed"),
)
FAST = Backoff(first_s=0.02, longest_s=0.5, give_up_s=100)


class Driver:
    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._client_id = ""
        self._key: dict[str, Any] = {}
        self._publishers: dict[int, AsyncPublisher] = {}
        self._subscriber: AsyncSubscriber | None = None
        self._auto_ack = True
        self._unacknowledged: dict[int, Message] = {}
        self._keyring: dict[int, bytes] = {}
        self._require = False
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 25)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._start(self._answer(json.loads(line)))
        await self.do_close({})
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, asked: dict[str, Any]) -> None:
        said = {"id": asked["id"], "ok": True}
        try:
            said |= await getattr(self, f"do_{asked['do']}")(asked) or {}
        except (PenstockError, OSError, ValueError) as error:
            kind = next((word for cls, word in KINDS if isinstance(error, cls)), "failed")
            said |= {"ok": False, "error": str(error), "kind": kind}
        tell(**said)

    # ── What a scenario asks ──────────────────────────────────────────────────────────────────

    async def do_hello(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {"client": "python", "abilities": ABILITIES.split(), "limits": {}}

    async def do_connect(self, asked: dict[str, Any]) -> None:
        self._client_id = asked.get("client_id", "")
        self._key = asked.get("key") or {}
        if "clock_ms" in asked:
            set_clock(asked["clock_ms"])
        self._options = {"host": asked["host"], "port": asked["port"], "backoff": FAST}
        if "nodes" in asked:
            nodes = [f"{host}:{port}" for host, port in asked["nodes"]]
            self._options = {"nodes": nodes, "backoff": FAST}
        if "keep_alive" in asked:
            self._options["keep_alive_s"] = asked["keep_alive"]
        if "ca" in asked:
            self._options["tls"] = TlsOptions(ca_file=asked["ca"])
        if "user" in asked:
            self._options["credentials"] = Credentials(asked["user"], asked["password"])
        if asked.get("wait", True):
            await self._publisher(0)

    async def do_publish(self, asked: dict[str, Any]) -> None:
        publisher = await self._publisher(asked.get("signed", 0))
        await publisher.publish(asked["topic"], base64.b64decode(asked["payload_b64"]))

    async def do_subscribe(self, asked: dict[str, Any]) -> None:
        if self._subscriber is not None:
            await self._subscriber.subscribe(asked["topic"])
            return
        self._subscriber = AsyncSubscriber(
            self._client_id,
            asked["topic"],
            auto_ack=False,
            keyring=self._keyring or None,
            require_signature=self._require,
            on_lost=lambda lost: tell(event="lost", text=lost.topic, count=lost.count),
            start=asked.get("start", "earliest"),
            prefetch=asked.get("prefetch", 0),
            **self._options,
        )
        await self._opened(self._subscriber)
        self._start(self._receive(self._subscriber))

    async def do_unsubscribe(self, asked: dict[str, Any]) -> None:
        if self._subscriber is not None:
            await self._subscriber.unsubscribe(asked["topic"])

    async def do_auto_ack(self, asked: dict[str, Any]) -> None:
        self._auto_ack = asked["on"]

    async def do_ack(self, asked: dict[str, Any]) -> None:
        self._unacknowledged.pop(int(asked["sequence"])).ack()

    async def do_verify(self, asked: dict[str, Any]) -> None:
        self._keyring[asked["key_id"]] = base64.b64decode(asked["public_b64"])
        self._require = asked.get("require", False)

    async def do_clock(self, asked: dict[str, Any]) -> None:
        set_clock(asked["ms"])

    async def do_flush(self, asked: dict[str, Any]) -> None:
        if self._subscriber is not None:
            async with asyncio.timeout(asked.get("timeout_ms", 30_000) / 1000):
                await self._subscriber.flush()

    async def do_stats(self, _asked: dict[str, Any]) -> dict[str, Any]:
        found = self._subscriber
        return {"lost": found.lost if found else 0, "withheld": found.withheld if found else 0}

    async def do_close(self, _asked: dict[str, Any]) -> None:
        for client in (*self._publishers.values(), self._subscriber):
            if client is not None:
                await client.close()
        self._publishers, self._subscriber = {}, None

    # ── Clients ───────────────────────────────────────────────────────────────────────────────

    async def _publisher(self, signed: int) -> AsyncPublisher:
        async with self._opening:
            if signed not in self._publishers:
                key = None
                if signed:
                    seed = base64.b64decode(self._key["seed_b64"])
                    key = SigningKey(self._key["id"], seed, version=signed)
                made = AsyncPublisher(signing_key=key, **self._options)
                await self._opened(made)
                self._publishers[signed] = made
            return self._publishers[signed]

    async def _opened(self, client: AsyncPublisher | AsyncSubscriber) -> None:
        """Connect; while there is no broker, again."""
        try:
            await client.open()
        except LoginFailedError:
            tell(event="state", state="refused")
            raise
        tell(event="state", state="up")

    async def _receive(self, subscriber: AsyncSubscriber) -> None:
        try:
            async for message in subscriber.messages():
                tell(
                    event="message",
                    topic=message.topic,
                    payload_b64=base64.b64encode(message.payload).decode(),
                    sequence=message.sequence,
                    signer=self._signer(message),
                )
                if self._auto_ack:
                    message.ack()
                else:
                    self._unacknowledged[message.sequence] = message
        except TakenOverError:
            tell(event="state", state="taken_over")
        except ClientError:
            tell(event="state", state="down")

    def _signer(self, message: Message) -> str:
        if message.signature is None:
            return "none"
        if message.verified:
            return "verified"
        return "bad" if message.signature.key_id in self._keyring else "unknown"


def set_clock(ms: int) -> None:
    """Let signatures be made at this time; the client asks the system for it."""
    signing.time_ns = lambda: ms * 1_000_000


def tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(Driver().run())
