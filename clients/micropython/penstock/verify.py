"""Verifying signatures of other devices in Python: slow, some three times a signature.

Refused are points that are not on the curve or not in canonical form, points of small order, and
S beyond the group's order, as the broker does.
"""

from struct import pack

from penstock.ed25519 import L, P, Pauses, base_times, encode, number
from penstock.sha512 import sha512

_D = -121665 * pow(121666, P - 2, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of -1


async def verdict(keyring: dict, message: object) -> str:
    """Say who signed a message: "verified", "unknown" or "bad"."""
    trailer, topic, payload = message.trailer, message.topic.encode(), message.payload
    public = keyring.get(int.from_bytes(trailer[64:68], "big"))
    if public is None:
        return "unknown"
    parts = topic, payload
    if len(trailer) > 68:
        sizes = pack(">HI", len(topic), len(payload))
        parts = b"penstock-signature-2" + trailer[64:] + sizes, topic, payload
    return "verified" if await is_valid(public, parts, trailer[:64]) else "bad"


async def is_valid(public: bytes, parts: tuple, signature: bytes) -> bool:
    """Say whether a signature of the parts together is one of this key."""
    s = number(signature[32:])
    key, point = decode(public), decode(signature[:32])
    if s >= L or not key or not point or _is_small(key) or _is_small(point):
        return False
    pauses = Pauses()
    k = number(await sha512((signature[:32], public) + parts, pauses)) % L
    x, y, z = await base_times(s, pauses)
    minus = P - key[0], key[1], 1, (P - key[0]) * key[1] % P
    sum_ = _add((x * z, y * z, z * z % P, x * y), await _times(k, minus, pauses))
    return encode(sum_[:3]) == signature[:32]


def decode(data: bytes) -> object:
    """Return x and y of a point in canonical form; None if there is none."""
    y = number(data)
    sign = y >> 255
    y &= (1 << 255) - 1
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (_D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * _ROOT % P
        if (v * x * x - u) % P:
            return None
    if not x and sign:
        return None
    return (P - x if x & 1 != sign else x), y


def _is_small(point: tuple) -> bool:
    """Whether eight times the point is the neutral one."""
    x, y = point
    point = x, y, 1, x * y % P
    for _ in range(3):
        point = _add(point, point)
    return not point[0] % P


def _add(one: tuple, other: tuple) -> tuple:
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c = 2 * _D * one[3] * other[3] % P
    d = 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


async def _times(scalar: int, point: tuple, pauses: Pauses) -> tuple:
    """Multiply by four bits of the scalar at a time."""
    multiples = [(0, 1, 1, 0), point]
    while len(multiples) < 16:
        multiples.append(_add(multiples[-1], point))
    result = multiples[0]
    for shift in range(252, -1, -4):
        for _ in range(4):
            result = _add(result, result)
        result = _add(result, multiples[(scalar >> shift) & 15])
        await pauses()
    return result
