"""Measurements of whole brokers: Penstock; Mosquitto, NATS and Redis where they are installed.

``python -m benchmarks`` runs them; README.md describes each workload and what a figure can show.

::

    shapes        what a workload consists of: load, figure, peers, target
    workloads     all workloads, and how they are chosen by name
    field_workloads   those of the field: traffic as it is, next to several peers
    generator     compiles and runs mqload*.c, parses its output
    brokers       starts and stops one broker per measurement, on a free port, in an empty directory
    queue_client  our own queue client as the driver, instead of mqload
    signing       signed publishes made in advance; how fast the library alone verifies them
    machine       processors, disk, versions, load of other processes
    rounds        one measurement after the other, alternating between brokers
    comparison    best, median, ratio, verdict
    capture       how many QoS 0 messages reached Penstock's journal
    table         the comparisons as text
    growth        the same load with a growing journal
    curve         the same load with work queues of several lengths
    micro_...     single functions; micro_queue is the state machine of work queues alone
    profile       where one workload spends its time
    sampler       the profiler that sees all threads, loaded into the broker's process
"""
