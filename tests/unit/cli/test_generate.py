"""``penstock generate``: what it prints names real metrics, and the programs accept it."""

import json
import re
import shutil
import subprocess
import urllib.request

import pytest
import yaml
from click.testing import CliRunner
from tests.tidy.files import ROOT

from penstock.admin.metrics import METRICS
from penstock.admin.metrics_bridges import BRIDGES
from penstock.admin.metrics_cluster import CLUSTER
from penstock.admin.metrics_queues import QUEUES
from penstock.cli import penstock
from penstock.cli.lazy import ListingGroup
from penstock.cli.ready_made.alerts import ALERTS
from penstock.cli.ready_made.panels import ROWS
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.testing import Broker

KNOWN = {metric.name: metric for metric in (*METRICS, *QUEUES, *CLUSTER, *BRIDGES)}
OF_PROMETHEUS = {"job", "instance", "le"}  # labels that a broker does not set
promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)"
)


def generate(*arguments: str) -> str:
    result = CliRunner().invoke(penstock, ["generate", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_description_of_the_api_is_that_which_a_broker_serves():
    with (
        Broker() as broker,
        urllib.request.urlopen(f"http://127.0.0.1:{broker.port}/api/v1/openapi.json") as answer,
    ):
        assert json.loads(generate("openapi")) == json.load(answer)


def check(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


QUERIES = [
    (query.expression, query.legend) for row in ROWS for p in row.panels for query in p.queries
]
RULES = [(alert.expression, alert.summary) for alerts in ALERTS.values() for alert in alerts]


def names(expression: str) -> set[str]:
    found = re.findall(r"\b(?:penstock|process)_\w+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


@pytest.mark.parametrize("expression", [text for text, _ in (*QUERIES, *RULES)])
def test_every_metric_of_dashboard_and_alerts_exists(expression):
    page = (ROOT / "docs/reference/metrics.md").read_text()
    assert names(expression) or "up{" in expression
    assert [name for name in names(expression) if f"| `{name}` |" not in page] == []


def test_a_real_broker_has_every_metric_of_dashboard_and_alerts():
    with Broker() as broker:
        url = f"http://{broker.host}:{broker.port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            told = set(re.findall(r"^# TYPE (\w+)", answer.read().decode(), re.MULTILINE))
    assert set().union(*(names(text) for text, _ in (*QUERIES, *RULES))) - told == set()


@pytest.mark.parametrize(("expression", "text"), [*QUERIES, *RULES])
def test_every_label_is_one_of_its_metric(expression, text):
    labels = OF_PROMETHEUS.union(
        *(KNOWN[name].label.split(", ") for name in names(expression) if name in KNOWN)
    )
    used = set(re.findall(r"\{\{(\w+)\}\}|\$labels\.(\w+)", text))
    grouped = re.findall(r"(?:by|without) \(([\w, ]+)\)", expression)
    selected = re.findall(r"[{,]\s*(\w+)\s*[!=]", expression)
    wanted = {name for pair in used for name in pair if name}
    assert wanted.union(selected, *(group.split(", ") for group in grouped)) <= labels


def test_alerts_name_reasons_that_exist():
    for expression, _ in RULES:
        for metric, patterns in re.findall(r'(\w+)\{reason[!=]~"([^"]+)"', expression):
            reasons = DropReason if metric == "penstock_dropped_total" else DisconnectReason
            for pattern in patterns.split("|"):
                assert any(re.fullmatch(pattern, reason.value) for reason in reasons), pattern


def test_alerts_advise_commands_that_exist():
    texts = [alert.advice for alerts in ALERTS.values() for alert in alerts]
    for name, more in re.findall(r"\bpenstock ([a-z]+)(?: ([a-z]+))?", " ".join(texts)):
        command = penstock.get_command(None, name)
        assert command is not None, name
        if hasattr(command, "commands") and not isinstance(command, ListingGroup):
            assert more in command.commands, f"{name} {more}"


@promtool
def test_prometheus_accepts_alerts_and_configuration(tmp_path):
    rules, token = tmp_path / "alerts.yml", tmp_path / "token"
    rules.write_text(generate("alerts"))
    token.write_text("pst_a_b")
    check("check", "rules", str(rules))
    options = ["--target", "a:1883", "--target", "[::1]:1883", "--rules", str(rules)]
    config = generate("prometheus", *options, "--token-file", str(token), "--tls")
    (tmp_path / "prometheus.yml").write_text(config)
    check("check", "config", str(tmp_path / "prometheus.yml"))
    assert yaml.safe_load(config)["scrape_configs"][0]["static_configs"] == [
        {"targets": ["a:1883", "[::1]:1883"]}
    ]


@promtool
def test_prometheus_understands_every_query_of_the_dashboard(tmp_path):
    dashboard = generate("grafana")
    found = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', dashboard)
    assert len(found) == len(QUERIES) + 1  # an annotation
    queries = [json.loads(text).replace("$__rate_interval", "1m") for text in found]
    rules = [{"record": f"a:{i}", "expr": query} for i, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "a", "rules": rules}]}))
    check("check", "rules", str(tmp_path / "rules.yml"))


def series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


FIRING = {
    "PenstockDown": [series('up{job="penstock",instance="a"}', "0x30")],
    "PenstockNotReady": [series('penstock_ready{instance="a"}', "0x30")],
    "PenstockDiskFull": [series('penstock_disk_free_bytes{instance="a"}', "1000x30")],
    "PenstockCaptureDrops": [
        series('penstock_dropped_total{instance="a",reason="capture_overflow"}', "0+10x30")
    ],
    "PenstockDropsMessages": [
        series('penstock_dropped_total{instance="a",reason="slow_reader"}', "0+10x30"),
        series('penstock_dropped_total{instance="a",reason="expired"}', "0+10x30"),
    ],
    "PenstockCommitsSlow": [
        series('penstock_commit_seconds_bucket{instance="a",le="0.25"}', "0x30"),
        series('penstock_commit_seconds_bucket{instance="a",le="0.5"}', "0+5x30"),
        series('penstock_commit_seconds_bucket{instance="a",le="+Inf"}', "0+5x30"),
    ],
    "PenstockDeadLetters": [series('penstock_dead_letters_total{instance="a"}', "0+1x30")],
    "PenstockGroupFallsBehind": [
        series('penstock_group_lag{instance="a",topic="t",group="g"}', "2000+100x30")
    ],
    "PenstockNoLeader": [
        series('penstock_raft_leader{instance="a"}', "0x30"),
        series('penstock_raft_leader{instance="b"}', "0x30"),
    ],
    "PenstockNoQuorumMargin": [
        series('penstock_raft_follower_active{instance="a",node="2"}', "0x30"),
        series('penstock_raft_follower_active{instance="a",node="3"}', "1x30"),
        series('penstock_raft_members{instance="a",kind="voter"}', "3x30"),
    ],
    "PenstockCertificateExpires": [
        series('penstock_tls_certificate_expires_seconds{instance="a",listener="b"}', "86400x90")
    ],
}
QUIET = [
    series('up{job="penstock",instance="a"}', "1x90"),
    series('penstock_ready{instance="a"}', "1x90"),
    series('penstock_disk_free_bytes{instance="a"}', "50000000000x90"),
    series('penstock_dropped_total{instance="a",reason="expired"}', "0+10x90"),
    series('penstock_group_lag{instance="a",topic="t",group="g"}', "2000-20x90"),
    series('penstock_raft_leader{instance="a"}', "1x90"),
    series('penstock_raft_follower_active{instance="a",node="2"}', "1x90"),
    series('penstock_raft_follower_active{instance="a",node="3"}', "1x90"),
    series('penstock_raft_members{instance="a",kind="voter"}', "3x90"),
    series('penstock_tls_certificate_expires_seconds{instance="a",listener="b"}', "8640000x90"),
]


def run_rules(tmp_path, tests):
    (tmp_path / "alerts.yml").write_text(generate("alerts"))
    document = {"rule_files": ["alerts.yml"], "evaluation_interval": "15s", "tests": tests}
    (tmp_path / "test.yml").write_text(json.dumps(document))
    return subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )


@promtool
@pytest.mark.parametrize("name", FIRING)
def test_an_alert_fires_when_it_should(tmp_path, name):
    """promtool compares alerts with none expected, and so says which ones fire."""
    minutes = "75m" if name == "PenstockCertificateExpires" else "25m"
    wanted = [{"eval_time": minutes, "alertname": name, "exp_alerts": []}]
    done = run_rules(
        tmp_path, [{"interval": "1m", "input_series": FIRING[name], "alert_rule_test": wanted}]
    )
    assert done.returncode == 1
    assert f"alertname: {name}" in done.stdout + done.stderr
    assert done.stderr.count(f'alertname="{name}"') + done.stdout.count(f'alertname="{name}"') == 1


@promtool
def test_no_alert_fires_on_a_healthy_broker(tmp_path):
    wanted = [
        {"eval_time": "80m", "alertname": alert.name, "exp_alerts": []}
        for alerts in ALERTS.values()
        for alert in alerts
    ]
    done = run_rules(
        tmp_path, [{"interval": "1m", "input_series": QUIET, "alert_rule_test": wanted}]
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap_and_their_ids_differ():
    panels = json.loads(generate("grafana"))["panels"]
    every = [*panels, *(inner for panel in panels for inner in panel.get("panels", []))]
    assert len({panel["id"] for panel in every}) == len(every)
    cells = [
        (x, y)
        for p in (panel["gridPos"] for panel in every)
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_compose_has_inside_what_the_other_commands_print():
    document = yaml.safe_load(generate("compose", "--image", "ours:1"))
    assert list(document["services"]) == ["broker", "prometheus", "grafana"]
    assert document["services"]["broker"]["image"] == "ours:1"
    content = {
        name: config["content"].replace("$$", "$") for name, config in document["configs"].items()
    }
    assert content["dashboard"] == generate("grafana")
    assert content["alerts"] == generate("alerts")
    mounted = {
        config["target"]: config["source"]
        for service in document["services"].values()
        for config in service.get("configs", [])
    }
    assert set(mounted.values()) == set(document["configs"])
    scraped = yaml.safe_load(content["prometheus"])
    assert mounted[scraped["rule_files"][0]] == "alerts"
    assert scraped["scrape_configs"][0]["static_configs"] == [{"targets": ["broker:1883"]}]
    (secret,) = document["secrets"]
    assert scraped["scrape_configs"][0]["authorization"] == {
        "credentials_file": f"/run/secrets/{secret}"
    }
    provider = yaml.safe_load(content["provider"])["providers"][0]
    assert mounted[f"{provider['options']['path']}/penstock.json"] == "dashboard"
    alone = re.search(r"(?<!\$)\$(?!\$)\w", "".join(map(str, document["configs"].values())))
    assert alone is None, "compose would replace it"


def test_a_unit_for_another_user_and_place():
    unit = generate("systemd", "--user", "mq", "--data", "/srv/mq", "--config", "/etc/mq.toml")
    assert "User=mq\nReadWritePaths=/srv/mq\n" in unit
    assert "serve --config /etc/mq.toml --data /srv/mq\n" in unit
    assert "DynamicUser" not in unit


@pytest.mark.parametrize(
    "arguments",
    [
        ("systemd", "--data", "/srv/mq"),
        ("systemd", "--data", "relative"),
        ("systemd", "--data", "/var/lib/a b"),
        ("systemd", "--data", "/var/lib/../mq"),
        ("systemd", "--config", "/etc/%n.toml"),
        ("systemd", "--user", "a\nExecStart=/bin/sh"),
        ("prometheus", "--target", "nowhere"),
        ("prometheus", "--target", "a:0"),
        ("alerts", "--output", "/nowhere/alerts.yml"),
    ],
)
def test_what_cannot_be_written_is_refused(arguments):
    result = CliRunner().invoke(penstock, ["generate", *arguments])
    assert result.exit_code in {1, 2}
    assert result.stderr


def test_output_goes_to_a_file(tmp_path):
    file = tmp_path / "alerts.yml"
    assert generate("alerts", "--output", str(file)) == f"Wrote {file}.\n"
    assert file.read_text() == generate("alerts")
