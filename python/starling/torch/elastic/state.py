"""What must survive an error, of torch's kinds."""

from __future__ import annotations

import copy
from typing import Any

import torch

from ...common import elastic
from ..functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from ..mpi_ops import rank
from .sampler import ElasticSampler


class State(elastic.State):
    __doc__ = elastic.State.__doc__

    def __init__(self, bcast_object=broadcast_object, get_rank=rank):
        super().__init__(bcast_object, get_rank)


class ObjectState(elastic.ObjectState):
    __doc__ = elastic.ObjectState.__doc__

    def __init__(self, bcast_object=broadcast_object, get_rank=rank, **kwargs):
        super().__init__(bcast_object, get_rank, **kwargs)


class TorchState(ObjectState):
    """A training's state: models, optimizers, schedulers and samplers by what they are, and the rest as
    plain objects."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        things = {**kwargs, "model": model, "optimizer": optimizer}
        handlers = {name: _handler_of(thing) for name, thing in things.items()}
        object.__setattr__(self, "_handlers", {n: h for n, h in handlers.items() if h is not None})
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(**{n: t for n, t in things.items() if n not in self._handlers})

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
            if hasattr(handler.value, "begin_anew"):  # a DistributedOptimizer
                handler.value.begin_anew()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_handlers", ()):  # a subclass may set some before there are any
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """Keeps a copy of what state_dict() says, and loads it again."""

    def __init__(self, value):
        self.value = value

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()

    def set_value(self, value) -> None:
        self.value = value
        self.save()


class _SavedAtOnce(StateHandler):
    """Those of others save when they are complete."""

    def __init__(self, value):
        super().__init__(value)
        self.save()


class ModelStateHandler(_SavedAtOnce):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(_SavedAtOnce):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class ScheduleStateHandler(_SavedAtOnce):
    pass


class SamplerStateHandler(_SavedAtOnce):
    pass


# From torch 2.0 on all schedules are LRSchedulers; before, that of plateaus is of a class of its own.
_Schedule = getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler)
_handlers = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (_Schedule, ScheduleStateHandler),
    (torch.optim.lr_scheduler.ReduceLROnPlateau, ScheduleStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list:
    """Which kinds of things are handled, and by what."""
    return _handlers


def set_handler_registry(registry: list) -> None:
    global _handlers
    _handlers = registry


def _handler_of(thing):
    for kind, handler in _handlers:
        if isinstance(thing, kind):
            return handler(thing)
    return None
