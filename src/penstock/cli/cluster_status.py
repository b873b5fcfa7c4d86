"""What one node sees of its cluster, as several commands ask it."""

from typing import Final

import msgspec

from penstock.cli.admin_client import AdminClient
from penstock.cluster.status import ClusterStatus

PATH: Final = "cluster"


def status_of(broker: AdminClient) -> ClusterStatus:
    """What the asked node sees by itself, whoever leads."""
    return msgspec.convert(broker.get(f"{PATH}/status")["status"], ClusterStatus)
