"""What ``penstock clients`` and ``penstock sessions`` show alike: subscriptions and wills."""

from typing import Final

from penstock.cli.admin_client import AdminClient, Document
from penstock.cli.output import counted, table
from penstock.cli.paged import first_page
from penstock.obs.printable import printable

SHOWN_MAX: Final = 1_000
_HEAD: Final = ("FILTER", "QOS", "SHARED AS", "OPTIONS")


def subscriptions_of(broker: AdminClient, client_id: str) -> list[Document]:
    """The subscriptions of an MQTT session; others have none that are listed."""
    if not client_id:
        return []
    return first_page(broker, "subscriptions", SHOWN_MAX, client_id=client_id).items


def subscription_rows(filters: list[Document]) -> str:
    return table(_HEAD, map(_row, filters), "no subscriptions")


def _row(one: Document) -> tuple[str, ...]:
    options = [name.replace("_", "-") for name in ("no_local", "retain_as_published") if one[name]]
    if one["identifier"] is not None:
        options.append(f"identifier {one['identifier']}")
    share = printable(one["share"], 60) if one["share"] is not None else "-"
    return printable(one["filter"], 400), str(one["qos"]), share, ", ".join(options) or "-"


def will_text(will: Document | None) -> str:
    if will is None:
        return "none"
    retained = ", retained" if will["retain"] else ""
    delay = f", {will['delay_s']:,} s after the end" if will["delay_s"] else ""
    size = counted(will["payload_bytes"], "byte")
    return f"{printable(will['topic'], 400)}, {size}, QoS {will['qos']}{retained}{delay}"
