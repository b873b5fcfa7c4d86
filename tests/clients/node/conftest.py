"""The client for Node, built once; without Node and its compiler its tests are skipped."""

import os
from pathlib import Path

import pytest

from tests.clients.node.build import PACKAGE, build_node_client, node_missing


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the built client."""
    if reason := node_missing():
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    build_node_client()
    return PACKAGE
