"""elastic.run: a training that goes on when workers are lost, come or go."""

from __future__ import annotations

from typing import Callable

from ...common.elastic import run_fn
from ..mpi_ops import begin_anew


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
    return run_fn(func, begin_anew)
