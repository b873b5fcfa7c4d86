"""Run a campaign: ``python -m tests.chaos --rounds 200 --seed 1``."""

import argparse
import asyncio
import random
import signal
import sys
from pathlib import Path

from tests.chaos.campaign import Campaign
from tests.chaos.faults import FAULTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--seed", type=int, default=None, help="what is done; by chance if not given"
    )
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this; repeatable")
    parser.add_argument("--keep", type=Path, help="directory for logs and data of what fails")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    campaign = Campaign(seed, options.fault or (), options.keep)
    return 0 if asyncio.run(_run(campaign, options.rounds)) else 1


async def _run(campaign: Campaign, rounds: int) -> bool:
    """Run it; on a signal, end the nodes first."""
    task = asyncio.ensure_future(campaign.run(rounds))
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        print("\ngiven up")
        return False


if __name__ == "__main__":
    sys.exit(main())
