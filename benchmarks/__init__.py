"""Measurements of whole brokers: Penstock, and Mosquitto and Redis where they are installed.

``python -m benchmarks`` runs them; README.md says what each workload is and what a figure can
carry.

::

    workloads     what is asked of a broker, which figure counts, with whom it is compared, targets
    generator     compiles and runs mqload*.c, reads the line that it prints
    brokers       starts and stops one broker per measurement, on a free port, in an empty directory
    queue_client  our own client of work queues as the driver, in mqload's place
    signing       signed publishes made beforehand; how fast the library alone verifies them
    machine       processors, disk, versions, and how much of the machine others took meanwhile
    rounds        one measurement after the other, the brokers in turn
    comparison    best, median, ratio, verdict
    capture       what became of QoS 0 messages in Penstock's journal
    table         the comparisons as text
    growth        a measurement that needs a broker with a past: a journal that fills up
    curve         another one: a work queue of several lengths
    micro_...     single functions; micro_queue is the state machine of work queues alone
    profile       where one workload spends its time
    sampler       the profiler that sees all threads, loaded into the broker's process
"""
