"""A compose file: a broker, a Prometheus that scrapes it, and a Grafana that shows it.

One file is enough. What Prometheus and Grafana read is inside, as ``configs`` with their content
(Docker Compose 2.23.1 or newer), made by the same code as the separate files. Compose replaces
``$name`` in strings, so every ``$`` of theirs is doubled.
"""

from typing import Final

from penstock.cli.ready_made.alerts import alert_rules
from penstock.cli.ready_made.dashboard import grafana_dashboard
from penstock.cli.ready_made.scrape import scrape_config
from penstock.cli.ready_made.yaml_text import Yaml, to_yaml

__all__ = ["IMAGE", "compose_file"]

IMAGE: Final = "penstock"
PROMETHEUS: Final = "prom/prometheus:v3.5.0"
GRAFANA: Final = "grafana/grafana:12.1.1"
TOKEN: Final = "metrics-token"  # noqa: S105 - a name
TOKEN_FILE: Final = f"/run/secrets/{TOKEN}"
RULES: Final = "/etc/prometheus/penstock-alerts.yml"
DASHBOARDS: Final = "/etc/grafana/dashboards"
PROVISIONING: Final = "/etc/grafana/provisioning"

HEAD = """\
# A broker with Prometheus and Grafana. Made by `penstock generate compose`. Build the image first
# (docs/operating/running.md), and save this file as compose.yaml. Then:
#
#   export GRAFANA_PASSWORD=…     # of Grafana's user admin
#   export PENSTOCK_METRICS_TOKEN=
#   docker compose run --rm broker users add NAME --admin
#   docker compose run --rm broker users add prometheus --role monitor --secret
#   docker compose run --rm broker tokens add prometheus --expires 365d
#   export PENSTOCK_METRICS_TOKEN=pst_…   # the token that the last command printed
#   docker compose up -d
#
# Clients use localhost:1883 and log in. Grafana is at http://localhost:3000, Prometheus at
# http://localhost:9090; both on this machine only. Needs Docker Compose 2.23.1 or newer. In
# production give the images by their digests.
"""


def compose_file(image: str = IMAGE) -> str:
    document: dict[str, Yaml] = {
        "services": {
            "broker": _broker(image),
            "prometheus": _prometheus(),
            "grafana": _grafana(),
        },
        "configs": {name: {"content": _literal(text)} for name, text in _contents().items()},
        "secrets": {TOKEN: {"environment": "PENSTOCK_METRICS_TOKEN"}},
        "volumes": {"broker-data": {}, "prometheus-data": {}, "grafana-data": {}},
    }
    return HEAD + "\n" + to_yaml(document)


_CONFINED: Final[dict[str, Yaml]] = {
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
}


def _broker(image: str) -> Yaml:
    # Not restarted by itself: compose cannot tell a crash from exit status 74, after which the disk
    # must be checked first. The health check is that of the image.
    return {
        "image": image,
        "restart": "no",
        "read_only": True,
        **_CONFINED,
        "stop_grace_period": "45s",
        "ports": ["127.0.0.1:1883:1883"],
        "volumes": ["broker-data:/data"],
    }


def _prometheus() -> Yaml:
    return {
        "image": PROMETHEUS,
        "restart": "unless-stopped",
        **_CONFINED,
        "ports": ["127.0.0.1:9090:9090"],
        "volumes": ["prometheus-data:/prometheus"],
        "secrets": [TOKEN],
        "configs": [
            {"source": "prometheus", "target": "/etc/prometheus/prometheus.yml"},
            {"source": "alerts", "target": RULES},
        ],
    }


def _grafana() -> Yaml:
    return {
        "image": GRAFANA,
        "restart": "unless-stopped",
        **_CONFINED,
        "environment": {
            "GF_SECURITY_ADMIN_PASSWORD": "${GRAFANA_PASSWORD:?choose one, as above}",
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": f"{DASHBOARDS}/penstock.json",
        },
        "ports": ["127.0.0.1:3000:3000"],
        "volumes": ["grafana-data:/var/lib/grafana"],
        "configs": [
            {"source": "datasource", "target": f"{PROVISIONING}/datasources/penstock.yml"},
            {"source": "provider", "target": f"{PROVISIONING}/dashboards/penstock.yml"},
            {"source": "dashboard", "target": f"{DASHBOARDS}/penstock.json"},
        ],
    }


def _contents() -> dict[str, str]:
    """The files inside, by name, as their programs read them."""
    return {
        "prometheus": scrape_config(["broker:1883"], token_file=TOKEN_FILE, rules=[RULES]),
        "alerts": alert_rules(),
        "datasource": to_yaml(_DATASOURCE),
        "provider": to_yaml(_PROVIDER),
        "dashboard": grafana_dashboard(),
    }


_DATASOURCE: Final[dict[str, Yaml]] = {
    "apiVersion": 1,
    "datasources": [
        {
            "name": "Prometheus",
            "uid": "prometheus",
            "type": "prometheus",
            "url": "http://prometheus:9090",
            "isDefault": True,
            "jsonData": {"timeInterval": "15s"},
        }
    ],
}

_PROVIDER: Final[dict[str, Yaml]] = {
    "apiVersion": 1,
    "providers": [{"name": "penstock", "type": "file", "options": {"path": DASHBOARDS}}],
}


def _literal(text: str) -> str:
    """Keep compose from replacing what looks like one of its variables."""
    return text.replace("$", "$$")
