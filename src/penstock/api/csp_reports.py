"""``csp-reports``: what browsers say was blocked on a page of the console.

There should be none. One is a bug of the console, or somebody tried to bring a script into it. So
they are counted, and the log has one a minute at most: anybody can send them.
"""

from collections import deque

import msgspec

from penstock.api.call import Call
from penstock.api.documents.csp import CspReports, ReportsTaken
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.api.problems import Problem
from penstock.limits import KIB
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.trust.rules import Action

REPORT_BYTES_MAX = 8 * KIB
KEPT = 50
LOG_S = 60.0
FIELD_CHARACTERS_MAX = 200
FIELDS = (
    "document-uri",
    "effective-directive",
    "violated-directive",
    "blocked-uri",
    "source-file",
    "line-number",
    "script-sample",
)

_log = get_logger("console")


class CspReportPages(Resource):
    """Reports of browsers."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._kept: deque[dict[str, str]] = deque(maxlen=KEPT)
        self._logged_at = float("-inf")
        self._unlogged = 0

    @operation("POST", "csp-reports", None, is_public=True, body_bytes_max=REPORT_BYTES_MAX)
    async def report(self, call: Call, body: bytes) -> ReportsTaken:  # noqa: ARG002
        """Accept a browser's report of a violation of the content security policy."""
        try:
            found = msgspec.json.decode(body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, "invalid_body", f"no report: {error}") from None
        report = found.get("csp-report", found)
        named = report if isinstance(report, dict) else {}
        shown = {
            name: printable(str(named[name])[:FIELD_CHARACTERS_MAX])
            for name in FIELDS
            if name in named
        }
        self.parts.counters.csp_reports_total += 1
        self._kept.append(shown)
        self._tell(shown)
        return ReportsTaken(total=self.parts.counters.csp_reports_total)

    @operation("GET", "csp-reports", Action.MONITOR)
    async def show(self, call: Call) -> CspReports:  # noqa: ARG002
        """Show the last reports."""
        total = self.parts.counters.csp_reports_total
        return CspReports(items=list(self._kept), total=total)

    def _tell(self, shown: dict[str, str]) -> None:
        now = self.parts.beat.clock.monotonic()
        if now - self._logged_at < LOG_S:
            self._unlogged += 1
            return
        fields = {name.replace("-", "_"): value for name, value in shown.items()}
        _log.warning("csp_violation", not_logged=self._unlogged, **fields)
        self._logged_at, self._unlogged = now, 0
