"""The configuration: schema, loading (file, environment, flags), explaining.

* :mod:`~penstock.config.schema` declares every key once: type, default, range, meaning;
* :mod:`~penstock.config.load` reads file, environment and flags against it;
* :mod:`~penstock.config.reference` writes the reference page and the example file from it.
"""

from penstock.config.address import Address, parse_listen
from penstock.config.load import Loaded, load
from penstock.config.problems import ConfigProblemsError, Origin, Problem
from penstock.config.schema import (
    Admin,
    Cluster,
    Config,
    Journal,
    Limits,
    Log,
    Resp,
    Retention,
    RetentionRule,
    Shutdown,
    Signing,
    SigningRule,
    Sys,
)

__all__ = [
    "Address",
    "Admin",
    "Cluster",
    "Config",
    "ConfigProblemsError",
    "Journal",
    "Limits",
    "Loaded",
    "Log",
    "Origin",
    "Problem",
    "Resp",
    "Retention",
    "RetentionRule",
    "Shutdown",
    "Signing",
    "SigningRule",
    "Sys",
    "load",
    "parse_listen",
]
