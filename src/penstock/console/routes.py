"""Serves the console on every listener that takes HTTP.

The files are public, like those of any program that people download: they hold no data. Data comes
from ``/api/v1``, which asks who wants it. Each page has an address of its own below ``/console/``;
the broker answers all of them with the same first page, and the browser shows what belongs there.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from penstock.console.files import FIRST_PAGE, File, Files, load

HOME = "/console/"
_FOR_GOOD = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


def wants_page(request: Request) -> bool:
    """Whether a browser asks for something to show, rather than a program for data."""
    return "text/html" in request.headers.get("accept", "")


def to_console() -> Response:
    return RedirectResponse(HOME, 302, {"cache-control": "no-store", "vary": "accept"})


def routes() -> list[Route]:
    return [
        Route("/console", _to_home),
        Route("/console/", _first_page),
        Route("/console/{page}", _first_page),
        Route("/console/{version}/{path:path}", _versioned),
    ]


async def _to_home(_request: Request) -> Response:
    return to_console()


async def _first_page(request: Request) -> Response:
    files = await _files()
    etag = f'"{files.version}"'
    headers = {"cache-control": _ASK_AGAIN, "etag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return _answer(request, files.by_path[FIRST_PAGE], headers)


async def _versioned(request: Request) -> Response:
    files = await _files()
    file = files.by_path.get(request.path_params["path"])
    if file is None or request.path_params["version"] != files.version:
        text = "no such file: this is another version of the console; load the page again\n"
        return PlainTextResponse(text, 404, {"cache-control": "no-store"})
    return _answer(request, file, {"cache-control": _FOR_GOOD})


async def _files() -> Files:
    if load.cache_info().currsize:
        return load()
    return await asyncio.to_thread(load)


def _answer(request: Request, file: File, headers: dict[str, str]) -> Response:
    headers = {**headers, "content-type": file.media_type, "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.gzipped, headers={**headers, "content-encoding": "gzip"})
    return Response(file.body, headers=headers)
