"""What must survive an error: saved by commit(), brought back by restore(), made alike by sync()."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch

from ...common import world as _world
from ...common.exceptions import HostsUpdatedInterrupt
from ..functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from ..mpi_ops import rank
from .sampler import ElasticSampler


class State:
    """What is saved, restored and made alike, and who is told when all have met again."""

    def __init__(self, bcast_object: Callable = broadcast_object, get_rank: Callable = rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable] = []

    def register_reset_callbacks(self, callbacks) -> None:
        """Calls these whenever all have met again."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves, and looks whether workers have come or want to go. All must call it together."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt if workers have come or want to go. All must call it together,
        and it is raised in all."""
        if _world.others_come_or_go():
            raise HostsUpdatedInterrupt()

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Prepares for other workers than before."""


class ObjectState(State):
    """Plain objects: each keyword is an attribute."""

    def __init__(self, bcast_object: Callable = broadcast_object, get_rank: Callable = rank,
                 **kwargs):
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._set_attrs()

    def save(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        if self._saved_state:
            current = {name: getattr(self, name) for name in self._saved_state}
            self._saved_state = self._bcast_object(current)
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            object.__setattr__(self, name, copy.deepcopy(value))


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
        if name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """Keeps a copy of what state_dict() says, and loads it again."""

    def __init__(self, value):
        self.value = value
        self.save()

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


class ModelStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    pass


_handlers = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler._LRScheduler, StateHandler),
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
