"""A job of Starling's as a stage of Spark's: each task is one worker.

  A. The driver makes up a secret, which the tasks get with their code, and asks Spark for a barrier
     stage: all of its tasks run at the same time, or none.
  B. Each task tells all others where it is (place.py), through Spark.
  C. All put what they heard into the same order. A task's place in it is its rank, and the first one's
     port is where they meet.
  D. Each task runs `starling launch` or `starling train` for one machine with one worker, which sees to
     it that nothing stays behind, and dies with the task.
  E. What came of it goes back to the driver.

What an exception in a worker ends is not tried again. When an executor is lost or a worker is killed, Spark
starts all tasks of the stage anew, spark.stage.maxConsecutiveAttempts times at most.

Where workers come and go (--elastic) the tasks are ordinary ones, which find each other at the driver
(meeting.py): Spark starts only those again that were lost, and they join the others, who go on meanwhile.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import IO, Any, Callable, Mapping, Optional, Sequence

from pyspark import RDD, BarrierTaskContext, SparkContext, SparkFiles, TaskContext
from pyspark.sql import SparkSession

from .. import _launchers
from ..runner.program import starling_program
from .meeting import Meeting, Visit
from .place import Place, by_rank, here, rendezvous

_KEPT_LINES = 400  # of what a task's worker prints, for the driver
_OF_A_MACHINE = ("--data-folder", "--timeout", "--stall", "--tls", "--certificates", "--interface")


class JobFailed(RuntimeError):
    """In one line whose fault it was, and what."""


class WorkerKilled(RuntimeError):
    """Ends a task, so that Spark tries again."""


class CameTooLate(Exception):
    """The others have ended well meanwhile."""

    def __init__(self, rank: int):
        super().__init__(rank)
        self.rank = rank


@dataclass(frozen=True)
class Order:
    """What the driver tells every task."""

    words: Sequence[str]  # of `starling`: launch or train, with its flags
    program: Sequence[str] = ()  # what stands behind the -- of launch
    environment: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    driver: str = ""  # its host
    meeting: int = 0  # the port of the driver's meeting, where tasks come and go
    seconds: float = 60  # that they wait for each other

    @property
    def elastic(self) -> bool:
        return "--elastic" in self.words

    @property
    def network(self) -> str:
        """By which workers are to reach each other (--interface), or nothing."""
        return next(iter(_kept(_apart(self.words), "--interface")[1:]), "")

    def to_run(self, program: Sequence[str]) -> "Order":
        return replace(self, program=program)

    def with_variable(self, name: str, value: str) -> "Order":
        return replace(self, environment={**self.environment, name: value})


@dataclass(frozen=True)
class End:
    """What came of a task's worker."""

    rank: int
    status: int = 0  # of `starling`
    error: str = ""  # its last line, if that was one
    printed: str = ""


@dataclass(frozen=True)
class Seat:
    """What a task is in its job."""

    rank: int
    size: int
    rendezvous: str = ""
    doors: Sequence[str] = ()  # to join a job that runs; and where the driver hears of it
    visit: Optional[Visit] = None


def session(spark: Optional[SparkSession]) -> SparkSession:
    """The one that was given, the one there is, or a new one."""
    found = spark or SparkSession.getActiveSession()
    if found is not None:
        return found
    if SparkContext._active_spark_context is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_java()
    return SparkSession.builder.getOrCreate()


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(java) is None:
        place = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise JobFailed(f"Spark needs Java, and there is none {place}: run `scripts/setup spark`")


def wait_for_slots(context: SparkContext, wanted: int, seconds: float, elastic: bool = False) -> None:
    """Until so many tasks can run at the same time; executors take a moment to come."""
    if _asks_for_executors_itself(context):
        if elastic:  # and for none before there are tasks
            return
        raise JobFailed("Spark has no barrier stages with dynamic allocation: give "
                        "--conf spark.dynamicAllocation.enabled=false, and as many executors as workers need")
    core = context._jsc.sc()
    profile = core.resourceProfileManager().defaultResourceProfile()
    deadline = time.monotonic() + seconds
    while (slots := core.maxNumConcurrentTasks(profile)) < wanted:
        if time.monotonic() > deadline:
            fewer = f", or ask for {slots} worker{'s' * (slots > 1)}" if slots else ""
            raise JobFailed(f"{wanted} workers need as many slots, and Spark has {slots} after "
                            f"{seconds:g} s: start more executors or cores{fewer}")
        time.sleep(0.2)


def _asks_for_executors_itself(context: SparkContext) -> bool:
    dynamic = context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    return dynamic and not re.match(r"local($|\[)", context.master)


def driver_host(context: SparkContext) -> str:
    return context.getConf().get("spark.driver.host", "127.0.0.1")


def run_stage(rdd: RDD, order: Order, task: Callable[[Order], Any]) -> list:
    """What each task returns, one a partition of the RDD."""
    size = rdd.getNumPartitions()
    try:
        if not order.elastic:
            # Behind a shuffle: Spark tries no barrier stage again whose results go to the driver.
            return rdd.barrier().mapPartitions(lambda _: [task(order)]).repartition(1).collect()
        with Meeting(size, order.secret, order.seconds) as meeting:
            told = replace(order, meeting=meeting.port)
            return rdd.mapPartitions(lambda _: [task(told)]).collect()
    except Exception as error:
        raise explain(error) from None


def take_seat(order: Order, size: int) -> Seat:
    """This task's; waits for the others."""
    if not order.elastic:
        ranks = gather(order)
        return Seat(rank_among(ranks), size, rendezvous(ranks))
    visit = Visit(order.driver, order.meeting, order.secret, order.seconds)
    said = visit.seat(here(TaskContext.get().partitionId(), order.driver, order.network))
    if "error" in said:
        raise JobFailed(said["error"])
    if said.get("over"):
        raise CameTooLate(said["rank"])
    return Seat(said["rank"], size, said.get("rendezvous", ""), said.get("doors", ()), visit)


def gather(order: Order, **facts: Any) -> list[Place]:
    """All tasks of a barrier stage, by rank."""
    context = BarrierTaskContext.get()
    own = here(context.partitionId(), order.driver, order.network, **facts)
    return by_rank([Place.of(text) for text in context.allGather(own.text())])


def rank_among(ranks: Sequence[Place]) -> int:
    return [place.task for place in ranks].index(TaskContext.get().partitionId())


def work(order: Order, seat: Seat) -> End:
    """This task's worker, from its begin to its end."""
    words = words_of(order, seat)
    if seat.visit is None:
        end = run_starling(order, words, seat)
    else:
        with tempfile.TemporaryDirectory(prefix="starling-job-", dir=scratch()) as folder:
            # `starling` keeps its doors there, among others.
            order = order.with_variable("XDG_RUNTIME_DIR", folder)
            threading.Thread(target=_tell_doors, args=(seat.visit, folder), daemon=True).start()
            end = run_starling(order, words, seat)
        seat.visit.tell(ended=end.status)
        seat.visit.close()
    killed = re.search(rf"rank {seat.rank} was killed by signal", end.error)
    if end.status != 0 and (killed or seat.visit is not None):
        raise WorkerKilled(end.error)
    return end


def words_of(order: Order, seat: Seat) -> list[str]:
    """What `starling` is told in this task."""
    words = _apart(order.words)
    if seat.doors:  # the job tells its settings itself, but not where things are on this machine
        return ["join", seat.doors[0], "--workers", "1", *_kept(words, *_OF_A_MACHINE)]
    words += ["--workers", "1" if words[0] == "launch" else str(seat.size)]
    if "--run" in words:
        at = words.index("--run") + 1
        words[at] = f"{words[at]}-machine-{seat.rank}"
    if seat.size > 1:
        words += ["--machines", str(seat.size), "--machine", str(seat.rank),
                  "--rendezvous", seat.rendezvous]
    return words


def _apart(words: Sequence[str]) -> list[str]:
    """--run=folder as --run folder, of what is looked for here."""
    parts: list[str] = []
    for word in words:
        name, _, value = word.partition("=")
        parts += [name, value] if value and name in ("--run", *_OF_A_MACHINE) else [word]
    return parts


def _kept(words: Sequence[str], *names: str) -> list[str]:
    return [word for at, word in enumerate(words)
            if word in names or (at > 0 and words[at - 1] in names)]


def run_starling(order: Order, words: Sequence[str], seat: Seat) -> End:
    command = [starling_program(), *words]
    # A pipe, so that no disk ever has the secret.
    read_end, write_end = os.pipe()
    os.write(write_end, f"{order.secret}\n".encode())
    os.close(write_end)
    command += ["--secret-file", f"/dev/fd/{read_end}"]
    if order.program:
        command += ["--", *order.program]
    try:
        process = subprocess.Popen(
            command, env=_environment(order), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", pass_fds=[read_end],
            preexec_fn=_die_with_the_task)
    finally:
        os.close(read_end)
    with process:
        printed: deque[str] = deque(maxlen=_KEPT_LINES)
        said: deque[str] = deque(maxlen=_KEPT_LINES)
        reader = threading.Thread(target=_relay, args=(process.stdout, printed))
        reader.start()
        _relay(process.stderr, said)
        reader.join()
        status = process.wait()
    error = ""
    if status != 0:
        error = next((line for line in reversed(said) if line.startswith("error: ")),
                     f"error: `starling {words[0]}` ended with {status}")
    return End(seat.rank, status, error[len("error: "):].strip(), "".join(printed))


def scratch() -> str:
    """A folder of this executor's that Spark removes when the application ends, if nobody else does."""
    return SparkFiles.getRootDirectory()


def explain(error: BaseException) -> JobFailed:
    """What Spark says in a hundred lines, in one."""
    text = str(error)
    killed = re.findall(r"WorkerKilled: (.*)", text)
    if killed:
        return JobFailed(f"{killed[-1]}; Spark has tried it as often as it was told to")
    if "No module named 'starling" in text:
        return JobFailed("an executor's Python has no package `starling`: install it on every machine, or "
                         "set spark.executorEnv.PYTHONPATH")
    lost = re.findall(r"ExecutorLostFailure \(([^)]*)\)", text)
    if lost:
        return JobFailed(f"{lost[-1]}; Spark has tried it as often as it was told to")
    raised = re.findall(r"^(\w[\w.]*(?:Error|Exception|Failed)): (.*)$", text, re.MULTILINE)
    if raised:
        return JobFailed(f"a task of Spark's failed: {raised[-1][0].split('.')[-1]}: {raised[-1][1]}")
    in_java = re.findall(r"^: [\w.$]+: (.*)$", text, re.MULTILINE)  # py4j's own line says only what was called
    return JobFailed(f"Spark's job failed: {[*in_java, *text.strip().splitlines()][0]}")


def _environment(order: Order) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("STARLING_", "HOROVOD_"))
                   and name not in _launchers.OF_A_JOB  # executors may be tasks of Slurm's
                   or name in ("STARLING_PROGRAM", "STARLING_LOG", "STARLING_INTERFACE")}
    package = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["starling"].__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(
        [package] + [path for path in [environment.get("PYTHONPATH")] if path])
    # What came by --files is where Spark put it.
    environment["PATH"] = os.pathsep.join([environment.get("PATH", os.defpath), scratch()])
    return {**environment, **order.environment}


def _die_with_the_task() -> None:
    # Spark kills a task's process without a word. The launcher's guardian then kills the worker.
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _tell_doors(visit: Visit, folder: str) -> None:
    """Tells the driver where its worker can be asked to let others in, for as long as there is one."""
    told = ""
    while os.path.isdir(folder):
        for place in glob.glob(os.path.join(folder, "starling", "*", "doors.json")):
            try:
                with open(place, encoding="utf-8") as file:
                    doors = json.load(file)
                if doors and doors[0]["door"] != told:
                    told = doors[0]["door"]
                    visit.tell(door=told)
            except (OSError, ValueError):
                continue  # it is being written, or the driver has gone
        time.sleep(0.5)


def _relay(source: IO[str], kept: deque) -> None:
    for line in source:
        sys.stderr.write(line)  # into the executor's log
        kept.append(line)
