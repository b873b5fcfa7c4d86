"""Names and payloads that strangers chose are shown as what they are: text.

Each text is a topic, a client id, a payload, a header, a group, a reason and a user. A dialog, a
request to another host, an error or a violation of the content security policy fails the test
(``Window.check``), on every page.
"""

import json

import pytest

from penstock.client import connect
from tests.console.seed import device, publish
from tests.e2e.process import BrokerProcess

pytestmark = pytest.mark.slow

IMAGE = "<img src=x onerror=alert(1)>"
TEXTS = [
    IMAGE,
    '"><svg onload=alert(2)>',
    "javascript:alert(3)",
    "</script><script>alert(4)</script>",
    "__proto__",
    "constructor",
    "{{7*7}}${7*7}",
    "a\u202etxt.exe",
    "&lt;b&gt;&amp;lt;",
    "' OR 1=1 --",
    "x" * 1000,
]
CONTROLS = ["nul\x00byte", "esc\x1b[31mred", "line\nfeed"]  # no names in MQTT, but payloads
DEEP = "[" * 128 + "]" * 128


def shown(text):
    """As the page writes it: what cannot be seen, or turns the text around, is spelt out."""
    return text.replace("\u202e", "\\u202e")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("hostile") / "data") as broker:
        port = broker.port
        for text in TEXTS:
            publish(port, f"evil/{text}", text, json.dumps({text: text}))
            publish(port, f"kept/{text}", text, retain=True)
        publish(port, "evil/payloads", *TEXTS, *CONTROLS, DEEP, b"\xff\xfe bad utf-8")
        with connect([f"127.0.0.1:{port}"]) as client:
            for at, text in enumerate(TEXTS[:4]):
                client.produce(f"jobs/{at}", text.encode())
                client.configure_group(f"jobs/{at}", text, max_deliveries=1)
                client.nack(client.poll(f"jobs/{at}", text, max=1, wait_s=30), reason=text)
        with device(port, IMAGE, clean=False) as one:
            one.subscribe(f"evil/{IMAGE}")
            with device(port, "tail"):
                yield broker


def visit(browser, broker, paths, texts):
    with browser.window(broker.port) as window:
        window.allow("404", "400")
        for path in paths:
            window.open(path)
            for text in texts:
                window.see(text, "main")
            window.check()


def test_topics_are_shown_as_they_are(browser, hostile):
    visit(
        browser,
        hostile,
        ["topics?prefix=evil/"],
        [shown(text) for text in TEXTS[:9] if "/" not in text],
    )


@pytest.fixture(scope="module")
def long_open_window(browser, hostile):
    with browser.window(hostile.port) as window:
        yield window


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_topic_its_payload_and_its_chart_are_shown_as_they_are(window, text):
    from urllib.parse import quote

    topic = quote(f"evil/{text}")
    window.open(f"topics?topic={topic}&message=1")
    window.see(shown(text), "h2.mono")
    window.see(shown(text), "pre")
    window.open(f"topics?topic={topic}&tab=about")
    window.open(f"topics?topic={topic}&tab=chart")
    window.open(f"why?q={topic}")
    window.see(shown(text), "main")


def test_payloads_are_shown_as_they_are(browser, hostile):
    with browser.window(hostile.port) as window:
        window.open("topics?topic=evil/payloads")
        for text in (*map(shown, TEXTS[:8]), "6e 75 6c 00 62", "esc␛[31mred"):
            window.see(text, "tbody")
        for offset in range(len(TEXTS) + len(CONTROLS) + 2):
            window.open(f"topics?topic=evil/payloads&message={offset}")
            window.page.locator("pre.payload").wait_for()
            window.check()


def test_clients_groups_reasons_and_retained_are_shown_as_they_are(browser, hostile):
    visit(browser, hostile, ["clients", "clients?client=" + IMAGE], [IMAGE])
    visit(browser, hostile, ["groups"], TEXTS[:4])
    visit(browser, hostile, [f"groups?topic=jobs/0&group={IMAGE}&tab=dead"], [IMAGE])
    visit(browser, hostile, ["topics?tab=retained"], [shown(text) for text in TEXTS[:8]])
    visit(browser, hostile, [f"why?kind=client&q={IMAGE}"], [IMAGE])


def test_live_messages_are_shown_as_they_are(browser, hostile):
    with browser.window(hostile.port) as window:
        window.open("live?filter=later/%23")
        window.see("Waiting on later/#")
        for text in TEXTS[:8]:
            publish(hostile.port, f"later/{text}", text)
        for text in TEXTS[:8]:
            window.see(shown(text), "tbody")


def test_what_stands_in_the_address_is_text(browser, hostile):
    with browser.window(hostile.port) as window:
        window.allow("404", "400")
        for path in (
            "topics?topic=",
            "topics?prefix=",
            "clients?client=",
            "why?q=",
            "live?filter=",
        ):
            window.open(path + IMAGE)
            window.open(path + '"><svg onload=alert(2)>')
        window.open(f"security?tab={IMAGE}")
        window.open("constructor")
        window.see("There is no such page")
