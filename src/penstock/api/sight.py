"""Who sees lists about topics: who may monitor sees all, who manages topics sees those."""

from penstock.api.call import Call
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action

_EVERY_TOPIC = b"#"


class Sight:
    """What one caller sees. Refuses the request of those who see nothing."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._sees_all = call.may(Action.MONITOR)
        rights = call.principal.rights
        if not self._sees_all and rights.coverage(Action.MANAGE, _EVERY_TOPIC) is Coverage.NONE:
            call.require(Action.MONITOR)

    def sees(self, topic: bytes) -> bool:
        return self._sees_all or self._call.may(Action.MANAGE, topic)

    def require(self, topic: bytes) -> None:
        if not self.sees(topic):
            self._call.require(Action.MANAGE, topic)
