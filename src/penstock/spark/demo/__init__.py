"""``penstock spark demo``: everything at once, in a few minutes, on a laptop.

A fleet of signed sensors comes in through three doors, some of them faulty. Spark archives, sums up
and watches; its driver is killed in the middle. In the end it is counted whether anything was lost
or came twice: against the broker, and against what the sensors themselves know.

=============  =================================================================================
``fleet``      who there is and what each says when; no socket, no clock, chance from a seed
``ledger``     what the sensors were told: acknowledged, refused
``doors``      the three ways in: MQTT, the binary protocol, RESP
``broker``     a broker as a child process, its keys, its readers' lag
``driver``     the process that runs Spark; the one that is killed
``show``       the choreography
``telling``    from what everybody wrote down to a story
``story``      what a demo leaves behind: plain numbers
``charts``     curves, bars and spans as SVG
``report``     a story as a page
``picture``    a story as a PNG
=============  =================================================================================
"""
