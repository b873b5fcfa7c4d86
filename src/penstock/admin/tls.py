"""``/tls``: the certificate that clients are shown, and replacing it from its files.

A reload is all or nothing: with a fault in any file, the old certificate stays in use, and the
answer names file and reason. Connections that exist are not touched.
"""

from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.guard import Guard
from penstock.admin.pages import admin_page
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import TlsAdmin
from penstock.errors import ConfigError


def routes(admin: TlsAdmin, guard: Guard) -> list[Route]:
    async def show(_request: Request) -> dict[str, object]:
        return admin.describe()

    async def reload(_request: Request) -> dict[str, object]:
        try:
            changes = await admin.reload()
        except ConfigError as error:
            advice = f"{error.advice} The old certificate stays in use."
            raise RequestRefused(409, error.message, advice) from error
        return {"changes": changes, **admin.describe()}

    return [
        admin_page("/tls", "GET", guard, show),
        admin_page("/tls/reload", "POST", guard, reload),
    ]
