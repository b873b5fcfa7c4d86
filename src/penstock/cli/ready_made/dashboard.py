"""The dashboard of :mod:`~penstock.cli.ready_made.panels` as JSON that Grafana imports.

The format is that of Grafana 10 to 12 (``schemaVersion`` 39; newer ones convert it). Its data
source is a variable, so that it works in every installation. Ids and positions follow from the
order of the panels, so that the same version makes the same file.
"""

import json
from typing import Final

from penstock.cli.ready_made.panels import ROWS, Panel, Query, Row

__all__ = ["UID", "grafana_dashboard"]

UID: Final = "penstock"
SELECTION: Final = '{job=~"$job", instance=~"$instance"'
COLUMNS: Final = 24
HEIGHTS: Final = {"timeseries": 8, "stat": 4}

Json = dict[str, object]
_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}


def grafana_dashboard() -> str:
    document = {
        "uid": UID,
        "title": "Penstock",
        "description": "A Penstock broker or cluster. Made by penstock generate grafana.",
        "tags": ["penstock"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one cross-hair over all panels
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source_variable(), _variable("job"), _variable("instance")]},
        "annotations": {"list": [_restarts()]},
        "links": [],
        "panels": _Layout().panels,
    }
    return json.dumps(document, indent=1) + "\n"


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(label: str) -> Json:
    scope = "" if label == "job" else '{job=~"$job"}'
    query = f"label_values(penstock_build_info{scope}, {label})"
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": label},
        "refresh": 2,  # whenever the time range changes
        "includeAll": True,
        "multi": True,
        "sort": 1,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _restarts() -> Json:
    return {
        "name": "Restarts",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": _selected("changes(process_start_time_seconds{*}[1m]) > 0"),
        "titleFormat": "{{instance}} restarted",
    }


def _selected(expression: str) -> str:
    return expression.replace("{*", SELECTION)


class _Layout:
    """Places panels from left to right, row by row; ids count up."""

    def __init__(self) -> None:
        self._id = 0
        self._y = 0
        self.panels = list[Json]()
        for row in ROWS:
            self._add(row)

    def _add(self, row: Row) -> None:
        head: Json = {
            "id": self._next_id(),
            "type": "row",
            "title": row.title,
            "collapsed": row.is_collapsed,
            "gridPos": {"x": 0, "y": self._y, "w": COLUMNS, "h": 1},
        }
        self._y += 1
        placed = self._place(row.panels)
        head["panels"] = placed if row.is_collapsed else []
        self.panels += [head] if row.is_collapsed else [head, *placed]

    def _place(self, panels: tuple[Panel, ...]) -> list[Json]:
        placed, x, height = list[Json](), 0, 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                self._y += height
                x = height = 0
            height = max(height, HEIGHTS[panel.kind])
            position = {"x": x, "y": self._y, "w": panel.width, "h": HEIGHTS[panel.kind]}
            placed.append({"id": self._next_id(), "gridPos": position} | _panel(panel))
            x += panel.width
        self._y += height
        return placed

    def _next_id(self) -> int:
        self._id += 1
        return self._id


def _panel(panel: Panel) -> Json:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "targets": [_target(index, query) for index, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _STAT if panel.kind == "stat" else _GRAPH,
    }


def _target(index: int, query: Query) -> Json:
    return {
        "refId": chr(ord("A") + index),
        "datasource": _SOURCE,
        "expr": _selected(query.expression),
        "legendFormat": query.legend,
        "range": True,
    }


def _defaults(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    steps += [{"color": colour, "value": value} for colour, value in panel.steps]
    defaults: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        defaults["min"] = None if panel.title.startswith("Clock") else 0
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
        defaults["color"] = {"mode": "palette-classic"}
    if panel.values:
        shown = {value: {"text": text, "color": colour} for value, text, colour in panel.values}
        defaults["mappings"] = [{"type": "value", "options": shown}]
    return defaults


_GRAPH: Final[Json] = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_STAT: Final[Json] = {
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "colorMode": "value",
    "graphMode": "area",
    "textMode": "auto",
}
