"""The workloads: the load, the figure that counts, and its target.

``load`` has the options of the driver (``mqload``, or our own client), so that a workload can be
repeated by hand. Workloads that end after ``--seconds`` leave out ``-d`` and
``-n``.

Targets are relative to the workload's peer in the same run, or absolute. A workload without a
target is only shown. The absolute targets of the workloads called ``tcp_...`` and ``lat`` are the
figures that HermesMQ published, from its own machine.

The peer is another broker under the same load; or this broker under a lighter load, to measure the
cost of the difference; or, for signatures, the library alone.
"""

from collections.abc import Iterable, Mapping

from benchmarks.certificates import CERT, KEY
from benchmarks.field_workloads import FIELD_WORKLOADS
from benchmarks.shapes import (
    ANSWERED,
    BEYOND_REPLY,
    CLIENT,
    COST,
    FIELD,
    FRAMES,
    IN_FLUSHES,
    LATENCY,
    MEMORY,
    MQLOAD,
    RATE,
    SETTLED,
    TAIL,
    Figure,
    Peer,
    Target,
    Workload,
)

__all__ = ["GROUPS", "WORKLOADS", "UnknownWorkloadError", "select"]

GROUPS = (FIELD, "core", "waiting", "edge", "queue", "scale", "tls", "websocket", "mqtt5")

_BATCHED = Target(4.0)
_MIXED = Target(2.5)
_ROOM = {"limits.clients_max": "20000"}
_INTERVAL = {"durability": "interval"}
_SMALL_CONNECTION = Target(3072, absolute=True)

_CORE = (
    Workload("A", "1 to 1, 64 B", "-s 64", target=_BATCHED),
    Workload("B", "1 to 10, 64 B", "-S 10 -s 64", target=_BATCHED),
    Workload("C", "100 to 1, 64 B", "-P 100 -s 64", target=_BATCHED),
    Workload("D1", "1 to 1, 1 KiB", "-s 1024"),
    Workload("D10", "1 to 1, 10 KiB", "-s 10240"),
    Workload("M", "100 topics, 16..512 B", "-t 100 -R -s 16:512 -F wild", target=_MIXED),
    Workload("A1", "A, a write per message", "-s 64 -b 1", target=_MIXED),
    Workload("C1", "C, a write per message", "-P 100 -s 64 -b 1", target=Target(1.5)),
    Workload("E", "1 to 1, QoS 1, synced", "-q 1 -w 100", target=Target(1.0)),
    Workload("F", "1 to 1, QoS 2, synced", "-q 2 -w 100", target=Target(1.0)),
    Workload("Ei", "E, interval", "-q 1 -w 100", target=Target(2.0), settings=_INTERVAL),
    Workload("Fi", "F, interval", "-q 2 -w 100", target=Target(2.0), settings=_INTERVAL),
    Workload("H0", "5,000 msg/s, QoS 0", "-r 5000", LATENCY, Target(1.5)),
    Workload("H1", "5,000 msg/s, QoS 1", "-r 5000 -q 1", LATENCY, Target(1.5)),
    Workload("H1i", "H1, interval", "-r 5000 -q 1", LATENCY, Target(1.5), _INTERVAL),
    Workload("G2k", "2,000 idle clients", "-I 2000 -P 0 -S 0", MEMORY, _SMALL_CONNECTION),
    Workload("G10k", "10,000 idle clients", "-I 10000 -P 0 -S 0", MEMORY, _SMALL_CONNECTION, _ROOM),
    Workload("K10k", "A, 10,000 clients held", "-I 10000 -i 1 -s 64", settings=_ROOM),
)

_PACED = "-P 20 -t 20 -q 1 -r 2000 -S 0 -z"
_FLOOD = "-x flood -t 100 -R -s 16:512 -F wild"

_WAITING = (
    Workload(
        "W20",
        "20 to none, 2,000/s, QoS 1",
        _PACED,
        COST,
        Target(150, absolute=True),
        group="waiting",
    ),
    Workload(
        "W20f",
        "W20, in flushes",
        _PACED,
        IN_FLUSHES,
        Target(3, absolute=True),
        group="waiting",
        peers=(),
    ),
    Workload(
        "W500",
        "500 to none, QoS 1, 1 each",
        "-P 500 -t 500 -q 1 -w 1 -S 0",
        ANSWERED,
        Target(1.0),
        group="waiting",
    ),
    Workload(
        "WF",
        "QoS 1 beside a QoS 0 flood",
        "-P 20 -t 20 -q 1 -r 200 -S 0 -z",
        TAIL,
        Target(50_000, absolute=True),
        group="waiting",
        beside=_FLOOD,
    ),
)


def _tls(
    id_: str, title: str, load: str, figure: Figure = RATE, target: Target | None = None
) -> Workload:
    settings = {"tls.cert": CERT, "tls.key": KEY}
    return Workload(
        id_, title, f"{load} -T", figure, target, settings, "tls", (Peer("mosquitto-tls"),)
    )


_TLS = (
    _tls("A-tls", "A over TLS", "-s 64", target=Target(1.0)),
    _tls("M-tls", "M over TLS", "-t 100 -R -s 16:512 -F wild", target=Target(1.0)),
    _tls("C1-tls", "C1 over TLS", "-P 100 -s 64 -b 1"),
    _tls("E-tls", "E over TLS", "-q 1 -w 100", target=Target(1.0)),
    _tls("idle-tls", "1,000 idle clients, TLS", "-I 1000 -P 0 -S 0", MEMORY),
)


def _websocket(id_: str, title: str, load: str) -> Workload:
    peers = (Peer("mosquitto-ws"),)
    return Workload(id_, title, f"{load} -Z", target=Target(1.0), group="websocket", peers=peers)


_WEBSOCKET = (
    _websocket("A-ws", "A by WebSocket", "-s 64"),
    _websocket("A1-ws", "A1 by WebSocket", "-s 64 -b 1"),
    _websocket("M-ws", "M by WebSocket", "-t 100 -R -s 16:512 -F wild"),
    _websocket("E-ws", "E by WebSocket", "-q 1 -w 100"),
    Workload(
        "idle-ws",
        "1,000 idle clients, WebSocket",
        "-I 1000 -P 0 -S 0 -Z",
        MEMORY,
        Target(5_000, absolute=True),
        group="websocket",
        peers=(),
    ),
)

_THREE = "-V 5 -U 3"
_SHAPES = {
    "A": "-s 64",
    "M": "-t 100 -R -s 16:512 -F wild",
    "A1": "-s 64 -b 1",
    "E": "-q 1 -w 100",
}


def _mqtt5() -> Iterable[Workload]:
    """MQTT 5 without properties next to 3.1.1, and with three user properties next to Mosquitto."""
    for name, load in _SHAPES.items():
        own = (Peer("penstock", load),)
        yield Workload(
            f"{name}-5", f"{name}, 5 or 3.1.1", f"{load} -V 5", RATE, Target(0.9), {}, "mqtt5", own
        )
    for name, load in _SHAPES.items():
        title = f"{name}, 3 user properties"
        yield Workload(f"{name}-5p", title, f"{load} {_THREE}", RATE, Target(2.0), {}, "mqtt5")
    yield Workload(
        "idle-5",
        "2,000 idle clients, 5",
        "-V 5 -I 2000 -P 0 -S 0",
        MEMORY,
        _SMALL_CONNECTION,
        {},
        "mqtt5",
    )


_REDIS = Peer("redis")
_REDIS_SYNCED = Peer("redis-synced")
_BARE_VERIFICATION = Peer("nacl")
_NOT_NUMBERED = "binary-publish -s 100"
_NOT_ACKNOWLEDGED = Peer("penstock", "-m binary-subscribe -s 100")
_STRICT = {"resp.replay": "false"}
_NO_SLOWER = Target(1.0)


def _edge(
    id_: str,
    title: str,
    load: str,
    figure: Figure,
    peer: Peer | None,
    *,
    target: Target | None = None,
    settings: Mapping[str, str] | None = None,
) -> Workload:
    peers = () if peer is None else (peer,)
    return Workload(id_, title, f"-m {load}", figure, target, settings or {}, "edge", peers)


_EDGE = (
    _edge("R1", "RESP 1 to 1", "resp-pubsub", RATE, _REDIS, target=_NO_SLOWER),
    _edge("R1s", "R1, no replay", "resp-pubsub", RATE, _REDIS, target=_NO_SLOWER, settings=_STRICT),
    _edge("R10", "RESP 1 to 10", "resp-pubsub -S 10", RATE, _REDIS, target=_NO_SLOWER),
    _edge(
        "R10s",
        "R10, no replay",
        "resp-pubsub -S 10",
        RATE,
        _REDIS,
        target=_NO_SLOWER,
        settings=_STRICT,
    ),
    _edge("X1", "XADD 1 x 32", "xadd -s 100", ANSWERED, _REDIS_SYNCED, target=Target(0.5)),
    _edge("X50", "XADD 50 x 32", "xadd -P 50 -s 100", ANSWERED, _REDIS_SYNCED, target=_NO_SLOWER),
    _edge("BP1", "binary 1 x 32, 100 B", "binary-publish -s 100", ANSWERED, None),
    _edge("BP1L", "binary 1 x 32, 10 KiB", "binary-publish -s 10240", ANSWERED, None),
    _edge("BP64", "binary 64 x 1, 100 B", "binary-publish -P 64 -w 1 -s 100", ANSWERED, None),
    _edge("BP64L", "binary 64 x 1, 10 KiB", "binary-publish -P 64 -w 1 -s 10240", ANSWERED, None),
    _edge(
        "BPn",
        "numbered, or not, 1 x 32",
        f"{_NOT_NUMBERED} -y",
        ANSWERED,
        Peer("penstock", f"-m {_NOT_NUMBERED}"),
        target=Target(0.9),
    ),
    _edge(
        "BPg",
        "numbered with gaps, or not, 4 topics",
        f"{_NOT_NUMBERED} -t 4 -y",
        ANSWERED,
        Peer("penstock", f"-m {_NOT_NUMBERED} -t 4"),
        target=Target(0.9),
    ),
    _edge(
        "SIG",
        "signed, or verified only",
        f"binary-signed -x secure -f {FRAMES}",
        ANSWERED,
        _BARE_VERIFICATION,
        target=Target(0.8),
    ),
    _edge(
        "ACK",
        "acknowledged, or not",
        "binary-subscribe -s 100 -a",
        RATE,
        _NOT_ACKNOWLEDGED,
        target=Target(0.9),
    ),
)


def _synced(load: str) -> Peer:
    return Peer("redis-synced", f"-m {load}")


_XADD_50 = "xadd -P 50 -s 100"
_BACKLOG = "-n 100000 -s 100"


def _queue(
    id_: str,
    title: str,
    load: str,
    figure: Figure,
    *,
    peer: str | None = None,
    target: float | None = None,
    floor: float | None = None,
    driver: str = MQLOAD,
) -> Workload:
    """``peer`` is the load of Redis; ``target`` a multiple of its figure, ``floor`` absolute."""
    return Workload(
        id_,
        title,
        f"-m {load}" if driver == MQLOAD else load,
        figure,
        target=target and Target(target),
        floor=floor and Target(floor, absolute=True),
        group="queue",
        peers=(_synced(peer),) if peer else (),
        driver=driver,
    )


_PRODUCED = (
    _queue("Q1", "produce 1 x 1", "queue-produce -s 100 -w 1", ANSWERED, peer="xadd -s 100 -w 1"),
    _queue(
        "Q32",
        "produce 1 x 32",
        "queue-produce -s 100",
        ANSWERED,
        peer="xadd -s 100",
        target=0.5,
        floor=20_000,
    ),
    _queue(
        "Q50",
        "produce 50 x 32",
        "queue-produce -P 50 -s 100",
        ANSWERED,
        peer=_XADD_50,
        target=1.0,
        floor=120_000,
    ),
    _queue(
        "QM",
        "produce_many, 8 x 256",
        "queue-produce -k 256 -w 8 -s 100",
        ANSWERED,
        peer=_XADD_50,
        target=1.5,
    ),
    _queue("QD", "1 x 32, numbered", "queue-produce -y -s 100", ANSWERED, peer="xadd -s 100"),
)

_CONSUMED = (
    _queue(
        "QPE",
        "poll 256, ack each",
        f"queue-poll {_BACKLOG}",
        SETTLED,
        peer=f"xreadgroup {_BACKLOG}",
        floor=100_000,
    ),
    _queue(
        "QPM",
        "poll 256, ack many",
        f"queue-poll -A many {_BACKLOG}",
        SETTLED,
        peer=f"xreadgroup -A many {_BACKLOG}",
        floor=100_000,
    ),
    _queue(
        "QPT",
        "QPM, waiting in turn",
        f"queue-poll -A turn {_BACKLOG}",
        SETTLED,
        peer=f"xreadgroup -A turn {_BACKLOG}",
    ),
    _queue(
        "QU1",
        "push 64, ack each",
        f"queue-push {_BACKLOG}",
        SETTLED,
        peer=f"xreadgroup -j 64 {_BACKLOG}",
        floor=20_000,
    ),
    _queue(
        "QU50",
        "QU1, 50 consumers",
        f"queue-push -S 50 {_BACKLOG}",
        SETTLED,
        peer=f"xreadgroup -j 64 -S 50 {_BACKLOG}",
    ),
    _queue("QF1", "produce to 1 group", "queue-subscribe -s 100", RATE),
    _queue("QF4", "produce to 4 groups", "queue-subscribe -S 4 -s 100", RATE),
    _queue(
        "QL",
        "push, beyond the reply",
        "queue-subscribe -w 1 -c 1 -s 100",
        BEYOND_REPLY,
        floor=1_000,
    ),
)

_OWN_CLIENT = (
    _queue("QC32", "our client, 1 x 32", "--op produce -s 100 -w 32", ANSWERED, driver=CLIENT),
    _queue("QCM", "our client, many x 256", "--op many -s 100 -w 8", ANSWERED, driver=CLIENT),
    _queue("QCS", "our client, subscribe", "--op subscribe -s 100", SETTLED, driver=CLIENT),
)

_PUBLISHED = (
    _queue("tcp_seq", "1 x 1, 300", "queue-produce -s 256 -w 1 -n 300", ANSWERED, floor=461),
    _queue(
        "tcp_conc", "4 x 1, 1,000", "queue-produce -P 4 -s 256 -w 1 -n 1000", ANSWERED, floor=934
    ),
    _queue(
        "tcp_pipe", "1 x all, 2,000", "queue-produce -s 256 -w 2000 -n 2000", ANSWERED, floor=7_949
    ),
    _queue(
        "tcp_drain",
        "poll 256, ack one by one",
        "queue-poll -A one -s 256 -n 1300",
        SETTLED,
        floor=451,
    ),
    _queue("tcp_sub", "push 64, ack each", "queue-push -s 256 -n 1000", SETTLED, floor=8_532),
    _queue(
        "lat",
        "produce to push",
        "queue-subscribe -w 1 -c 1 -j 16 -s 256 -n 2000",
        LATENCY,
        floor=6_206,
    ),
)

_QUEUE = (*_PRODUCED, *_CONSUMED, *_OWN_CLIENT, *_PUBLISHED)


def _scale() -> Iterable[Workload]:
    mixed = "-t 100 -R -s 64 -F wild"
    for clients, name in ((1, "1k"), (10, "10k"), (100, "100k")):
        yield Workload(
            f"S{name}", f"{name} other filters", f"-I {clients} -i 1000 {mixed}", group="scale"
        )
    for topics in (1, 10, 100, 1_000, 10_000, 100_000):
        name = f"{topics // 1000}k" if topics >= 1000 else str(topics)
        yield Workload(f"T{name}", f"{name} topics", f"-t {topics} -R -F wild", group="scale")


WORKLOADS = {
    workload.id: workload
    for part in (
        FIELD_WORKLOADS,
        _CORE,
        _WAITING,
        _EDGE,
        _QUEUE,
        _scale(),
        _TLS,
        _WEBSOCKET,
        _mqtt5(),
    )
    for workload in part
}


class UnknownWorkloadError(Exception):
    """A name that is neither a workload nor a group of them."""


def select(names: Iterable[str]) -> list[Workload]:
    """Return the workloads of ``names``, in the order of the table, without duplicates.

    A name is an id (``M``), a letter that begins several ids (``G``), a group or ``all``. An id
    takes precedence over a letter: ``A`` is A alone, not A and A1.
    """
    chosen: set[str] = set()
    for name in names:
        found = _named(name)
        if not found:
            known = " ".join((*GROUPS, "all", *WORKLOADS))
            raise UnknownWorkloadError(f"no workload {name!r}; there are: {known}")
        chosen |= found
    return [workload for workload in WORKLOADS.values() if workload.id in chosen]


def _named(name: str) -> set[str]:
    if name in WORKLOADS:
        return {name}
    if name in (*GROUPS, "all"):
        return {w.id for w in WORKLOADS.values() if name in ("all", w.group)}
    return {id_ for id_ in WORKLOADS if len(name) == 1 and id_.startswith(name)}
