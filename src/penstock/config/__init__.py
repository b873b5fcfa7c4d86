"""The configuration.

* :mod:`~penstock.config.schema` declares every option: type, default, range, description;
* :mod:`~penstock.config.checks` has the rules between options;
* :mod:`~penstock.config.load` reads file, environment and flags;
* :mod:`~penstock.config.example` generates the example file.
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
