"""``bridges``: what is copied from and to other MQTT brokers."""

from penstock.api.call import Call
from penstock.api.documents.bridges import BridgeDirection, BridgeRow, Bridges
from penstock.api.documents.common import moment
from penstock.api.operations import Resource, operation
from penstock.obs.bridge_view import BridgeView, Copying
from penstock.trust.rules import Action

VERSIONS = {0: "", 4: "3.1.1", 5: "5"}


class BridgePages(Resource):
    """Bridges to other MQTT brokers."""

    @operation("GET", "bridges", Action.MONITOR)
    async def list(self, call: Call) -> Bridges:  # noqa: ARG002 - as every operation
        """List the bridges, with their state and what they have copied.

        In a cluster the leader's bridges copy; those of other nodes are on standby.
        """
        bridges = self.parts.bridges
        return Bridges([_row(view) for view in bridges.views()] if bridges else [])


def _row(view: BridgeView) -> BridgeRow:
    return BridgeRow(
        name=view.name,
        url=view.url,
        state=view.state.value,
        since=moment(view.since_ms),
        mqtt=VERSIONS[view.version],
        error=view.error,
        advice=view.advice,
        retry_at=moment(view.retry_ms) if view.retry_ms else None,
        incoming=_direction(view.incoming),
        outgoing=_direction(view.outgoing),
    )


def _direction(copying: Copying) -> BridgeDirection:
    return BridgeDirection(
        filters=copying.filters,
        copied=copying.copied,
        dropped={reason.value: count for reason, count in copying.drops.items() if count},
        in_flight=copying.in_flight,
    )
