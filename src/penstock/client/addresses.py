"""The addresses of a cluster, as clients are given them."""

from collections.abc import Sequence

from penstock.client.errors import ArgumentError
from penstock.config.address import Address, parse_listen
from penstock.errors import LocalProtocolError


def addresses_of(nodes: str | Sequence[str]) -> Sequence[str]:
    """Return the nodes of a list, or of a text with commas between them."""
    if not isinstance(nodes, str):
        return nodes
    if "," not in nodes:
        raise ArgumentError(f"{nodes!r} is one address, not a list", f'write connect(["{nodes}"])')
    return [part.strip() for part in nodes.split(",")]


def parsed(address: str) -> Address:
    try:
        return parse_listen(address)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
