"""starling.spark.run: a function on Spark's executors, and what each worker returns."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from ..runner import functions
from . import job
from .flags import flags_of


def run(
    train_fn: Callable,
    args: Sequence = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: int = 4,
    system: Optional[str] = "pairwise",
    *,
    env: Optional[Mapping[str, str]] = None,
    spark: Optional[SparkSession] = None,
    start_timeout: float = 60,
    **settings: Any,
) -> list:
    """Calls train_fn(*args, **kwargs) in num_proc workers of one job, each a task of a barrier stage; in
    them `starling.Dist(model)`, `starling.torch` and `starling.torch_backend` find the job.

    Returns what each returned, by rank. Other keywords are flags of `starling launch`, with _ for -:
    period=16, timeout=30, run="/shared/folder". Raises JobFailed, in one line whose fault it was; a
    worker's traceback is below it.
    """
    if num_proc < 1:
        raise ValueError(f"a function cannot be run by {num_proc} workers")
    words = ["launch", *flags_of({**({"system": system} if system else {}), **settings})]
    context = job.session(spark).sparkContext
    order = job.Order(words=words, environment=dict(env or {}), driver=job.driver_host(context),
                      seconds=start_timeout)
    job.wait_for_slots(context, num_proc, start_timeout, order.elastic)
    call = cloudpickle.dumps((train_fn, tuple(args), dict(kwargs or {})))

    def task(told: job.Order) -> bytes:
        try:
            return functions.dumps(work(told, job.take_seat(told, num_proc), call))
        except job.CameTooLate as late:
            return functions.dumps((job.End(late.rank), None))

    ends = job.run_stage(context.parallelize(range(num_proc), num_proc), order, task)
    return results([functions.loads(end) for end in ends], order.elastic)


def work(order: job.Order, seat: job.Seat, call: bytes) -> tuple[job.End, Any]:
    """A worker that calls a function: how it ended, and what the function returned or raised."""
    with tempfile.TemporaryDirectory(prefix="starling-", dir=job.scratch()) as place:
        with open(os.path.join(place, "function"), "wb") as file:
            file.write(functions.dumps((sys.path, call)))
        end = job.work(order.to_run([sys.executable, "-m", "starling.runner.worker", place]), seat)
        for name in os.listdir(place):
            if name.isdigit():  # the rank that it had in the end
                with open(os.path.join(place, name), "rb") as file:
                    return end, functions.loads(file.read())
        return end, None


def results(ends: Sequence[tuple[job.End, Any]], elastic: bool = False) -> list:
    """What the workers returned, by rank, or the failure of the one to blame. In elastic jobs it is enough
    that one ended well; None stands for those that came too late."""
    ends = sorted(ends, key=lambda each: each[0].rank)
    if elastic and any(outcome and outcome[0] == "result" for _, outcome in ends):
        return [functions.loads(outcome[1]) if outcome and outcome[0] == "result" else None
                for _, outcome in ends]
    raised = [(end.rank, *outcome[1]) for end, outcome in ends if outcome and outcome[0] == "error"]
    # Whoever only lost another is not the one to blame.
    raised.sort(key=lambda each: any(word in each[1] for word in ("PeerLost", "HorovodInternalError")))
    for rank, line, trace in raised:
        raise job.JobFailed(f"rank {rank}: {line}\n{trace}")
    for end, outcome in ends:
        if end.status != 0 or outcome is None:
            raise job.JobFailed(end.error or f"rank {end.rank} left no result")
    return [functions.loads(outcome[1]) for _, outcome in ends]
