"""starling.run and starlingrun, as horovod.run and horovodrun; and what happens when a rank dies.

    python3 tests/python/runner_test.py
"""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import warnings

import starling

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GLOBAL = 7


def starlingrun(*words, **options):
    return subprocess.run([sys.executable, "-m", "starling.runner.launch", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **options)


def script(folder, text):
    path = os.path.join(folder, "script.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write("import os, sys, time\nimport torch\nimport starling.torch as hvd\n"
                   + textwrap.dedent(text))
    return path


def top_level(x):
    import starling.torch as hvd

    hvd.init()
    return hvd.rank(), hvd.size(), x + GLOBAL


def check_run_returns_what_each_rank_returns():
    more = 100

    def within(a, b=0):
        import torch

        import starling.torch as hvd

        hvd.init()
        total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
        return hvd.rank() * more + a + b + int(total)

    for n in (1, 3):
        total = sum(range(n))
        assert starling.run(within, (1,), {"b": 2}, num_proc=n) == [
            r * more + 3 + total for r in range(n)]
    assert starling.run(top_level, args=(1,), num_proc=2) == [(0, 2, 8), (1, 2, 8)]
    assert starling.run(lambda: os.environ["SAID"], num_proc=1,
                        env={**os.environ, "SAID": "so"}) == ["so"]


def check_run_by_all_of_horovods_words():
    ignored = {"ssh_port": 22, "ssh_identity_file": "key", "disable_cache": True, "use_gloo": True,
               "use_mpi": False, "mpi_args": "", "network_interface": "lo", "start_timeout": 30}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert starling.run(lambda: "so", np=2, **ignored) == ["so", "so"]
        assert starling.run(lambda: "so", num_proc=1, min_np=1, max_np=2) == ["so"]
    assert [str(each.message).split()[0] for each in told] == ["np", "min_np", "max_np"], told
    try:
        starling.run(lambda: None, num_procs=2)
    except TypeError as error:
        assert "num_procs" in str(error)
    else:
        raise AssertionError("a word that nobody knows was taken")


def check_run_raises_what_a_rank_raises():
    def fails():
        import starling.torch as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise KeyError("the reason")
        hvd.barrier()

    try:
        starling.run(fails, num_proc=3)
    except RuntimeError as error:
        assert "rank 1: KeyError: 'the reason'" in str(error) and "in fails" in str(error), error
    else:
        raise AssertionError("no error")
    for wrong in ({"num_proc": 0}, {"num_proc": 2, "max_num_proc": 1},
                  {"num_proc": 2, "hosts": "localhost:1"}, {"hosts": "elsewhere:1"},
                  {"hosts": "a:1", "hostfile": "b"}):
        try:
            starling.run(fails, **wrong)
        except ValueError:
            continue
        raise AssertionError(f"no error of {wrong}")


def check_starlingrun():
    with tempfile.TemporaryDirectory() as folder:
        path = script(folder, """
            hvd.init()
            print("rank", hvd.rank(), "of", hvd.size(), os.environ["SAID"], sys.argv[1:])
        """)
        ended = starlingrun("-np", "2", "-H", "localhost:2", "-x", "SAID=so", "--log-level", "INFO",
                            "--timeline-filename", os.path.join(folder, "timeline"),
                            sys.executable, path, "--epochs", "3")
        assert ended.returncode == 0, ended.stderr
        for rank in range(2):
            assert f"rank {rank} of 2 so ['--epochs', '3']" in ended.stdout, ended.stdout
        assert os.path.exists(os.path.join(folder, "timeline"))
        hostfile = os.path.join(folder, "hosts")
        with open(hostfile, "w") as file:
            file.write("localhost slots=2\n")
        ended = starlingrun("-np", "2", "--hostfile", hostfile, sys.executable, "-c", "print('ok')")
        assert ended.returncode == 0 and ended.stdout.count("ok") == 2, ended
    for words in (["-np", "2"], ["-np", "0", "true"], ["true"], ["-np", "3", "-H", "localhost:2", "true"],
                  ["-np", "1", "-H", "elsewhere:1", "true"],
                  ["-np", "2", "--max-num-proc", "1", "true"],
                  ["-np", "2", "--slots-per-host", "2", "true"], ["-np", "1", "--mpi", "true"],
                  ["-np", "1", "-x", "NOT_SET_ANYWHERE", "true"]):
        ended = starlingrun(*words)
        assert ended.returncode != 0 and len(ended.stderr.strip().splitlines()) == 1, (words, ended)
    assert starlingrun("--check-build").returncode == 0
    assert starlingrun("--version").returncode == 0
    assert "starlingrun -np 4" in starlingrun("--help").stdout


def check_what_processes_print_in_files():
    def speak():
        print("out of", os.environ["STARLING_RANK"], flush=True)
        print("err of", os.environ["STARLING_RANK"], file=sys.stderr, flush=True)

    def look(folder):
        for rank in range(2):
            for name in ("stdout", "stderr"):
                path = os.path.join(folder, f"rank.{rank}", name)
                assert open(path).read() == f"{name[3:]} of {rank}\n", path

    with tempfile.TemporaryDirectory() as folder:
        starling.run(speak, num_proc=2, output_filename=os.path.join(folder, "run"))
        look(os.path.join(folder, "run"))
        program = script(folder, """
            print("out of", os.environ["STARLING_RANK"], flush=True)
            print("err of", os.environ["STARLING_RANK"], file=sys.stderr, flush=True)
            sys.exit(3 if "fail" in sys.argv else 0)
        """)
        words = ["-np", "2", "--output-filename", os.path.join(folder, "words"), sys.executable, program]
        ended = starlingrun(*words)
        assert ended.returncode == 0 and "[1] out of 1" in ended.stdout, ended
        look(os.path.join(folder, "words"))
        assert starlingrun(*words, "fail").returncode != 0


def check_words_of_horovodrun_that_are_not_needed():
    words = ["--tcp", "--cycle-time-ms", "5", "--cache-capacity=10", "--hierarchical-allreduce",
             "--no-stall-check", "--mpi-args=--map-by x", "--elastic-timeout", "10",
             "--log-without-timestamp", "--autotune", "--gloo-timeout-seconds", "30"]
    ended = starlingrun("-np", "2", *words, "/bin/sh", "-c",
                        "echo so $STARLING_TIMEOUT_SECONDS $HOROVOD_STALL_CHECK_DISABLE")
    assert ended.returncode == 0 and ended.stdout.count("so 30 1") == 2, ended
    ended = starlingrun("-np", "2", "--jsrun", "true")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended


def check_run_by_a_script_that_names_hosts():
    def place():
        return int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])

    with tempfile.TemporaryDirectory() as folder:
        hosts = os.path.join(folder, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho localhost:2\n")
        os.chmod(hosts, 0o700)
        found = starling.run(place, num_proc=2, min_num_proc=2, max_num_proc=2,
                             host_discovery_script=hosts)
        assert found == [(0, 2), (1, 2)], found
        # What else there is room for runs too, and its results are there.
        for most in (2, 3, None):
            found = starling.run(place, num_proc=1, max_num_proc=most, host_discovery_script=hosts)
            assert found == [(0, 2), (1, 2)], (most, found)


def check_machines_may_have_unlike_numbers_of_ranks():
    from starling.runner.program import starling_program

    with tempfile.TemporaryDirectory() as folder:
        rsh = os.path.join(folder, "rsh")  # which stays on this machine
        with open(rsh, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec sh -c "$2"\n')
        os.chmod(rsh, 0o700)
        path = script(folder, """
            hvd.init()
            print("I AM", hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
        """)
        ended = subprocess.run([starling_program(), "launch", "--hosts", "127.0.0.2:1,127.0.0.3:2", "--rsh", rsh, "--",
                                sys.executable, path], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=120)
    said = sorted(line.split("I AM ")[1] for line in ended.stdout.splitlines() if "I AM" in line)
    assert said == ["0 0 1 0 2", "1 0 2 1 2", "2 1 2 0 1"], ended


def check_a_killed_rank_is_named_by_all_others():
    for killed in (0, 2):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, f"""
                hvd.init()
                hvd.barrier()
                if hvd.rank() == {killed}:
                    open({folder!r} + "/at", "w").write(str(time.time()))
                    os.kill(os.getpid(), 9)
                try:
                    hvd.allreduce(torch.ones(10), name="x")
                except hvd.HorovodInternalError as error:
                    at = float(open({folder!r} + "/at").read())
                    print("HEARD", "rank {killed}" in str(error), time.time() - at, error)
                    os._exit(3)
            """)
            ended = starlingrun("-np", "4", sys.executable, path)
            heard = [line for line in ended.stdout.splitlines() if "HEARD" in line]
            assert len(heard) == 3, ended
            assert all("HEARD True" in line for line in heard), heard
            assert ended.returncode != 0


def check_an_exception_on_one_rank_is_told_to_the_others():
    with tempfile.TemporaryDirectory() as folder:
        path = script(folder, """
            hvd.init()
            if hvd.rank() == 1:
                raise RuntimeError("mine")
            try:
                hvd.allreduce(torch.ones(10))
            except hvd.HorovodInternalError as error:
                print("HEARD", "rank 1" in str(error), error)
                raise
        """)
        ended = starlingrun("-np", "3", sys.executable, path)
        assert ended.stdout.count("HEARD True") == 2, ended
        assert "rank 1" in ended.stderr.splitlines()[-1] and "mine" in ended.stderr, ended.stderr


def check_who_never_asks_is_named():
    for asks, said in (((0, 2), "rank 1 has not asked"), ((0,), "ranks 1, 2 have not asked")):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, f"""
                hvd.init()
                if hvd.rank() not in {asks}:
                    hvd.allgather_async(torch.ones(1), name="something else")
                    time.sleep(8)
                    os._exit(0)
                try:
                    hvd.allreduce(torch.ones(10), name="wanted")
                except hvd.HorovodInternalError as error:
                    print("HEARD", "wanted" in str(error) and {said!r} in str(error), error)
            """)
            ended = starlingrun("-np", "3", "--stall-check-shutdown-time-seconds", "2",
                                sys.executable, path)
            assert ended.stdout.count("HEARD True") == len(asks), ended


def check_who_is_late_is_waited_for():
    for late, seconds, said in ((1, 13, "rank 1 has not asked"), (0, 3, "rank 0 says for whom")):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, f"""
                hvd.init()
                if hvd.rank() == {late}:
                    time.sleep({seconds})
                print("CAME", int(hvd.allreduce(torch.ones(1), name="wanted", op=hvd.Sum)))
            """)
            ended = starlingrun("-np", "2", "--gloo-timeout-seconds", "10",
                                "--stall-check-warning-time-seconds", "1", sys.executable, path)
        assert ended.returncode == 0 and ended.stdout.count("CAME 2") == 2, ended
        assert f"'wanted' waits: {said}" in ended.stderr, ended


def check_a_signal_ends_all():
    with tempfile.TemporaryDirectory() as folder:
        path = script(folder, """
            hvd.init()
            print("READY", os.getpid(), flush=True)
            while True:
                hvd.allreduce(torch.ones(1000))
        """)
        command = [sys.executable, "-m", "starling.runner.launch", "-np", "3", sys.executable, path]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pids = [int(job.stdout.readline().split()[-1]) for _ in range(3)]
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=30)
        assert job.returncode == 130, job.returncode
        for pid in pids:
            assert not os.path.exists(f"/proc/{pid}"), pid


def check_that_forks_and_exits_are_safe():
    with tempfile.TemporaryDirectory() as folder:
        path = script(folder, """
            hvd.init()
            data = torch.utils.data.DataLoader(list(range(40)), batch_size=4, num_workers=2)
            for batch in data:
                hvd.allreduce(batch.float())
            hvd.allreduce_async(torch.ones(3), name="left behind")
            print("DONE")
        """)
        ended = starlingrun("-np", "2", sys.executable, path)
        assert ended.returncode == 0 and ended.stdout.count("DONE") == 2, ended


def main():
    checks = [each for name, each in globals().items() if name.startswith("check_")]
    for check in checks:
        if sys.argv[1:] and check.__name__ not in sys.argv[1:]:
            continue
        begun = time.time()
        try:
            check()
        except Exception:
            print(f"{check.__name__}:\n{traceback.format_exc()}", flush=True)
            sys.exit(1)
        print(f"{check.__name__}: passed ({time.time() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
