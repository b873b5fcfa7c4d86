"""What ``penstock top`` shows: documents of the API in, lines of text out."""

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.cli.admin_client import Document
from penstock.cli.output import span, table
from penstock.cli.progress import size_text
from penstock.obs.printable import printable

FINDINGS: Final = 6
NAME_CHARACTERS: Final = 40


class Screen(NamedTuple):
    """What is known, and how much room there is."""

    tab: int
    overview: Document
    page: Document  # of the tab
    width: int = 100
    height: int = 200
    is_paused: bool = False
    trouble: str = ""  # why nothing newer is known


class Tab(NamedTuple):
    """One view: where its data comes from, and what is made of it."""

    name: str
    key: str
    path: str
    query: dict[str, object]
    rows: Callable[[Screen], list[str]]

    @property
    def title(self) -> str:
        return self.name.upper()


def draw(screen: Screen) -> list[str]:
    """The lines of a screen, none wider and not more than it has room for."""
    lines = [*_head(screen), "", *TABS[screen.tab].rows(screen)]
    foot = _foot(screen)
    lines = lines[: max(1, screen.height - 1)]
    lines += [""] * (screen.height - 1 - len(lines) if screen.height < 200 else 0)
    return [line[: screen.width] for line in [*lines, foot]]


def _head(screen: Screen) -> list[str]:
    found = screen.overview
    health, rates, numbers = found["health"], found["rates"], found["numbers"]
    return [
        f"{health['text']}. Acknowledged: {health['acknowledgement']}.",
        (
            f"in {_rate(rates['messages_in'])}  out {_rate(rates['messages_out'])}"
            f"  commits {_rate(rates['commits'])}  drops {_rate(rates['drops'])}"
            f"  ack p99 {_ms(rates['acknowledge_p99_ms'])}  fsync p99 {_ms(rates['fsync_p99_ms'])}"
        ),
        (
            f"connections {numbers['connections']:,}  away {numbers['away']:,}"
            f"  queued {numbers['queued']:,}  retained {numbers['retained']:,}"
            f"  group lag {numbers['lag']:,}  dead letters {numbers['dead_letters']:,}"
        ),
    ]


def _foot(screen: Screen) -> str:
    if screen.trouble:
        return f"NOT LIVE since {screen.overview['at'][11:19]} UTC: {screen.trouble}"
    keys = "  ".join(
        f"[{tab.name}]" if number == screen.tab else f"{tab.key} {tab.name}"
        for number, tab in enumerate(TABS)
    )
    paused = "PAUSED, " if screen.is_paused else ""
    return f"{keys}  space pause  q quit   {paused}{screen.overview['at'][11:19]} UTC"


def _overview(screen: Screen) -> list[str]:
    found = screen.overview
    storage = found["storage"]
    full = storage["full_in_s"]
    lines = [
        f"! {printable(one['text'], 200)}: {printable(one['advice'], 200)}"
        for one in found["findings"][:FINDINGS]
    ] or ["nothing needs attention"]
    lines += [
        "",
        f"journal {size_text(storage['bytes'])}, {storage['messages']:,} messages;"
        f" {size_text(storage['disk_free_bytes'])} free"
        + (f", full in {span(full)} ({storage['full_means']})" if full is not None else ""),
        f"cluster {found['cluster']['text']}",
        "",
    ]
    return [*lines, *_busy(found["busiest"])]


def _busy(busiest: list[Document]) -> list[str]:
    rows = [
        (
            printable(one["name"], NAME_CHARACTERS),
            f"{one['share'] * 100:.0f} %",
            _rate(one["rate_per_s"]),
            size_text(one["bytes"]),
        )
        for one in busiest
    ]
    head = ("BUSY TOPIC", "SHARE", "RATE", "SIZE")
    return table(head, rows, "no messages yet: penstock pub hello world").splitlines()


def _topics(screen: Screen) -> list[str]:
    return _busy(screen.page["items"])


def _clients(screen: Screen) -> list[str]:
    rows = [
        (
            printable(one["client_id"], NAME_CHARACTERS) or "-",
            one["protocol"],
            "away" if one["away"] else (one["address"] or "-"),
            span(one["idle_s"]) if one["idle_s"] is not None else "-",
            f"{one['in_flight']:,}",
            f"{one['queued']:,}",
            "-" if one["dropped"] is None else f"{one['dropped']:,}",
        )
        for one in screen.page["items"]
    ]
    head = ("CLIENT", "PROTOCOL", "FROM", "IDLE", "IN FLIGHT", "QUEUED", "DROPPED")
    return table(head, rows, "no clients").splitlines()


def _groups(screen: Screen) -> list[str]:
    rows = [
        (
            "!" if one["attention"] else "",
            printable(one["topic"], NAME_CHARACTERS),
            printable(one["group"], NAME_CHARACTERS),
            f"{one['lag']:,}",
            f"{one['in_flight']:,}",
            "-" if one["oldest_s"] is None else span(one["oldest_s"]),
            f"{one['dead_letters']:,}",
            f"{one['workers']:,}",
        )
        for one in screen.page["items"]
    ]
    head = ("", "TOPIC", "GROUP", "LAG", "IN FLIGHT", "OLDEST", "DEAD", "WORKERS")
    return table(head, rows, "no groups: one is made when a worker asks").splitlines()


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}/s" if value >= 10 or not value else f"{value:.1f}/s"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


TABS: Final = (
    Tab("overview", "o", "overview", {}, _overview),
    Tab("topics", "t", "topics/busiest", {}, _topics),
    Tab("clients", "c", "clients", {"limit": 200}, _clients),
    Tab("groups", "g", "groups", {"limit": 200}, _groups),
)
