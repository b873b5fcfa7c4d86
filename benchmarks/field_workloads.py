"""Traffic as it is in the field: neighbours differ, and each workload names the peers to beat.

Topics, sizes, payloads and the values of fields vary from message to message. Fleets write message
by message. All peers run in the same interleaved rounds, each by its own protocol: Mosquitto by
MQTT, NATS by core NATS, Redis by RESP. What Redis persists in the workloads of streams is flushed
before it is answered (``appendfsync always``), as ours is.
"""

from collections.abc import Iterable

from benchmarks.shapes import (
    ANSWERED,
    COST,
    FIELD,
    MEMORY,
    RATE,
    SETTLED,
    Figure,
    Peer,
    Target,
    Workload,
)

__all__ = ["FIELD_WORKLOADS"]

_MODES = {"mosquitto": "", "nats": "-m nats ", "redis": "-m resp-pubsub "}
_ALL = tuple(_MODES)


def _mqtt(
    id_: str,
    title: str,
    load: str,
    target: Target,
    *,
    goals: Iterable[str],
    figure: Figure = RATE,
    peers: Iterable[str] = _ALL,
) -> Workload:
    """By MQTT: the target is relative to ``goals``, the other peers are shown."""
    goals = set(goals)
    rivals = tuple(Peer(name, f"{_MODES[name]}{load}", name in goals) for name in peers)
    return Workload(id_, title, load, figure, target, group=FIELD, peers=rivals)


def _resp(id_: str, title: str, load: str, bound: float) -> Workload:
    """By PUBLISH and SUBSCRIBE, next to Redis."""
    load = f"-m resp-pubsub {load}"
    return Workload(id_, title, load, RATE, Target(bound), group=FIELD, peers=(Peer("redis"),))


def _stream(
    id_: str, title: str, load: str, figure: Figure, bound: float, *, peer: str | None = None
) -> Workload:
    """Flushed, next to Redis Streams; ``peer`` is the load of Redis if different."""
    rivals = (Peer("redis-synced", peer and f"-m {peer}"),)
    return Workload(id_, title, f"-m {load}", figure, Target(bound), group=FIELD, peers=rivals)


_MIXED = "-t 100 -R -s 16:512"
_LARGE = "-P 10 -S 10 -t 10 -F part -s 1024:8192"
_FLEET = "-P 500 -S 500 -t 500 -F own -s 64 -b 1"
_PUSHED = "-S 50 -n 100000 -s 100"

_AHEAD = Target(1.2)

_LIVE = (
    _mqtt("fM", "100 topics, 16..512 B", f"{_MIXED} -F wild", _AHEAD, goals=("nats",)),
    _resp("fMr", "fM by RESP, by channel", _MIXED, 1.2),
    _resp("fMp", "fM by RESP, by pattern", f"{_MIXED} -F wild", 1.2),
    _mqtt("fK", "10 to 10, 1..8 KiB", _LARGE, Target(0.9), goals=("redis",)),
    _resp("fKr", "fK by RESP", _LARGE, 0.9),
    _mqtt("fF", "fleet, 500 to 500", _FLEET, _AHEAD, goals=_ALL),
    _resp("fFr", "fF by RESP", _FLEET, 1.0),
    _mqtt("fA1", "1 to 1, a write each", "-s 64 -b 1", _AHEAD, goals=("nats",)),
    _mqtt("fC1", "100 to 1, a write each", "-P 100 -s 64 -b 1", _AHEAD, goals=("nats",)),
    _resp("R1w", "RESP 1 to 1, 32 in flight", "-w 32", 1.0),
    _resp("R10w", "RESP 1 to 10, 32 in flight", "-S 10 -w 32", 1.0),
    _mqtt(
        "fL",
        "20 clients, 2,000/s, QoS 0",
        "-P 20 -t 20 -r 2000 -z -F wild",
        Target(1.1),
        goals=("mosquitto",),
        figure=COST,
    ),
    _mqtt(
        "fS",
        "QoS 1, 8 share, synced",
        "-q 1 -S 8 -F share",
        Target(1.0),
        goals=("mosquitto",),
        peers=("mosquitto",),
    ),
)

_STREAMS = (
    _stream("fX50", "XADD 4 fields, 50 x 32", "xadd -O -P 50", ANSWERED, 1.2),
    _stream("fX32", "XADD 4 fields, 1 x 32", "xadd -O", ANSWERED, 0.9),
    _stream("fX1", "XADD 4 fields, 1 x 1", "xadd -O -w 1", ANSWERED, 0.9),
    _stream("fG1", "XREADGROUP 1, XACK", "xreadgroup -O -A turn -j 1 -n 800", SETTLED, 1.0),
    _stream("fG100", "XREADGROUP 100, XACK", "xreadgroup -O -A turn -j 100 -n 50000", SETTLED, 1.0),
    _stream(
        "fU50",
        "push, 50 consumers",
        f"queue-push {_PUSHED}",
        SETTLED,
        1.0,
        peer=f"xreadgroup -j 64 {_PUSHED}",
    ),
    Workload(
        "fQ",
        "queue, one at a time",
        "-m queue-poll -A one -j 1 -s 256 -n 500",
        SETTLED,
        floor=Target(480, absolute=True),
        group=FIELD,
        peers=(Peer("redis-synced", "-m xreadgroup -A one -j 1 -s 256 -n 500", is_goal=False),),
    ),
)

_IDLE = Workload(
    "fI",
    "2,000 idle clients",
    "-I 2000 -P 0 -S 0",
    MEMORY,
    Target(1536, absolute=True),
    group=FIELD,
    peers=tuple(Peer(name, f"{mode}-I 2000 -P 0 -S 0") for name, mode in _MODES.items()),
)

FIELD_WORKLOADS = (*_LIVE, *_STREAMS, _IDLE)
