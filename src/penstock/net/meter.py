"""What a connection uses of its user's quotas, as the connection and its door see it.

``access.quotas`` implements it. A connection whose user has no quotas has no meter, and costs
nothing.
"""

from typing import Protocol


class Meter(Protocol):
    """One connection's part in the quotas of its user."""

    messages_owed: int  # used and not paid yet
    bytes_owed: int

    def pay(self, now: float) -> float:
        """Pay what is owed; return for how many seconds the connection must not read."""

    def admit_subscriptions(self, total: int) -> str:
        """Ask for this connection to have ``total`` subscriptions; the text refuses them.

        The total is noted if it is not refused. A smaller one is never refused.
        """

    def admit_session(self, others: int) -> str:
        """Ask for one more session of a user that has ``others``; the text refuses it."""

    def leave(self) -> None: ...  # the connection ends, or becomes another user's
