"""Numbers of RESP connections, and monitors.

``CLIENT ID`` counts from 1 after each start of the broker, as in Redis: connection numbers that are
unique in the cluster exceed what JavaScript can hold. A monitor gets a line for each command before
it runs. Passwords are never shown, long arguments are cut. A slow monitor loses the oldest lines.
"""

from itertools import count

from penstock.doors.resp.outbox import RespOutbox

SHOWN_BYTES_MAX = 256
SHOWN_ARGUMENTS_MAX = 32  # how much of an argument, and how many of them, a monitor is shown
SHOWN_RUN_MAX = 1_024  # commands of one run that monitors see; a line counts the rest
HIDDEN = b'"(redacted)"'
_ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 7: "\\a", 8: "\\b"}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\"}
_SHOWN = [
    _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
    for byte in range(256)
]  # every byte as a monitor is shown it


class Registry:
    """One for all RESP connections of a broker."""

    __slots__ = ("_numbers", "commands_total", "monitors")

    def __init__(self) -> None:
        self._numbers = count(1)
        self.commands_total = 0  # commands that were run, or refused
        self.monitors: dict[RespOutbox, None] = {}

    def next_number(self) -> int:
        return next(self._numbers)

    def show(self, peer: str, args: list[bytes], tails: list[bytes], now_ms: int) -> None:
        seconds, rest_ms = divmod(now_ms, 1_000)
        head = f"+{seconds}.{rest_ms:03}000 [0 {peer}] ".encode()
        shown = [head + _line([*args[:-1], tail]) for tail in tails[:SHOWN_RUN_MAX]]
        more = len(tails) - len(shown)
        if more:
            shown.append(head + _quoted(b"and %d more like it" % more))
        frames = b"".join([line + b"\r\n" for line in shown])
        for monitor in self.monitors:
            monitor.send_live(len(shown), frames)


def _line(args: list[bytes]) -> bytes:
    name = args[0].upper()
    secret = len(args)
    if name == b"AUTH":
        secret = 1
    elif name == b"ACL":
        secret = 3  # SETUSER, which is refused, has passwords
    elif name == b"HELLO":
        secret = next((n for n, word in enumerate(args) if word.upper() == b"AUTH"), secret) + 1
    shown = [_quoted(argument) if n < secret else HIDDEN for n, argument in enumerate(args)]
    if len(shown) > SHOWN_ARGUMENTS_MAX:
        shown[SHOWN_ARGUMENTS_MAX:] = [b"..."]
    return b" ".join(shown)


def _quoted(word: bytes) -> bytes:
    shown = "".join([_SHOWN[byte] for byte in word[:SHOWN_BYTES_MAX]])
    return f'"{shown}{"..." if len(word) > SHOWN_BYTES_MAX else ""}"'.encode()
