"""Routing in isolation: what a match, a cached lookup and a change of subscriptions cost.

    python benchmarks/micro_topics.py

The load is a fleet: every device subscribes to its own filter, two thirds of them with a wildcard,
and a handful of services watch all devices. A topic is matched by its device's filter and by those
of the services. Each figure is the best of several rounds, because it measures the cost of the code
and not the other load of the machine. Memory is what ``tracemalloc`` saw allocated and not freed;
subscribers are shared strings and their names are not counted.
"""

import platform
import sys
import timeit
import tracemalloc
from itertools import cycle

from penstock.core.routes import Routes
from penstock.core.subscriptions import SubscriptionTrie
from penstock.core.topic_tree import TopicTree
from penstock.limits import ROUTES_CACHED_MAX

ROUNDS = 5
SERVICES = [b"fleet/+/telemetry/#", b"fleet/#", b"+/+/alarm"]


def device_filter(number: int) -> bytes:
    kind = (b"fleet/d%d/command", b"fleet/d%d/+/set", b"fleet/d%d/#")[number % 3]
    return kind % number


def device_topic(number: int) -> bytes:
    return b"fleet/d%d/telemetry/temperature" % number


def report(what: str, figure: float, unit: str) -> None:
    print(f"{what:<66} {figure:>10,.2f} {unit}")


def best_us(call, count: int) -> float:
    """Return microseconds per call, best of a few rounds of ``count`` calls."""
    return min(timeit.repeat(call, number=count, repeat=ROUNDS)) / count * 1e6


def fill(target: SubscriptionTrie[str] | Routes[str], count: int) -> None:
    for number in range(count):
        target.subscribe(device_filter(number), "device", 1)
    for topic_filter in SERVICES:
        target.subscribe(topic_filter, "service", 0)


def measure_match(count: int) -> None:
    trie: SubscriptionTrie[str] = SubscriptionTrie()
    fill(trie, count)
    topics = cycle([device_topic(number) for number in range(0, count, max(1, count // 1_000))])
    report(
        f"walk, {count:,} subscriptions", best_us(lambda: trie.match(next(topics)), 20_000), "us"
    )


def measure_cached(count: int) -> None:
    routes: Routes[str] = Routes()
    fill(routes, count)
    names = [device_topic(number) for number in range(1_000)]
    for name in names:
        routes.resolve(name)
    topics, cached = cycle(names), routes.cached
    spent = best_us(lambda: cached.get(next(topics)) or routes.resolve(next(topics)), 200_000)
    report(f"cached route, {count:,} subscriptions", spent, "us")


def measure_miss() -> None:
    """A flood of new topics: each one is matched, cached, and evicts another."""
    routes: Routes[str] = Routes()
    fill(routes, 1_000)
    for number in range(ROUTES_CACHED_MAX):
        routes.resolve(device_topic(number))
    numbers = iter(range(ROUTES_CACHED_MAX, 10**9))
    spent = best_us(lambda: routes.resolve(device_topic(next(numbers))), 50_000)
    report("new topic, cache full (walk, remember, evict)", spent, "us")


def measure_churn() -> None:
    """Subscribe and unsubscribe with a full cache; every other change, at most, evicts a route."""
    routes: Routes[str] = Routes()
    fill(routes, 1_000)
    names = [device_topic(number) for number in range(ROUTES_CACHED_MAX)]

    def warm() -> None:
        for name in names:
            if name not in routes.cached:
                routes.resolve(name)

    numbers = cycle(range(ROUTES_CACHED_MAX))

    def change(pattern: bytes) -> None:
        topic_filter = pattern % next(numbers)
        routes.subscribe(topic_filter, "guest", 1)
        routes.unsubscribe(topic_filter, "guest")

    for kind, pattern in [
        ("plain filter", b"fleet/d%d/telemetry/temperature"),
        ("filter for one device", b"fleet/d%d/#"),
        ("'+' inside, one device", b"fleet/d%d/+/temperature"),
        ("nobody's topics", b"elsewhere/d%d/#"),
    ]:
        warm()
        spent = best_us(lambda pattern=pattern: change(pattern), 10_000) / 2
        report(f"change of a {kind}, {ROUTES_CACHED_MAX:,} routes cached", spent, "us")
    for topic_filter in (b"fleet/#", b"+/+/telemetry/#", b"fleet/+/+/humidity"):
        measure_wide(routes, topic_filter, warm)


def measure_wide(routes: Routes[str], topic_filter: bytes, warm) -> None:
    spent = []
    for _ in range(ROUNDS):
        warm()
        routes.resolve(b"a topic that no wide filter matches")
        spent.append(timeit.timeit(lambda: routes.subscribe(topic_filter, "guest", 1), number=1))
        routes.unsubscribe(topic_filter, "guest")
    name = topic_filter.decode()
    report(f"subscribe to {name}, {ROUTES_CACHED_MAX:,} routes cached", min(spent) * 1e3, "ms")


def allocated_bytes(build) -> int:
    tracemalloc.start()
    kept = build()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return size


def measure_memory(count: int) -> None:
    def with_filters(name):
        def build():
            trie: SubscriptionTrie[str] = SubscriptionTrie()
            for number in range(count):
                trie.subscribe(name(number), "device", 1)
            return trie

        return build

    def topics():
        tree: TopicTree[None] = TopicTree()
        for number in range(count):
            tree.set(device_topic(number), None)
        return tree

    def routes():
        kept: Routes[str] = Routes(cached_max=count)
        kept.subscribe(b"fleet/#", "service", 0)
        for number in range(count):
            kept.resolve(device_topic(number))
        return kept

    for what, build in [
        ("plain subscription", with_filters(lambda number: b"fleet/d%d/command" % number)),
        ("wildcard subscription", with_filters(lambda number: b"fleet/d%d/#" % number)),
        ("subscription of the mixed fleet", with_filters(device_filter)),
        ("topic in a TopicTree (name included, value not)", topics),
        ("cached route (name included)", routes),
    ]:
        report(f"memory per {what}, {count:,}", allocated_bytes(build) / count, "B")


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}, {sys.platform}")
    for count in (1_000, 100_000):
        measure_match(count)
        measure_cached(count)
    measure_miss()
    measure_churn()
    measure_memory(100_000)


if __name__ == "__main__":
    main()
