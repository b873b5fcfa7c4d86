"""Spark over TLS, as a user with few rights: it works, what is denied is told, no secret shows."""

import pytest
from pyspark.errors import PySparkException

from penstock.cli.dev_certs import make_certificates
from penstock.client import connect
from penstock.testing import Broker

SECRET = "canary-4f1c9e7a2b-of-etl"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@pytest.fixture
def broker(certificates):
    files = {"cert": str(certificates / "server.crt"), "key": str(certificates / "server.key")}
    with Broker(tls=files) as running:
        running.add_user("root", "the secret of root", roles=["admin"])
        running.add_user("etl", SECRET, rules=["allow read in/#", "allow publish,read out/#"])
        with connect([f"127.0.0.1:{running.port}"]) as client:  # as anybody on this machine
            client.produce_many("in/a", [b"1", b"2", b"3"])
            client.produce_many("hidden", [b"4"])
        yield running


@pytest.fixture
def login(broker, certificates, tmp_path):
    file = tmp_path / "password"
    file.write_text(SECRET)
    file.chmod(0o600)
    return {
        "servers": f"localhost:{broker.port}",
        "user": "etl",
        "passwordFile": str(file),
        "tlsCaFile": str(certificates / "ca.crt"),
    }


def payloads(broker, topic):
    with connect([f"127.0.0.1:{broker.port}"]) as client:
        return sorted(record.payload for record in client.messages(topic))


def write(table, login, job, topic):
    options = {**login, "jobId": job, "topic": topic}
    table.select("payload").write.format("penstock").options(**options).mode("append").save()


def test_a_user_reads_and_writes_over_tls_and_its_secret_shows_nowhere(
    spark, broker, login, capfd, tmp_path
):
    spark.sparkContext.setLogLevel("INFO")
    try:
        table = spark.read.format("penstock").options(**login, subscribe="in/#").load()
        table.explain(extended=True)
        write(table, login, "copy", "out/batch")
        stream = spark.readStream.format("penstock").options(**login, subscribe="in/#").load()
        query = (
            stream.select("payload")
            .writeStream.format("penstock")
            .options(**login, topic="out/stream", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        plans = str(query.lastProgress) + str(table._jdf.queryExecution().toString())
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert payloads(broker, "out/batch") == payloads(broker, "out/stream") == [b"1", b"2", b"3"]
    shown = capfd.readouterr()
    files = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert files
    assert "penstock" in shown.out + shown.err + plans
    for text in (shown.out, shown.err, plans, str(table), *map(repr, files)):
        assert SECRET not in text


def test_a_denied_topic_is_told_by_the_rule_that_is_missing(spark, broker, login):
    table = spark.read.format("penstock").options(**login, assign='["hidden"]').load()
    with pytest.raises(PySparkException, match="not_authorized") as read:
        table.count()
    allowed = spark.read.format("penstock").options(**login, subscribe="in/#").load()
    with pytest.raises(PySparkException, match="not_authorized") as written:
        write(allowed, login, "denied", "elsewhere")
    assert payloads(broker, "elsewhere") == []
    for caught in (read, written):
        assert SECRET not in str(caught.value)


def test_a_filter_gives_the_topics_that_may_be_read(spark, login):
    table = spark.read.format("penstock").options(**login, subscribe="#").load()
    assert {row.topic for row in table.select("topic").collect()} == {"in/a"}


def test_a_wrong_password_ends_the_job_at_once(spark, login, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-password")
    wrong.chmod(0o600)
    options = {**login, "passwordFile": str(wrong), "subscribe": "in/#"}
    with pytest.raises(PySparkException, match="wrong user name") as caught:
        spark.read.format("penstock").options(**options).load().count()
    assert "not-the-password" not in str(caught.value)
