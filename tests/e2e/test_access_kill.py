"""kill -9 in the middle of access changes: what was acknowledged is there, and nothing by halves."""

import threading

from penstock.cli.admin_client import SocketClient
from penstock.errors import PenstockError
from penstock.testing import Broker
from tests.e2e.access_kit import Kit
from tests.e2e.process import BrokerProcess

ACKNOWLEDGED_MIN = 30


def test_acknowledged_changes_survive_and_a_change_of_two_rows_is_never_half(tmp_path):
    data, acknowledged = tmp_path / "data", []
    with BrokerProcess(data) as broker:
        is_under_way = threading.Event()
        changing = threading.Thread(target=_change, args=(data, acknowledged, is_under_way))
        changing.start()
        is_under_way.wait(60)
        broker.kill()
        broker.wait_killed()
        changing.join()
    assert len(acknowledged) >= ACKNOWLEDGED_MIN
    with Broker(data=data) as again:
        book = Kit(again).book
        made = {int(name.removeprefix("user")) for name in book.users}
        assert set(acknowledged) <= made <= {*acknowledged, len(acknowledged)}
        assert {f"role{number}" for number in made} == book.roles.keys()
        assert all(book.users[f"user{number}"].roles == (f"role{number}",) for number in made)


def _change(data, acknowledged, is_under_way):
    client = SocketClient(data / "admin.sock")
    try:
        for number in range(10_000):
            roles = {f"role{number}": {"rules": ["allow publish a"]}}
            users = {f"user{number}": {"roles": [f"role{number}"]}}
            client.post("access/apply", document={"roles": roles, "users": users})
            acknowledged.append(number)
            if number == ACKNOWLEDGED_MIN:
                is_under_way.set()
    except PenstockError:
        is_under_way.set()
