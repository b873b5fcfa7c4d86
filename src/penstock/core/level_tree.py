"""Names by levels: one structure to find topics by filter and filters by topic.

A ``LevelTree`` holds a set of names, topics *or* wildcard filters, never both. It is a tree of
plain dicts, one per level that at least two names share::

    a/b/c, a/b/d, a, x/y/z    {a: {b: {c: "a/b/c", d: "a/b/d"}, END: "a"}, x: "x/y/z"}

* A **leaf** is the whole name. It is where its path stops being shared, here ``x``, so a single
  name costs one slot however deep it is. A walk that meets a leaf early compares the rest of the
  two paths (``_tails_agree``).
* A **path** is the levels of a name and then ``END``, which no level can equal. No path is the
  prefix of another, so every name has a place of its own and no node needs a flag.
* **Invariant**: below each dict, except the roots, are at least two names. ``remove`` restores it
  by moving a sole survivor up, so removed names leave nothing behind.
* Names that begin with ``$`` have their own root. A filter that begins with a wildcard does not
  begin with ``$`` and so never meets them [MQTT-4.7.2-1].

Wildcards are ordinary levels to ``add`` and ``remove``; only the two walks interpret them. Both
cost what they visit. Nothing recurses, because the peer chooses the depth.

Names are assumed to be well-formed (``penstock.model.topic``). The caller knows which names are
present, as it keeps a flat dict beside the tree.
"""

from collections.abc import Iterator
from typing import Final

END: Final = None  # last key of every path

PLUS: Final = b"+"
HASH: Final = b"#"

Key = bytes | None
Node = dict[Key, "bytes | Node"]


class LevelTree:
    """A set of names, searched level by level."""

    __slots__ = ("_ordinary", "_reserved", "visits")

    def __init__(self) -> None:
        self._ordinary: Node = {}
        self._reserved: Node = {}
        self.visits = 0  # nodes that ``topics_matching`` has visited, in total

    def add(self, name: bytes) -> None:
        path = _path(name)
        node = self._root(name)
        depth = 0
        while isinstance(child := node.get(path[depth]), dict):
            node = child
            depth += 1
        node[path[depth]] = name if child is None else _fork(child, name, depth + 1)

    def remove(self, name: bytes) -> None:
        path = _path(name)
        node = self._root(name)
        trail: list[tuple[Node, Key]] = []
        while isinstance(child := node[path[len(trail)]], dict):
            trail.append((node, path[len(trail)]))
            node = child
        assert child == name
        del node[path[len(trail)]]
        while trail and len(node) == 1:
            (survivor,) = node.values()
            if isinstance(survivor, dict):
                return
            node, key = trail.pop()
            node[key] = survivor

    def clear(self) -> None:
        self._ordinary.clear()
        self._reserved.clear()

    def topics_matching(
        self, topic_filter: bytes, visits_max: float = float("inf")
    ) -> list[bytes] | None:
        """In a tree of topics, those that the filter matches, unordered.

        None if that takes more than about ``visits_max`` visits.
        """
        path = _path(topic_filter)
        found: list[bytes] = []
        stack = [(self._root(topic_filter), 0)]
        last_visit = self.visits + visits_max
        while stack:
            node, depth = stack.pop()
            wanted = path[depth]
            below = depth if wanted == HASH else depth + 1  # '#' stands for all levels to come
            children = _children(node, wanted)
            self.visits += len(children)
            if self.visits > last_visit:
                return None
            for child in children:
                if isinstance(child, dict):
                    stack.append((child, below))
                elif wanted == HASH or _tails_agree(path, _path(child), depth):
                    found.append(child)
        return found

    def walk(self, topic_filter: bytes) -> Iterator[bytes | None]:
        """The same step by step: a name, or None for a node visited in vain.

        The tree may change between two steps. A name that exists all the time is met once: the
        children of a node are copied when the walk reaches it, and a node that was cut off still
        holds the survivor that moved up. A name that was removed meanwhile may be met.
        """
        path = _path(topic_filter)
        stack = [(self._root(topic_filter), 0)]
        while stack:
            node, depth = stack.pop()
            wanted = path[depth]
            below = depth if wanted == HASH else depth + 1
            for child in _children(node, wanted):
                if isinstance(child, dict):
                    stack.append((child, below))
                    yield None
                elif wanted == HASH or _tails_agree(path, _path(child), depth):
                    yield child
                else:
                    yield None

    def filters_matching(self, topic: bytes) -> list[bytes]:
        """In a tree of filters, those that match the topic, unordered."""
        path = _path(topic)
        found: list[bytes] = []
        stack = [(self._root(topic), 0)]
        while stack:
            node, depth = stack.pop()
            level = path[depth]
            for key in (END, HASH) if level is END else (level, PLUS, HASH):
                child = node.get(key)
                if isinstance(child, dict):
                    stack.append((child, depth + 1))
                elif child is not None and _tails_agree(_path(child), path, depth):
                    found.append(child)
        return found

    def _root(self, name: bytes) -> Node:
        return self._reserved if name.startswith(b"$") else self._ordinary  # [MQTT-4.7.2-1]


def _path(name: bytes) -> list[Key]:
    return [*name.split(b"/"), END]


def _fork(resident: bytes, newcomer: bytes, depth: int) -> Node:
    """The smallest subtree for two names that share their first ``depth`` levels."""
    resident_path, newcomer_path = _path(resident), _path(newcomer)
    assert resident != newcomer
    top: Node = {}
    node = top
    while resident_path[depth] == newcomer_path[depth]:
        shared: Node = {}
        node[resident_path[depth]] = shared
        node = shared
        depth += 1
    node[resident_path[depth]] = resident
    node[newcomer_path[depth]] = newcomer
    return top


def _children(node: Node, wanted: Key) -> "list[bytes | Node]":
    """Where a filter may continue from ``node``; leaves still need ``_tails_agree``."""
    if wanted in (PLUS, HASH):
        return list(node.values())
    child = node.get(wanted)
    return [] if child is None else [child]


def _tails_agree(filter_path: list[Key], topic_path: list[Key], depth: int) -> bool:
    """Whether the rest of a filter's path matches the rest of a topic's, from ``depth`` on."""
    for wanted, level in zip(filter_path[depth:], topic_path[depth:], strict=False):
        if wanted == HASH:
            return True  # also when no level is left: "a/#" matches "a" [MQTT-4.7.1-2]
        if wanted != level and (wanted != PLUS or level is END):
            return False
    return True
