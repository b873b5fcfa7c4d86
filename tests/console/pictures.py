"""The pictures of the console in ``docs/``: every page, in both themes, of a plant at work.

    python -m tests.console.pictures                     # docs/images/console
    python -m tests.console.pictures --to /tmp/look --all  # also details, and all on a phone

Nothing is staged but the broker: the pages are what Chromium shows of it. A page that violates its
content security policy, asks another host or reports an error ends the run.
"""

import argparse
import tempfile
from base64 import b64encode
from pathlib import Path

from tests.console.browser import NARROW, WIDE, launched
from tests.console.plant import ADMIN, plant, ripe
from tests.e2e.cluster_processes import nodes, until

DOCS = Path(__file__).parents[2] / "docs" / "images" / "console"
TOPIC = "topics?prefix=plant%2Fp7&topic=plant%2Fp7%2Ftemp"
SEND = "groups?topic=mail%2Fout&group=send"
PICTURES = {
    "overview": "",
    "topics": TOPIC,
    "chart": TOPIC + "&tab=chart&field=c",
    "clients": "clients?client=pump-24",
    "groups": SEND + "&tab=dead",
    "spark": "spark",
    "schedules": "schedules",
    "security": "security?tab=audit",
    "settings": "settings",
    "live": "live?filter=plant/%23",
    "why": "why?q=scale-2",
}
DETAILS = {
    "overview-24h": "?range=24h",
    "topics-none": "topics",
    "topics-about": TOPIC + "&tab=about",
    "topics-retained": "topics?tab=retained",
    "clients-list": "clients",
    "clients-connection": "clients?client=pump-01&tab=connection",
    "clients-subscriptions": "clients?client=pump-01&tab=subscriptions",
    "clients-queue": "clients?client=pump-24&tab=queue",
    "groups-list": "groups",
    "groups-flight": SEND + "&tab=flight",
    "groups-waiting": SEND + "&tab=waiting",
    "groups-settings": SEND + "&tab=settings",
    "groups-queues": "groups?view=queues",
    "spark-sinks": "spark?tab=sinks",
    "schedules-one": "schedules?name=daily-report",
    "schedules-bridges": "schedules?tab=bridges",
    "security-check": "security?user=gateway-north&action=publish&on=plant/all/cmd",
    "security-users": "security?tab=users",
    "security-roles": "security?tab=roles",
    "security-keys": "security?tab=keys",
    "security-tokens": "security?tab=tokens",
    "security-bans": "security?tab=bans",
    "security-refusals": "security?tab=refusals",
    "why-none": "why",
    "why-message": "why?q=mail/out@0",
    "why-waiting": "why?q=mail/out@300",
    "why-topic": "why?q=plant/p7/temp",
    "why-publish": "why?kind=publish&q=plant/p7/temp",
    "why-dropped": "why?q=plant/p24/cmd@3",
    "why-away": "why?q=pump-24",
}


class Photographer:
    """Takes pictures of pages, in both themes."""

    def __init__(self, browser, to):
        self.browser, self.to = browser, to

    def take(self, port, pages, sizes, user=()):
        for theme in ("light", "dark"):
            for suffix, size in sizes.items():
                with self.browser.window(port, size=size, theme=theme, **_login(user)) as window:
                    window.allow("404", "400")
                    for name, path in pages.items():
                        self._page(window, path, self.to / f"{name}{suffix}-{theme}.png")

    def _page(self, window, path, to):
        window.open(path)
        window.page.get_by_text("Loading …").first.wait_for(state="detached")
        window.page.wait_for_timeout(1_500 if "live" not in path else 4_000)  # curves and values
        window.page.screenshot(path=to)
        window.check()


def _login(user):
    if not user:
        return {}
    basic = b64encode(":".join(user).encode()).decode()
    return {"extra_http_headers": {"authorization": f"Basic {basic}"}}


def cluster_pictures(directory, photographer, sizes):
    directory.mkdir()
    with nodes(directory, 3) as made:
        options = [f"--node={made.as_option(number)}" for number in made.running]
        code, said = made.command(1, "init", *options)
        assert code == 0, said
        until(lambda: "survives the loss of 1 node" in made.status(made.leader())["diagnosis"])
        photographer.take(made.running[made.leader()].port, {"cluster": "cluster"}, sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="names of pictures; all")
    parser.add_argument("--to", type=Path, default=DOCS)
    parser.add_argument("--all", action="store_true", help="also details, and all on a phone")
    parser.add_argument("--after", type=float, default=60, help="seconds that the plant works")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    phone = {"-phone": NARROW} if options.all else {}
    pages = PICTURES | (DETAILS if options.all else {})
    pages = {name: path for name, path in pages.items() if name in (options.only or pages)}
    with tempfile.TemporaryDirectory() as directory, launched() as browser:
        photographer = Photographer(browser, options.to)
        if "cluster" in (options.only or ["cluster"]):
            cluster_pictures(Path(directory) / "cluster", photographer, {"": WIDE} | phone)
        with plant(Path(directory) / "plant") as broker:
            ripe(broker.port, options.after)
            photographer.take(broker.port, pages, {"": WIDE} | phone, ADMIN)
            photographer.take(broker.port, {"phone": ""}, {"": NARROW}, ADMIN)


if __name__ == "__main__":
    main()
