"""The HTTP API ``/api/v1``; :mod:`penstock.api.operations` says how to add an operation."""
