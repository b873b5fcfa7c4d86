"""Pages that are written by a program: ``python -m tests.generate`` (or ``make docs``).

To add one, give its path and the function that returns its text; a test compares all of them with
what is checked in.
"""

from collections.abc import Callable
from pathlib import Path

from penstock.cli.ready_made.alerts import alert_rules
from penstock.cli.ready_made.compose import compose_file
from penstock.cli.ready_made.dashboard import grafana_dashboard
from penstock.cli.ready_made.scrape import scrape_config
from penstock.cli.ready_made.unit import Unit, systemd_unit
from penstock.config import example
from tests import (
    api_page,
    client_vectors,
    command_line_page,
    configuration_page,
    metrics_page,
    reasons_page,
)
from tests.conformance import page as conformance
from tests.conformance_queue import page as queue_conformance

PAGES: list[tuple[str, Callable[[], str]]] = [
    ("docs/reference/api.md", api_page.markdown),
    ("docs/reference/command-line.md", command_line_page.markdown),
    ("docs/reference/configuration.md", configuration_page.markdown),
    ("docs/reference/metrics.md", metrics_page.markdown),
    ("docs/reference/mqtt-3.1.1.md", conformance.markdown),
    ("docs/reference/mqtt-5.md", conformance.markdown_5),
    ("docs/reference/queue-conformance.md", queue_conformance.markdown),
    ("docs/reference/reasons.md", reasons_page.markdown),
    ("clients/vectors.json", client_vectors.text),
    ("deploy/compose.observability.yaml", compose_file),
    ("deploy/grafana-dashboard.json", grafana_dashboard),
    ("deploy/penstock.service", lambda: systemd_unit(Unit())),
    ("deploy/penstock.toml", example.example_toml),
    ("deploy/penstock@.service", lambda: systemd_unit(Unit(), is_node=True)),
    ("deploy/prometheus-alerts.yml", alert_rules),
    ("deploy/prometheus.yml", lambda: scrape_config(["127.0.0.1:9091"])),
]

ROOT = Path(__file__).parent.parent


def main() -> None:
    for path, text in PAGES:
        page = ROOT / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text(), encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
