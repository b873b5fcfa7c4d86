"""The metrics of bridges to other MQTT brokers; a broker without bridges has none of them."""

from collections.abc import Iterator, Mapping

from penstock.admin.exposition import Metric, Scrape, counter, gauge
from penstock.obs.bridge_view import BridgeState, Copying


def _connected(scrape: Scrape) -> Mapping[str, float]:
    views = scrape.view.bridges.views()
    return {view.name: view.state is BridgeState.CONNECTED for view in views}


def _directions(scrape: Scrape) -> Iterator[tuple[str, str, Copying]]:
    for view in scrape.view.bridges.views():
        yield view.name, "in", view.incoming
        yield view.name, "out", view.outgoing


def _copied(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    return {(name, way): one.copied for name, way, one in _directions(scrape)}


def _dropped(scrape: Scrape) -> Mapping[tuple[str, ...], float]:
    return {
        (name, way, reason.value): count
        for name, way, one in _directions(scrape)
        for reason, count in one.drops.items()
    }


BRIDGES: tuple[Metric, ...] = (
    gauge(
        "penstock_bridge_connected",
        "1 while the bridge copies messages; 0 on all nodes of a cluster but one.",
        _connected,
        "bridge",
    ),
    counter(
        "penstock_bridge_messages_total",
        "Messages that a bridge copied, by direction: in is to this broker.",
        _copied,
        "bridge, direction",
    ),
    counter(
        "penstock_bridge_drops_total",
        "Messages that a bridge did not copy, by direction and reason.",
        _dropped,
        "bridge, direction, reason",
    ),
)
