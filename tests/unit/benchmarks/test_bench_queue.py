"""The generator speaks the queue protocol and Redis' groups, and believes no broker."""

import os
import shutil

import pytest
from benchmarks import generator
from benchmarks.brokers import BROKERS
from benchmarks.generator import GeneratorError
from benchmarks.micro_queue import Case, settled_per_s
from benchmarks.shapes import CLIENT
from fake_doors import QueueDoor, serving

from penstock.testing import Broker

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("cc")), reason="the generator is a C program"
)

COUNT = 320
PRODUCE, MANY = "-m queue-produce -s 100", "-m queue-produce -k 16 -w 2"
POLL, PUSH, LIVE = "-m queue-poll -j 16", "-m queue-push -j 8", "-m queue-subscribe"
STYLES = [f"{POLL} -A {style}" for style in ("each", "many", "turn", "one")]


def run(load, port, count=COUNT, patience=5.0):
    """``patience`` is for what has not come yet; honest brokers do not need it."""
    options = f"{load} -n {count} -D {patience} -W 20"
    return generator.run(options, port=port, broker_pid=os.getpid(), seed=1)


def flaws(load, cheat):
    with serving(QueueDoor, cheat) as broker:
        return run(load, broker.port, patience=0.5).flaws


@pytest.mark.parametrize("load", [PRODUCE, f"{PRODUCE} -P 5 -w 4", f"{PRODUCE} -y -w 1", MANY])
def test_all_that_was_produced_is_answered_and_found_again(load):
    with serving(QueueDoor) as broker:
        figures = run(load, broker.port)
        assert len(broker.log) == COUNT
    assert figures.flaws == []
    assert figures["sent"] == figures["acked"] == COUNT
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"] <= figures["max_us"]


@pytest.mark.parametrize("load", [*STYLES, f"{POLL} -S 4", PUSH, f"{PUSH} -S 4"])
def test_all_of_a_backlog_is_settled(load):
    with serving(QueueDoor) as broker:
        figures = run(load, broker.port)
        assert broker.leases == set()
    assert figures.flaws == []
    assert figures["delivered"] == figures["settled"] == COUNT


def test_what_is_held_stays_in_flight():
    with serving(QueueDoor) as broker:
        figures = run(f"{POLL} -l 50", broker.port)
        assert len(broker.leases) == 50
        assert len(broker.log) == COUNT + 50
    assert figures.flaws == []
    assert figures["settled"] == COUNT


def test_a_backlog_that_is_kept_is_as_long_in_the_end():
    with serving(QueueDoor) as broker:
        figures = run(f"{POLL} -A turn -k 16 -u 64 -l 32", broker.port)
        waiting = len(broker.log) - broker.positions["g"]
    assert figures.flaws == []
    assert figures["settled"] == COUNT
    assert waiting == 64


def test_each_subscriber_has_a_group_and_is_pushed_everything():
    with serving(QueueDoor) as broker:
        figures = run(f"{LIVE} -S 3", broker.port)
        assert broker.positions == dict.fromkeys(["g0", "g1", "g2"], COUNT)
    assert figures.flaws == []
    assert figures["delivered"] == 3 * COUNT


def test_with_one_in_flight_the_push_is_timed_beside_the_reply():
    with serving(QueueDoor) as broker:
        figures = run(f"{LIVE} -w 1 -c 1", broker.port, count=50)
    assert figures["beyond_reply_p50_us"] == pytest.approx(
        figures["p50_us"] - figures["reply_p50_us"], abs=0.2
    )


@pytest.mark.parametrize(
    ("load", "cheat", "found"),
    [
        (PRODUCE, "lose", ["lost 1"]),
        (PRODUCE, "damage", ["lost 1", "damaged 1"]),
        (PRODUCE, "answer another", ["reordered 1"]),
        (MANY, "lose", ["lost 1"]),
        (MANY, "answer for less", ["damaged 20"]),
        (STYLES[1], "lose", ["lost 1"]),
        (STYLES[1], "damage", ["lost 1", "damaged 1"]),
        (STYLES[0], "forget acknowledgements", [f"replayed {COUNT}"]),
        (PUSH, "forget acknowledgements", [f"replayed {COUNT}"]),
        (LIVE, "lose", ["lost 1"]),
        (LIVE, "forget acknowledgements", [f"replayed {COUNT}"]),
    ],
)
def test_a_queue_that_cheats_is_found_out(load, cheat, found):
    assert flaws(load, cheat) == found


@pytest.mark.parametrize("load", [STYLES[1], f"{PUSH} -S 4"])
def test_a_message_that_is_handed_out_twice_is_found_out(load):
    """A run ends with the last message that is expected, and the double may be taken for it."""
    assert flaws(load, "double") in (["duplicated 1"], ["lost 1", "duplicated 1"])


def test_a_refusal_ends_the_run_and_is_told():
    refusal = "internal: not today"
    with serving(QueueDoor, "refuse") as broker, pytest.raises(GeneratorError, match=refusal):
        run(PRODUCE, broker.port)


@pytest.mark.parametrize(
    ("load", "complaint"),
    [
        ("-m xadd -k 2", "-k: only queue modes"),
        ("-m xadd -y", "-y: only queue modes"),
        ("-m queue-produce -y -s 16:64", "one size"),
        ("-m queue-produce -j 2", "-j: not with queue-produce"),
        ("-m queue-poll -j 2000", "-j: 1 to 1024"),
        ("-m queue-poll -P 2", "-P: one with queue-poll"),
        ("-m queue-poll -A none", "no such style"),
        ("-m queue-push -l 5", "only with polls"),
        ("-m queue-poll -u 5", "-u: with -A turn"),
    ],
)
def test_what_a_mode_cannot_do_is_refused_before_anything_connects(load, complaint):
    with pytest.raises(GeneratorError, match=complaint):
        run(load, port=1)


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
@pytest.mark.parametrize("style", ["each", "many", "turn", "one"])
def test_redis_groups_are_emptied_the_same_way(style, tmp_path):
    with BROKERS["redis-synced"].running(tmp_path) as broker:
        figures = run(f"-m xreadgroup -A {style} -j 64 -S 2 -l 10", broker.port)
    assert figures.flaws == []
    assert figures["settled"] == COUNT


@pytest.mark.parametrize(
    "load",
    [PRODUCE, f"{PRODUCE} -y", MANY, *STYLES, f"{POLL} -A turn -k 16 -u 64 -l 32", PUSH, LIVE],
)
def test_our_own_broker_is_honest(load):
    with Broker() as broker:
        assert run(load, broker.port).flaws == []


@pytest.mark.parametrize("operation", ["produce", "many", "subscribe"])
def test_our_own_client_answers_as_the_generator_does(operation):
    with Broker() as broker:
        figures = generator.run(
            f"--op {operation} -w 2 -n 300 -d 0.1",
            port=broker.port,
            broker_pid=os.getpid(),
            seed=1,
            driver=CLIENT,
        )
    assert figures.flaws == []
    assert figures["settled_per_s" if operation == "subscribe" else "acked_per_s"] > 0


@pytest.mark.parametrize("priorities", [1, 8])
def test_the_state_machine_alone_can_be_measured(priorities):
    assert settled_per_s(Case(100, 200, priorities)) > 0
