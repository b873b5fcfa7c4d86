"""The multiples of the base point of Ed25519 that ``penstock/comb.py`` holds, computed plainly."""

from functools import reduce

P = (1 << 255) - 19
D = -121665 * pow(121666, -1, P) % P
BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
BASE_Y = 4 * pow(5, -1, P) % P

Point = tuple[int, int]


def add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    k = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def doubled(point: Point, times: int) -> Point:
    for _ in range(times):
        point = add(point, point)
    return point


def table() -> bytes:
    entries = []
    for half in (0, 32):
        rows = [doubled((BASE_X, BASE_Y), half + 64 * row) for row in range(4)]
        for index in range(16):
            chosen = [point for row, point in enumerate(rows) if index >> row & 1]
            x, y = reduce(add, chosen, (0, 1))
            entries += [y + x, y - x, 2 * D * x * y]
    return b"".join((number % P).to_bytes(32, "little") for number in entries)
