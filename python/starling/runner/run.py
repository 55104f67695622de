"""starling.run: a function on several processes, and what each returns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from typing import Any, Callable, Mapping, Optional, Sequence

from .. import _launchers
from . import functions
from .elastic import elastic_words
from .hosts import host_flags
from .output import Relayed
from .program import starling_program


def run(
    func: Callable,
    args: Sequence = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Sequence[int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    start_timeout: Optional[int] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[int] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,  # this and the next two are Horovod's old names
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
    host_discovery_script: Optional[str] = None,
) -> list:
    """Calls func(*args, **kwargs) in num_proc processes of one job; in them, hvd.init() joins it.

    Returns what each returned, by rank. If one raises, RuntimeError says which, and its traceback.
    With min_num_proc or max_num_proc a process that fails is started again, and the others go on
    (hvd.elastic.run); then it returns what those returned who came to the end. With output_filename
    what they print is also in files, output_filename/rank.N/stdout and stderr.
    Arguments of horovod.run that are about ssh, MPI, gloo, networks and the time to start are taken and
    not used.
    """
    for old, value in (("np", np), ("min_np", min_np), ("max_np", max_np)):
        if value is not None:
            new = old.replace("np", "num_proc")
            warnings.warn(f"{old} is deprecated, use {new} instead", DeprecationWarning, stacklevel=2)
    num_proc = np if np is not None and num_proc == 1 else num_proc
    min_num_proc = min_np if min_num_proc is None else min_num_proc
    max_num_proc = max_np if max_num_proc is None else max_num_proc
    if num_proc < 1:
        raise ValueError(f"a function cannot be run in {num_proc} processes")
    elastic = elastic_words(num_proc, min_num_proc, max_num_proc, reset_limit, host_discovery_script,
                            slots, cooldown_range)
    if hosts is not None and hostfile is not None:
        raise ValueError("give hosts or hostfile, not both")
    if host_flags(hosts, hostfile, num_proc):
        raise ValueError("a function's results come back through this machine's files: name no other "
                         "machine; starlingrun -H starts programs on several")

    with tempfile.TemporaryDirectory(prefix="starling-run-") as folder:
        with open(os.path.join(folder, "function"), "wb") as file:
            call = functions.dumps((func, tuple(args), dict(kwargs or {})))
            file.write(functions.dumps((sys.path, call)))
        command = [starling_program(), "launch", "-n", str(num_proc), *elastic, "--",
                   executable or sys.executable, "-m", "starling.runner.worker", folder]
        environment = dict(os.environ if env is None else env)
        package = os.path.dirname(os.path.dirname(os.path.abspath(
            sys.modules["starling"].__file__)))
        environment["PYTHONPATH"] = os.pathsep.join(
            [package] + [p for p in [environment.get("PYTHONPATH")] if p])
        for name in _launchers.OF_A_JOB:
            environment.pop(name, None)  # of a job that we may be in ourselves, as those below
        for name in [n for n in environment if n.startswith(("STARLING_", "HOROVOD_"))]:
            if name not in ("STARLING_PROGRAM", "STARLING_LOG"):
                if name.startswith("STARLING_") or env is None:
                    del environment[name]
        status, said = _ended(command, environment, output_filename, num_proc)
        outcomes: dict[int, Any] = {}
        for name in filter(str.isdigit, os.listdir(folder)):  # of an elastic job there may be more
            with open(os.path.join(folder, name), "rb") as file:
                outcomes[int(name)] = functions.loads(file.read())
    if verbose or status == 0:
        sys.stderr.write(said)
    if elastic and status == 0:  # whoever was lost, the others went on
        return [functions.loads(what) for _, (kind, what) in sorted(outcomes.items())
                if kind == "result"]
    failed = {rank: what for rank, (kind, what) in outcomes.items() if kind == "error"}
    # Whoever only lost another is not the one to blame.
    for rank in sorted(failed, key=lambda r: "HorovodInternalError" in failed[r][0]):
        line, trace = failed[rank]
        raise RuntimeError(f"rank {rank}: {line}\n{trace}")
    if status != 0 or len(outcomes) < num_proc:
        lines = said.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"starling launch ended with {status}")
    return [functions.loads(outcomes[rank][1]) for rank in range(num_proc)]


def _ended(command: Sequence[str], environment: Mapping[str, str], folder: Optional[str],
           processes: int) -> tuple[int, str]:
    """How it ended, and what it said on stderr."""
    if folder is None:
        ended = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
        return ended.returncode, ended.stderr
    launcher = Relayed(command, environment, folder, processes, shows_errors=False)
    status = launcher.wait()
    return status, b"".join(launcher.said).decode(errors="replace")
