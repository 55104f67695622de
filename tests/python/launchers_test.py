"""A training by DistributedDataParallel over "starling", and an all-reduce without torch, as every launcher
starts them.

    python3 tests/python/launchers_test.py

All give the same. A launcher that is not here is named.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

from starling.runner.program import starling_program

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import starling.torch_backend

dist.init_process_group("starling")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
print(f"OF {dist.get_world_size()}: {model.module.weight.sum().item():.6f}", flush=True)
dist.destroy_process_group()
"""
WITHOUT_TORCH = """
import numpy
import starling

print(f"OF 2: {starling.allreduce(numpy.full(4, 1.5)).sum()}", flush=True)
"""
# Debian's torchrun 1.13 needs its lines brought by itself under Python 3.11.
LINES = ["--redirects", "1", "--tee", "1"]


def launchers():
    run = [sys.executable]
    yield "starling launch", [starling_program(), "launch", "-n", "2", "--", *run]
    yield "torchrun", [*run, "-m", "torch.distributed.run", "--standalone", *LINES,
                       "--nproc_per_node", "2"]
    yield "torch.distributed.launch", [*run, "-m", "torch.distributed.launch", *LINES,
                                       "--nproc_per_node", "2"]
    if shutil.which("mpirun") is None:
        print("mpirun: not here, not tested", flush=True)
        return
    yield "mpirun", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *run]


def said_by(name, words, path):
    """What each rank says of its model, or its sum."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    ended = subprocess.run([*words, path], env=environment, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=200)
    said = re.findall(r"OF 2: (\S+?)(?=OF|\s)", ended.stdout)  # mpirun may join lines
    assert ended.returncode == 0 and len(said) == 2, f"{name}: {ended}"
    return said


def main():
    for program in (PROGRAM, WITHOUT_TORCH):
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program)
            for name, words in launchers():
                try:
                    found[name] = said_by(name, words, path)
                except Exception:
                    print(f"{name}:\n{traceback.format_exc()}", flush=True)
                    sys.exit(1)
                print(f"{name}: passed", flush=True)
        assert len({said for each in found.values() for said in each}) == 1, found


if __name__ == "__main__":
    main()
