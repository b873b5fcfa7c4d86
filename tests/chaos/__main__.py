"""Run a campaign: ``python -m tests.chaos --rounds 200 --seed 1``."""

import argparse
import asyncio
import random
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
    return 0 if asyncio.run(campaign.run(options.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
