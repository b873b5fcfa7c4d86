"""Names by which HTTP clients may call the broker, besides addresses and ``localhost``."""

from penstock.config.address import parse_listen
from penstock.config.schema import Config


def own_names(config: Config) -> tuple[str, ...]:
    """``admin.hosts``, and the name that the broker tells clients of other nodes."""
    advertised = config.cluster.advertise
    return (*config.admin.hosts, *([parse_listen(advertised).host] if advertised else []))
