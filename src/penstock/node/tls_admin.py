"""Certificates as administrators see them: when they expire, and replacing them."""

import asyncio
from collections.abc import Callable, Mapping

from penstock.net.certificates import Certificates, day

RELOADED = {"applied": 0, "unchanged": 0, "refused": 0}


class TlsView:
    """The certificate of a broker, if it has one; ``listeners`` are those that use it."""

    def __init__(
        self, certificates: Certificates | None, listeners: Callable[[], list[str]]
    ) -> None:
        self._certificates = certificates
        self._listeners = listeners

    def expiry(self) -> Mapping[str, float]:
        if self._certificates is None:
            return {}
        return dict.fromkeys(self._listeners(), self._certificates.expires_s())

    def reloads(self) -> Mapping[str, int]:
        return RELOADED if self._certificates is None else self._certificates.reloads


class NodeTlsAdmin:
    """Implements ``admin.view.TlsAdmin``."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates

    def describe(self) -> dict[str, object]:
        loaded = self._certificates.loaded
        facts, lists_expire = loaded.certificate, loaded.lists_expire
        return {
            "name": facts.name,
            "names": [*facts.dns, *facts.addresses],
            "fingerprint_sha256": facts.fingerprint,
            "valid_from": day(facts.not_before),
            "valid_until": day(facts.not_after),
            "client_certs": self._certificates.client_certs,
            "revocation_lists_until": day(lists_expire) if lists_expire else None,
        }

    async def reload(self) -> list[str]:
        """Replace what has changed on disk; return what that is. Raises ConfigError."""
        prepared = await asyncio.to_thread(self._certificates.prepare)
        return self._certificates.apply(prepared)
