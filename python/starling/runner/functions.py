"""Functions as bytes, for other processes.

pickle names a function by its module. Those that have no name there, lambdas and functions within
functions, go by their code, with what they close over. cloudpickle does all of that better, and is used
where it is installed.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import types
from typing import Any


def dumps(thing: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        buffer = io.BytesIO()
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
        return buffer.getvalue()
    return cloudpickle.dumps(thing)


def loads(data: bytes) -> Any:
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any):
        if isinstance(thing, types.FunctionType) and not _is_named(thing):
            cells = tuple(cell.cell_contents for cell in thing.__closure__ or ())
            known = {n: thing.__globals__[n] for n in _names_in(thing.__code__)
                     if n in thing.__globals__ and thing.__globals__[n] is not thing}
            parts = (marshal.dumps(thing.__code__), thing.__module__, thing.__name__,
                     thing.__defaults__, thing.__kwdefaults__, cells, known)
            return _function_of, parts
        if isinstance(thing, types.ModuleType):
            return importlib.import_module, (thing.__name__,)
        return NotImplemented


def _is_named(function: types.FunctionType) -> bool:
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        return False
    try:
        found: Any = importlib.import_module(function.__module__)
        for name in function.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return False
    return found is function


def _names_in(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _function_of(code, module, name, defaults, keyword_defaults, cells, known):
    scope = {"__builtins__": __builtins__, "__name__": module, **known}
    function = types.FunctionType(marshal.loads(code), scope, name, defaults,
                                  tuple(types.CellType(cell) for cell in cells))
    function.__kwdefaults__ = keyword_defaults
    scope.setdefault(name, function)  # it may call itself
    return function
