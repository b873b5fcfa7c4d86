"""A link for the operations of queue clients that plays a script, with its own clock."""

from penstock.client.queue.operations import QueueOperations
from penstock.client.queue.producer import Producer


class ScriptedLink:
    """Gives ``answers`` to the calls in the order in which they are waited for."""

    def __init__(self, *answers):
        self.now_s = 1000.0
        self.begun = []
        self.steps = []
        self._answers = iter(answers)

    def begin(self, call):
        self.begun.append(call.request)
        self.steps.append("begin")

    async def wait(self, _call):
        self.steps.append("wait")
        self.now_s += 1.0  # every answer takes a second
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds):
        self.now_s += max(0.0, seconds)

    def now(self):
        return self.now_s

    def operations(self, producer_id=None):
        return QueueOperations(Producer(producer_id), self)
