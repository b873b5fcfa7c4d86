"""A mistyped topic or port gives an early notice, not an error."""

import logging
import socket
import threading

import pytest
from tests.unit.spark.readers import Stream, fill, read

from penstock.client.errors import UnreachableError
from penstock.spark import broker as connections


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_a_table_of_a_topic_that_is_not_there_is_empty_and_says_so(servers, client, caplog):
    fill(client, "pump/7", 2)
    assert len(read(servers, subscribe="pump/7,pmup/8")) == 2
    assert told(caplog) == ["no such topic yet: 'pmup/8'"]


def test_of_very_many_names_a_few_are_told(servers, caplog):
    read(servers, subscribe=",".join(f"t{number}" for number in range(9)))
    assert told(caplog) == ["no such topic yet: 't0', 't1', 't2', 't3', 't4' and 4 more"]


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_a_filter_that_nothing_matches_is_told(option, servers, client, caplog):
    fill(client, "pump/7", 1)
    asked = {"subscribe": "pmup/#", "subscribePattern": "pmup/.*"}[option]
    assert read(servers, **{option: asked}) == []
    assert told(caplog) == [f"no topic matches {asked} yet"]


def test_nothing_is_told_where_all_is_there(servers, client, caplog):
    fill(client, "pump/7", 1)
    read(servers, subscribe="pump/7,pump/#")
    assert told(caplog) == []


def test_a_stream_that_has_nothing_to_read_says_so_and_takes_what_comes(servers, client, caplog):
    stream = Stream(servers, subscribe="pump/7")
    assert stream.next() == []
    assert told(caplog) == ["no such topic yet: 'pump/7'"]
    fill(client, "pump/7", 3)
    assert len(stream.next()) == 3


def test_a_stream_that_has_something_to_read_says_nothing_of_topics_to_come(
    servers, client, caplog
):
    fill(client, "pump/7", 1)
    assert len(Stream(servers, subscribe="pump/7,penstock/heartbeat/silent").next()) == 1
    assert told(caplog) == []


def test_whoever_waits_for_a_broker_is_told_long_before_it_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr(connections, "NOTICE_S", 0.05)
    monkeypatch.setattr(connections, "CALL_S", 1.0)
    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UnreachableError):
            connections.client_for((address,))
    assert told(caplog) == [f"no broker answers at {address} yet; is it running? Retrying"]


def test_a_broker_that_answers_is_not_remarked_upon(servers, monkeypatch, caplog):
    monkeypatch.setattr(connections, "NOTICE_S", 0.5)
    connections.client_for((servers,))
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    for timer in timers:
        timer.join(5)
    assert told(caplog) == []
