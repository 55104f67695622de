"""Who started this process: the variables of other launchers, as torch.distributed reads them.

`starling launch` and torchrun say RANK, WORLD_SIZE and so on themselves. mpirun and srun have names of
their own for the same.
"""

from __future__ import annotations

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
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"),
]
_FIRST_PORT, _PORTS = 20000, 12000  # below those that the system gives away


def adopt() -> None:
    """Sets what torch.distributed reads from what this process's launcher says.

    What is set already stays. Ranks of several machines must be told MASTER_ADDR, but for Slurm's,
    whose first machine is known.
    """
    environment = os.environ
    if "RANK" in environment:
        return
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
        environment.setdefault(
            "MASTER_PORT", str(_FIRST_PORT + zlib.crc32(name.encode()) % _PORTS)
        )
        return


def _first_host(hosts: str) -> str:
    """Of Slurm's shorthand: node[03-07,12],other -> node03."""
    found = re.match(r"([^,\[]*)(?:\[(\d+))?", hosts)
    return found.group(1) + (found.group(2) or "")
