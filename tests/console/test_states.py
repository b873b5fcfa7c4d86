"""What the pages say when there is nothing, when the broker is away, and when somebody may not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.browser import expect
from tests.e2e.process import BrokerProcess

pytestmark = pytest.mark.slow

EMPTY = {
    "": "penstock pub hello world",
    "topics": "No message was published yet",
    "clients": "Nobody is connected",
    "groups": "No groups yet",
    "groups?view=queues": "No queues yet",
    "spark": "No stream reads here yet",
    "cluster": "One node, on its own",
    "schedules": "penstock schedule create",
    "schedules?tab=bridges": "[[bridges]]",
    "live": "Waiting on #",
    "topics?topic=plant/a": "Never published",
    "topics?tab=retained": "Nothing is retained here",
}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("fresh") / "data") as broker:
        yield broker


def test_empty_pages_say_why_and_how_to_change_that(browser, fresh):
    with browser.window(fresh.port) as window:
        for path, text in EMPTY.items():
            window.open(path)
            window.see(text, "main")


def _again(broker, port):
    """The same broker at the same port."""
    return BrokerProcess(broker.data, "--listen", f"127.0.0.1:{port}", listen=False)


def test_a_lost_stream_is_said_and_comes_back(browser, tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        port = broker.port
        with browser.window(port) as window:
            window.allow("Failed to load", "net::", "ERR_")
            window.open()
            window.see("Healthy")
            broker.kill()
            broker.wait_killed()
            window.see("Not live since")
            expect(window.page.locator(".frame.stale")).to_have_count(1)
            with _again(broker, port):
                expect(window.page.locator(".frame.stale")).to_have_count(0, timeout=60_000)
                window.see("Healthy")


def test_paused_pages_stand_still_until_they_are_resumed(browser, fresh):
    with browser.window(fresh.port) as window:
        window.open()
        window.press(".")
        window.see("Paused", "main")
        window.press(".")
        expect(window.page.locator(".banner")).to_have_count(0)


# ── users ─────────────────────────────────────────────────────────────────────────────────────


def _penstock(broker, *arguments):
    script = Path(sys.executable).with_name("penstock")
    command = [str(script), *arguments, "--data", str(broker.data)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker with an administrator, and somebody who may read and nothing else."""
    directory = tmp_path_factory.mktemp("guarded")
    password = directory / "password"
    password.write_text("correct horse battery")
    with BrokerProcess(directory / "data") as broker:
        _penstock(broker, "roles", "add", "looks")
        _penstock(broker, "roles", "allow", "looks", "read,subscribe", "#")
        _penstock(broker, "roles", "allow", "looks", "monitor")
        _penstock(broker, "users", "add", "ann", "--admin", "--password-file", str(password))
        _penstock(
            broker, "users", "add", "bob", "--role", "looks", "--password-file", str(password)
        )
        _penstock(broker, "roles", "deny", "local", "publish,subscribe,read,work,manage", "#")
        _penstock(broker, "roles", "deny", "local", "monitor")
        yield broker


def _log_in(window, user, password="correct horse battery"):
    dialog = window.page.locator("dialog", has_text="User and password")
    dialog.get_by_label("User", exact=True).fill(user)
    dialog.get_by_label("Password", exact=True).fill(password)
    dialog.get_by_role("button", name="Log in").click()


def _offered_login(window, inside="main"):
    window.see("Not allowed", inside)
    window.page.locator(inside).get_by_role("button", name="Log in").first.click()


def test_a_login_lies_over_the_page_which_goes_on_behind_it(browser, guarded):
    with browser.window(guarded.port) as window:
        window.allow("401", "403")
        window.open("clients")
        _offered_login(window)
        _log_in(window, "ann", "wrong")
        window.page.locator("dialog [role=alert]").wait_for()
        _log_in(window, "ann")
        expect(window.page.locator("dialog")).to_have_count(0)
        window.see("ann", "header.top")
        window.see("Nobody is connected", "main")


def test_what_was_typed_is_there_after_the_login(browser, guarded):
    with browser.window(guarded.port) as window:
        window.allow("401", "403")
        window.open("topics")
        window.press("p")
        window.page.get_by_label("Topic", exact=True).fill("typed/before")
        publish = window.page.locator("dialog").get_by_role("button", name="Publish", exact=True)
        publish.click()
        _offered_login(window, "dialog")
        _log_in(window, "ann")
        window.see("ann", "header.top")
        publish.click()
        window.see("Published to typed/before")


def test_who_may_not_is_told_so_and_the_rest_goes_on(browser, guarded):
    with browser.window(guarded.port) as window:
        window.allow("401", "403")
        window.open("clients")
        _offered_login(window)
        _log_in(window, "bob")
        window.see("bob", "header.top")
        window.see("Nobody is connected", "main")
        window.open("security?tab=users")
        window.see("Not allowed", "main")
