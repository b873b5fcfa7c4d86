"""Explains: gathers facts and derives from them. Implements ``api.why.Explainer``."""

from penstock.api.documents.why import PublishQuestion
from penstock.explain.client import explain_client
from penstock.explain.explanation import Explanation
from penstock.explain.message import explain_message
from penstock.explain.publish import explain_publish
from penstock.explain.topic import explain_topic
from penstock.node.explaining.clients import client_facts
from penstock.node.explaining.messages import message_facts, topic_facts
from penstock.node.explaining.parts import ExplainingParts, Reading
from penstock.node.explaining.publishes import publish_facts
from penstock.obs.events import Events


class NodeExplainer:
    """Explains what this node knows."""

    def __init__(self, parts: ExplainingParts) -> None:
        self._parts = parts

    @property
    def node(self) -> int:
        return self._parts.cluster.node_id

    @property
    def events(self) -> Events:
        return self._parts.events

    async def client(self, client_id: bytes, read: Reading) -> Explanation:
        return explain_client(await client_facts(self._parts, client_id, read))

    async def message(self, topic: bytes, offset: int, read: Reading) -> Explanation:
        return explain_message(await message_facts(self._parts, topic, offset, read))

    async def topic(self, topic: bytes, read: Reading) -> Explanation:
        return explain_topic(await topic_facts(self._parts, topic, read))

    async def publish(self, question: PublishQuestion, read: Reading) -> Explanation:
        return explain_publish(await publish_facts(self._parts, question, read))
