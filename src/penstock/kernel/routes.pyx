# cython: language_level=3
"""Where messages of one topic go. The compiled form of ``core/routes.py: Route``.

Every message asks its route for all of this, so other parts of the kernel read it without a call.
"""

from types import GenericAlias

cdef enum:
    UNKNOWN_POLICY = -1


cdef class Route:
    """Where messages of one topic go. The caller sets ``policy``; it lasts as long as the route."""

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, bytes topic not None, tuple targets not None, marked=None):
        self.topic = topic
        self.targets = targets
        self.marked = marked
        self.policy = UNKNOWN_POLICY
