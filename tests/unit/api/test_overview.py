"""``overview``, ``history``, ``settings`` and ``csp-reports``, asked of a real broker."""

import pytest
from tests.api_kit import ApiClient

from penstock.api.series import NAMES
from penstock.config.keys import KEYS
from penstock.testing import Broker


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker):
    return ApiClient(broker.port)


def publish(api, topic, count):
    for n in range(count):
        answer = api.ask("POST", f"/topics/{topic}", str(n).encode())
        assert answer.status == 200, answer


def test_overview_of_an_empty_broker_is_well(api):
    shown = api.get("overview").document
    assert shown["health"]["state"] == "healthy"
    assert shown["health"]["acknowledgement"] == "on the disk of this node"
    assert shown["findings"] == []
    assert shown["cluster"]["node"] == 1
    assert shown["busiest"] == []
    assert shown["storage"]["growth_bytes_per_s"] is None


def test_overview_tells_what_happens(broker, api):
    broker.clock.advance(1)
    publish(api, "plant/a", 3)
    publish(api, "plant/b", 1)
    broker.clock.advance(5)
    shown = api.get("overview").document
    assert shown["storage"]["messages"] == 4
    assert shown["numbers"]["topics"] == 2
    assert [(t["name"], t["messages"]) for t in shown["busiest"]] == [
        ("plant/a", 3),
        ("plant/b", 1),
    ]
    assert shown["rates"]["messages_in"] > 0
    assert shown["rates"]["fsync_p99_ms"] is not None


def test_overview_finds_a_group_without_workers(broker, api):
    publish(api, "jobs", 2)
    made = api.ask("PUT", "/groups", {"topic": "jobs", "group": "send"})
    assert made.status == 200, made
    broker.clock.advance(6)
    (finding,) = api.get("overview").document["findings"]
    assert (finding["code"], finding["topic"], finding["group"]) == ("no_workers", "jobs", "send")
    assert finding["count"] == 2


def test_overview_needs_the_right_to_monitor():
    with Broker(users={"ann": "secret"}) as broker:
        broker.add_user("root", "r", roles=("admin",))
        broker.add_user("watch", "w", roles=("monitor",))
        assert ApiClient(broker.port, "ann", "secret").get("overview").status == 403
        publish(ApiClient(broker.port, "root", "r"), "plant/a", 1)
        shown = ApiClient(broker.port, "watch", "w").get("overview")
        assert shown.status == 200
        assert shown.document["busiest"] == []  # it may not read the topic


def test_history_has_the_last_seconds(broker, api):
    for _ in range(3):
        broker.clock.advance(1)
    shown = api.get("history", of="messages_in,clients").document
    assert [series["name"] for series in shown["series"]] == ["messages_in", "clients"]
    assert shown["series"][1]["values"] == [0, 0, 0]
    assert (shown["step_s"], shown["count"]) == (1, 3)
    assert shown["start"] == "2023-11-14T22:13:21.000Z"


def test_history_has_the_last_day_by_minutes(broker, api):
    for _ in range(3):
        broker.clock.advance(60)
    shown = api.get("history", range="24h").document
    assert [series["name"] for series in shown["series"]] == list(NAMES)
    assert (shown["step_s"], shown["count"]) == (60, 3)


def test_history_knows_its_series(api):
    assert api.get("history", of="weather").document["code"] == "unknown_series"
    assert api.get("history", range="1y").document["code"] == "invalid_parameter"


def test_settings_are_all_options_and_hide_secrets():
    secret = "a-token-that-nobody-may-see"
    with Broker(resp={"password": secret}, limits={"clients_max": 77}) as broker:
        answer = ApiClient(broker.port).get("settings")
    settings = {setting["name"]: setting for setting in answer.document["items"]}
    assert list(settings) == list(KEYS)
    assert secret not in str(answer.document)
    assert settings["resp.password"]["value"] == "(hidden)"
    clients = settings["limits.clients_max"]
    assert (clients["value"], clients["is_default"], clients["used"]) == (77, False, 0)
    assert settings["log.level"]["live"]


def test_csp_report_is_counted_and_kept(broker, api):
    report = {"csp-report": {"violated-directive": "script-src", "blocked-uri": "inline\n\x1b[31m"}}
    assert api.post("csp-reports", report).document == {"total": 1}
    shown = api.get("csp-reports").document
    assert shown["items"][0]["violated-directive"] == "script-src"
    assert "\n" not in shown["items"][0]["blocked-uri"]
    assert broker.metrics()["penstock_csp_reports_total"] == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"csp-report": ' + b"[" * 5000])
def test_what_is_no_report_is_refused(api, body):
    assert api.ask("POST", "csp-reports", body).status == 400


def test_reports_are_bounded(api):
    assert api.ask("POST", "csp-reports", b"x" * 9_000).status == 413
    for _ in range(55):
        api.post("csp-reports", {"csp-report": {}})
    assert len(api.get("csp-reports").document["items"]) == 50


def test_browser_at_the_root_is_sent_to_the_console(api):
    answer = api.ask("GET", "/", headers={"accept": "text/html,*/*"})
    assert answer.status in {302, 303, 307}
    assert answer.headers["location"].startswith("/console/")
    assert api.ask("GET", "/", headers={"accept": "*/*"}).document.startswith(b"Penstock ")
