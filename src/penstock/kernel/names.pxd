# cython: language_level=3
"""Names that come again and again, as objects."""

# A name as an object, the same one as last time if it was seen lately.
cdef bytes name_of(const char *text, Py_ssize_t size)
