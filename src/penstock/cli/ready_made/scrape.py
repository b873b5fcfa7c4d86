"""The configuration of a Prometheus that scrapes brokers."""

from collections.abc import Sequence

from penstock.cli.ready_made.yaml_text import Yaml, to_yaml

__all__ = ["HEAD", "JOB", "scrape_config"]

JOB = "penstock"
"""The job of all brokers; alerts that notice a missing one name it."""

HEAD = """\
# Scrapes Penstock. Made by `penstock generate prometheus`; check it with
#   promtool check config FILE
"""


def scrape_config(
    targets: Sequence[str],
    *,
    token_file: str = "",
    is_tls: bool = False,
    ca_file: str = "",
    rules: Sequence[str] = (),
    interval: str = "15s",
) -> str:
    """Return a whole ``prometheus.yml``; ``rules`` are files with alerts."""
    job: dict[str, Yaml] = {"job_name": JOB}
    if is_tls or ca_file:
        job["scheme"] = "https"
    if ca_file:
        job["tls_config"] = {"ca_file": ca_file}
    if token_file:
        job["authorization"] = {"credentials_file": token_file}
    job["static_configs"] = [{"targets": list(targets)}]
    document: dict[str, Yaml] = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval}
    }
    if rules:
        document["rule_files"] = list(rules)
    document["scrape_configs"] = [job]
    return HEAD + "\n" + to_yaml(document)
