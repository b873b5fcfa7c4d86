"""Every page on a real broker: what it shows, for everybody, in both themes, on a desk and a phone."""

import pytest

from tests.console.browser import AXE, NARROW, PAGES, WIDE

pytestmark = pytest.mark.slow

SHOWN = {
    "": "An acknowledgement means",
    "topics": "plant",
    "topics?topic=plant/p7/temp": "rpm",
    "topics?topic=plant/p7/temp&message=5": "Re-publish",
    "topics?topic=plant/p7/temp&tab=chart&field=c": "As a table",
    "topics?topic=plant/p7/temp&tab=about": "Capture of QoS 0",
    "topics?tab=retained": "alarm/north",
    "clients": "pump-1",
    "clients?client=pump-3&tab=connection": "Away since",
    "clients?client=pump-3&tab=subscriptions": "plant/cmd/3",
    "groups": "mail/out",
    "groups?topic=mail/out&group=send&tab=flight": "in flight",
    "groups?topic=mail/out&group=send&tab=waiting": "By priority",
    "groups?topic=mail/out&group=send&tab=dead": "smtp 550",
    "groups?topic=mail/out&group=send&tab=settings": "Deliveries at most",
    "groups?view=queues": "mail/out",
    "spark": "No stream reads here yet",
    "spark?tab=sinks": "No table is written here yet",
    "cluster": "One node, on its own",
    "schedules": "Nothing is scheduled",
    "schedules?tab=bridges": "No bridge is configured",
    "security": "Check",
    "security?tab=users": "There are no users",
    "security?tab=roles": "Rules",
    "security?tab=keys": "No keys",
    "security?tab=bans": "Nobody is banned",
    "security?tab=audit": "Audit",
    "settings": "limits.",
    "live": "Filter, as in plant/#",
    "why": "Recorded lately",
    "why?q=pump-3": "pump-3",
    "why?q=mail/out@0": "dead lettered",
    "why?q=plant/p7/temp": "plant/p7/temp",
    "why?kind=publish": "Nothing is published",
    "nowhere": "There is no such page",
}


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_shows_what_is_there(window, path):
    window.open(path)
    if path == "live":
        window.page.get_by_placeholder(SHOWN[path]).wait_for()
    else:
        window.see(SHOWN[path], "main")
    window.check()


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        pytest.param(WIDE, "light", id="wide-light"),
        pytest.param(NARROW, "dark", id="narrow-dark"),
        pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.nightly),
        pytest.param(NARROW, "light", id="narrow-light", marks=pytest.mark.nightly),
    ],
)
def test_everybody_can_use_every_page(browser, seeded, size, theme):
    """WCAG 2.2 AA, as far as axe-core can tell; and no page is wider than the window."""
    axe = AXE()
    details = [path for path in SHOWN if "?" in path]
    paths = [*PAGES, *(details if (size, theme) == (WIDE, "light") else details[:2])]
    found = []
    with browser.window(seeded.port, size=size, theme=theme) as window:
        window.page.add_init_script(axe)
        for path in paths:
            window.open(path)
            if path in SHOWN and path != "live":
                window.see(SHOWN[path], "main")
            found += [f"{path}: {barrier}" for barrier in window.barriers()]
    assert not found, "\n".join(found[:20])


def test_the_state_in_the_top_bar_is_shown_whole(window):
    window.open()
    window.see("Healthy · ack = on disk here", ".state")
    cut = "(state) => state.scrollWidth - state.clientWidth"
    assert window.page.locator(".state").evaluate(cut) <= 0
    title = window.page.locator(".state [title]").get_attribute("title")
    assert title.endswith("Ack = on the disk of this node")


LINES = """(link) => {
  const range = document.createRange();
  range.selectNodeContents(link.lastChild);
  return range.getClientRects().length;
}"""


@pytest.mark.parametrize("path", PAGES)
def test_the_name_of_the_page_keeps_to_its_line(window, path):
    window.open(path)
    assert window.page.locator("nav.nav a[aria-current]").evaluate(LINES) == 1


def test_a_phone_shows_the_state_as_a_sign_with_words_for_those_who_hear_it(browser, seeded):
    with browser.window(seeded.port, size=NARROW) as window:
        window.open()
        window.page.locator(".state svg").wait_for(state="visible")
        assert "Healthy" in window.page.locator(".state .words").inner_text()
        assert window.page.locator(".state").bounding_box()["width"] < 40


def test_a_phone_shows_all_spans_of_a_chart(browser, seeded):
    with browser.window(seeded.port, size=NARROW) as window:
        window.open("topics?topic=plant%2Fp7%2Ftemp&tab=chart&field=c")
        last = window.page.get_by_role("button", name="Last 1,000")
        box = last.bounding_box()
        assert box["x"] + box["width"] <= NARROW[0]
