from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeVar

from penstock.cluster.consensus import Consensus
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.net.connection import Connection
from penstock.net.connections import Connections
from penstock.store.message_columns import MessageColumns
from penstock.wire.mqtt.events import Event

_Made = TypeVar("_Made")
_Targets = TypeVar("_Targets")
_Found_co = TypeVar("_Found_co", covariant=True)

class _Route(Protocol[_Found_co]):
    @property
    def topic(self) -> bytes: ...
    @property
    def targets(self) -> _Found_co: ...

class _Door(Protocol):
    @property
    def connections(self) -> Connections: ...
    @property
    def pipeline(self) -> Pipeline: ...
    @property
    def cluster(self) -> Consensus: ...
    @property
    def broker(self) -> Broker: ...

class PublishFrames:
    chunk: bytes
    version: int
    def __len__(self) -> int: ...
    def frames(self, first: int, last: int) -> bytes: ...
    def runs(self, make: Callable[..., _Made], first: int, last: int) -> list[_Made]: ...
    def take_run(self, make: Callable[..., _Made]) -> _Made: ...

class ShortWay:
    def __init__(self, door: _Door, connected: object) -> None: ...
    def take(self, connection: Connection[Event], data: bytes) -> bool: ...

def receive(connection: Connection[Event], data: bytes) -> None: ...
def find_publishes(
    version: int, data: bytes, position: int, bytes_max: int, events: list[Event]
) -> int: ...
def pass_on(
    frames: PublishFrames,
    routes: Mapping[bytes, _Route[_Targets]],
    publishable: AbstractSet[bytes] | None,
    columns: MessageColumns | None,
    time_ms: int,
    cluster: Consensus,
    connection_type: type,
    forward: Callable[[_Targets, PublishFrames, int, int], None],
) -> tuple[int, int]: ...
