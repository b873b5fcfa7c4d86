"""The RESP door: Redis clients on the broker's topics.

``connection`` schedules the commands of one client, ``calls`` is what handlers see of it, and
``replies`` keeps the order of replies. ``commands`` lists all commands; each other module handles
some of them. Handlers that are coroutines run in ``tasks`` and await what is in ``awaiting``.
``confirming`` and ``reads`` make reads wait for a quorum, ``streams`` has the X commands.
"""
