"""starlingrun: horovodrun's arguments, for `starling launch`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Optional, Sequence

from .elastic import elastic_words
from .hosts import host_flags
from .output import Relayed
from .program import starling_program

_EXAMPLE = """examples:
  starlingrun -np 4 python train.py
  starlingrun -np 4 -H localhost:4 -x OMP_NUM_THREADS=1 python train.py --epochs 3
  starlingrun -np 4 --min-num-proc 2 --max-num-proc 8 --host-discovery-script ./hosts.sh python train.py
  starlingrun -np 8 -H a:4,b:4 python train.py
"""

_LEVELS = {"TRACE": "trace", "DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "err",
           "FATAL": "critical"}


# Words of horovodrun's about MPI, about tuning that is not needed, and about how messages look.
_IGNORED_FLAGS = [
    "--gloo", "--tcp", "--disable-cache", "--autotune", "--no-autotune", "--hierarchical-allreduce",
    "--no-hierarchical-allreduce", "--hierarchical-allgather", "--no-hierarchical-allgather",
    "--torus-allreduce", "--no-torus-allreduce", "--no-timeline-mark-cycles",
    "--mpi-threads-disable", "--no-mpi-threads-disable", "--log-with-timestamp",
    "--log-without-timestamp", "--log-hide-timestamp", "--no-log-hide-timestamp",
    "--prefix-output-with-timestamp -prefix-timestamp",
]
_IGNORED_OPTIONS = [
    "--config-file", "--cycle-time-ms", "--cache-capacity", "--autotune-log-file",
    "--autotune-warmup-samples", "--autotune-steps-per-sample", "--autotune-bayes-opt-max-samples",
    "--autotune-gaussian-process-noise", "--elastic-timeout", "--mpi-args", "--binding-args",
    "--num-nccl-streams", "--thread-affinity",
]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="starlingrun", description="Runs a program of Horovod's kind on several processes.",
        epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    parser.add_argument("-cb", "--check-build", action="store_true", help="print what is built in")
    parser.add_argument("-np", "--num-proc", type=int, dest="num_proc", help="how many processes")
    parser.add_argument("-H", "--hosts", help="where, as host:slots,host:slots")
    parser.add_argument("-hostfile", "--hostfile", help="a file of lines 'host slots=number'")
    parser.add_argument("-p", "--ssh-port", type=int, help="with -H: where sshd listens")
    parser.add_argument("-i", "--ssh-identity-file", help="with -H: the key for ssh")
    parser.add_argument("--rsh", help="with -H: what to use instead of ssh")
    parser.add_argument("--network-interface", "--network-interfaces",
                        help="by which network machines reach each other: eth1, or 10.0.0.0/24")
    parser.add_argument("-x", action="append", default=[], dest="variables", metavar="NAME[=VALUE]",
                        help="an environment variable for the processes; may be given several times")
    parser.add_argument("--verbose", action="store_true", help="print more")
    parser.add_argument("--log-level", choices=list(_LEVELS), type=str.upper,
                        help="how much Starling prints of what it does")
    parser.add_argument("--start-timeout", type=int,
                        help="seconds within which the processes must have met")
    stall = parser.add_mutually_exclusive_group()
    stall.add_argument("--stall-check", action="store_false", dest="no_stall_check", default=None,
                       help="say who waits for whom (the default)")
    stall.add_argument("--no-stall-check", action="store_true", default=None,
                       help="neither say it nor fail")
    parser.add_argument("--stall-check-warning-time-seconds", type=int,
                        help="after how long it is said; 60 unless given")
    parser.add_argument("--stall-check-shutdown-time-seconds", type=int,
                        help="after how long an exchange that not all have asked for fails; a day "
                             "unless given")
    parser.add_argument("--timeline-filename", help="where rank 0 writes a timeline")
    parser.add_argument("--timeline-mark-cycles", action="store_true")
    parser.add_argument("--output-filename", metavar="FOLDER",
                        help="also write what the processes print to FOLDER/rank.N/stdout and stderr")
    parser.add_argument("--gloo-timeout-seconds", type=int, help="as --start-timeout")
    parser.add_argument("--fusion-threshold-mb", type=int,
                        help="how many MB of small tensors go as one")
    elastic = parser.add_argument_group("elastic jobs, whose workers come and go")
    elastic.add_argument("--min-num-proc", "--min-np", type=int,
                         help="with fewer processes those who are left wait for others; -np unless given")
    elastic.add_argument("--max-num-proc", "--max-np", type=int,
                         help="how many there may be; unless given, as many as a script names slots, or "
                              "-np without one")
    elastic.add_argument("--host-discovery-script", metavar="PROGRAM",
                         help="prints which hosts there are now, host:slots a line; run every second")
    elastic.add_argument("--slots-per-host", "--slots", type=int,
                         help="for hosts whose slots the script does not tell")
    elastic.add_argument("--reset-limit", type=int,
                         help="fail when processes have come or gone more often than that")
    elastic.add_argument("--blacklist-cooldown-range", type=int, nargs=2, metavar=("LEAST", "MOST"),
                         help="seconds after which a host on which a process failed is tried again; "
                              "without it, it never is")
    ignored = parser.add_argument_group("taken for Horovod's sake, and not needed")
    for flag in _IGNORED_FLAGS:
        ignored.add_argument(*flag.split(), action="store_true", help=argparse.SUPPRESS)
    for option in _IGNORED_OPTIONS:
        ignored.add_argument(option, metavar="...", help=argparse.SUPPRESS)
    ignored.description = " ".join([*_IGNORED_FLAGS, *_IGNORED_OPTIONS])
    for flag in ("--mpi", "--jsrun"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


class Refused(Exception):
    """What cannot be, in one line."""


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.command:
        raise Refused("there is no program to run; see starlingrun --help")
    if arguments.mpi or arguments.jsrun:
        raise Refused("--mpi and --jsrun: start the program with these itself, hvd.init() finds its ranks")
    if arguments.num_proc is None:
        arguments.num_proc = arguments.min_num_proc
    if arguments.num_proc is None:
        raise Refused("how many processes? give -np")
    if arguments.num_proc < 1:
        raise Refused(f"-np {arguments.num_proc} cannot be")
    for name in ("slots_per_host", "blacklist_cooldown_range"):
        if getattr(arguments, name) is not None and not arguments.host_discovery_script:
            raise Refused(f"--{name.replace('_', '-')} goes with --host-discovery-script")
    if arguments.host_discovery_script and (arguments.hosts or arguments.hostfile):
        raise Refused("give hosts, or a script that names them, not both")


def _environment(arguments: argparse.Namespace) -> dict[str, str]:
    environment = dict(os.environ)
    for variable in arguments.variables:
        name, is_set, value = variable.partition("=")
        if is_set:
            environment[name] = value
        elif name not in environment:
            raise Refused(f"-x {name}: it is not set here")
    if arguments.log_level:
        environment["STARLING_LOG"] = _LEVELS[arguments.log_level]
    elif arguments.verbose:
        environment.setdefault("STARLING_LOG", "info")
    if arguments.timeline_filename:
        environment["HOROVOD_TIMELINE"] = arguments.timeline_filename
    if arguments.timeline_mark_cycles:
        environment["HOROVOD_TIMELINE_MARK_CYCLES"] = "1"
    if arguments.fusion_threshold_mb is not None:
        environment["HOROVOD_FUSION_THRESHOLD"] = str(arguments.fusion_threshold_mb << 20)
    if arguments.no_stall_check is not None:
        environment["HOROVOD_STALL_CHECK_DISABLE"] = str(int(arguments.no_stall_check))
    if arguments.stall_check_warning_time_seconds is not None:
        environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = str(
            arguments.stall_check_warning_time_seconds)
    if arguments.stall_check_shutdown_time_seconds is not None:
        environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = str(
            arguments.stall_check_shutdown_time_seconds)
    if arguments.reset_limit is not None:
        environment["HOROVOD_ELASTIC_RESET_LIMIT"] = str(arguments.reset_limit)
    return environment


def _ssh_flags(arguments: argparse.Namespace, environment: dict[str, str]) -> list[str]:
    flags = []
    if arguments.ssh_port or arguments.ssh_identity_file:
        ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10"
        if arguments.ssh_port:
            ssh += f" -p {arguments.ssh_port}"
        if arguments.ssh_identity_file:
            ssh += f" -i {arguments.ssh_identity_file}"
        flags += ["--rsh", ssh]
    if arguments.rsh:
        flags += ["--rsh", arguments.rsh]
    for variable in arguments.variables:
        flags += ["-x", variable.partition("=")[0]]
    for name in sorted(environment):
        if name.startswith("HOROVOD_"):
            flags += ["-x", name]
    return flags


def _relayed(command: Sequence[str], environment: dict[str, str],
             arguments: argparse.Namespace) -> int:
    try:
        launcher = Relayed(command, environment, arguments.output_filename, arguments.num_proc)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: launcher.process.send_signal(got))
    ended = launcher.wait()
    return ended if ended >= 0 else 128 - ended


def main(words: Optional[Sequence[str]] = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        if arguments.version:
            os.execv(starling_program(), ["starling", "--version"])
        if arguments.check_build:
            print("Starling:\n\nAvailable Frameworks:\n    [X] PyTorch\n\nAvailable Controllers:\n"
                  "    [X] Starling\n\nAvailable Tensor Operations:\n    [X] Starling")
            return 0
        _check(arguments)
        environment = _environment(arguments)
        where = host_flags(arguments.hosts, arguments.hostfile, arguments.num_proc)
        if where:
            where += _ssh_flags(arguments, environment)
        command = [starling_program(), "launch", "-n", str(arguments.num_proc), *where]
        if arguments.network_interface:
            command += ["--interface", arguments.network_interface]
        command += elastic_words(arguments.num_proc, arguments.min_num_proc, arguments.max_num_proc,
                                 arguments.reset_limit, arguments.host_discovery_script,
                                 arguments.slots_per_host, arguments.blacklist_cooldown_range)
        seconds = arguments.gloo_timeout_seconds or arguments.start_timeout
        if seconds is not None:
            command += ["--timeout", str(seconds)]
        program = arguments.command
        command += ["--"] + (program[1:] if program[0] == "--" else program)
        if arguments.verbose:
            print(" ".join(command), file=sys.stderr, flush=True)
    except (Refused, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.output_filename:
        return _relayed(command, environment, arguments)
    # In our place, so that whoever signals us signals the launcher.
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    sys.exit(main())
