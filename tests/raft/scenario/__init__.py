"""Scripts of what happens to a few participants, and what they then print: etcd's language for Raft.

``runner``       reads a script and compares what each command prints
``commands``     the commands of the language
``environment``  the participants, and the messages that are under way between them
``storage``      a participant's stable log, in memory
``describe``     entries, messages and a ``Ready`` as etcd prints them
"""
