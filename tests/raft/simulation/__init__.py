"""A deterministic simulation of a cluster: ``run(seed, steps)`` returns a ``Verdict``.

``profile``   what a seed chooses beforehand: sizes, limits, how hostile the world is
``world``     the queue of events in simulated time
``member``    one node: the core, driven as the broker drives it
``disk``      batches that are durable only once synced, and may be torn by a crash
``network``   messages lost, doubled, late, out of order; links cut
``clients``   numbered proposals, reads
``operator``  members added, promoted, removed; the lead moved; logs compacted
``faults``    crashes, stalls, cuts, failing disks
``oracle``    what must hold, checked after every step
``verdict``   a run and what came of it

``python -m tests.raft.simulation --seed S --steps N`` repeats one seed; ``make sim`` runs many.
"""

from tests.raft.simulation.verdict import Verdict, run

__all__ = ["Verdict", "run"]
