"""``penstock spark demo``: the whole pipeline in a few minutes, on a laptop.

Signed sensors, some of them faulty, publish over three protocols. Spark archives, aggregates and
watches them; its driver is killed in the middle. At the end everything is counted: against the
broker, and against what the sensors themselves know.

===============  ===========================================================================
``fleet``        the sensors and what each sends when, derived from a seed
``ledger``       what was acknowledged and refused
``gateways``     MQTT, the binary protocol, RESP
``broker``       the broker, as a child process
``driver``       the process that runs Spark, and is killed
``run``          the sequence of events
``collect``      turns logs and messages into results
``results``      the results, as plain numbers
``charts``       the charts, as data; ``svg_chart``, ``html_report``, ``png_report`` draw them
===============  ===========================================================================
"""
