"""``penstock spark demo`` from end to end, a short one: with a kill, an audit and a report.

It has a broker, a fleet and a Spark of its own, as processes, and nothing of the session that other
tests share.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from penstock.spark.demo.results import DemoResults
from tests.spark.quick import Archive, prepare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SECONDS = 15


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """Where a demo has left its report; its exit status and its words are there too."""
    prepare()
    where = tmp_path_factory.mktemp("demo")
    arguments = ["--minutes", str(SECONDS / 60), "--devices", "6", "--out", str(where)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "spark", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
        env={**os.environ, "TMPDIR": str(where), "JDK_JAVA_OPTIONS": Archive().flags()},
    )
    (where / "said.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return where


@pytest.fixture(scope="module")
def story(out) -> DemoResults:
    return msgspec.json.decode((out / "story.json").read_bytes(), type=DemoResults)


def test_a_demo_with_a_kill_loses_nothing_and_doubles_nothing(story):
    assert story.is_good
    assert story.killed_at is not None
    assert story.acknowledged == sum(line.archived for line in story.lines) > 300


def test_every_door_took_readings_and_refused_its_impostor(story):
    assert all(sum(counts) > 50 for counts in story.traffic.values())
    assert {line.door for line in story.lines if line.refused} == {"mqtt", "binary", "resp"}


def test_what_fell_silent_and_what_jumped_was_told(story):
    kinds = {alert.kind for alert in story.alerts}
    assert kinds >= {"silent", "gap"}


def test_page_and_picture_are_there_and_the_words_say_so(out):
    said = (out / "said.txt").read_text()
    for name in ("report.html", "report.png", "story.json"):
        assert name in said
        assert (out / name).stat().st_size > 1_000
    assert "SIGKILL" in said
    assert "No message was lost or duplicated." in said


def test_nothing_else_is_left_behind(out):
    left = {path.name for path in out.iterdir()}
    assert left == {"report.html", "report.png", "story.json", "said.txt"}
