"""Which topics require a signature, and which signature versions they accept.

The first matching rule of ``[signing]`` decides, then what ``required`` lists, by default topics
that begin with ``secure/``. Other topics accept unsigned publishes too, but a signature must be
valid. Patterns are those of :mod:`penstock.trust.acl`.
"""

from typing import NamedTuple

from penstock.config.schema import Signing
from penstock.trust.acl import Matcher, compile_patterns


class Demand(NamedTuple):
    """What a topic requires of its publishers."""

    required: bool
    versions: frozenset[int]


class Policy:
    """The requirements of a configuration."""

    __slots__ = ("_free", "_rules")

    def __init__(self, signing: Signing) -> None:
        versions = frozenset(signing.versions)
        self._rules: list[tuple[Matcher, Demand]] = [
            (
                compile_patterns((rule.filter,)),
                Demand(rule.required, frozenset(rule.versions) or versions),
            )
            for rule in signing.rules
        ]
        self._rules.append((compile_patterns(signing.required), Demand(True, versions)))
        self._free = Demand(False, versions)

    def of(self, topic: bytes) -> Demand:
        for matches, demand in self._rules:
            if matches(topic):
                return demand
        return self._free
