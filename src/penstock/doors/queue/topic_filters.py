"""Which topics match the filters of a client."""

from collections.abc import Callable, Iterator

from penstock.core.subscriptions import SubscriptionTrie
from penstock.model.topic import has_wildcard
from penstock.store.store import Store, TopicInfo

REMEMBERED_MAX = 8_192  # topics whose match is remembered, for the filters of one client


class TopicFilters:
    """The filters of one client; each topic is matched once."""

    def __init__(self, filters: tuple[bytes, ...], is_readable: Callable[[bytes], bool]) -> None:
        self.filters = filters
        self._is_readable = is_readable
        self._trie: SubscriptionTrie[None] = SubscriptionTrie()
        self._matches: dict[bytes, bool] = {}
        for topic_filter in filters:
            self._trie.subscribe(topic_filter, None, 0)

    def match(self, topic: bytes) -> bool:
        known = self._matches.get(topic)
        if known is None:
            if len(self._matches) >= REMEMBERED_MAX:
                self._matches.clear()
            known = bool(self._trie.match(topic)) and self._is_readable(topic)
            self._matches[topic] = known
        return known

    def infos(self, store: Store, after: bytes) -> Iterator[TopicInfo]:
        if any(map(has_wildcard, self.filters)):
            found = store.topics(_common_prefix([*map(_prefix, self.filters)]), after)
            return (info for info in found if self.match(info.name))
        names = sorted(name for name in set(self.filters) if name > after and self.match(name))
        return (info for name in names if (info := store.topic(name)) is not None)


def _prefix(topic_filter: bytes) -> bytes:
    """The prefix of all topics that a filter matches; ``a/#`` matches ``a``, too."""
    plain = topic_filter.partition(b"+")[0].partition(b"#")[0]
    return plain.removesuffix(b"/") if plain + b"#" == topic_filter else plain


def _common_prefix(names: list[bytes]) -> bytes:
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    end = next((position for position, (one, other) in pairs if one != other), len(first))
    return first[:end]
