"""How long and how much commands may gather before a commit, from the configuration."""

from typing import NamedTuple

from penstock.config.schema import Config
from penstock.limits import BATCH_BYTES_LEAST, BATCH_JOURNAL_PARTS, JOURNAL_BYTES_MAX


class PipelineSettings(NamedTuple):
    """How long and how much commands may gather before a commit."""

    applies_first: bool = False  # durability "interval"
    durability_interval_s: float = 0.1
    capture_interval_s: float = 0.02
    capture_pending_bytes_max: int = 64 << 20
    batch_bytes_target: int = 4 << 20
    share_bytes: int = JOURNAL_BYTES_MAX // BATCH_JOURNAL_PARTS  # of the journal, for one batch

    @classmethod
    def of(cls, config: Config) -> "PipelineSettings":
        journal = config.journal
        share = max(journal.total_bytes_max // BATCH_JOURNAL_PARTS, BATCH_BYTES_LEAST)
        return cls(
            applies_first=config.durability == "interval",
            durability_interval_s=config.durability_interval_ms / 1000,
            capture_interval_s=journal.capture_interval_ms / 1000,
            capture_pending_bytes_max=min(journal.capture_pending_bytes_max, share),
            batch_bytes_target=min(journal.batch_bytes_target, share),
            share_bytes=share,
        )
