"""Whatever happens, a restart gives the same state again (``broker_world``)."""

from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from penstock.commit import checkpoint
from penstock.commit.checkpoint import Checkpointer
from penstock.commit.recovery import recover
from penstock.core.broker import Broker
from penstock.core.commands import (
    Published,
    SessionOpened,
    WillMessage,
    to_event,
)
from penstock.core.effects import Effects
from penstock.model.message import FLAG_RETAIN
from penstock.obs.counters import Counters
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from tests.properties.broker_world import (
    CLIENTS,
    FILTERS,
    PACKET_IDS,
    TOPICS,
    World,
    WorldThatDropsTheNewest,
    durable_part,
)

EFFORT = settings(
    max_examples=50,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)


class TestARestartGivesTheSameState(World.TestCase):
    settings = EFFORT


class TestARestartGivesTheSameStateIfFullQueuesDropTheNewest(WorldThatDropsTheNewest.TestCase):
    settings = EFFORT


# ── long runs ─────────────────────────────────────────────────────────────────────────────────
# Hypothesis finds short histories and makes them shorter; its rules are all equally likely. Here
# busy clients work for a long time. A failure names its seed.

WEIGHTS = {
    "publish": 30, "acknowledge": 25, "commit": 30, "land": 30, "subscribe": 6, "unsubscribe": 2,
    "connect": 5, "disconnect": 5, "release": 6, "let_time_pass": 3, "settle": 2, "expire": 1,
    "fail_to_commit": 2, "try_again": 2, "lose": 3, "crash": 1, "publish_wills": 4,
    "expire_retained": 1,
}  # fmt: skip


def act(world: World, name: str, random: Random) -> None:
    """One step of a long run, with plausible arguments."""
    client_id, a_bool = random.choice(CLIENTS), random.random() < 0.5
    marks = random.choice([0, 0, 0, 4, 8, 16, 7 << 8, 4 | 9 << 8])
    wanted = [(random.choice(FILTERS), random.choice([0, 1, 1, 2, 2]) | marks)]
    expiry_s = random.choice([-1, -1, -1, 0, 3, 60])
    will = WillMessage(random.choice(TOPICS), b"will", random.choice([1, 2]), a_bool)
    will = msgspec.structs.replace(will, delay_s=random.choice([0, 3]), expiry_s=expiry_s)
    payloads = [random.choice([b"", b"x", b"x"]) for _ in range(random.choice([1, 1, 2, 3]))]
    arguments = {
        "publish": (
            client_id,
            random.choice(TOPICS),
            random.choice([0, 1, 2, 2]),
            a_bool,
            payloads,
            random.choice([-1, -1, 0, 3]),
            a_bool,
        ),
        "subscribe": (client_id, wanted),
        "unsubscribe": (client_id, [random.choice(FILTERS)]),
        "connect": (
            client_id,
            random.random() < 0.2,
            random.choice([None, will]),
            expiry_s,
            random.choice([0, 0, 1]),
            a_bool,
        ),
        "disconnect": (client_id, a_bool, expiry_s),
        "release": (client_id, random.choices(PACKET_IDS, k=2)),
        "let_time_pass": (random.choice([1, 1, 2, 256]),),
        "lose": (client_id, random.choice([1, 2])),
    }
    if name == "acknowledge":
        world.acknowledge_what_is_in_flight(client_id, random.choice([1, 2]))
    elif name not in {"commit", "land", "fail_to_commit"}:
        getattr(world, name)(*arguments.get(name, ()))
    elif (name == "land") is (world.landing is not None):
        getattr(world, name)()


@pytest.mark.parametrize("kind", [World, WorldThatDropsTheNewest])
@pytest.mark.parametrize("seed", range(8))
def test_a_long_and_busy_life_can_be_recovered_at_any_moment(kind, seed):
    random, world = Random(seed), kind()
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    try:
        for _ in range(300):
            act(world, random.choices(names, weights)[0], random)
            world.the_books_are_right()
            if world.landing is None and random.random() < 0.3:
                world.a_restart_would_change_nothing()
    finally:
        world.teardown()


def test_a_round_does_not_change_which_retained_messages_were_refused(monkeypatch):
    """The limit is one. ``b`` was refused because of ``a``; ``a`` was cleared only afterwards."""
    monkeypatch.setattr(checkpoint, "ROWS_PER_COMMIT_MAX", 1)
    store, lived, again = (
        MemoryStore(),
        Broker(Counters(), retained_max=1),
        Broker(Counters(), retained_max=1),
    )
    checkpointer = Checkpointer(lived)
    history = [
        SessionOpened(b"ann", 1, clean=False, will=None),
        SessionOpened(b"bob", 2, clean=False, will=None),
        Published(b"a", [b"x"], 0, True, 0, 5, []),
        Published(b"b", [b"y"], 0, True, 0, 5, []),  # the round begins: ann's row
        Published(b"a", [b""], 0, True, 0, 5, []),  # bob's row
        Published(b"c", [b"z"], 0, False, 0, 5, []),  # a's row, which is gone, and the mark
    ]
    for now, command in zip((0.0, 0.0, 0.0, 10.0, 10.0, 10.0), history, strict=True):
        batch = Batch()
        if isinstance(command, Published):
            may_retain = not command.payloads[-1] or lived.retained.admits(command.topic)
            command = msgspec.structs.replace(command, retain=command.retain and may_retain)  # noqa: PLW2901
            batch.append(command.topic, command.payloads, 5, FLAG_RETAIN if command.retain else 0)
        else:
            batch.add_event(to_event(command))
        if now:
            checkpointer.fill(batch, now)
        commit = store.commit(batch)
        checkpointer.changed(commit.index)
        lived.begin(commit.index, commit.base_sequence)
        lived.apply(command, None, Effects())
    recover(store, again)
    assert lived.retained.count == 0
    assert durable_part(again)["retained"] == durable_part(lived)["retained"]
