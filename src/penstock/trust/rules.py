"""Access rules: ``allow|deny ACTIONS FILTER``, and which topics a filter covers.

A deny wins wherever it stands; without an allow the answer is no. The order of rules means nothing,
so two roles can be combined without reading both.

``%u`` and ``%c`` stand for the user name and the client id, as whole levels. A client id with
``/``, ``+`` or ``#`` would widen the filter: such an allow matches nothing, and such a deny matches
whatever stands at that level. Nor does an allow take a client id like ``$SYS`` as first level: it
would open a reserved topic. Mistakes lock out rather than let in.

As in MQTT, a wildcard in front does not cover topics that begin with ``$`` [MQTT-4.7.2-1]. Only
``allow all``, without a filter, does: that is what administrators have.
"""

from enum import IntFlag
from typing import NamedTuple

from penstock.model.topic import filter_fault

RULE_BYTES_MAX = 1_024

_FORBIDDEN_IN_LEVEL = ("/", "+", "#", "\0")


class Action(IntFlag):
    """What a rule allows or denies."""

    PUBLISH = 1
    SUBSCRIBE = 2  # live messages, retained messages, the session's own queue
    READ = 4  # history: XRANGE, fetch, /topics, Spark, replay
    WORK = 8  # lease jobs and settle them
    MANAGE = 16  # topics, groups, trimming, dead letters
    MONITOR = 32  # metrics, clients, $SYS; has no topic
    ADMIN = 64  # users, roles, keys, the cluster; has no topic

    @property
    def word(self) -> str:
        return (self.name or str(int(self))).lower().replace("|", ",")


TOPICLESS = Action.MONITOR | Action.ADMIN
CLIENT_ACTIONS = Action.PUBLISH | Action.SUBSCRIBE | Action.READ | Action.WORK
ALL_ACTIONS = Action(127)
_BY_WORD = {action.word: action for action in Action}


class Rule(NamedTuple):
    """One rule, parsed. Without a filter it is about every topic, ``$…`` included."""

    allows: bool
    actions: Action
    topic_filter: str

    @property
    def text(self) -> str:
        actions = "all" if self.actions == ALL_ACTIONS else self.actions.word
        words = ["allow" if self.allows else "deny", actions, self.topic_filter]
        return " ".join(filter(None, words))

    @property
    def names_user(self) -> bool:
        return "%u" in self.topic_filter.split("/")

    @property
    def names_client(self) -> bool:
        return "%c" in self.topic_filter.split("/")

    def filled(self, user: str, client_id: str) -> bytes | None:
        """The filter for this user and client; empty: every topic; None: it matches nothing."""
        values = {"%u": user, "%c": client_id}
        levels = []
        for position, level in enumerate(self.topic_filter.split("/")):
            value = values.get(level, level)
            if level in values:
                is_plain = bool(value) and not any(sign in value for sign in _FORBIDDEN_IN_LEVEL)
                is_reserved = position == 0 and value.startswith("$")
                if self.allows and (is_reserved or not is_plain):
                    return None
                value = value if is_plain else "+"
            levels.append(value)
        return "/".join(levels).encode()


def parse_rule(text: str) -> Rule:
    """Raises ValueError, with a sentence about what is wrong."""
    if len(text.encode("utf-8", "surrogatepass")) > RULE_BYTES_MAX:
        raise ValueError(f"a rule has at most {RULE_BYTES_MAX} bytes")
    effect, _, rest = text.strip().partition(" ")
    words, _, topic_filter = rest.strip().partition(" ")
    if effect not in {"allow", "deny"} or not words:
        raise ValueError(f"{text!r}: write allow|deny ACTIONS FILTER")
    actions, topic_filter = _actions(words), topic_filter.strip()
    if words == "all" and topic_filter:
        actions &= ~TOPICLESS  # whoever has a part of the topics is no administrator
    fault = _combination_fault(actions, topic_filter)
    if fault := fault or (_filter_fault(topic_filter) if topic_filter else ""):
        raise ValueError(f"{text!r}: {fault}")
    return Rule(effect == "allow", actions, topic_filter)


def _combination_fault(actions: Action, topic_filter: str) -> str:
    if topic_filter and actions & TOPICLESS:
        return "monitor and admin have no topic: write them as a rule of their own, without filter"
    if not topic_filter and actions & ~TOPICLESS and actions != ALL_ACTIONS:
        return f"a rule about {actions.word} needs a topic filter, such as #"
    return ""


def _actions(words: str) -> Action:
    actions = Action(0)
    for word in words.split(","):
        if word == "all":
            actions |= ALL_ACTIONS
        elif word in _BY_WORD:
            actions |= _BY_WORD[word]
        else:
            raise ValueError(f"{word!r} is no action; there are {', '.join(_BY_WORD)} and all")
    return actions


def _filter_fault(topic_filter: str) -> str:
    for level in topic_filter.split("/"):
        if level not in {"%u", "%c"} and ("%u" in level or "%c" in level):
            return "%u and %c must be whole levels"
    try:
        return filter_fault(topic_filter.encode())
    except UnicodeEncodeError:
        return "not UTF-8"


# ── filters ───────────────────────────────────────────────────────────────────────────────────


def covers(wide: bytes, narrow: bytes) -> bool:
    """Whether every topic that ``narrow`` matches is matched by ``wide``; both are filters."""
    if not wide:
        return True
    if narrow.startswith(b"$") and wide[:1] in (b"+", b"#"):
        return False
    if narrow == b"#":
        narrow = b"+/#"  # the same topics, as a topic has at least one level
    wide_levels, narrow_levels = wide.split(b"/"), narrow.split(b"/")
    for position, level in enumerate(wide_levels):
        if level == b"#":
            return True
        if position >= len(narrow_levels):
            return False
        other = narrow_levels[position]
        if other == b"#" or level not in (b"+", other):
            return False
    return len(wide_levels) == len(narrow_levels)


def overlaps(one: bytes, other: bytes) -> bool:
    """Whether some topic is matched by both filters."""
    if not one or not other:
        return True
    if _excludes_dollar(one, other) or _excludes_dollar(other, one):
        return False
    levels, others = one.split(b"/"), other.split(b"/")
    for position in range(max(len(levels), len(others))):
        level = levels[position] if position < len(levels) else None
        opposite = others[position] if position < len(others) else None
        if b"#" in (level, opposite):
            return True
        if level is None or opposite is None:
            return False
        if b"+" not in (level, opposite) and level != opposite:
            return False
    return True


def _excludes_dollar(wild: bytes, plain: bytes) -> bool:
    return plain.startswith(b"$") and wild[:1] in (b"+", b"#")


_Node = dict[bytes | None, "_Node"]


class FilterSet:
    """Filters as a tree of levels: whether any of them matches a topic."""

    __slots__ = ("_root", "filters", "is_everything")

    def __init__(self, filters: list[bytes]) -> None:
        """An empty filter stands for every topic, ``$…`` included."""
        self.filters = filters
        self.is_everything = b"" in filters
        self._root: _Node = {}
        for topic_filter in filter(None, filters):
            node = self._root
            for level in topic_filter.split(b"/"):
                node = node.setdefault(level, {})
            node[None] = {}

    def matches(self, topic: bytes) -> bool:
        if self.is_everything or not self._root:
            return self.is_everything
        levels = topic.split(b"/")
        if topic.startswith(b"$"):
            below = self._root.get(levels[0])
            return below is not None and _matches(below, levels, 1)
        return _matches(self._root, levels, 0)

    def covers(self, topic_filter: bytes) -> bool:
        """Whether one of the filters matches all that this one does (``covers``), at one walk."""
        if self.is_everything:
            return True
        levels = (b"+/#" if topic_filter == b"#" else topic_filter).split(b"/")
        hides_wildcards, nodes = topic_filter.startswith(b"$"), [self._root]
        for level in levels:
            wild = () if hides_wildcards else (b"+",)
            keys = wild if level in (b"+", b"#") else (*wild, level)
            if not hides_wildcards and any(b"#" in node for node in nodes):
                return True
            if level == b"#":
                return False
            nodes = [node[key] for node in nodes for key in keys if key in node]
            hides_wildcards = False
        return any(None in node or b"#" in node for node in nodes)

    def overlaps(self, topic_filter: bytes) -> bool:
        """Whether one of the filters matches some topic that this one does (``overlaps``)."""
        if self.is_everything or not topic_filter:
            return bool(self.filters)
        nodes = _first_nodes(self._root, topic_filter)
        for level in topic_filter.split(b"/"):
            if level == b"#":
                return any(nodes)
            if any(b"#" in node for node in nodes):
                return True
            if level == b"+":
                nodes = [below for node in nodes for key, below in node.items() if key is not None]
            else:
                keys = (level, b"+")
                nodes = [node[key] for node in nodes for key in keys if key in node]
        return any(None in node or b"#" in node for node in nodes)


def _first_nodes(root: _Node, topic_filter: bytes) -> list[_Node]:
    """The root without what cannot match: wildcards in front and ``$`` exclude each other."""
    if topic_filter.startswith(b"$"):
        return [{key: node for key, node in root.items() if key not in (b"+", b"#")}]
    if topic_filter[:1] in (b"+", b"#"):
        return [{key: node for key, node in root.items() if not (key or b"").startswith(b"$")}]
    return [root]


def _matches(root: _Node, levels: list[bytes], start: int) -> bool:
    """Level by level, with the set of nodes reached: never more than there are filters."""
    nodes = [root]
    for position in range(start, len(levels)):
        level, below = levels[position], list[_Node]()
        for node in nodes:
            if b"#" in node:
                return True
            found = node.get(level)
            if found is not None and level not in (b"+", b"#"):
                below.append(found)
            if (found := node.get(b"+")) is not None:
                below.append(found)
        if not below:
            return False
        nodes = below
    return any(None in node or b"#" in node for node in nodes)
