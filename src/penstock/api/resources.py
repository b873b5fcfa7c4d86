"""Every resource of the API, and its description of itself."""

from functools import cache

import msgspec
from starlette.responses import Response

from penstock import __version__
from penstock.api.access import AccessRules
from penstock.api.access_documents import AccessBookPages
from penstock.api.bridges import BridgePages
from penstock.api.call import Call
from penstock.api.clients import ClientPages
from penstock.api.cluster import Nodes
from penstock.api.cluster_source import ClusterSource
from penstock.api.csp_reports import CspReportPages
from penstock.api.dead_letters import FailedMessages
from penstock.api.events_source import EventsSource
from penstock.api.groups import ConsumerGroups
from penstock.api.history import HistoryPages
from penstock.api.keys import DeviceKeys
from penstock.api.messages import MessagePages
from penstock.api.openapi import openapi
from penstock.api.operations import JSON, Operation, Resource, operation, operations_of
from penstock.api.overview import OverviewPages
from penstock.api.queues import WorkQueues
from penstock.api.rates_source import RatesSource
from penstock.api.recorded import Recorded
from penstock.api.retained import RetainedPages
from penstock.api.schedules import SchedulePages
from penstock.api.session import Session
from penstock.api.settings import SettingsPages
from penstock.api.spark import Spark
from penstock.api.stacks import Debugging
from penstock.api.stream import Source, StreamPages
from penstock.api.topics import TopicPages
from penstock.api.users import ApiTokens, UsersOfBroker
from penstock.api.values_source import TailSource, TopicsSource
from penstock.api.why import Explanations


class Description(Resource):
    """The document that describes the API."""

    @operation("GET", "openapi.json", None, is_public=True)
    async def show(self, call: Call) -> Response:  # noqa: ARG002 - as every operation
        """Describe this API, as an OpenAPI 3.1 document."""
        return Response(_document(), media_type=JSON)


SOURCES: tuple[type[Source], ...] = (
    ClusterSource,
    EventsSource,
    RatesSource,
    TopicsSource,
    TailSource,
)


class Stream(StreamPages):
    """With every source."""

    sources = SOURCES


RESOURCES: tuple[type[Resource], ...] = (
    Session,
    OverviewPages,
    HistoryPages,
    Stream,
    SettingsPages,
    CspReportPages,
    BridgePages,
    SchedulePages,
    TopicPages,
    MessagePages,
    RetainedPages,
    ClientPages,
    Explanations,
    Recorded,
    Debugging,
    WorkQueues,
    ConsumerGroups,
    FailedMessages,
    Spark,
    Nodes,
    DeviceKeys,
    UsersOfBroker,
    ApiTokens,
    AccessRules,
    AccessBookPages,
    Description,
)


def all_operations() -> list[Operation]:
    return [operation for resource in RESOURCES for operation in operations_of(resource)]


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi(all_operations(), __version__)) + b"\n"
