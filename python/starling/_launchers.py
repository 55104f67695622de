"""Who started this process: the variables of other launchers, as torch.distributed reads them.

`starling launch` and torchrun say RANK, WORLD_SIZE and so on themselves. mpirun and srun have names of
their own for the same.
"""

from __future__ import annotations

import hmac
import os
import re
import zlib

# (rank, size, local rank, local size, what tells one job from another)
_LAUNCHERS = [
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_NAMESPACE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_ID"),
    # Of a step: a batch script has SLURM_NTASKS, too, and is no task.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_LOCAL_TASKS", "SLURM_JOB_ID"),
]
# Without these, what a process starts is no rank of the job that it is in itself.
OF_A_JOB = ("RANK", "WORLD_SIZE", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_FIRST_PORT, _PORTS = 20000, 12000  # below those that the system gives away


def adopt() -> None:
    """Sets what torch.distributed reads from what this process's launcher says.

    What is set already stays. Ranks of several machines must be told MASTER_ADDR, but for Slurm's,
    whose first machine is known.
    """
    environment = os.environ
    if "RANK" in environment:
        return
    if "SLURM_STEP_TASKS_PER_NODE" in environment:  # which Slurm says for all nodes at once
        environment["SLURM_STEP_LOCAL_TASKS"] = str(_tasks_on_node(
            environment["SLURM_STEP_TASKS_PER_NODE"], int(environment.get("SLURM_NODEID", "0"))))
    for rank, size, local_rank, local_size, job in _LAUNCHERS:
        if rank not in environment or size not in environment:
            continue
        environment["RANK"] = environment[rank]
        environment.setdefault("WORLD_SIZE", environment[size])
        if local_rank in environment:
            environment.setdefault("LOCAL_RANK", environment[local_rank])
        if local_size in environment:
            environment.setdefault("LOCAL_WORLD_SIZE", environment[local_size])
        if environment.get(local_size) == environment[size]:
            environment.setdefault("MASTER_ADDR", "127.0.0.1")
        elif "SLURM_STEP_NODELIST" in environment:
            environment.setdefault("MASTER_ADDR", _first_host(environment["SLURM_STEP_NODELIST"]))
        # All ranks must find the same, and two jobs on a machine different ones.
        name = environment.get(job) or environment.get("SLURM_JOB_ID") or ""
        name += environment.get("SLURM_STEP_ID", "") + environment.get("SLURM_RESTART_COUNT", "")
        environment.setdefault(
            "MASTER_PORT", str(_FIRST_PORT + zlib.crc32(name.encode()) % _PORTS)
        )
        return


def started_by_srun() -> bool:
    """As a task of several, which src/job/slurm.cc understands by itself."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1 and "SLURM_PROCID" in os.environ


def first_host() -> str:
    """The machine of rank 0, by the name that the launcher gives it."""
    environment = os.environ
    rendezvous = environment.get("STARLING_RENDEZVOUS", "")
    if rendezvous:
        return rendezvous.rsplit(":", 1)[0].strip("[]")
    all_are_here = "WORLD_SIZE" in environment and environment.get("LOCAL_WORLD_SIZE") == environment["WORLD_SIZE"]
    if "MASTER_ADDR" in environment and not all_are_here:
        return environment["MASTER_ADDR"]
    if "SLURM_STEP_NODELIST" in environment and started_by_srun():
        return _first_host(environment["SLURM_STEP_NODELIST"])
    return "127.0.0.1"


def keyed(said: str) -> str:
    """A digest of it by the secret that the launcher has given us, for anybody to read; the words
    themselves where there is none."""
    secret = os.environ.get("STARLING_SECRET")
    return hmac.new(secret.encode(), said.encode(), "sha256").hexdigest() if secret else said


def job_name() -> str:
    """What all processes of this job know it by, and no others."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT")
    return keyed("/".join(["job", *(os.environ[name] for name in names if name in os.environ)]))


def _tasks_on_node(tasks: str, node: int) -> int:
    """Of Slurm's shorthand: 4(x2),3 are 4, 4 and 3."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks):
        counts += [int(count)] * int(times or 1)
    return counts[node]


def _first_host(hosts: str) -> str:
    """Of Slurm's shorthand: node[03-07,12],other -> node03."""
    found = re.match(r"([^,\[]*)(?:\[(\d+)[^\]]*\]([^,]*))?", hosts)
    return found.group(1) + (found.group(2) or "") + (found.group(3) or "")
