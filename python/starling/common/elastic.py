"""Training that goes on when workers are lost, come or go: what does not depend on a framework."""

from __future__ import annotations

import copy
import functools
import os
from typing import Callable

from . import world as _world
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt

_REMOVED = 1  # among Horovod's words for what has become of hosts


class _HostMessages:
    """What programs ask of Horovod's queue of them: whether there is any."""

    def __init__(self, updates: list[int]):
        self._updates = updates

    def empty(self) -> bool:
        return not (self._updates or _world.wants_change())


class State:
    """What is saved, restored and made alike, and who is told when all have met again."""

    def __init__(self, bcast_object: Callable, get_rank: Callable):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable] = []
        self._updates: list[int] = []  # that this rank was told of

    @property
    def _host_messages(self) -> _HostMessages:
        return _HostMessages(self._updates)

    def register_reset_callbacks(self, callbacks) -> None:
        """Calls these whenever all have met again."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self._updates.clear()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves, and looks whether workers have come or want to go. All must call it together."""
        self.save()
        self.check_host_updates()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Has the next check_host_updates() interrupt; of workers that have only gone (1) nobody syncs."""
        self._updates.append(update_res)

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt if workers have come or want to go. All must call it together,
        and it is raised in all."""
        told, self._updates = self._updates, []
        if _world.others_come_or_go(bool(told)):
            raise HostsUpdatedInterrupt(bool(told) and all(update == _REMOVED for update in told))

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

    def __init__(self, bcast_object: Callable, get_rank: Callable, **kwargs):
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


def run_fn(func: Callable, reset: Callable) -> Callable:
    """func(state, ...), begun again after each reset, from its state; see starling.torch.elastic.run."""

    @functools.wraps(func)
    def wrapped(state, *args, **kwargs):
        resets_left = int(os.environ.get("HOROVOD_ELASTIC_RESET_LIMIT") or 100)
        is_reset = skip_sync = False
        while True:
            if is_reset:
                reset()
            try:
                if is_reset:
                    state.on_reset()
                if _somebody_must_sync(not skip_sync):
                    state.sync()
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                if not _world.is_elastic() and (error.rank_is_lost or resets_left == 0):
                    raise
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            is_reset = True
            resets_left -= 1

    return wrapped


def _somebody_must_sync(we_must: bool) -> bool:
    # Who has just come must, whatever the others think.
    if not _world.is_elastic():
        return we_must
    return any(_world.world().gather(we_must, "starling.somebody_must_sync"))
