"""``/cluster``: how the cluster is, as this node sees it; begun, joined, left and led by another.

Changes of who takes part are the leader's business. A node that follows answers 421 with
``leader_addr``, and whoever asked goes there; ``/cluster/init`` is taken by any node that waits.
All answer with the status after the change, which may still be under way: a node that was added is
a learner until it has caught up.
"""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.routing import Route

from penstock.admin.pages import RequestRefused, administrators_page, kept, number, read_body
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, diagnosis
from penstock.config.address import parse_listen
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX
from penstock.obs.log import get_logger

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.admin.view import ClusterAdmin


_NodeId = Annotated[int, Meta(ge=1, le=NODE_ID_MAX)]
_Address = Annotated[str, Meta(max_length=300)]

_DIGESTS = ("index", "log_first")
"""Parameters of the page of digests."""

INDEX_MAX = (1 << 63) - 1

_log = get_logger("cluster")


class _MemberRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node and where it is reached."""

    id: _NodeId
    peer_addr: _Address
    client_addr: _Address = ""


class _InitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Those that a cluster begins with; none: only the node that is asked."""

    nodes: Annotated[list[_MemberRequest], Meta(max_length=MEMBERS_MAX)] = []


class _TransferRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is to lead."""

    to: _NodeId


def routes(admin: "ClusterAdmin", token: str) -> list[Route]:
    """The pages of one node; ``token`` is the administrators', empty if there is none."""
    pages = _ClusterPages(admin)
    return [
        administrators_page("/cluster", "GET", token, pages.show),
        administrators_page("/cluster/digests", "GET", token, pages.digests, _DIGESTS),
        administrators_page("/cluster/init", "POST", token, pages.init),
        administrators_page("/cluster/members", "POST", token, pages.add),
        administrators_page("/cluster/members", "DELETE", token, pages.remove, ("id",)),
        administrators_page("/cluster/transfer", "POST", token, pages.transfer),
    ]


class _ClusterPages:
    def __init__(self, admin: "ClusterAdmin") -> None:
        self._admin = admin

    async def show(self, _request: "Request") -> Any:
        return self._shown()

    async def digests(self, request: "Request") -> Any:
        index = number(request, "index", 0, INDEX_MAX)
        log_first = number(request, "log_first", 1, INDEX_MAX)
        return msgspec.to_builtins(await kept(self._admin.digests(index, log_first), 409))

    async def init(self, request: "Request") -> Any:
        wanted = await read_body(request, _InitRequest)
        members = [_member(node) for node in wanted.nodes]
        await kept(self._admin.bootstrap(members), 409)
        _log.info("cluster_initialised", nodes=[member.id for member in members])
        return self._shown()

    async def add(self, request: "Request") -> Any:
        member = _member(await read_body(request, _MemberRequest))
        await kept(self._admin.add(member), 409)
        _log.info("node_added", node=member.id, peer=member.peer_addr)
        return self._shown()

    async def remove(self, request: "Request") -> Any:
        node_id = _node_id(request)
        await kept(self._admin.remove(node_id), 409)
        _log.info("node_removed", node=node_id)
        return self._shown()

    async def transfer(self, request: "Request") -> Any:
        wanted = await read_body(request, _TransferRequest)
        await kept(self._admin.transfer(wanted.to), 409)
        _log.info("leadership_transferred", to=wanted.to)
        return self._shown()

    def _shown(self) -> dict[str, Any]:
        own = self._admin.own()
        return document(self._admin.status()) | {
            "peer_addr": own.peer_addr,
            "client_addr": own.client_addr,
        }


def document(status: ClusterStatus) -> dict[str, Any]:
    """A status as the page shows it, with what it means in a sentence."""
    shown: dict[str, Any] = msgspec.to_builtins(status)
    del shown["counts"]  # those are metrics
    return {"diagnosis": diagnosis(status), "is_leader": status.is_leader, **shown}


def _member(node: _MemberRequest) -> Member:
    for address in (node.peer_addr, node.client_addr):
        if address:
            _check_address(address)
    if not node.peer_addr:
        raise RequestRefused(
            400, f"node {node.id} has no peer_addr", "say where other nodes reach it"
        )
    return Member(node.id, node.peer_addr, node.client_addr)


def _check_address(text: str) -> None:
    try:
        parse_listen(text)
    except ValueError as error:
        raise RequestRefused(400, str(error), 'write host:port, as in "10.0.0.1:7700"') from None


def _node_id(request: "Request") -> int:
    text = request.query_params.get("id", "")
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= NODE_ID_MAX):
        raise RequestRefused(400, "no such node", "name it by its number, as in ?id=3")
    return int(text)
