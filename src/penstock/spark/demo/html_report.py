"""The report as one self-contained HTML page, for light and dark mode, screens and phones.

A pure function: the same results give the same page, byte for byte. The verdict comes first, then
the figures, then the charts, each with a sentence on what to look for. The accounts of all devices
come last.
"""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Final

from penstock.spark.demo.charts import ChartData, charts_of
from penstock.spark.demo.results import DemoResults, silences
from penstock.spark.demo.svg_chart import Chart

ROWS_MAX: Final = 40  # devices in the timeline; the table has all

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


def html_report(results: DemoResults) -> str:
    verdict = "Nothing was lost, nothing came twice." if results.is_good else "Something is wrong."
    charts = [*(_chart(results, data) for data in charts_of(results)), _silences(results)]
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Penstock demo: {verdict}</title><style>{_CSS}</style></head><body>",
            "<h1>A fleet, a broker, Spark, and a kill</h1>",
            _verdict(results, verdict),
            _figures(results),
            f'<div class="charts">{"".join(charts)}</div>',
            _accounts(results),
            f"<p>Penstock {escape(results.version)}, seed {results.seed}.</p></body></html>\n",
        ]
    )


def _verdict(results: DemoResults, verdict: str) -> str:
    rows = [
        (check.claim, check.expected, check.found, _mark(check.is_good)) for check in results.checks
    ]
    css = "verdict" if results.is_good else "verdict bad"
    table = _table(("check", "expected", "found", ""), rows, numbers={1, 2})
    return f'<div class="{css}"><b>{verdict}</b>{table}</div>'


class _Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def _mark(is_good: bool) -> _Markup:
    return _Markup('<span class="yes">✓</span>' if is_good else '<span class="no">✗ wrong</span>')


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        texts = [cell if isinstance(cell, _Markup) else escape(cell) for cell in row]
        return "".join(
            f"<{tag}{' class=n' if column in numbers else ''}>{text}</{tag}>"
            for column, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _figures(results: DemoResults) -> str:
    shown = [
        (f"{results.acknowledged:,}", "readings acknowledged"),
        (f"{sum(line.archived for line in results.lines):,}", "in the archive"),
        (f"{sum(line.refused for line in results.lines):,}", "forgeries refused"),
        (f"{results.devices:,}", "sensors, three protocols"),
        (f"{sum(map(len, results.batches.values())):,}", "micro-batches"),
        (f"{results.seconds:,.0f} s", "of traffic"),
    ]
    if results.away is not None:
        shown.append(
            (f"{results.away[1] - results.away[0]:,.1f} s", "without Spark after the kill")
        )
    boxes = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in shown)
    return f'<div class="figures">{boxes}</div>'


def _accounts(results: DemoResults) -> str:
    rows = [
        (
            *(line.device, line.door, line.fault, f"{line.acknowledged:,}"),
            *(f"{line.archived:,}", f"{line.refused:,}", _mark(line.is_same)),
        )
        for line in results.lines
    ]
    head = ("device", "protocol", "behaviour", "acknowledged", "archived", "refused", "same bytes")
    return (
        "<section><h2>What the sensors know, and what the archive has</h2><p>Each sensor counts"
        " the acknowledgements of the broker, and sums checksums; Spark does the same for the"
        f" archive.</p>{_table(head, rows, numbers={3, 4, 5})}</section>"
    )


def _section(title: str, text: str, chart: Chart, legend: Iterable[tuple[str, str]]) -> str:
    entries = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>'
        for colour, name in legend
    )
    return (
        f"<section><h2>{title}</h2><p>{text}</p>{chart.svg()}"
        f'<div class="legend">{entries}</div></section>'
    )


def _chart(results: DemoResults, data: ChartData) -> str:
    chart = Chart(data.title, x=(0, results.seconds), y=data.y, y_label=data.y_label)
    _shade(results, chart)
    for number, series in enumerate(data.series):
        css = f"s{number % 4}"
        if series.band:
            lower = [(x, low) for (x, _), (low, _) in zip(series.points, series.band, strict=True)]
            upper = [
                (x, high) for (x, _), (_, high) in zip(series.points, series.band, strict=True)
            ]
            chart.band(lower, upper, css)
        (chart.dots if data.has_dots else chart.line)(series.points, css)
    legend = [(f"s{number % 4}", series.name) for number, series in enumerate(data.series)]
    return _section(data.title, data.text, chart, legend)


def _shade(results: DemoResults, chart: Chart) -> None:
    if results.away is not None:
        chart.absence(*results.away, "driver killed")


def _silences(results: DemoResults) -> str:
    title = "Silent devices, and gaps in numbers"
    devices = results.troubled[:ROWS_MAX]
    chart = Chart(title, x=(0, results.seconds), y=(0, 1), y_label="", rows=max(1, len(devices)))
    _shade(results, chart)
    rows = {device: row for row, device in enumerate(devices)}
    for device, row in rows.items():
        chart.row_name(row, device)
    for silence in silences(results.alerts, results.seconds):
        if silence.device in rows:
            css = "silent" if silence.is_over else "for-good"
            end = "back after" if silence.is_over else "still silent after"
            hint = f"{silence.device}: {end} {silence.end_s - silence.begin_s:.1f} s"
            chart.span(rows[silence.device], silence.begin_s, silence.end_s, css, hint)
    for gap in results.gaps:
        if gap.device in rows:
            hint = gap.text or f"gap at {gap.at_s:.1f} s"
            chart.mark(rows[gap.device], gap.at_s, "gap", hint)
    legend = [("s0", "silent, came back"), ("bad", "silent to the end"), ("s1", "gap in numbers")]
    text = "From the alert topic. Silence that began while Spark was dead was noticed as well."
    return _section(title, text, chart, legend)
