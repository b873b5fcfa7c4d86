"""What a job's command says while Spark starts, and what it refuses before; no Spark is started."""

import io
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock.cli.spark_output import NoiseFilter
from penstock.cli.spark_run import command_of
from penstock.errors import PenstockError
from penstock.spark.pipelines.progress import LiveTable
from penstock.spark.pipelines.registry import job

WAIT_S = 60


# ── Options


REFUSED = [
    ("archive", ["--path", "s3://bucket/a"], "must be a directory"),
    ("archive", ["--path", "{tmp}", "--max-rows", "0"], "greater than 0"),
    ("archive", ["--path", "{tmp}", "--reader", " "], "reader: is empty"),
    ("compact", ["--path", "{tmp}"], "is not an archive"),
    ("audit", [], "nothing to audit"),
    ("audit", ["--path", "{tmp}"], "is not an archive"),
    ("audit", ["--servers", "a:1", "--keys", "{tmp}/none"], "cannot read public keys"),
    ("replay", ["--path", "{tmp}", "--job", "a#"], "not a valid job name"),
    ("replay", ["--path", "{tmp}", "--job", "a", "--since", "noon"], "is not a time"),
    ("replay", ["--path", "{tmp}", "--job", "a", "--speed", "-1"], "must be positive"),
    ("rollup", ["--field", "temperature"], "not the path of a field"),
    ("rollup", ["--time", "noon"], "not the path of a field"),
    ("rollup", ["--quantiles", "half"], "are not numbers"),
    ("rollup", ["--quantiles", "95"], "is not a quantile"),
    ("rollup", ["--every", "0s"], "--every must be positive"),
    ("rollup", ["--to", "a/+"], "is not a"),
    ("sessions", ["--device", "level:0"], "not a topic level"),
    ("sessions", ["--gap", "0s"], "--gap must be positive"),
    ("silent", ["--seq", "n"], "not the path of a field"),
    ("silent", ["--after", "8d"], "longer --forget"),
    ("quality", ["--since", "noon"], "startingTimestamp"),
    ("quality", ["--against", "{tmp}/none"], "not a quality report"),
    ("quarantine", ["--to", "#"], "is not a"),
]
NEEDED = {
    "--subscribe": ("archive", "rollup", "sessions", "silent", "quality", "quarantine"),
    "--checkpoint": ("rollup", "sessions", "silent", "quarantine"),
}


@pytest.mark.parametrize(("name", "wrong", "said"), REFUSED)
def test_options_are_refused_before_spark_is_started(name, wrong, said, monkeypatch, tmp_path):
    def no_session(*_given, **_settings):
        raise AssertionError("a session was started")

    monkeypatch.setattr("penstock.cli.spark_job.session", no_session)
    needed = [part for flag, jobs in NEEDED.items() if name in jobs for part in (flag, "c")]
    given = [text.format(tmp=tmp_path) for text in wrong]
    result = CliRunner().invoke(command_of(job(name)), [*needed, *given], standalone_mode=False)
    assert isinstance(result.exception, PenstockError), result.exception
    assert said in str(result.exception)


# ── The start


STARTING = """
import sys, time
from penstock.cli import main, spark_job

def session(*given, **settings):
    print("READY", file=sys.stderr, flush=True)
    time.sleep(600)

spark_job.session = session
main(["spark", "run", "archive", "--subscribe", "a", "--path", sys.argv[1]])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_spark_starts_ends_it_with_a_word(number, tmp_path):
    command = [sys.executable, "-c", STARTING, str(tmp_path / "a")]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        said = process.stderr
        assert said is not None
        assert [said.readline() for _ in range(2)] == ["Starting Spark ...\n", "READY\n"]
        os.killpg(process.pid, number)
        assert said.read() == "penstock: interrupted\n"
        assert process.wait(WAIT_S) == 128 + number


# ── What Java prints


PRINTED = """\
WARNING: Using incubator modules: jdk.incubator.vector
Starting Streaming TransformWithStateInPandas Python worker.

2030-01-31 09:30:00 WARN Something: look at this

and at this
Streaming TransformWithStateInPandas Python worker received parameters for UDF. State server: 1.

Streaming TransformWithStateInPandas Python worker Completed execution of UDF: <bound method>.


2030-01-31 09:30:01 WARN Something: and at that
"""


def test_workers_lines_are_not_shown_and_others_are():
    sieve = NoiseFilter()
    assert [line for line in PRINTED.splitlines() if sieve.passes(line)] == [
        "2030-01-31 09:30:00 WARN Something: look at this",
        "",
        "and at this",
        "2030-01-31 09:30:01 WARN Something: and at that",
    ]


PASSING_ON = """
import os, subprocess, sys
from penstock.cli.spark_output import JavaOutput

java = JavaOutput()
with java.inherited():
    below = subprocess.Popen(["sh", "-c", "echo 'WARNING: Using incubator modules' >&2;"
                              " echo one >&2; read line; echo two >&2"], stdin=subprocess.PIPE)
print("ours", file=sys.stderr, flush=True)
below.communicate(b"go on")
java.passed_on.wait()
"""


def test_what_java_prints_is_passed_on_for_as_long_as_it_runs():
    done = subprocess.run(
        [sys.executable, "-c", PASSING_ON],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert sorted(done.stderr.splitlines()) == ["one", "ours", "two"]


def test_where_a_table_is_drawn_lines_stand_above_it():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with LiveTable(stream) as table:
        table.note("a [bold] warning")
    assert "a [bold] warning\n" in stream.getvalue()
