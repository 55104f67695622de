"""elastic.run: a training that goes on when workers are lost, come or go."""

from __future__ import annotations

import functools
import os
from typing import Callable

from ...common import world as _world
from ...common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from .. import mpi_ops


def run(func: Callable) -> Callable:
    """Decorates func(state, ...), which trains, commits now and then, and goes on from its state when it
    is called again.

    Where a collective fails, because somebody was lost or asked for something else, the state is
    restored to its last commit. Where workers have come or want to go, commit() and
    check_host_updates() interrupt func, and nothing is restored. In both cases all who are there meet
    anew, those who were there before with the lowest ranks and in their order; all get the state of
    rank 0; and func is called again.

    In a job that is not elastic (`starling launch --elastic`, or starlingrun with --min-num-proc or
    --host-discovery-script) nobody can be replaced: there the loss of a worker is raised.
    """

    @functools.wraps(func)
    def wrapped(state, *args, **kwargs):
        resets_left = int(os.environ.get("HOROVOD_ELASTIC_RESET_LIMIT") or 100)
        is_reset = skip_sync = False
        while True:
            if is_reset:
                mpi_ops.begin_anew()
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
