"""Exchanges of numpy arrays among all workers, without any framework.

    starling.init()                      # joins the workers that `starling launch` has started
    total = starling.allreduce(array)    # the sum over all, in a new array
"""

from __future__ import annotations

import weakref

import numpy

from . import _core, _session
from ._elements import ELEMENTS

_ELEMENTS = {
    numpy.dtype(name): element for name, element in ELEMENTS.items() if name != "bfloat16"
}
_NUMBER = _session.FIRST_NUMBER - 1  # of the group
_groups: weakref.WeakKeyDictionary[_session.Session, _core.Group] = weakref.WeakKeyDictionary()


def init() -> None:
    """Joins the others. All else here does so by itself when it is first called."""
    _group()


def shutdown() -> None:
    """Leaves the others."""
    session = _session.current()
    if session is not None:
        _groups.pop(session, None)
        session.close()


def rank() -> int:
    return _group().rank


def size() -> int:
    return _group().size


def allreduce(array: numpy.ndarray, op: str = "sum") -> numpy.ndarray:
    """The sum over all workers, or their "mean", "min", "max" or "product"."""
    result = numpy.array(array, order="C")
    _group().all_reduce(_memory(result), op).wait()
    return result


def allgather(array: numpy.ndarray) -> numpy.ndarray:
    """All workers' arrays, one behind the other along the first axis, which may differ in length."""
    array = numpy.ascontiguousarray(array)
    if numpy.ndim(array) == 0:
        array = array.reshape(1)
    group = _group()
    rows = numpy.zeros(group.size, numpy.int64)
    rows[group.rank] = array.shape[0]
    rows = allreduce(rows)
    width = int(numpy.prod(array.shape[1:], dtype=numpy.int64))
    result = numpy.empty((int(rows.sum()), *array.shape[1:]), array.dtype)
    begin = int(rows[: group.rank].sum())
    result[begin : begin + array.shape[0]] = array
    group.all_gather(_memory(result), [int(each) * width for each in rows]).wait()
    return result


def broadcast(array: numpy.ndarray, root: int = 0) -> numpy.ndarray:
    """The root's array, which has everybody's shape and type."""
    group = _group()
    if not 0 <= root < group.size:
        raise ValueError(f"there is no rank {root} to broadcast from; there are 0 to {group.size - 1}")
    result = numpy.array(array, order="C")
    group.broadcast(_memory(result), root).wait()
    return result


def barrier() -> None:
    """Nobody leaves before everybody has come."""
    _group().barrier().wait()


def _group() -> _core.Group:
    session = _session.joined()
    if session not in _groups:
        _groups[session] = session.group(list(range(session.core.workers)), _NUMBER)
    return _groups[session]


def _memory(array: numpy.ndarray) -> _core.Memory:
    if array.dtype not in _ELEMENTS:
        raise TypeError(f"arrays of {array.dtype} cannot be exchanged")
    return (array.ctypes.data, array.size, _ELEMENTS[array.dtype])
