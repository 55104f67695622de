"""Exchanges as torch's profilers show them: by name and shapes, from their begin to their end."""

from __future__ import annotations

import functools
from typing import Callable, Iterator, Optional

import torch
from torch.autograd import (
    _profiler_enabled,
    _record_function_with_args_enter,
    _record_function_with_args_exit,
)


def shown_as(name: str, tensors: Optional[int] = 0) -> Callable:
    """Of a method that returns a work: profilers show it as starling:name, as they show gloo's, with the
    shapes of what the argument of that number holds, if there is one."""

    def decorate(method: Callable) -> Callable:
        @functools.wraps(method)
        def called(self, *given, **named):
            if not _profiler_enabled():  # takes a tenth of a microsecond
                return method(self, *given, **named)
            shown = () if tensors is None else _tensors_in(given[tensors : tensors + 1])
            record = _record_function_with_args_enter(f"starling:{name}", *shown)
            try:
                work = method(self, *given, **named)
            except BaseException:
                _record_function_with_args_exit(record)
                raise
            work.show(record)
            return work

        return called

    return decorate


def _tensors_in(given) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
        return
    for each in given:
        yield from _tensors_in(each)
