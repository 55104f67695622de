"""elastic.run: again from the last commit, as long as all workers are alive."""

from __future__ import annotations

import functools
import os
from typing import Callable

from ...common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from .. import mpi_ops


def run(func: Callable) -> Callable:
    """Decorates func(state, ...): where a collective in it fails, the state is restored to its last
    commit, all meet again, and it is called anew.

    A worker that has died cannot be replaced yet: then the error is raised.
    """

    @functools.wraps(func)
    def wrapped(state, *args, **kwargs):
        resets_left = int(os.environ.get("HOROVOD_ELASTIC_RESET_LIMIT") or 100)
        skip_sync = False
        while True:
            if not skip_sync:
                state.sync()
            try:
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                if error.rank_is_lost:
                    raise
                if resets_left == 0:
                    raise
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            resets_left -= 1
            mpi_ops.shutdown()
            mpi_ops.init()
            state.on_reset()

    return wrapped
