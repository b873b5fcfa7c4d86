"""What became of it: explanations of a client, a message, a topic, a publish.

The node that is asked puts together what all nodes know: each of them has recorded what happened to
its own clients.
"""

from collections.abc import Sequence

from penstock.api.call import Call
from penstock.api.documents.lists import Missing
from penstock.api.documents.why import PublishQuestion, Why, WhyClient, WhyMessage, WhyTopic
from penstock.api.explainer import Explainer
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem
from penstock.explain.explanation import Explanation
from penstock.explain.merging import merged
from penstock.trust.rules import Action

QOS_MAX = 2


class Explanations(Resource):
    """Explanations."""

    @property
    def _explainer(self) -> Explainer:
        if self.parts.explainer is None:
            raise Problem(404, "not_found", "this broker explains nothing", "ask a real one")
        return self.parts.explainer

    @operation("GET", "why/client", Action.MONITOR)
    async def client(self, call: Call, query: WhyClient) -> Why:
        """Explain what happened to a client: connected, away, disconnected, refused.

        From what was recorded of its id, its connection and its session.
        """
        own = await self._explainer.client(query.client_id.encode(), call.read)
        return await _whole(call, own)

    @operation("GET", "why/message", Action.MONITOR)
    async def message(self, call: Call, query: WhyMessage) -> Why:
        """Explain what became of a message, for each receiver.

        From the journal, sessions, groups, dead letters, and what was recorded of drops.
        """
        own = await self._explainer.message(query.topic.encode(), query.offset, call.read)
        return await _whole(call, own)

    @operation("GET", "why/topic", Action.MONITOR)
    async def topic(self, call: Call, query: WhyTopic) -> Why:
        """Explain what becomes of messages of a topic: who gets them, what is kept or refused."""
        own = await self._explainer.topic(query.topic.encode(), call.read)
        return await _whole(call, own)

    @operation("POST", "why/publish", Action.MONITOR)
    async def publish(self, call: Call, body: PublishQuestion) -> Why:
        """Try a publish without doing it: topic, access, signature, size, disk, quorum, receivers.

        Trying it as another user needs the right to administer.
        """
        if body.user != call.principal.user:
            call.require(Action.ADMIN)
        if body.qos > QOS_MAX:
            raise Problem(400, "invalid_parameter", "qos is 0, 1 or 2", "give one of these")
        return _why(await self._explainer.publish(body, call.read))


async def _whole(call: Call, own: Explanation) -> Why:
    there = await call.others(Why)
    return _why(merged(own, there.answers), there.missing)


def _why(found: Explanation, missing: Sequence[Missing] = ()) -> Why:
    known = {name: getattr(found, name) for name in Explanation.__struct_fields__}
    return Why(**known, incomplete=list(missing))
