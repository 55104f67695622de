"""Exchanges under way: their tensors as the core takes them, and handles that stand for them."""

from __future__ import annotations

import itertools
from typing import Callable, Optional

import torch

from .. import _core
from .._tensors import ELEMENTS
from ..common import world as _world
from ..common.exceptions import HorovodInternalError
from ..common.world import ProcessSet, internal_errors
from . import timeline as _timeline


class Handle:
    """What is under way: the exchange, the tensors it reads and writes, and how its result is made."""

    def __init__(self, names: str, exchanges, keeps, finish: Callable):
        self.names = names
        self.exchanges = exchanges
        self.keeps = keeps
        self.finish = finish
        self.addresses: Optional[list[int]] = None  # of exchanges that were had before
        self.work = None

    def begin(self, meeting: _world.Meeting) -> "Handle":
        if self.addresses is None:
            self.work = meeting.exchanges.ask(self.exchanges)
        else:
            self.work = meeting.exchanges.ask_again(self.exchanges, self.addresses)
        return self

    def wait(self, meeting: Optional[_world.Meeting] = None):
        """Waits for what was begun; or, for the exchanges of that meeting, begins and waits."""
        _asked_lately.clear()
        try:
            with internal_errors():
                if self.work is not None:
                    self.work.wait()
                elif self.addresses is None:
                    meeting.exchanges.run(self.exchanges)
                else:
                    meeting.exchanges.run_again(self.exchanges, self.addresses)
        except HorovodInternalError as error:
            _world.given_up.append(self)
            if "did not finish before its deadline" in str(error):
                raise HorovodInternalError(
                    f"{self.names}: rank 0 of the process set, which coordinates, has not answered; "
                    f"it has asked for nothing meanwhile, or is stopped"
                ) from None
            raise
        except BaseException:  # Ctrl-C, say
            _world.given_up.append(self)
            raise
        for exchange in self.exchanges:
            _timeline.note(exchange)
        return self.finish()


_handles: dict[int, Handle] = {}
_numbers = itertools.count()
# What was asked for since this program has last waited or polled. Of these, one may have ended already
# and the next not: so that no program is refused now and then only, all of them count as in flight.
_asked_lately: set[tuple] = set()


def forget_all() -> None:
    """Once the job is left, and nothing is under way any more."""
    _handles.clear()
    _asked_lately.clear()
    _world.given_up.clear()


def _remember(handle: Handle) -> int:
    number = next(_numbers)
    _handles[number] = handle
    return number


def poll(handle: int) -> bool:
    """Whether synchronize() of this handle would return at once."""
    if handle not in _handles:
        raise ValueError(f"there is no handle {handle}")
    _asked_lately.clear()
    return _handles[handle].work.done()


def synchronize(handle: int):
    """The result of what this handle stands for, once it is there; None of one that was had."""
    found = _handles.pop(handle, None)
    return None if found is None else found.wait()


class Memory:
    """A tensor as the core can read it, dense and on the CPU, and one that it can write."""

    def __init__(self, tensor: torch.Tensor, output: Optional[torch.Tensor]):
        if tensor.is_sparse:
            raise ValueError("a sparse tensor takes sparse_allreduce_async, or to_dense() before")
        self.output = output
        self.source = _dense(tensor)
        if output is None:
            self.target = None
        elif output is tensor:
            self.target = self.source
        elif output.device.type == "cpu" and output.is_contiguous():
            self.target = output.detach()
        else:
            self.target = torch.empty(output.shape, dtype=output.dtype)

    def described(self) -> _core.Tensor:
        source = self.source
        element = ELEMENTS.get(source.dtype)
        if element is None:
            raise ValueError(f"Tensor type {source.type()} is not supported.")
        target = 0 if self.target is None else self.target.data_ptr()
        return _core.Tensor(source.data_ptr(), target, element, list(source.shape))

    def give_back(self) -> torch.Tensor:
        if self.target.data_ptr() != self.output.data_ptr():
            with torch.no_grad():
                self.output.detach().copy_(self.target)
        return self.output


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.device.type == "cpu":
        return tensor.contiguous()
    staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=torch.cuda.is_available())
    return staged.copy_(tensor)


def adopted(gathered, like: torch.Tensor, rows: int) -> torch.Tensor:
    """Memory that the core has found, as a tensor."""
    shape = [rows, *like.shape[1:]]
    if len(gathered) == 0:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return torch.frombuffer(gathered, dtype=like.dtype).view(shape).to(like.device)


def meeting_of(process_set: ProcessSet):
    meeting = _world.world().meeting(process_set)
    if not process_set.included():
        raise ValueError(f"rank {_world.world().rank} is not in {process_set}")
    return meeting


def begin(act, title, name, memories, process_set, finish, wait, **details):
    """Asks for one exchange. Returns its handle, or if `wait` its result."""
    meeting = meeting_of(process_set)
    described = [memory.described() for memory in memories]
    name = meeting.name(title, name)
    if title != act:
        name = f"{title}.{name}"
    exchange = _core.NamedExchange(act, name, described, **details)
    handle = Handle(f"{act} '{name}'", [exchange], memories, lambda: finish(exchange))
    if wait:
        return handle.wait(meeting)
    _refuse_a_second(meeting, act, name)
    return _remember(handle.begin(meeting))


def _refuse_a_second(meeting: _world.Meeting, act: str, name: str) -> None:
    asked = (id(meeting), act, name)
    if asked in _asked_lately:
        raise ValueError(f"{act}.{name} is in flight already: wait for it before another one of its name "
                         "is asked for")
    _asked_lately.add(asked)
