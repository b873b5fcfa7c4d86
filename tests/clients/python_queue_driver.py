"""The driver of the Python client of work queues; ``driver_process`` has the contract.

A handler tells of its job, and waits until the scenario has decided what becomes of it.
"""

import asyncio
import base64
import json
import sys
from contextlib import suppress
from typing import Any

from penstock.client import AsyncQueueClient, Credentials, Job, Retry, TlsOptions, connect_async
from penstock.client.errors import LoginFailedError, QueueRefusedError
from penstock.errors import PenstockError

ABILITIES = "queue produce consume nack delay nodes login tls"


class Driver:
    def __init__(self) -> None:
        self._client: AsyncQueueClient | None = None
        self._waiting: dict[str, asyncio.Future[None]] = {}  # handlers, by lease
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 25)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            task = asyncio.create_task(self._answer(json.loads(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self.do_close({})

    async def _answer(self, asked: dict[str, Any]) -> None:
        said = {"id": asked["id"], "ok": True}
        try:
            said |= await getattr(self, f"do_{asked['do']}")(asked) or {}
        except (PenstockError, OSError, ValueError, KeyError) as error:
            kind = error.code if isinstance(error, QueueRefusedError) else "failed"
            kind = "login" if isinstance(error, LoginFailedError) else kind
            said |= {"ok": False, "error": str(error), "kind": kind}
        tell(**said)

    async def do_hello(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {"client": "python-queue", "abilities": ABILITIES.split(), "limits": {}}

    async def do_connect(self, asked: dict[str, Any]) -> None:
        nodes = asked.get("nodes") or [[asked["host"], asked["port"]]]
        user = asked.get("user")
        self._client = await connect_async(
            [f"{host}:{port}" for host, port in nodes],
            timeout_s=asked.get("timeout_ms", 60_000) / 1000,
            tls=TlsOptions(ca_file=asked["ca"]) if asked.get("ca") else None,
            credentials=Credentials(user, asked["password"]) if user else None,
        ).open()

    @property
    def client(self) -> AsyncQueueClient:
        assert self._client is not None, "connect first"
        return self._client

    async def do_produce(self, asked: dict[str, Any]) -> dict[str, Any]:
        offset = await self.client.produce(
            asked["topic"],
            base64.b64decode(asked["payload_b64"]),
            priority=asked.get("priority", 0),
            delay_s=asked.get("delay_ms", 0) / 1000,
            ttl_s=asked.get("ttl_ms", 0) / 1000,
        )
        return {"offset": str(offset)}

    async def do_consume(self, asked: dict[str, Any]) -> None:
        self.client.subscribe(
            *(asked["topic"], asked["group"], self._handle),
            concurrency=asked.get("prefetch", 16),
            visibility_s=asked.get("visibility_ms", 30_000) / 1000,
            on_error=lambda error, job: job or tell(event="lost", text=str(error)),
        )

    async def _handle(self, job: Job) -> None:
        lease = str(job.lease_id)
        self._waiting[lease] = asyncio.get_running_loop().create_future()
        tell(
            event="job",
            topic=job.topic,
            group=job.group,
            lease=lease,
            offset=str(job.offset),
            redeliveries=job.redeliveries,
            payload_b64=base64.b64encode(job.payload).decode(),
        )
        await self._waiting[lease]

    async def do_ack(self, asked: dict[str, Any]) -> None:
        self._waiting.pop(str(asked["lease"])).set_result(None)

    async def do_nack(self, asked: dict[str, Any]) -> None:
        waiting = self._waiting.pop(str(asked["lease"]))
        delay_s = asked.get("delay_ms", 0) / 1000
        waiting.set_exception(Retry(asked.get("reason", "given back"), delay_s=delay_s))

    async def do_stats(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {"messages": (await self.client.stats()).messages}

    async def do_close(self, _asked: dict[str, Any]) -> None:
        if self._client is not None:
            with suppress(PenstockError):
                await self._client.close()


def tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(Driver().run())
