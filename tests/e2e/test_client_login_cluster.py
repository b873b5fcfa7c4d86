"""A client of a cluster logs in at every node that it is sent to, also after the leader died."""

import pytest

from penstock.client import Credentials, NotAuthorizedError, connect
from tests.e2e.cluster_processes import nodes, until
from tests.e2e.test_access_cluster import SECRET, ask, begin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Credentials("root", SECRET)
ANN = Credentials("ann", SECRET)


def test_a_client_logs_in_again_at_the_new_leader(tmp_path):
    with nodes(tmp_path, 3, "--set", "auth.anonymous=deny") as made:
        leading = begin(made)
        leader = next(number for number, node in made.running.items() if node is leading)
        others = [number for number in made.running if number != leader]
        until(lambda: ask(made.running[others[0]], "/status")[0] not in {0, 401})  # it knows users
        # The client knows one node that does not lead, which names the leader, on this machine.
        with connect([made.address(others[0])], credentials=ANN, timeout_s=120) as client:
            client.produce("jobs", b"1")
            made.kill(leader)
            client.produce("jobs", b"2")
            assert [record.payload for record in client.messages("jobs")] == [b"1", b"2"]
            with pytest.raises(NotAuthorizedError):
                client.configure_topic("jobs", max_bytes=1_000_000)
        with connect([made.address(others[0])], credentials=ROOT, timeout_s=120) as client:
            assert "jobs" in [topic.name for topic in client.topics()]
