"""``penstock spark demo``: the whole pipeline in a few minutes, on a laptop.

Signed sensors (``fleet``), some of them faulty, publish over three protocols (``gateways``). Spark
archives, aggregates and watches them; its ``driver`` is killed in the middle. At the end everything
is counted: against the broker, and against what the sensors themselves know (``ledger``). ``run``
has the sequence of events, ``collect`` and ``results`` the figures, ``charts`` what is drawn.
"""
