"""The chaos campaign: real nodes under load, with faults, and a checker of the clients' answers.

==============  ==================================================================================
``network``     the links between nodes: a relay in front of each that cuts, delays and throttles
``ground``      the nodes: processes, their directories and ports, operations on them
``history``     requests and answers of clients, with times
``actors``      the clients of queues, streams and the binary protocol; ``mqtt`` has those of MQTT
``access``      an administrator who changes users and rules, and the user whom that is about
``load``        all of them together, for one round
``faults``      what happens to the cluster in the middle of a round
``checker``     what must hold, as pure functions of the history and the journals
``linear``      whether a history is that of one log
``campaign``    rounds: load, fault, healing, check; the verdict
==============  ==================================================================================

``python -m tests.chaos --help``, or ``make chaos ROUNDS=200``.
"""
