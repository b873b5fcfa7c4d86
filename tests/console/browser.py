"""Debian's Chromium, driven by Playwright: the only file that knows the driver.

Every page notes what must never happen on any: a dialog, a request to another host, a violation of
the content security policy, an error. ``Window.check`` fails if there was one.
"""

import contextlib
import shutil
from urllib.parse import urlsplit

import pytest

try:
    from playwright.sync_api import Error, expect, sync_playwright
except ImportError:  # an installation without the tools for tests
    sync_playwright = None

__all__ = ["AXE", "PAGES", "Browser", "Error", "expect", "find_chromium"]

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage"
    " --disable-background-networking --disable-component-update --disable-sync"
)
PATIENCE_MS = 20_000  # only a failing test waits this long
WIDE, NARROW = (1280, 800), (360, 740)
PAGES = [
    "",
    "topics",
    "clients",
    "groups",
    "spark",
    "cluster",
    "schedules",
    "security",
    "settings",
    "live",
    "why",
]
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
NOTE_VIOLATIONS = (
    "window.violations = [];"
    "addEventListener('securitypolicyviolation',"
    " (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));"
)


def find_chromium():
    if sync_playwright is None:
        pytest.skip("Playwright is not installed")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("chromium is not installed")
    return chromium


def AXE():  # noqa: N802 - a constant that is read when it is needed
    from tests.console.conftest import HERE

    script = HERE / "tools" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        pytest.skip("axe-core is not there: npm install --prefix tests/console/tools")
    return script.read_text()


class Window:
    """One page in a browser context of its own."""

    def __init__(self, context, base):
        self.base = base
        self.faults = []
        self.allowed = ()
        context.add_init_script(NOTE_VIOLATIONS)
        self.page = page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", self._dialog)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)

    def _dialog(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message):
        if message.type != "error":
            return
        if self._is_expected(message):
            return
        if not any(word in message.text for word in self.allowed):
            self.faults.append(f"console: {message.text} {message.location.get('url', '')}")

    def _is_expected(self, message):
        """Whether a request only had to wait for its turn: all windows are the same caller."""
        return "429 (Too Many Requests)" in message.text

    def _request(self, request):
        url = urlsplit(request.url)
        if url.scheme not in {"blob", "data"} and url.netloc != urlsplit(self.base).netloc:
            self.faults.append(f"request: {request.url}")

    @contextlib.contextmanager
    def for_one_test(self):
        """Afterwards nothing is loaded, chosen, allowed or noted."""
        try:
            yield self
            self.check()
        finally:
            self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
            self.page.goto("about:blank")
            self.faults, self.allowed = [], ()

    def allow(self, *words):
        """Errors in the console with these words are what the test is about."""
        self.allowed += words

    def open(self, path=""):
        self.page.goto(self.base + path)
        self.page.wait_for_selector("main h1, main h2, main .empty, main [role=alert]")

    def text(self):
        return self.page.inner_text("body")

    def see(self, text, selector="body"):
        """Wait until a text is shown."""
        expect(self.page.locator(selector)).to_contain_text(text, timeout=PATIENCE_MS)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def barriers(self):
        """What keeps people out, as far as axe-core can tell, whose script the page must have."""
        answer = self.page.evaluate("(rules) => axe.run(document, rules)", RULES)
        found = [
            f"{fault['id']} {node['target']} {node['failureSummary']}"
            for fault in answer["violations"]
            for node in fault["nodes"]
        ]
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return found + ([f"{wide} px wider than the window"] if wide > 0 else [])

    def nodes(self):
        return self.page.evaluate("document.querySelectorAll('*').length")

    def check(self):
        violations = self.page.evaluate("window.violations")
        assert not violations, violations
        assert not self.faults, self.faults


class Browser:
    """A browser process; windows have nothing in common."""

    def __init__(self, browser):
        self._browser = browser

    @contextlib.contextmanager
    def window(self, port, *, size=WIDE, theme="light", **options):
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme, **options
        )
        window = Window(context, f"http://127.0.0.1:{port}/console/")
        try:
            yield window
            window.check()
        finally:
            context.close()


@contextlib.contextmanager
def launched():
    chromium = find_chromium()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS.split())
        try:
            yield Browser(browser)
        finally:
            browser.close()
