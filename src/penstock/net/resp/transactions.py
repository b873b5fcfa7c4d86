"""MULTI and EXEC: refused, and what stands between them is not carried out.

Libraries wrap pipelines in a transaction unless told otherwise. Were MULTI merely unknown, the
commands behind it would be carried out one by one and the EXEC refused; a client would take it for
a failure, and do all of it again. So from MULTI on nothing is carried out until EXEC or DISCARD.
"""

from penstock.net.resp.calls import OK, Call, Commands, Spec

__all__ = ["COMMANDS", "WITHIN", "refusal"]

WITHIN = frozenset({b"MULTI", b"EXEC", b"DISCARD", b"QUIT", b"RESET"})
"""What may be said within a transaction."""

_ADVICE = "use a pipeline without one: pipeline(transaction=False), execAsPipeline()"


def refusal(name: bytes) -> str:
    """Why a command within a transaction is not carried out; empty if it may be."""
    if name.upper() in WITHIN:
        return ""
    return f"ERR not carried out: Penstock has no transactions; {_ADVICE}"


def _multi(call: Call) -> None:
    """Begin a transaction: refused, and all of it up to EXEC with it."""
    call.connection.set_in_transaction(within=True)
    call.fail(f"ERR Penstock has no transactions; {_ADVICE}")


def _exec(call: Call) -> None:
    """End a transaction, of which nothing was carried out."""
    if not call.connection.is_in_transaction:
        call.fail("ERR EXEC without MULTI")
        return
    call.connection.set_in_transaction(within=False)
    call.fail("EXECABORT Transaction discarded because Penstock has none: nothing was carried out")


def _discard(call: Call) -> None:
    """Give a transaction up."""
    if not call.connection.is_in_transaction:
        call.fail("ERR DISCARD without MULTI")
        return
    call.connection.set_in_transaction(within=False)
    call.reply(OK)


_FLAGS = ("noscript", "loading", "stale", "fast")

COMMANDS: Commands = {
    b"MULTI": Spec(_multi, 1, flags=_FLAGS),
    b"EXEC": Spec(_exec, 1, flags=_FLAGS),
    b"DISCARD": Spec(_discard, 1, flags=_FLAGS),
}
