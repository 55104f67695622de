"""What the ranks of a torch.distributed job see when one of them goes.

    python3 tests/python/torch_faults_test.py build/release/bin/starling

Starts jobs of three ranks over "starling" and breaks each in another way. (How soon others notice is not
asserted, only that they do, and whom they name.)
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds, for what hangs

# Every rank trains for ever; rank 1 does as it is told once all are in step.
WORKER = r"""
import os, signal, sys, time
import torch, torch.distributed as dist
import starling.torch_backend
from torch.utils.data import DataLoader, TensorDataset

how = sys.argv[1]
dist.init_process_group("starling")
rank = dist.get_rank()
loader = DataLoader(TensorDataset(torch.arange(100.0)), 1, num_workers=2 if how == "kill" else 0)
batches = iter(loader)
next(batches)  # forked children have what we have
dist.barrier()
print("begun", os.getpid(), flush=True)
try:
    for step in range(10**9):
        if rank == 1 and step == 20:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "raise":
                raise KeyError("my own fault")
            if how == "exit":
                sys.exit(3)
        dist.all_reduce(torch.ones(1000))
except RuntimeError as error:
    print("seen:", error, flush=True)
    raise
"""


def run(program: str, how: str, act=None) -> tuple[str, int]:
    """What a job printed, and its status."""
    job = subprocess.Popen(
        [program, "launch", "-n", "3", "--", sys.executable, "-c", WORKER, how],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    began = 0
    for line in job.stdout:
        lines.append(line)
        began += "begun" in line
        if began == 3 and act is not None:
            act(job)
            act = None
    status = job.wait(PATIENCE)
    text = "".join(lines)
    for pid in re.findall(r"begun (\d+)", text):
        assert not os.path.exists(f"/proc/{pid}") or gone(int(pid)), f"{pid} is an orphan\n{text}"
    return text, status


def gone(pid: int) -> bool:
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            return True
        time.sleep(0.1)
    return False


def all_name_rank_1(text: str) -> None:
    for rank in (0, 2):
        # Who has left in good order is not lost; who cannot do without it is, on its account.
        seen = r"seen: (rank 1 was lost|.*\(it gave up because of rank 1\))"
        assert re.search(rf"\[{rank}\] {seen}", text), text


WAITER = r"""
import sys, torch, torch.distributed as dist
import starling.torch_backend
dist.init_process_group("starling", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
dist.barrier()
print("begun", flush=True)
dist.recv(torch.ones(1), 1 - dist.get_rank())
"""


def interrupt_one_who_waits() -> None:
    """Without a launcher Ctrl-C must reach Python while it waits, and nothing may crash on the way out."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", WAITER, f"file://{folder}/store", str(rank)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
            for rank in (0, 1)
        ]
        for each in ranks:
            assert "begun" in each.stdout.readline()
        ranks[0].send_signal(signal.SIGINT)
        errors = [each.communicate(timeout=PATIENCE)[1] for each in ranks]
    assert ranks[0].returncode == -signal.SIGINT and "KeyboardInterrupt" in errors[0], errors[0]
    assert ranks[1].returncode == 1 and "rank 0 was lost in receive (it failed)" in errors[1], errors[1]


def main() -> None:
    program = sys.argv[1]
    text, status = run(program, "kill")
    all_name_rank_1(text)
    assert status == 1 and "error: rank 1 was killed by signal 9" in text, text

    text, status = run(program, "raise")
    all_name_rank_1(text)
    assert status == 1 and "error: rank 1: KeyError: 'my own fault'" in text, text

    text, status = run(program, "exit")
    all_name_rank_1(text)
    assert status == 1 and "error: rank 1 exited with status 3" in text, text

    text, status = run(program, "go on", lambda job: job.send_signal(signal.SIGINT))
    assert status == 128 + signal.SIGINT and "interrupted by Ctrl-C" in text, text
    interrupt_one_who_waits()
    print("passed")


if __name__ == "__main__":
    main()
