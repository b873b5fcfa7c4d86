"""Where else an MQTT 5 client may connect, told by DISCONNECT: other nodes of the cluster.

Addresses are those that nodes advertise to clients (``cluster.advertise``), separated by spaces as
the standard suggests.
"""

from penstock.cluster.consensus import Consensus
from penstock.obs.reasons import DisconnectReason


def server_reference(cluster: Consensus, reason: DisconnectReason) -> str:
    """The addresses to go to when a connection ends for this reason; empty: nowhere else."""
    if not cluster.is_clustered:
        return ""
    if reason is DisconnectReason.LEADERSHIP_LOST:
        return "" if cluster.leader == cluster.node_id else cluster.leader_addr
    if reason is not DisconnectReason.SERVER_SHUTDOWN:
        return ""
    status = cluster.status()
    others = [
        member.client_addr
        for member in status.members
        if member.id != status.node_id and member.is_active is not False and member.client_addr
    ]
    return " ".join(sorted(others, key=lambda address: address != status.leader_addr))
