"""MQTT 5 in a cluster: what a session consists of is at the next leader when the first dies."""

from contextlib import ExitStack

import pytest

from tests.e2e.cluster_processes import nodes
from tests.e2e.mqtt5_account import Account

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-4.4.0-1", "MQTT-4.3.3-10")
def test_a_session_in_the_middle_of_everything_moves_to_another_node(tmp_path):
    with ExitStack() as stack, nodes(tmp_path, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        code, said = made.command(1, "init", *options)
        assert code == 0, said
        leader = made.leader()
        account = Account(stack)
        account.prepare(made.running[leader])
        made.kill(leader)
        account.claim(made.running[made.leader()]).disconnect()
