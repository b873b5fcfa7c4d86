"""Internet addresses as one compares them: an IPv4 address mapped to IPv6 is that IPv4 address."""

from ipaddress import IPv4Address, IPv6Address, ip_address

IPV6_BLOCK_BITS = 64  # an IPv6 subscriber has a whole /64, so the rest of an address means nothing

IpAddress = IPv4Address | IPv6Address


def parse_ip(host: str) -> IpAddress | None:
    """The address that a socket reported, without its zone; None if it is no address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_loopback(host: str) -> bool:
    address = parse_ip(host)
    return address is not None and address.is_loopback


def block_of(host: str) -> str:
    """Whom limits per address count together: an IPv4 address, or an IPv6 /64."""
    address = parse_ip(host)
    if not isinstance(address, IPv6Address):
        return host if address is None else str(address)
    network = int(address) >> IPV6_BLOCK_BITS << IPV6_BLOCK_BITS
    return f"{IPv6Address(network)}/{IPV6_BLOCK_BITS}"
