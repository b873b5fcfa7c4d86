"""Requests between nodes: one node asks another in the name of whoever asked it.

A request that this node cannot answer alone goes to another node as it is, with the principal:

* what only the leader can do (``NotLeader``) is done there, and its answer is passed on, because a
  browser cannot follow a redirect to another origin;
* what each node knows for itself (connections, workers) is asked of all, and the answers are put
  together (``Call.others``). A node that does not answer in time is named, never waited for;
* what only the node can do that has a connection is done there (``Elsewhere``).

The other node treats it like any request of its own: the same operation, the same rules, judged by
its own access book. It is asked by a node that has the cluster's secret, so it believes what that
node says of a caller's identity, but looks up itself what such a caller may do. A request of a node
goes no further.

For how long, how large and how many: :mod:`penstock.cluster.asking`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from penstock.admin.guard import ASKER, Caller, caller_of
from penstock.api.documents.lists import Missing
from penstock.api.problems import Problem
from penstock.cluster.asking import ANSWER_S, CHANGE_S, NotHeard
from penstock.raft.types import NodeId
from penstock.trust.principal import Principal
from penstock.trust.rights import ALL_RIGHTS, NO_RIGHTS

_HEADERS_THERE = (b"idempotency-key", b"content-type")
_HEADERS_BACK = (b"content-type", b"retry-after", b"cache-control", b"content-disposition")

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class Nodes(Protocol):
    """The other nodes (:class:`penstock.cluster.asking.Asking`)."""

    def others(self) -> list[NodeId]: ...

    def leader(self) -> NodeId:
        """The leader, if it is another node and known; else 0."""

    async def ask(self, node: NodeId, question: bytes, patience_s: float = ANSWER_S) -> bytes:
        """Raises NotHeard."""


class _Asker(msgspec.Struct, frozen=True, array_like=True):
    """Who asks, as the other node has to know them. See ``Principal``."""

    user: str
    door: str
    address: str
    is_known: bool
    expires_ms: int
    via: str
    client_id: str
    roles: tuple[str, ...]
    proof: bytes
    may_do_all: bool  # an administrator of the node, or anybody where there are no users
    has_api_token: bool


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """A request, without what the network adds."""

    asker: _Asker
    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Response(msgspec.Struct, frozen=True, array_like=True):
    """Its answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Others(NamedTuple, Generic[_Answer]):
    """What the other nodes answered, and those that did not."""

    answers: list[_Answer]
    missing: list[Missing]


def is_of_node(request: Request) -> bool:
    """Whether another node asks, which wants to know about this one alone."""
    return ASKER in request.scope


async def passed_on(nodes: Nodes, request: Request, body: bytes) -> Response:
    """Let the leader answer. Raises Problem if it cannot be reached."""
    leader = nodes.leader()
    if not leader or is_of_node(request):
        advice = "try again in a moment; penstock cluster status tells who leads"
        raise Problem(503, "no_leader", "the leader has changed, or there is none", advice)
    return await passed_to(nodes, leader, request, body)


async def passed_to(nodes: Nodes, node: NodeId, request: Request, body: bytes) -> Response:
    """Let a node answer. Raises Problem if it cannot be reached."""
    try:
        answer = await _asked(nodes, node, request, body, _patience_s(request))
    except NotHeard as unheard:
        raise _unheard(unheard, is_change=_is_change(request)) from unheard
    headers = {name.decode(): value.decode("latin-1") for name, value in answer.headers}
    return Response(answer.body, answer.status, headers)


def _is_change(request: Request) -> bool:
    return request.method not in {"GET", "HEAD"}


def _patience_s(request: Request) -> float:
    return CHANGE_S if _is_change(request) else ANSWER_S


def _unheard(unheard: NotHeard, *, is_change: bool) -> Problem:
    advice = "try again; penstock cluster status has more"
    if is_change:
        advice = "the change may have been made: look before you try again"
    return Problem(503, unheard.reason.value, unheard.message, advice)


async def others(
    nodes: Nodes, request: Request, kind: type[_Answer], body: bytes = b""
) -> Others[_Answer]:
    """Ask all other nodes the same; ``kind`` is what they answer. None for a request of a node."""
    if is_of_node(request):
        return Others([], [])
    members = nodes.others()
    found = await asyncio.gather(*(_one(nodes, node, request, kind, body) for node in members))
    answers = [answer for answer in found if not isinstance(answer, Missing)]
    return Others(answers, [answer for answer in found if isinstance(answer, Missing)])


async def of_leader(nodes: Nodes, request: Request, kind: type[_Answer]) -> _Answer | None:
    """Ask the leader the same; None if there is none elsewhere, or it does not answer."""
    leader = nodes.leader()
    if not leader or is_of_node(request):
        return None
    answer = await _one(nodes, leader, request, kind)
    return None if isinstance(answer, Missing) else answer


async def _one(
    nodes: Nodes, node: NodeId, request: Request, kind: type[_Answer], body: bytes = b""
) -> _Answer | Missing:
    try:
        answer = await _asked(nodes, node, request, body, _patience_s(request))
        if answer.status != 200:
            return Missing(node, "refused")
        return msgspec.json.decode(answer.body, type=kind)
    except NotHeard as unheard:
        return Missing(node, unheard.reason.value)
    except msgspec.DecodeError:
        return Missing(node, "other_version")


async def _asked(
    nodes: Nodes, node: NodeId, request: Request, body: bytes, patience_s: float
) -> _Response:
    asked = _Request(
        _asker_of(caller_of(request)),
        request.method,
        request.url.path,
        request.scope["query_string"],
        _kept(request.scope["headers"], _HEADERS_THERE),
        body,
    )
    answer = await nodes.ask(node, msgspec.msgpack.encode(asked), patience_s)
    return msgspec.msgpack.decode(answer, type=_Response)


def _asker_of(caller: Caller) -> _Asker:
    who = caller.principal
    return _Asker(
        who.user,
        who.door,
        who.address,
        who.is_known,
        who.expires_ms,
        who.via,
        who.client_id,
        who.roles,
        who.proof,
        who.rights is ALL_RIGHTS,
        caller.has_api_token,
    )


def _caller_of(asker: _Asker) -> Caller:
    """The caller; whose rights are looked up by the guard, unless they are an administrator's."""
    principal = Principal(
        asker.user,
        ALL_RIGHTS if asker.may_do_all else NO_RIGHTS,
        asker.door,
        asker.address,
        asker.is_known,
        asker.expires_ms,
        asker.via,
        asker.client_id,
        asker.roles,
        asker.proof,
    )
    return Caller(principal, asker.has_api_token)


def _kept(
    headers: Sequence[tuple[bytes, bytes]], names: Sequence[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name in names]


class PeerDoor:
    """Answers the requests of other nodes with the application that answers all others."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        """``base``: under which path the application is mounted."""
        self._app = app
        self._base = base

    async def respond(self, _node: NodeId, question: bytes) -> bytes:
        asked = msgspec.msgpack.decode(question, type=_Request)
        answer = _Gathered()
        await self._app(self._scope(asked), _body_of(asked.body), answer.send)
        return msgspec.msgpack.encode(answer.response())

    def _scope(self, asked: _Request) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": asked.method,
            "scheme": "http",
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "root_path": self._base,
            "query_string": asked.query,
            "headers": asked.headers,
            "client": None,
            "server": None,
            ASKER: _caller_of(asked.asker),
        }


def _body_of(body: bytes) -> Any:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class _Gathered:
    """The answer of an application, put together."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = list(message.get("headers", ()))
        else:
            self._body += message.get("body", b"")

    def response(self) -> _Response:
        return _Response(self._status, _kept(self._headers, _HEADERS_BACK), bytes(self._body))
