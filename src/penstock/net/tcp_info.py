"""How many bytes a connection has carried: the kernel counts them, so we need not.

Linux only. With TLS these are the encrypted bytes.
"""

import asyncio
import socket
import struct

_OPTION = getattr(socket, "TCP_INFO", None)
# struct tcp_info: bytes acknowledged and bytes received are its 64-bit fields at 120
_COUNTS = struct.Struct("@120xQQ")


def tcp_bytes(transport: asyncio.BaseTransport) -> tuple[int, int] | None:
    """Bytes received and bytes sent that the peer has acknowledged; None if unknown."""
    found = transport.get_extra_info("socket")
    if found is None or _OPTION is None or found.family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    try:
        info = found.getsockopt(socket.IPPROTO_TCP, _OPTION, _COUNTS.size)
    except OSError:
        return None
    if len(info) < _COUNTS.size:
        return None
    sent, received = _COUNTS.unpack(info)
    return received, sent
