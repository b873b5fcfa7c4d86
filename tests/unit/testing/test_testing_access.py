"""Users of a test's broker: added through the journal, in force at once, kept over a restart."""

from hashlib import sha256

import pytest

from penstock.client import Credentials, LoginFailedError, connect
from penstock.errors import LocalProtocolError
from penstock.testing import AsyncBroker, Broker
from penstock.trust.book import put
from penstock.trust.rows import User
from penstock.trust.rules import Action


def book(broker):
    return broker.server.parts.broker.access


def test_an_added_user_is_in_force_and_survives_a_crash():
    with Broker() as broker:
        assert broker.call(lambda: book(broker).is_open)
        broker.add_user("ann", "a secret of ann")
        broker.restart(kill=True)
        user = broker.call(lambda: book(broker).users["ann"])
    assert user.roles == ("client",)
    assert user.secrets == (sha256(b"a secret of ann").digest(),)


def test_users_are_there_from_the_start_and_log_in():
    with Broker(users={"ann": "a secret of ann"}) as broker:
        connect(broker.host, broker.port, credentials=Credentials("ann", "a secret of ann")).close()
        with pytest.raises(LoginFailedError):
            connect(broker.host, broker.port, credentials=Credentials("ann", "another"))
        broker.restart()
        assert list(broker.call(lambda: book(broker).users)) == ["ann"]


def test_a_user_with_an_invalid_name_fails_the_start_without_traces():
    broker = Broker(users={"not a name": "secret"})
    with pytest.raises(LocalProtocolError, match="name"):
        broker.start()
    with pytest.raises(RuntimeError):
        _ = broker.server


def test_rules_become_the_users_only_role():
    with Broker() as broker:
        broker.add_user("ann", "secret", rules=["allow publish plant/#"])
        rights = broker.call(lambda: book(broker).rights_of("ann", ""))
        assert rights.may(Action.PUBLISH, b"plant/1")
        assert not rights.may(Action.SUBSCRIBE, b"plant/1")


def test_a_change_that_is_refused_raises_and_changes_nothing():
    with Broker() as broker:
        with pytest.raises(LocalProtocolError, match="no-such-role"):
            broker.change_access(put(User("ann")), put(User("bob", ("no-such-role",))))
        assert broker.call(lambda: book(broker).is_open)


@pytest.mark.asyncio
async def test_users_are_added_in_the_callers_loop_too():
    async with AsyncBroker() as broker:
        await broker.add_user("ann", "secret", roles=["admin"])
        assert book(broker).users["ann"].roles == ("admin",)
