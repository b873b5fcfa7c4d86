"""What the API asks a broker for explanations; ``node.explaining`` implements it."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from penstock.api.documents.why import PublishQuestion
from penstock.explain.explanation import Explanation
from penstock.obs.events import Events

_Value = TypeVar("_Value")


class Reading(Protocol):
    """Does in a thread what takes long or reads the disk: ``Call.read``."""

    def __call__(self, work: Callable[[], _Value], /) -> Awaitable[_Value]: ...


class Explainer(Protocol):
    """Explains what one node knows."""

    @property
    def node(self) -> int: ...
    @property
    def events(self) -> Events: ...
    async def client(self, client_id: bytes, read: Reading) -> Explanation: ...
    async def message(self, topic: bytes, offset: int, read: Reading) -> Explanation: ...
    async def topic(self, topic: bytes, read: Reading) -> Explanation: ...
    async def publish(self, question: PublishQuestion, read: Reading) -> Explanation: ...
