"""Run a seed and say what came of it."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.raft.simulation.core import load
from tests.raft.simulation.world import Note, World

PACKAGE = "penstock.raft"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one seed: ``fault`` is None if everything held."""

    seed: int
    steps: int
    package: str
    fault: str | None
    seen: Counter[str]
    """How often interesting things happened."""
    story: tuple[str, ...]
    """The last things that happened, oldest first; empty if all is well."""
    is_bold: bool = False

    @property
    def is_ok(self) -> bool:
        return self.fault is None

    @property
    def command(self) -> str:
        """What to run to see it again."""
        package = "" if self.package == PACKAGE else f" --package {self.package}"
        bold = " --bold" if self.is_bold else ""
        return f"python -m tests.raft.simulation --seed {self.seed} --steps {self.steps}{bold}{package}"


def run(
    seed: int,
    steps: int,
    package: str = PACKAGE,
    tell: Callable[[str], None] | None = None,
    *,
    is_bold: bool = False,
) -> Verdict:
    """Run a world for this many steps, then without faults until everything is settled.

    An exception of the core is a fault like any other: none of what happens here is allowed to
    cause one. ``tell`` hears of everything as it happens, the core's own trace included.
    """
    core = load(package)
    world = None
    fault = None
    try:
        hear = None if tell is None else lambda note: tell(spelled(note))
        world = World(seed, core, hear, is_bold=is_bold)
        for _ in range(steps):
            world.step()
        world.settle()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
        fault = "".join(traceback.format_exception(error)[-2:]).strip()
    seen = Counter() if world is None else world.seen
    story = () if fault is None or world is None else tuple(map(spelled, world.story))
    return Verdict(seed, steps, package, fault, seen, story, is_bold)


def spelled(note: Note) -> str:
    now, node, what, detail = note
    return f"{now:6} {node or '':2} {what} {_brief(detail)}".rstrip()


def _brief(detail: Any) -> str:
    """Spell a message by what it says: fields that say nothing are left out."""
    if not isinstance(detail, msgspec.Struct) or not hasattr(detail, "sender"):
        return detail if isinstance(detail, str) else repr(detail)
    said = {name: getattr(detail, name) for name in detail.__struct_fields__}
    kind = said.pop("kind").name
    way = f"{said.pop('sender')}→{said.pop('to')}"
    entries = [f"{entry.term}/{entry.index}" for entry in said.pop("entries")]
    rest = " ".join(f"{name}={value!r}" for name, value in said.items() if value)
    return f"{kind} {way} {rest} {' '.join(entries)}"
