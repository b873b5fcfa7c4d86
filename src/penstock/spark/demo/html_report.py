"""A story as one page: nothing to load, readable by day and by night, on a screen and on a phone.

A pure function: the same story gives the same page, byte for byte. The order is that of a reader's
questions. Did it hold? Then the figures, then what happened, chart by chart, each with one sentence
on what to look for; every device's account comes last, for those who want to add up for themselves.
"""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Final

from penstock.spark.demo.results import DemoResults, Silence, silences
from penstock.spark.demo.svg_chart import Chart

ROWS_MAX: Final = 40
"""Devices shown in the timeline; a larger fleet is in the table."""

_CSS: Final = """
:root { color-scheme: light dark; --bg: #fbfaf7; --ink: #1d2428; --soft: #5b666d; --rule: #dcdcd5;
  --card: #fff; --s0: #0072b2; --s1: #c25e00; --s2: #00845c; --s3: #a04a86; --bad: #b3261e;
  --good: #1b7f3b; --absence: #b3261e1f; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181b; --ink: #e8e6e1; --soft: #a3adb3;
  --rule: #343c42; --card: #1c2226; --s0: #56b4e9; --s1: #f0a33e; --s2: #35c596; --s3: #dd8fc0;
  --bad: #ff8a80; --good: #6fd38d; --absence: #ff8a8026; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.05rem; margin: 0 0 .25rem; }
p { margin: .25rem 0 .75rem; color: var(--soft); max-width: 46rem; }
.verdict { border-left: .4rem solid var(--good); background: var(--card); padding: .75rem 1rem; }
.verdict.bad { border-color: var(--bad); } .verdict b { color: var(--ink); font-size: 1.15rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.figures div { background: var(--card); padding: .5rem .75rem; border: 1px solid var(--rule); }
.figures b { display: block; font-size: 1.35rem; } .figures span { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 1rem; margin: 1rem 0; }
section { background: var(--card); border: 1px solid var(--rule); padding: .75rem; min-width: 0; }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; }
.grid { stroke: var(--rule); } .label { fill: var(--soft); } .name { fill: var(--ink); }
.curve { fill: none; stroke-width: 1.8; } .band { opacity: .22; } .absence { fill: var(--absence); }
.kill { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg .kill-name { fill: var(--bad); font-size: 11px; }
.curve.s0 { stroke: var(--s0); } .curve.s1 { stroke: var(--s1); } .curve.s2 { stroke: var(--s2); }
.curve.s3 { stroke: var(--s3); } .band.s0, .dot.s0 { fill: var(--s0); }
.band.s1, .dot.s1 { fill: var(--s1); } .band.s2, .dot.s2 { fill: var(--s2); }
.band.s3, .dot.s3 { fill: var(--s3); } .dot { opacity: .75; }
.silent { fill: var(--s0); } .for-good { fill: var(--bad); } .gap { fill: var(--s1); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; color: var(--soft); font-size: .9rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.yes { color: var(--good); } .no { color: var(--bad); font-weight: 600; }
"""


def html_report(story: DemoResults) -> str:
    """Draw a story as a page that needs nothing but itself."""
    verdict = "Nothing was lost, nothing came twice." if story.is_good else "Something is wrong."
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Penstock demo: {verdict}</title><style>{_CSS}</style></head><body>",
            "<h1>A fleet, a broker, Spark, and a kill</h1>",
            _verdict(story, verdict),
            _figures(story),
            f'<div class="charts">{"".join(_charts(story))}</div>',
            _accounts(story),
            f"<p>Penstock {escape(story.version)}, seed {story.seed}.</p></body></html>\n",
        ]
    )


# ── Words and tables ──────────────────────────────────────────────────────────────────────────


def _verdict(story: DemoResults, verdict: str) -> str:
    rows = [
        (check.claim, check.expected, check.found, _yes_or_no(check.is_good))
        for check in story.checks
    ]
    css = "verdict" if story.is_good else "verdict bad"
    table = _table(("what was checked", "expected", "found", ""), rows, numbers={1, 2})
    return f'<div class="{css}"><b>{verdict}</b>{table}</div>'


class _Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def _yes_or_no(is_good: bool) -> _Markup:
    return _Markup('<span class="yes">✓</span>' if is_good else '<span class="no">✗ wrong</span>')


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if place in numbers else ''}>{_marked(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _marked(cell: str) -> str:
    return cell if isinstance(cell, _Markup) else escape(cell)


def _figures(story: DemoResults) -> str:
    batches = sum(len(batches) for batches in story.batches.values())
    refused = sum(line.refused for line in story.lines)
    shown = [
        (f"{story.acknowledged:,}", "readings acknowledged"),
        (f"{sum(line.archived for line in story.lines):,}", "in the archive"),
        (f"{refused:,}", "forgeries refused"),
        (f"{story.devices:,}", "sensors at three doors"),
        (f"{batches:,}", "micro-batches"),
        (f"{story.seconds:,.0f} s", "of traffic"),
    ]
    if story.away is not None:
        shown.append((f"{story.away[1] - story.away[0]:,.1f} s", "without Spark after the kill"))
    boxes = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in shown)
    return f'<div class="figures">{boxes}</div>'


def _accounts(story: DemoResults) -> str:
    rows = [
        (
            line.device,
            line.door,
            line.fault,
            f"{line.acknowledged:,}",
            f"{line.archived:,}",
            f"{line.refused:,}",
            _yes_or_no(line.is_same),
        )
        for line in story.lines
    ]
    head = ("device", "door", "character", "acknowledged", "archived", "refused", "same bytes")
    return (
        "<section><h2>What the sensors know, and what the archive has</h2><p>Each sensor counts"
        " what the broker acknowledged, and adds up checksums; Spark does the same with the"
        f" archive.</p>{_table(head, rows, numbers={3, 4, 5})}</section>"
    )


# ── Charts ────────────────────────────────────────────────────────────────────────────────────


def _charts(story: DemoResults) -> list[str]:
    return [_traffic(story), _lag(story), _rollups(story), _batches(story), _silences(story)]


def _section(title: str, words: str, chart: Chart, names: Iterable[tuple[str, str]]) -> str:
    legend = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>'
        for colour, name in names
    )
    return (
        f"<section><h2>{title}</h2><p>{words}</p>{chart.svg()}"
        f'<div class="legend">{legend}</div></section>'
    )


def _frame(story: DemoResults, title: str, y_label: str, high: float, low: float = 0) -> Chart:
    chart = Chart(title, x=(0, story.seconds), y=(low, high), y_label=y_label)
    _shade(story, chart)
    return chart


def _shade(story: DemoResults, chart: Chart) -> None:
    if story.away is not None:
        chart.absence(*story.away, "driver killed")


def _colours(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"s{place % 4}", name) for place, name in enumerate(names)]


def _traffic(story: DemoResults) -> str:
    title = "Readings per second, by door"
    high = max((max(counts, default=0) for counts in story.traffic.values()), default=0)
    chart = _frame(story, title, "acknowledged / s", high * 1.15)
    named = _colours(story.traffic)
    for css, door in named:
        counts = story.traffic[door]
        chart.line([(second + 0.5, count) for second, count in enumerate(counts)], css)
    words = "The broker does not notice that Spark is gone: it acknowledges on."
    return _section(title, words, chart, named)


def _lag(story: DemoResults) -> str:
    title = "Lag of the readers"
    high = max((lag for points in story.lag.values() for _, lag in points), default=0)
    chart = _frame(story, title, "messages not read", high * 1.15)
    named = _colours(story.lag)
    for css, reader in named:
        chart.line(story.lag[reader], css)
    words = (
        "As the broker sees it. It grows while nobody reads, and falls when the driver is back: the"
        " readings waited in the journal. Spark tells of a batch when the next one begins."
    )
    return _section(title, words, chart, named)


def _rollups(story: DemoResults) -> str:
    title = "Rollup of some sensors"
    windows = [window for own in story.rollups.values() for window in own]
    low = min((window.low for window in windows), default=0)
    high = max((window.high for window in windows), default=1)
    chart = _frame(story, title, "temperature, °C", high, low)
    named = _colours(story.rollups)
    for css, sensor in named:
        own = story.rollups[sensor]
        lower = [(window.start_s, window.low) for window in own]
        upper = [(window.start_s, window.high) for window in own]
        chart.band(lower, upper, css)
        chart.line([(window.start_s, window.mean) for window in own], css)
    words = "Mean of each window, between its least and greatest value; each window came once."
    return _section(title, words, chart, named)


def _batches(story: DemoResults) -> str:
    title = "Duration of the micro-batches"
    batches = [batch for own in story.batches.values() for batch in own]
    high = max((batch.took_s for batch in batches), default=0)
    chart = _frame(story, title, "seconds", high * 1.1)
    named = _colours(story.batches)
    for css, query in named:
        chart.dots([(batch.at_s, batch.took_s) for batch in story.batches[query]], css)
    words = "A dot for each. The first ones of a driver are slow: Java is warming up."
    return _section(title, words, chart, named)


def _silences(story: DemoResults) -> str:
    title = "Devices that fell silent, and numbers that jumped"
    stretches = silences(story.alerts, story.seconds)
    devices = story.troubled[:ROWS_MAX]
    chart = Chart(title, x=(0, story.seconds), y=(0, 1), y_label="", rows=max(1, len(devices)))
    _shade(story, chart)
    for row, device in enumerate(devices):
        chart.row_name(row, device)
        for silence in stretches:
            if silence.device == device:
                _draw_silence(chart, row, silence)
        for gap in story.gaps:
            if gap.device == device:
                chart.mark(row, gap.at_s, "gap", gap.text or f"gap at {gap.at_s:.1f} s")
    names = [("s0", "silent, came back"), ("bad", "silent to the end"), ("s1", "gap in numbers")]
    words = "From the alert topic. What fell silent while Spark was dead was noticed all the same."
    return _section(title, words, chart, names)


def _draw_silence(chart: Chart, row: int, silence: Silence) -> None:
    css = "silent" if silence.is_over else "for-good"
    end = "back after" if silence.is_over else "still silent after"
    hint = f"{silence.device}: {end} {silence.end_s - silence.begin_s:.1f} s"
    chart.span(row, silence.begin_s, silence.end_s, css, hint)
