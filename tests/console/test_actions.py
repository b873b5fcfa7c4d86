"""What people do on the pages, done with mouse and keyboard, and what becomes of it in the broker."""

import json
import urllib.request

import pytest

from tests.console.browser import expect
from tests.console.seed import device, devices, letters, publish, readings
from tests.e2e.process import BrokerProcess

pytestmark = pytest.mark.slow


def ask(broker, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.port}/api/v1/{path}", timeout=30) as got:
        return json.load(got)


@pytest.fixture(scope="module")
def changed(browser, tmp_path_factory):
    """A broker that tests change; each has topics and clients of its own."""
    with (
        BrokerProcess(tmp_path_factory.mktemp("actions") / "data") as broker,
        devices(broker.port),
    ):
        letters(broker.port)
        yield broker


@pytest.fixture
def window(browser, changed):
    with browser.window(changed.port) as window:
        yield window


def button(window, name, inside="body"):
    return window.page.locator(inside).get_by_role("button", name=name, exact=True)


# ── topics ────────────────────────────────────────────────────────────────────────────────────


def test_the_tree_opens_by_keyboard_down_to_a_topic(window):
    window.open("topics")
    branch = window.page.get_by_role("treeitem", name="plant")
    branch.focus()
    window.press("ArrowRight")
    window.page.get_by_role("treeitem", name="p7").focus()
    window.press("ArrowRight")
    window.page.get_by_role("treeitem", name="temp").wait_for()
    window.press("ArrowDown")
    expect(window.page.get_by_role("treeitem", name="raw")).to_be_focused()
    window.press("ArrowDown")
    expect(window.page.get_by_role("treeitem", name="temp")).to_be_focused()
    window.press("Enter")
    window.see("plant/p7/temp", "h2")


def test_a_message_is_tried_then_published_and_seen(window, changed):
    window.open("topics?topic=press/1")
    window.see("Never published")
    window.press("p")
    window.page.get_by_label("Payload", exact=True).fill('{"c": 1}')
    button(window, "Try without publishing").click()
    window.see("It would be accepted")
    button(window, "Publish", "dialog").click()
    window.see("Published to press/1")
    assert ask(changed, "messages?topic=press/1")["items"][0]["payload"] == {"text": '{"c": 1}'}


def test_what_the_broker_refuses_is_said_beside_the_form_which_stays(window):
    window.allow("400")
    window.open("topics")
    button(window, "Publish").click()
    window.page.get_by_label("Topic", exact=True).fill("a/#/b")
    window.page.get_by_label("Payload", exact=True).fill("typed")
    button(window, "Publish", "dialog").click()
    window.page.locator("dialog [role=alert]").wait_for()
    expect(window.page.get_by_label("Payload", exact=True)).to_have_value("typed")


def test_messages_are_found_by_offset_by_time_and_by_text(window, changed):
    publish(changed.port, "find/me", "first", "second", "third")
    window.open("topics?topic=find/me")
    window.page.get_by_placeholder("From offset").fill("1")
    expect(window.page.locator("tbody tr[data-row]")).to_have_count(2)
    window.page.get_by_placeholder("From offset").fill("")
    window.page.get_by_placeholder("Find in payload").fill("SECOND")
    expect(window.page.locator("tbody tr[data-row]")).to_have_count(1)
    window.page.get_by_placeholder("Find in payload").fill("")
    window.page.get_by_placeholder("At: 14:03, -15m, date").fill("-1h")
    expect(window.page.locator("tbody tr[data-row]")).to_have_count(3)


def test_two_messages_are_compared_by_keyboard(window, changed):
    publish(changed.port, "diff/me", '{"c":70.9,"s":"run"}', '{"c":71.3,"s":"run"}')
    window.open("topics?topic=diff/me")
    window.page.locator("tbody tr[data-row='1']").focus()
    window.press("x", "d")
    table = window.page.locator("table.diff")
    expect(table).to_contain_text("70.9")
    expect(table).to_contain_text("71.3")
    expect(table).not_to_contain_text("run")


def test_a_payload_is_shown_as_bytes(window, changed):
    publish(changed.port, "hex/me", b"\x00\x01abc")
    window.open("topics?topic=hex/me&message=0")
    button(window, "Hex").click()
    window.see("00 01 61 62 63", "pre")


def test_a_long_payload_says_that_it_is_cut_and_can_be_had_whole(window, changed):
    publish(changed.port, "long/me", b"x" * 200_000)
    window.open("topics?topic=long/me&message=0")
    with window.page.expect_download() as download:
        window.page.get_by_role("link", name="Download all of it").click()
    assert download.value.path().stat().st_size == 200_000


def test_new_messages_appear_while_somebody_watches(window, changed):
    publish(changed.port, "watch/me", "one")
    window.open("topics?topic=watch/me&live=1")
    window.see("one", "tbody")
    publish(changed.port, "watch/me", "two")
    window.see("two", "tbody")


def test_retained_messages_are_cleared_by_filter_and_taken_back(window, changed):
    for name in ("a", "b"):
        publish(changed.port, f"keep/{name}", "on", retain=True)
    window.open("topics?tab=retained&filter=keep/%23")
    button(window, "Clear keep/#").click()
    window.see("keep/a", "dialog .listing")
    button(window, "Clear 2").click()
    window.see("Cleared 2 retained messages")
    assert ask(changed, "retained?filter=keep/%23")["items"] == []
    button(window, "Undo").click()
    window.see("Retained again: 2")
    assert len(ask(changed, "retained?filter=keep/%23")["items"]) == 2


def test_a_topic_is_deleted_only_after_its_name_was_typed(window, changed):
    publish(changed.port, "gone/soon", "1", "2")
    window.open("topics?topic=gone/soon&tab=about")
    button(window, "Delete topic").click()
    confirm = button(window, "Delete 2 messages")
    expect(confirm).to_be_disabled()
    window.page.locator("dialog input").fill("gone/soon")
    confirm.click()
    window.see("Deleted gone/soon")
    assert ask(changed, "topics?prefix=gone/soon")["items"] == []


# ── clients ───────────────────────────────────────────────────────────────────────────────────


def test_a_client_is_kicked(window, changed):
    with device(changed.port, "kick-me"):
        window.open("clients?client=kick-me")
        button(window, "Kick").click()
        button(window, "Kick kick-me").click()
        window.see("Ended 1 connection of kick-me")


def test_a_session_is_ended_after_what_is_lost_was_said(window, changed):
    with device(changed.port, "end-me", clean=False) as one:
        one.subscribe("end/me")
    publish(changed.port, "end/me", "1", "2", "3")
    window.open("clients?client=end-me")
    button(window, "End session").click()
    button(window, "End session, lose 3").click()
    window.see("The session of end-me was ended")
    assert ask(changed, "sessions?prefix=end-me")["items"] == []


# ── groups ────────────────────────────────────────────────────────────────────────────────────


def test_one_letter_is_sent_back_to_try_and_then_one_is_deleted(window, changed):
    window.open("groups?topic=mail/out&group=send&tab=dead")
    button(window, "Re-drive 1 to try").click()
    button(window, "Re-drive 1").click()
    window.see("Re-drove 1 letter; 3 left")
    expect(window.page.get_by_role("button", name="Re-drive 3")).to_be_visible()
    window.page.locator("input[aria-label^='Mark letter']").first.check()
    button(window, "Delete 1").click()
    button(window, "Delete 1", "dialog").click()
    window.see("Deleted 1 letter; 2 left")


def test_a_group_is_moved_after_it_was_said_what_is_skipped(window, changed):
    window.open("groups?topic=mail/out&group=send")
    window.page.get_by_placeholder("earliest, latest, offset, time").fill("latest")
    button(window, "Seek").click()
    window.see("skipped", "dialog")
    window.page.locator("dialog footer button.primary").click()
    window.see("Moved send to latest")


def test_settings_of_a_group_are_changed(window, changed):
    window.open("groups?topic=mail/out&group=send&tab=settings")
    window.page.get_by_label("Deliveries at most; 0: no limit").fill("7")
    button(window, "Change").click()
    button(window, "Change", "dialog").click()
    window.see("Changed send")


# ── the rest ──────────────────────────────────────────────────────────────────────────────────


def test_a_recording_of_the_tail_is_saved(window, changed):
    window.open("live?filter=tail/%23")
    window.see("Waiting on tail/#")
    publish(changed.port, "tail/1", "one", "two")
    window.see("two", "tbody")
    with window.page.expect_download() as download:
        button(window, "Save recording").click()
    lines = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert [line["payload"]["text"] for line in lines] == ["one", "two"]


def test_search_leads_to_what_was_typed_without_a_mouse(window, changed):
    readings(changed.port, 3)
    window.open()
    window.press("/")
    window.page.keyboard.type("pump-1")
    window.page.get_by_role("option", name="pump-1").first.wait_for()
    window.press("Enter")
    window.see("pump-1", "h2")
    window.press("/")
    window.page.keyboard.type("plant/p7/temp@1")
    window.press("Enter")
    window.page.get_by_role("heading", name="Offset 1").wait_for()


def test_letters_lead_to_pages_until_they_are_switched_off(window):
    window.open()
    for letter, title in {"c": "Clients", "t": "Topics", "w": "Why", "e": "Settings"}.items():
        window.press("g", letter)
        window.see(title, "main h1")
    window.press("?")
    window.page.get_by_label("Single-letter keys").uncheck()
    window.press("Escape")
    expect(window.page.locator("dialog")).to_have_count(0)
    window.press("g", "c")
    window.see("Settings", "main h1")


def test_the_address_holds_what_is_shown_and_back_goes_back(window):
    window.open("clients")
    window.page.locator("tbody tr", has_text="pump-1").click()
    window.see("pump-1", "h2")
    url = window.page.url
    window.page.get_by_role("link", name="Cluster").click()
    window.see("One node", "main")
    window.page.go_back()
    assert window.page.url == url
    window.see("pump-1", "h2")


def test_the_theme_is_kept(window):
    window.open()
    window.page.locator("[aria-controls=user-menu]").click()
    button(window, "Dark").click()
    window.page.reload()
    window.see("Overview")
    colour = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(14, 17, 22)"


def test_access_is_checked_by_the_rules_that_decide(window):
    window.allow("404")
    window.open("security")
    window.page.get_by_label("User", exact=True).fill("nobody")
    window.page.get_by_label("Topic or filter").fill("plant/a")
    button(window, "Check").click()
    window.page.locator("main [role=status], main [role=alert]").first.wait_for()


def test_a_publish_is_tried_in_one_form_and_explained(window):
    window.open("why?kind=publish&q=plant/p7/temp")
    assert window.page.get_by_label("What to explain").count() == 0
    window.page.get_by_role("button", name="Explain").click()
    window.see("It would be taken and journaled", "main")
    window.see("The last commit succeeded", "main")
