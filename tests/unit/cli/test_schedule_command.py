"""``penstock schedule`` against a broker whose clock stands still."""

import json

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def say(broker):
    """Run a command: its output; exit status 0, or the one expected."""

    def run(*words, status=0, **options):
        command = ["schedule", *words, "--server", f"127.0.0.1:{broker.port}"]
        result = CliRunner().invoke(penstock, command, **options)
        assert result.exit_code == status, result.output
        return result.output

    yield run
    for row in json.loads(run("list", "--json")):
        run("cancel", row["name"], "--yes")


def test_a_schedule_is_created_listed_shown_and_cancelled(say):
    said = say(
        "create", "report", "mail/report", "send", "--cron", "0 8 * * mon-fri",
        "--timezone", "Europe/Paris", "-D", "a=b", "--expiry", "1h", "-r", "--priority", "2",
    )  # fmt: skip
    assert said.startswith("report created: cron 0 8 * * mon-fri, Europe/Paris\nnext firings\n")
    assert said.count("07:00:00 UTC") == 5
    assert "report  mail/report" in say("list")
    row = json.loads(say("show", "report", "--json"))
    assert (row["payload"], row["expires_s"], row["retain"]) == ({"text": "send"}, 3600, True)
    assert row["headers"] == [{"name": "a", "value": "b"}]
    shown = say("show", "report")
    assert "message    send (4 bytes)" in shown
    assert "last       never" in shown
    assert say("cancel", "report", input="y\n").endswith("cancelled report\n")
    assert "there are no schedules" in say("list")


def test_what_fires_once_says_when(say):
    assert json.loads(say("create", "a", "t", "--in", "10m", "--json"))["dry_run"] is False
    say("create", "b", "t", "--at", "2030-01-01T08:00", "--timezone", "Asia/Kolkata")
    assert "2030-01-01 02:30:00 UTC" in say("show", "b")


def test_a_payload_is_a_file_byte_by_byte(say, tmp_path):
    (tmp_path / "payload").write_bytes(b"\xff\x00")
    say("create", "a", "t", "-f", str(tmp_path / "payload"), "--every", "1m")
    assert json.loads(say("show", "a", "--json"))["payload"] == {"base64": "/wA="}


def test_a_dry_run_and_a_preview_create_nothing(say):
    assert "would be created" in say("create", "a", "t", "--every", "90s", "--dry-run")
    said = say("preview", "--every", "90s", "--anchor", "2030-01-01T00:00Z", "-n", "2")
    assert said.split("\n")[1:3] == ["  2030-01-01 00:00:00 UTC", "  2030-01-01 00:01:30 UTC"]
    assert "there are no schedules" in say("list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "a", "t", "--cron", "x"), "five fields, not 1"),
        (("create", "a", "$SYS/t", "--every", "1m"), "reserved"),
        (("show", "nothing"), "there is no schedule 'nothing'"),
        (("cancel", "nothing", "--yes"), "there is no schedule 'nothing'"),
    ],
)
def test_a_refusal_is_told_in_words(say, words, said):
    assert said in say(*words, status=1)


@pytest.mark.parametrize(
    "words", [("create", "a", "t"), ("preview",), ("preview", "--in", "1m", "--cron", "@daily")]
)
def test_a_timing_that_is_missing_or_double_is_refused_by_the_names_of_the_options(say, words):
    assert "exactly one of --at, --in, --every and --cron" in say(*words, status=2)


def test_names_and_payloads_are_safe_for_a_terminal(say):
    say("create", "a", "t", "\x1b[2J\u202e", "--every", "1m")
    assert r"\x1b[2J" in say("show", "a")
