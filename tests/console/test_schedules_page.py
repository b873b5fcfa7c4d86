"""Schedules and bridges on their page: a schedule that fires, a bridge to a second real broker."""

import json
import urllib.request
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from tests.console.browser import AXE, NARROW, WIDE, expect
from tests.console.seed import publish
from tests.e2e.cluster_processes import until
from tests.e2e.process import BrokerProcess

pytestmark = pytest.mark.slow

HOSTILE_NAME = '"><svg onload=alert(2)>'
HOSTILE_TOPIC = "evil/<img src=x onerror=alert(1)>/\u202etxt"
LATER = {"cron": "0 8 * * mon-fri", "timezone": "Europe/Paris", "missed": "all"}


def ask(broker, path):
    return broker.json(f"/api/v1/{path}")[1]


def schedule(broker, name, topic, **options):
    body = json.dumps({"name": name, "topic": topic, "text": "now"} | options).encode()
    url = f"http://127.0.0.1:{broker.port}/api/v1/schedules"
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.status < 300


@pytest.fixture(scope="module")
def brokers(browser, tmp_path_factory):
    """A broker with schedules and two bridges, and the older broker to which one of them leads."""
    directory = tmp_path_factory.mktemp("bridged")
    config = directory / "new.toml"
    with ExitStack() as stack:
        old = stack.enter_context(BrokerProcess(directory / "old"))
        config.write_text(
            f"[[bridges]]\nname = 'old'\nurl = 'mqtt://127.0.0.1:{old.port}'\n"
            "topics_in = ['plant/#']\ntopics_out = ['cmd/#']\n"
            "[[bridges]]\nname = 'gone'\nurl = 'mqtt://127.0.0.1:1'\ntopics_in = ['far/#']\n"
        )
        new = stack.enter_context(
            BrokerProcess(directory / "new", "--config", str(config), log_name="new.log")
        )
        schedule(new, "report", "mail/report", **LATER)
        schedule(new, "beat", "plant/beat", every_s=1)
        schedule(new, HOSTILE_NAME, HOSTILE_TOPIC, every_s=3600)
        until(lambda: {one["name"]: one["state"] for one in ask(new, "bridges")["items"]}["old"] == "connected")  # fmt: skip
        publish(old.port, "plant/p7", "1", "2", "3")
        publish(new.port, "cmd/7", "go")
        yield new, old


@pytest.fixture
def window(browser, brokers):
    with browser.window(brokers[0].port) as window:
        yield window


def row(window, text):
    return window.page.locator("tbody tr", has_text=text)


def fact(window, name):
    return window.page.locator(f"dl.facts dt:text-is('{name}') + dd")


def test_the_page_is_reached_by_keyboard_and_a_schedule_opened(window):
    window.open()
    window.press("g", "b")
    window.see("Schedules and bridges", "h1")
    window.see("report", "tbody")
    row(window, "mail/report").focus()
    window.press("Enter")
    window.see("cron 0 8 * * mon-fri, Europe/Paris", "section.detail")
    window.see("all published", "section.detail")
    expect(fact(window, "Next firings").locator("time")).to_have_count(5)


def test_the_next_firings_are_those_of_the_broker(window, brokers):
    window.open("schedules?name=report")
    times = fact(window, "Next firings").locator("time")
    expect(times).to_have_count(5)
    shown = [one.get_attribute("datetime") for one in times.all()]
    assert shown == ask(brokers[0], "schedules?name=report")["items"][0]["next_firings"]


def test_a_firing_is_seen_with_its_result(window):
    window.open("schedules?name=beat")
    expect(fact(window, "Last firing")).to_contain_text("published")
    expect(row(window, "plant/beat")).to_contain_text("every 1 s")
    expect(fact(window, "So far")).not_to_contain_text("0 messages published,")


def test_a_schedule_is_cancelled_after_a_question_that_names_it(window, brokers):
    schedule(brokers[0], "for-once", "mail/once", in_s=86_400)
    window.open("schedules?name=for-once")
    window.page.get_by_role("button", name="Cancel the schedule").click()
    window.see("Cancel the schedule for-once", "dialog")
    assert ask(brokers[0], "schedules?name=for-once")["items"], "a question changes nothing"
    window.page.get_by_role("button", name="Cancel for-once", exact=True).click()
    window.see("Cancelled for-once")
    expect(row(window, "mail/once")).to_have_count(0)
    assert not ask(brokers[0], "schedules?name=for-once")["items"]


def test_names_and_topics_that_strangers_chose_are_text(window):
    topic = HOSTILE_TOPIC.replace("\u202e", "\\u202e")
    window.open("schedules?name=" + quote(HOSTILE_NAME))
    expect(row(window, HOSTILE_NAME)).to_contain_text(topic)
    window.see(HOSTILE_NAME, "section.detail h2")
    expect(fact(window, "Topic")).to_have_text(topic)
    window.page.get_by_role("button", name="Cancel the schedule").click()
    window.see(HOSTILE_NAME, "dialog")


def test_a_bridge_shows_what_it_copied_to_and_from_the_other_broker(window, brokers):
    window.open("schedules?tab=bridges&name=old")
    expect(row(window, f"mqtt://127.0.0.1:{brokers[1].port}")).to_contain_text("connected")
    expect(fact(window, "In")).to_contain_text("plant/#: 3 copied, 0 in flight")
    expect(fact(window, "Out")).to_contain_text("cmd/#: 1 copied, 0 in flight")
    expect(fact(window, "MQTT")).to_have_text("5")


def test_a_bridge_that_finds_nobody_says_why_and_what_to_do(window, brokers):
    window.open("schedules")
    window.page.get_by_role("tab", name="Bridges").click()
    gone = next(one for one in ask(brokers[0], "bridges")["items"] if one["name"] == "gone")
    assert gone["error"]
    assert gone["advice"]
    note = window.page.locator(".note", has_text="gone")
    expect(note).to_contain_text(gone["error"])
    advice = gone["advice"].replace("`", "")  # which stand around what is shown as code
    expect(note).to_contain_text(advice, ignore_case=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_everybody_can_use_schedules_and_bridges(browser, brokers, theme, size):
    axe = AXE()
    with browser.window(brokers[0].port, size=size, theme=theme) as window:
        window.page.add_init_script(axe)
        for path, text in (("name=report", "Next firings"), ("tab=bridges&name=old", "cmd/#")):
            window.open(f"schedules?{path}")
            window.see(text, "section.detail")
            assert window.barriers() == []
