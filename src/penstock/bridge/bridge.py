"""One bridge: connects to the other broker, then to this one, and copies until either ends.

It is an ordinary client of both, with a persistent session at each. While the other broker is away
it is not connected here either, so what is published meanwhile waits in its session here, as for
any client that is away: counted, bounded by ``limits.queue_messages_max``, on disk. The other way
round messages wait in its session there. ``forwarding`` says why none is lost between the two.

It asks for MQTT 5, so that the other broker keeps our own messages from us (No Local) and passes on
the path of a message (``path``); if it speaks 3.1.1 only, that. Filters that would echo then are
refused, with advice, instead of copying each message twice.
"""

import asyncio
import random
import socket
from collections.abc import Callable

from penstock.bridge.forwarding import WINDOW, Forwarding, Traffic
from penstock.bridge.link import Link
from penstock.bridge.mapping import Direction, Mapping
from penstock.bridge.path import Hops
from penstock.client.async_dial import open_transport
from penstock.client.credentials import Credentials
from penstock.client.errors import RefusedError, UnreachableError
from penstock.client.mqtt.connect_request import VERSIONS, ConnectRequest
from penstock.client.mqtt.refusals import VersionRefusedError
from penstock.client.mqtt.session import VERSION_5, SubscribeOptions
from penstock.client.mqtt.url import read_url
from penstock.client.tls import TlsOptions, tls_settings
from penstock.clock import Clock
from penstock.config.bridge_options import BridgeOptions
from penstock.errors import PenstockError
from penstock.net.origin import Approach, Origin
from penstock.obs.bridge_view import BridgeState, BridgeView, Copying
from penstock.obs.log import get_logger

RETRY_S_MIN = 0.5
RETRY_S_MAX = 60.0
CONNECT_TIMEOUT_S = 10.0
FAILURE = 0x80  # return codes of SUBACK from here on are refusals

LocalDoor = Callable[[asyncio.Transport, bytes, Origin], None]
_log = get_logger("bridge")


class Bridge:
    """Runs until it is cancelled."""

    def __init__(
        self,
        options: BridgeOptions,
        broker_id: Callable[[], str],
        door: LocalDoor,
        clock: Clock,
    ) -> None:
        self._options = options
        self._door = door
        self._clock = clock
        self._mapping = Mapping(
            filters_in=(*options.topics_in, *options.topics_both),
            filters_out=(*options.topics_out, *options.topics_both),
            local_prefix=options.local_prefix,
            remote_prefix=options.remote_prefix,
        )
        self._broker_id = broker_id
        self._traffic = {direction: Traffic() for direction in Direction}
        self._forwardings: dict[Direction, Forwarding] = {}
        self._version = 0
        self._retry_s = RETRY_S_MIN
        self._retry_ms = 0
        self._error: PenstockError | None = None
        self._enter(BridgeState.STANDBY)

    @property
    def name(self) -> str:
        return self._options.name

    def view(self) -> BridgeView:
        error = self._error
        return BridgeView(
            name=self.name,
            url=self._options.url,
            state=self._state,
            since_ms=self._since_ms,
            version=self._version,
            error=error.message if error else "",
            advice=error.advice if error else "",
            retry_ms=self._retry_ms,
            incoming=self._copying(Direction.IN),
            outgoing=self._copying(Direction.OUT),
        )

    def _copying(self, direction: Direction) -> Copying:
        traffic, forwarding = self._traffic[direction], self._forwardings.get(direction)
        return Copying(
            filters=self._mapping.subscriptions(direction),
            copied=traffic.copied,
            drops=dict(traffic.drops),
            in_flight=forwarding.in_flight if forwarding else 0,
        )

    async def run(self) -> None:
        """Connect, and connect again; what fails is shown, and tried again ever more rarely."""
        try:
            while True:
                self._enter(BridgeState.CONNECTING)
                self._error = await self._serve()
                await self._wait(self._error)
        finally:
            self._enter(BridgeState.STANDBY)

    async def _wait(self, error: PenstockError) -> None:
        delay_s = self._retry_s * random.uniform(0.5, 1)  # noqa: S311 - spreads reconnects
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)
        self._retry_ms = self._clock.wall_ms() + round(delay_s * 1000)
        self._enter(BridgeState.WAITING)
        _log.warning(
            "bridge_waits", bridge=self.name, error=error.message, retry_s=round(delay_s, 1)
        )
        await asyncio.sleep(delay_s)
        self._retry_ms = 0

    def _enter(self, state: BridgeState) -> None:
        self._state = state
        self._since_ms = self._clock.wall_ms()

    # ── from connecting to the end ────────────────────────────────────────────────────────────

    async def _serve(self) -> PenstockError:
        """Return why it ended, or did not begin."""
        links: list[Link] = []
        try:
            remote = await self._connect_remote()
            links.append(remote)
            self._check_echoes(remote)
            local = await self._connect_local()
            links.append(local)
            self._join(local, remote)
            await self._subscribe(remote, Direction.IN)
            await self._subscribe(local, Direction.OUT)
            self._begun()
            await asyncio.wait([local.ended, remote.ended], return_when=asyncio.FIRST_COMPLETED)
            return (remote if remote.ended.done() else local).ended.result()
        except PenstockError as error:
            return error
        finally:
            self._forwardings = {}
            for link in links:
                link.close()

    def _begun(self) -> None:
        self._error = None
        self._retry_s = RETRY_S_MIN
        self._enter(BridgeState.CONNECTED)
        _log.info("bridge_connected", bridge=self.name, url=self._options.url, mqtt=self._version)

    async def _connect_remote(self) -> Link:
        """Connect by MQTT 5, or 3.1.1 if the other broker refuses that. Raises PenstockError."""
        for version in VERSIONS if self._version != VERSIONS[-1] else VERSIONS[-1:]:
            try:
                link = await self._dial(version)
            except VersionRefusedError:
                if version == VERSIONS[-1]:
                    raise
                continue
            self._version = version
            return link
        raise AssertionError("no version of MQTT to try")

    async def _dial(self, version: int) -> Link:
        url = read_url(self._options.url)
        link = Link(self._request().session(version), self._options.keep_alive_s)
        tls = tls_settings(self._tls()) if url.is_tls else None
        try:
            await open_transport(lambda: link, url.host, url.port, CONNECT_TIMEOUT_S, tls)
            await link.connected()
        except BaseException as error:
            link.close()
            if isinstance(error, TimeoutError | OSError):
                raise UnreachableError(f"cannot connect: {error or 'no answer'}") from error
            raise
        return link

    def _request(self) -> ConnectRequest:
        options = self._options
        credentials = (
            Credentials(options.user, password_file=options.password_file) if options.user else None
        )
        client_id = options.client_id or f"penstock-{options.name}"
        return _request(client_id, options.keep_alive_s, credentials)

    def _tls(self) -> TlsOptions:
        options = self._options
        return TlsOptions(
            ca_file=options.tls_ca or None,
            cert_file=options.tls_cert or None,
            key_file=options.tls_key or None,
        )

    async def _connect_local(self) -> Link:
        """Be a client of this broker, by a pair of sockets; the door takes the other one."""
        loop = asyncio.get_running_loop()
        keep_alive_s = self._options.keep_alive_s
        link = Link(_request(f"bridge-{self.name}", keep_alive_s).session(VERSION_5), keep_alive_s)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, theirs)
        origin = Origin(
            self._clock.monotonic(),
            peer=f"bridge {self.name}",
            approach=Approach(is_local=True, listener_user=self._options.local_user),
        )
        self._door(transport, b"", origin)
        await loop.connect_accepted_socket(lambda: link, ours)
        try:
            await link.connected()
        except BaseException:
            link.close()
            raise
        return link

    def _check_echoes(self, remote: Link) -> None:
        pair = self._mapping.echoes()
        if pair is not None and remote.session.version < VERSION_5:
            came, went = pair
            raise RefusedError(
                f"the other broker speaks MQTT 3.1.1 only, so it would send back what it gets:"
                f" {came!r} comes in and {went!r} goes out",
                "use topics_in and topics_out without common topics",
            )

    def _join(self, local: Link, remote: Link) -> None:
        """Let each direction take from one link and give to the other."""
        hops = Hops(self._broker_id(), self.name)
        for direction, origin, target in (
            (Direction.IN, remote, local),
            (Direction.OUT, local, remote),
        ):
            forwarding = Forwarding(
                direction,
                self._mapping,
                hops,
                origin.session,
                target.session,
                self._traffic[direction],
            )
            self._forwardings[direction] = forwarding
            _Flow(forwarding, origin, target)

    async def _subscribe(self, link: Link, direction: Direction) -> None:
        filters = self._mapping.subscriptions(direction)
        if not filters:
            return
        options = SubscribeOptions()
        if link.session.version >= VERSION_5:
            # What is retained comes once, with the first subscription, and stays retained.
            options = SubscribeOptions(no_local=True, retain_as_published=True, retain_handling=1)
        answer = await link.subscribe(filters, self._options.qos, options)
        refused = [
            one for one, code in zip(filters, answer.return_codes, strict=True) if code >= FAILURE
        ]
        if refused:
            side = "the other broker" if direction is Direction.IN else "this broker"
            why = f" ({answer.reason})" if answer.reason else ""
            raise RefusedError(
                f"{side} refused to subscribe to {', '.join(map(repr, refused))}{why}",
                "give its user the right to, or copy other topics",
            )


class _Flow:
    """What happens when a link of a direction has received something, or can(not) write."""

    def __init__(self, forwarding: Forwarding, origin: Link, target: Link) -> None:
        self._forwarding = forwarding
        self._origin = origin
        self._target = target
        self._is_congested = False
        target.on_received = _both(target.on_received, self._settle)
        origin.on_received = _both(origin.on_received, self._received)
        target.on_congestion = self._congestion
        origin.deliver_to(forwarding.take)
        self._received()

    def _received(self) -> None:
        self._target.flush()
        self._adjust()

    def _settle(self) -> None:
        self._forwarding.settle()
        self._origin.flush()
        self._adjust()

    def _congestion(self, is_congested: bool) -> None:
        self._is_congested = is_congested
        self._adjust()

    def _adjust(self) -> None:
        is_wanted = not (self._is_congested or self._forwarding.is_full)
        self._origin.set_reading(is_wanted=is_wanted)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def act() -> None:
        first()
        second()

    return act


def _request(
    client_id: str, keep_alive_s: int, credentials: Credentials | None = None
) -> ConnectRequest:
    return ConnectRequest(
        client_id=client_id,
        clean_session=False,
        keep_alive=keep_alive_s,
        will=None,
        credentials=credentials,
        username=None,
        password=None,
        session_expiry_s=None,
        receive_maximum=WINDOW,
        packet_bytes_max=None,
        topic_aliases=False,
        scram=False,
        user_properties=(),
    )
