"""``penstock spark sinks``: what is listed, and how one is forgotten."""

import json
import sys

import pytest
from click.testing import CliRunner

from penstock.cli.spark import spark
from penstock.client import connect
from penstock.errors import PenstockError
from penstock.testing import Broker
from penstock.wire.queue._generated.queue_pb2 import StagedBlock


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


@pytest.fixture
def client(broker):
    with connect([f"{broker.host}:{broker.port}"]) as own:
        yield own


def run(broker, *arguments):
    result = CliRunner().invoke(spark, ["sinks", "-p", str(broker.port), *arguments])
    if isinstance(result.exception, PenstockError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def block(*payloads):
    return StagedBlock(lots=[{"topic": "t", "payloads": payloads}]).SerializeToString()


def test_sinks_are_listed_with_what_they_published_and_staged(broker, client):
    assert "no sinks" in run(broker)
    client.stage("job/a", 3, "p", 0, block(b"x", b"y"))
    client.commit_stage("job/a", 3, [("p", 1)], b"night")
    client.stage("job/b", 0, "p", 0, block(b"z"))
    shown = run(broker)
    assert "job/a" in shown
    assert "night" in shown
    assert "1 part" in shown
    first, second = json.loads(run(broker, "--json"))
    assert (first["name"], first["epoch"], first["messages"]) == ("job/a", 3, 2)
    assert (second["name"], second["epoch"], second["committed"]) == ("job/b", None, None)


def test_a_sink_is_forgotten_when_somebody_is_sure(broker, client):
    client.commit_stage("job/a", 3, [])
    with pytest.raises(PenstockError, match="nothing was changed"):
        run(broker, "forget", "job/a")
    assert client.sinks("job/a")
    run(broker, "forget", "job/a", "--yes")
    assert not client.sinks("job/a")


def test_a_sink_that_is_not_there_is_an_error(broker):
    with pytest.raises(PenstockError, match="no sink"):
        run(broker, "forget", "job/a", "--yes")


def test_it_works_where_there_is_no_spark(broker, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "no sinks" in run(broker)
