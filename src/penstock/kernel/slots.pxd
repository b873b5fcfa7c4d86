# cython: language_level=3
"""Attributes of Python objects, read from their slots.

A message that comes alone touches dozens of objects that are not the kernel's: counters, limits,
sessions. Looking up an attribute costs some 150 instructions, each time the same way to the same
place: type, descriptor, slot. Each place in the kernel that reads an attribute remembers where it
was for the type that it saw last, as the interpreter itself does; a comparison of types is all that
is left. Where there is no slot, or several types take turns, the ordinary way goes on.
"""

cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
        int flags
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    const int T_OBJECT_EX
    const int READONLY

cdef extern from "Python.h":
    PyObject *type_of "(PyObject *)Py_TYPE"(object) noexcept
    bint is_member "Py_IS_TYPE"(object, void *) noexcept
    void *member_type "&PyMemberDescr_Type"

cdef enum:
    LEARNED_MAX = 64  # types that take turns: then the ordinary way is faster


cdef struct Slot:
    PyObject *type  # owned; NULL until an object with a slot was seen
    Py_ssize_t offset
    bint is_readonly
    int learned  # how often


cdef inline int learn(Slot *slot, object owner, str name) except -1:
    """Remember where objects of this type have the attribute, if that is a slot."""
    cdef PyMemberDef *member
    if slot.learned >= LEARNED_MAX:
        return 0
    slot.learned += 1
    kind = type(owner)
    if kind.__getattribute__ is not object.__getattribute__:
        return 0  # it has a way of its own
    for base in kind.__mro__:
        found = base.__dict__.get(name)
        if found is None:
            continue
        if is_member(found, member_type):
            member = (<PyMemberDescrObject *>found).d_member
            if member.type == T_OBJECT_EX:
                Py_XDECREF(slot.type)
                slot.type = type_of(owner)
                Py_INCREF(<object>slot.type)
                slot.offset = member.offset
                slot.is_readonly = (
                    member.flags & READONLY or kind.__setattr__ is not object.__setattr__
                )
        break
    return 0


cdef inline object attribute(object owner, Slot *slot, str name):
    """``getattr(owner, name)``."""
    cdef PyObject *value
    if type_of(owner) is slot.type:
        value = (<PyObject **>(<char *><PyObject *>owner + slot.offset))[0]
        if value is not NULL:
            return <object>value
    else:
        learn(slot, owner, name)
    return getattr(owner, name)


cdef inline int set_attribute(object owner, Slot *slot, str name, object value) except -1:
    """``setattr(owner, name, value)``."""
    cdef PyObject **place
    cdef PyObject *before
    if type_of(owner) is slot.type and not slot.is_readonly:
        place = <PyObject **>(<char *><PyObject *>owner + slot.offset)
        before = place[0]
        Py_INCREF(value)
        place[0] = <PyObject *>value
        Py_XDECREF(before)
        return 0
    if type_of(owner) is not slot.type:
        learn(slot, owner, name)
    setattr(owner, name, value)
    return 0
