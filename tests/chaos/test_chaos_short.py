"""Three nodes, all kinds of clients, some faults: what was acknowledged is stored, once, in order.

``make chaos ROUNDS=200`` does the same for longer, with all faults.
"""

import asyncio
import os
import random

import pytest

from tests.chaos.campaign import Campaign

SHORT = ("kill_leader", "cut_leader", "pause_leader", "kill_all", "transfer")


def seed():
    return int(os.environ.get("PENSTOCK_TEST_SEED", random.SystemRandom().randrange(1 << 32)))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order_whatever_happens_to_nodes():
    campaign = Campaign(seed(), SHORT, sizes=(3,))
    asyncio.run(campaign.run(3))
    assert not campaign.failed, "what is left of it is where the output says"
