"""What `starling spark-submit` runs: spark-submit, with this file as its driver.

    starling spark-submit -n 4 --master spark://host:7077 -- train --data mnist --system pairwise
    starling spark-submit -n 4 --master yarn --files my_loop -- launch --system horovod -- my_loop its arguments

Behind -- stand the words of `starling train` or `starling launch`; each task of Spark's runs them for one worker.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Callable, Sequence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .job import End, Order

_COMMAND = "spark.starling.command"  # reaches the driver wherever it runs, as all of Spark's settings do
_WORKERS = "spark.starling.workers"
_TIMEOUT = "spark.starling.startTimeout"  # seconds that workers wait for slots and for each other


def main(words: Sequence[str]) -> None:
    """WORKERS, spark-submit's own options, --, and the words of `starling`; becomes spark-submit."""
    from . import job

    at = list(words).index("--")
    (workers, *options), command = words[:at], words[at + 1 :]
    order_of(command)  # refuses early what cannot be
    job.check_java()
    settings = {_COMMAND: shlex.join(command), _WORKERS: workers}
    words = [_spark_submit(), "--name", "starling", "--conf", "spark.log.level=WARN",
             "--conf", "spark.ui.showConsoleProgress=false", *options]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.execv(words[0], [*words, os.path.abspath(__file__)])


def order_of(command: Sequence[str], **what: object) -> Order:
    from . import job

    if not command or command[0] not in ("train", "launch"):
        raise job.JobFailed("behind -- stands what each worker runs: train ..., or launch ... -- program")
    words, program = list(command), []
    if "--" in words:
        words, program = words[: words.index("--")], words[words.index("--") + 1 :]
    if words[0] == "launch" and not program:
        raise job.JobFailed("launch what? behind a second -- stand the program and its arguments")
    for flag in ("-n", "--workers", "--machines", "--machine", "--rendezvous", "--secret-file", "--lab"):
        if any(word == flag or word.startswith(f"{flag}=") for word in words):
            raise job.JobFailed(f"{flag} is Spark's to say here: leave it out of what stands behind --")
    return job.Order(words=words, program=program, **what)


def drive() -> None:
    """In the driver: the job, and what rank 0 printed."""
    from . import job

    spark = job.session(None)
    context = spark.sparkContext
    workers = int(context.getConf().get(_WORKERS))
    seconds = float(context.getConf().get(_TIMEOUT, "60"))
    order = order_of(shlex.split(context.getConf().get(_COMMAND)), driver=job.driver_host(context),
                     seconds=seconds)
    job.wait_for_slots(context, workers, seconds, order.elastic)

    def task(told: job.Order) -> job.End:
        try:
            return job.work(told, job.take_seat(told, workers))
        except job.CameTooLate as late:
            return job.End(late.rank)

    ends = job.run_stage(context.parallelize(range(workers), workers), order, task)
    ends.sort(key=lambda end: end.rank)
    # Of an elastic job it is enough that somebody has come to its end.
    failed = [end for end in ends if end.status != 0]
    if failed and not (order.elastic and len(failed) < len(ends)):
        raise job.JobFailed(blamed(failed).error)
    sys.stdout.write(next((end.printed for end in ends if end.printed), ""))
    sys.stdout.flush()
    _stop(spark)


def _stop(spark: SparkSession) -> None:
    in_here = spark.sparkContext.master.startswith("local")
    java = spark.sparkContext._jvm
    spark.stop()
    if in_here:
        try:  # a timer of Spark's barrier tasks (3.5) keeps the JVM in which they ran from ending
            java.java.lang.System.exit(0)
        except Exception:  # it has gone before it could answer
            pass


def blamed(failed: Sequence[End]) -> End:
    """Whoever only lost another is not the one to blame."""
    return min(failed, key=lambda end: f"rank {end.rank}: rank " in end.error)


def _spark_submit() -> str:
    home = os.environ.get("SPARK_HOME")
    if home:
        return os.path.join(home, "bin", "spark-submit")
    found = shutil.which("spark-submit")
    if found:
        return found
    import pyspark

    return os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit")


def _in_one_line(action: Callable, *words: Sequence[str]) -> None:
    from starling.spark import job

    try:
        action(*words)
    except (job.JobFailed, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _in_one_line(main, sys.argv[1:])
    else:
        # By its name, as tasks know it: what stands in __main__ they would have to be sent.
        from starling.spark import submit

        _in_one_line(submit.drive)
