"""``/cluster``: the status of the cluster as this node sees it, and changes of its membership.

Nodes that do not lead answer 421 with ``leader_addr``. The response has the status after a change,
which may still be in progress: a node that was added is a learner until it has caught up.
"""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.guard import Guard
from penstock.admin.pages import admin_page, applied, int_parameter, read_body
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import ClusterAdmin
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, diagnosis
from penstock.config.address import parse_listen
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX
from penstock.obs.log import get_logger
from penstock.trust.rules import Action

INDEX_MAX = (1 << 63) - 1

_NodeId = Annotated[int, Meta(ge=1, le=NODE_ID_MAX)]
_Address = Annotated[str, Meta(max_length=300)]

_log = get_logger("cluster")


class _MemberRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node and its addresses."""

    id: _NodeId
    peer_addr: _Address
    client_addr: _Address = ""


class _InitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The initial members; none: only the node that receives the request."""

    nodes: Annotated[list[_MemberRequest], Meta(max_length=MEMBERS_MAX)] = []


class _TransferRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The next leader."""

    to: _NodeId


def routes(admin: ClusterAdmin, guard: Guard) -> list[Route]:
    pages = _ClusterPages(admin)
    digest_parameters = ("index", "log_first")
    return [
        admin_page("/cluster", "GET", guard, pages.show, action=Action.MONITOR),
        admin_page("/cluster/digests", "GET", guard, pages.digests, digest_parameters),
        admin_page("/cluster/init", "POST", guard, pages.init),
        admin_page("/cluster/members", "POST", guard, pages.add),
        admin_page("/cluster/members", "DELETE", guard, pages.remove, ("id",)),
        admin_page("/cluster/transfer", "POST", guard, pages.transfer),
    ]


class _ClusterPages:
    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin

    async def show(self, _request: Request) -> object:
        return self._status()

    async def digests(self, request: Request) -> object:
        index = int_parameter(request, "index", 0, INDEX_MAX)
        log_first = int_parameter(request, "log_first", 1, INDEX_MAX)
        return msgspec.to_builtins(await applied(self._admin.digests(index, log_first), 409))

    async def init(self, request: Request) -> object:
        wanted = await read_body(request, _InitRequest)
        members = [_member(node) for node in wanted.nodes]
        await applied(self._admin.bootstrap(members), 409)
        _log.info("cluster_initialised", nodes=[member.id for member in members])
        return self._status()

    async def add(self, request: Request) -> object:
        member = _member(await read_body(request, _MemberRequest))
        await applied(self._admin.add(member), 409)
        _log.info("node_added", node=member.id, peer=member.peer_addr)
        return self._status()

    async def remove(self, request: Request) -> object:
        node_id = _node_id(request)
        await applied(self._admin.remove(node_id), 409)
        _log.info("node_removed", node=node_id)
        return self._status()

    async def transfer(self, request: Request) -> object:
        wanted = await read_body(request, _TransferRequest)
        await applied(self._admin.transfer(wanted.to), 409)
        _log.info("leadership_transferred", to=wanted.to)
        return self._status()

    def _status(self) -> dict[str, object]:
        own = self._admin.own()
        addresses = {"peer_addr": own.peer_addr, "client_addr": own.client_addr}
        return document(self._admin.status()) | addresses


def document(status: ClusterStatus) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(status)
    del fields["counts"]  # those are metrics
    return {"diagnosis": diagnosis(status), "is_leader": status.is_leader, **fields}


def _member(node: _MemberRequest) -> Member:
    return member_of(node.id, node.peer_addr, node.client_addr)


def member_of(number: int, peer_addr: str, client_addr: str) -> Member:
    """Raises RequestRefused if the addresses are none."""
    if not peer_addr:
        advice = "add the address at which other nodes reach it"
        raise RequestRefused(400, f"node {number} has no peer_addr", advice)
    for address in filter(None, (peer_addr, client_addr)):
        try:
            parse_listen(address)
        except ValueError as error:
            advice = 'write host:port, as in "10.0.0.1:7700"'
            raise RequestRefused(400, str(error), advice) from None
    return Member(number, peer_addr, client_addr)


def _node_id(request: Request) -> int:
    text = request.query_params.get("id", "")
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= NODE_ID_MAX):
        raise RequestRefused(400, "no such node", "give its number, as in ?id=3")
    return int(text)
