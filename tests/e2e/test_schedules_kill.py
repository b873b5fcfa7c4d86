"""Schedules that fire every second, and brokers that are killed meanwhile: each firing is made once.

The schedules begin at different milliseconds, so one of them is being committed at any moment.
"""

import random
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.api_kit import ApiClient
from tests.e2e.cluster_processes import nodes, until

SCHEDULES = 20
KILLS = 5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def create_all(port):
    """``missed=all``: a start on a busy machine may take longer than the grace."""
    for number in range(SCHEDULES):
        anchor = f"2026-01-01T00:00:00.{number * 1000 // SCHEDULES:03d}Z"
        body = {
            "name": f"s{number}",
            "topic": "t",
            "every_s": 1,
            "anchor": anchor,
            "missed": "all",
        }
        assert ApiClient(port).post("schedules", body).status == 200


def published(node):
    status, document = node.json("/topics/t?limit=1")
    return document["next_offset"] if status == 200 else 0


def firings(node):
    """Name and time of every firing in the journal, in order."""
    found, offset = [], 0
    while messages := node.json(f"/topics/t?offset={offset}&limit=1000")[1]["messages"]:
        offset = messages[-1]["offset"] + 1
        for message in messages:
            headers = dict(message["headers"])
            found.append((headers["schedule"], datetime.fromisoformat(headers["schedule-due"])))
    return found


def check_once(found):
    """None is there twice, and none is left out."""
    assert [one for one, count in Counter(found).items() if count > 1] == []
    for number in range(SCHEDULES):
        dues = [due for name, due in found if name == f"s{number}"]
        assert len(dues) > KILLS
        steps = {later - earlier for earlier, later in pairwise(dues)}
        assert steps == {timedelta(seconds=1)}


def test_each_firing_is_in_the_journal_once_whenever_the_broker_is_killed(start):
    broker = start()
    create_all(broker.port)
    for _ in range(KILLS):
        target = published(broker) + random.randint(1, 2 * SCHEDULES)
        until(lambda broker=broker, target=target: published(broker) >= target)
        broker.kill()
        broker.wait_killed()
        broker = start()
    target = published(broker) + 2 * SCHEDULES
    until(lambda: published(broker) >= target)
    check_once(firings(broker))
    broker.stop()


def test_each_firing_is_made_once_whatever_node_leads(tmp_path):
    with nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        assert made.command(1, "init", *options)[0] == 0
        leader = made.leader()
        create_all(made.running[leader].port)
        for _ in range(3):
            leader = made.leader()
            target = published(made.running[leader]) + random.randint(1, 2 * SCHEDULES)
            until(lambda leader=leader, target=target: published(made.running[leader]) >= target)
            made.kill(leader)
            others = made.leader()
            after = published(made.running[others]) + SCHEDULES
            until(lambda node=others, after=after: published(made.running[node]) >= after)
            made.start(leader)
        leader = made.leader()
        for number in range(SCHEDULES):
            asked = ApiClient(made.running[leader].port)
            assert asked.delete("schedules", name=f"s{number}").status == 200
        count = published(made.running[leader])
        until(lambda: all(published(node) >= count for node in made.running.values()))
        found = {number: firings(node) for number, node in made.running.items()}
        check_once(found[leader])
        assert found[1] == found[2] == found[3]
