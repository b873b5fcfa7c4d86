"""The driver of the MicroPython client for the scenarios of ``tests/clients``.

It runs in CPython, in MicroPython with sockets, and in MicroPython without an operating system
(``vm/host.mjs``, which provides lines, sockets and random bytes). So it keeps to what all three
have.
"""

import asyncio
import json
import sys
from binascii import a2b_base64, b2a_base64

from penstock import ClientError, FullError, RefusedError, TakenOverError
from penstock.client import Client

OPTIONS = ("client_id", "user", "password", "keep_alive", "offline", "rx", "timeout", "trust_time")
KINDS = (
    (RefusedError, "refused"),
    (TakenOverError, "taken_over"),
    (FullError, "full"),
    (asyncio.TimeoutError, "timeout"),
)
COUNTERS = ("sent", "acked", "refused", "lost", "reconnects")
ABILITIES = (
    "publish signed subscribe worker offline verify retain hello queue nodes users login tls start"
    " dedup"
)


def bytes64(text):
    return a2b_base64(text.encode())  # one of MicroPython's three takes no text


def text64(data):
    return b2a_base64(data).decode().strip()


def kind_of(error):
    name = type(error).__name__
    if name in ("ClockError", "LoginError"):  # of modules that are loaded when they are needed
        return "no_time" if name == "ClockError" else "login"
    for cls, kind in KINDS:
        if isinstance(error, cls):
            return kind
    return "closed" if isinstance(error, ClientError) else "failed"


class Driver:
    def __init__(self, host):
        self.host = host
        self.client = None
        self.messages = {}
        self.clock = None
        self.keyring = {}
        self.require = False
        self.tasks = []

    async def run(self):
        while True:
            line = await self.host.line()
            if not line:
                break
            asked = json.loads(line)
            self.tasks = [task for task in self.tasks if not task.done()]
            self.tasks.append(asyncio.create_task(self.answer(asked)))
        if self.client:
            await self.client.close()

    async def answer(self, asked):
        said = {"id": asked["id"], "ok": True}
        try:
            said.update(await getattr(self, "do_" + asked["do"])(asked) or {})
        except Exception as error:
            said = {"id": asked["id"], "ok": False, "error": str(error) or repr(error)}
            said["kind"] = kind_of(error)
            if getattr(error, "args", None) and len(error.args) > 1:
                said["code"] = error.args[1]
        self.host.write(json.dumps(said))

    def tell(self, event, **more):
        more["event"] = event
        self.host.write(json.dumps(more))

    async def do_hello(self, _asked):
        limits = {"rx": 1024, "offline": 8}
        return {"client": self.host.name, "abilities": ABILITIES.split(), "limits": limits}

    async def do_connect(self, asked):
        options = {name: asked[name] for name in OPTIONS if asked.get(name) is not None}
        options.setdefault("timeout", 120)  # the machine of a test may be slow
        key = asked.get("key")
        if key:
            from penstock.ed25519 import SigningKey

            seed = bytes64(key["seed_b64"])
            options["signing_key"] = SigningKey(key["id"], seed, key.get("version", 2))
        if asked.get("clock_ms") is not None:
            self.clock = asked["clock_ms"]
        if self.clock is not None:
            options["clock"] = lambda: self.clock
        host = asked.get("host")
        if asked.get("nodes"):
            host = [tuple(node) for node in asked["nodes"]]
        ca = asked.get("ca")
        client = Client(
            host,
            asked.get("port") or 1883,
            keyring=self.keyring or None,
            require_signature=self.require,
            random=self.host.random,
            open=lambda name, port: self.host.open(name, port, ca),
            **options,
        )
        client.on_lost = lambda text, count: self.tell("lost", text=text, count=count)
        client.on_state = lambda state: self.tell("state", state=state)
        await client.connect(asked.get("wait", True))
        self.client = client
        self.tasks.append(asyncio.create_task(self.listen(client)))

    async def listen(self, client):
        try:
            async for message in client:
                if not client.auto_ack:
                    self.messages[message.sequence] = message
                self.tell(
                    "message",
                    topic=message.topic,
                    payload_b64=text64(message.payload),
                    sequence=message.sequence,
                    signer=message.signer,
                )
        except ClientError as error:
            if type(error) is RefusedError:
                self.tell("lost", text=str(error), count=0)

    async def do_publish(self, asked):
        payload = bytes64(asked["payload_b64"])
        retain = bool(asked.get("retain"))
        options = {"signed": asked.get("signed", 0), "retain": retain}
        if asked.get("wait") is False:
            self.client.publish_nowait(asked["topic"], payload, **options)
        else:
            timeout = asked.get("timeout_ms")
            options["timeout"] = None if timeout is None else timeout / 1000
            await self.client.publish(asked["topic"], payload, **options)

    async def do_many(self, asked):
        """Publish ``count`` messages, ``width`` at a time; not of the contract: for measurements."""
        numbers = iter(range(asked["count"]))

        async def publish():
            for _number in numbers:
                await self.client.publish(asked["topic"], b"x" * asked["size"])

        await asyncio.gather(*[publish() for _ in range(asked["width"])])

    async def do_subscribe(self, asked):
        start = asked.get("start")
        if isinstance(start, list):
            start = tuple(start)
        await self.client.subscribe(asked["topic"], start, asked.get("prefetch") or 0)

    async def do_unsubscribe(self, asked):
        await self.client.unsubscribe(asked["topic"])

    async def do_auto_ack(self, asked):
        self.client.auto_ack = asked["on"]

    async def do_ack(self, asked):
        self.messages.pop(asked["sequence"]).ack()

    async def do_release(self, asked):
        self.messages.pop(asked["sequence"]).release()

    async def do_verify(self, asked):
        self.keyring[asked["key_id"]] = bytes64(asked["public_b64"])
        self.require = asked.get("require", False)
        if self.client:
            self.client.keyring = self.keyring
            self.client.require_signature = self.require

    async def do_clock(self, asked):
        self.clock = asked["ms"]
        if self.client:
            self.client._clock = lambda: self.clock

    async def do_flush(self, asked):
        await self.client.flush(asked.get("timeout_ms", 30000) / 1000)

    async def do_stats(self, _asked):
        counts = {name: getattr(self.client, name) for name in COUNTERS}
        counts["error"] = repr(self.client.error) if self.client.error else ""
        return counts

    async def do_heap(self, _asked):
        import gc

        gc.collect()
        return {"bytes": gc.mem_alloc()}

    async def do_close(self, _asked):
        await self.client.close()


class Stdio:
    """Lines, sockets and random bytes of an operating system."""

    def __init__(self):
        is_cpython = sys.implementation.name == "cpython"
        self.name = "micropython-cpython" if is_cpython else "micropython"
        self._reader = None
        from os import urandom

        self.random = urandom

    async def line(self):
        if self._reader is None:
            self._reader = await self._connect()
        return await self._reader.readline()

    async def _connect(self):
        if self.name == "micropython":
            return asyncio.StreamReader(sys.stdin)
        reader = asyncio.StreamReader(limit=1 << 25)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        return reader

    def write(self, line):
        sys.stdout.write(line + "\n")
        if self.name != "micropython":
            sys.stdout.flush()

    async def open(self, host, port, ca):
        if ca is None:
            return await asyncio.open_connection(host, port)
        try:
            import ssl

            context = ssl.create_default_context(cafile=ca)
        except ImportError:
            import tls

            context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
            context.verify_mode = tls.CERT_REQUIRED
            with open(ca, "rb") as file:
                context.load_verify_locations(file.read())
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=host)


if __name__ == "__main__":
    asyncio.run(Driver(Stdio()).run())
