"""The stream tells about the cluster when something has changed."""

import asyncio
import json

import pytest
from msgspec.structs import replace
from tests.api_kit import ApiClient, Events

from penstock.api.cluster_source import ClusterFeed
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState
from penstock.testing import Broker

pytestmark = pytest.mark.asyncio


class Admin:
    def __init__(self):
        members = tuple(MemberStatus(id=n, is_active=True, lag=0) for n in (1, 2, 3))
        self.now = ClusterStatus(node_id=1, state=NodeState.MEMBER, leader=1, members=members)

    def status(self):
        return self.now

    def own(self):
        return Member(1, "a:1", "a:2")


def _told_by_a_broker():
    with Broker() as broker, Events(ApiClient(broker.port), of="cluster") as events:
        return events.until("cluster")


async def test_a_broker_streams_how_its_cluster_is():
    told = await asyncio.to_thread(_told_by_a_broker)
    assert (told["leader"], told["state"], len(told["members"])) == (1, "lone", 1)


async def test_how_it_is_comes_first_then_only_what_changes():
    admin = Admin()
    feed = ClusterFeed(admin)
    (first,) = await feed.read()
    assert (first.name, json.loads(first.data)["leader"]) == ("cluster", 1)
    assert await feed.read() == []
    one, two, three = admin.now.members
    admin.now = replace(admin.now, commit=9, members=(one, two, replace(three, contact_s=3.0)))
    assert await feed.read() == [], "positions move all the time"
    admin.now = replace(admin.now, members=(one, two, replace(three, is_active=False)))
    (lost,) = await feed.read()
    assert [m["state"] for m in json.loads(lost.data)["members"]] == ["ok", "ok", "silent"]
    assert await feed.read() == []
