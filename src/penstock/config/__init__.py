"""The configuration.

* :mod:`~penstock.config.schema` declares every option: type, default, range, description;
* :mod:`~penstock.config.checks` has the rules between options;
* :mod:`~penstock.config.load` reads file, environment and flags;
* :mod:`~penstock.config.example` generates the example file.
"""
