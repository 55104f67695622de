#!/usr/bin/env python3
"""hvd.DistributedOptimizer beside DistributedDataParallel over Starling, in one run.

    starling launch -n 4 -- python3 bench/python/optimizers.py

Both train the same network on the same batches, in turns of some steps, so that whatever else the
machine does slows both. Rank 0 prints the median time of a step of each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import starling.torch as hvd
import starling.torch_backend  # noqa: F401

sys.path.append(str(Path(__file__).parents[2] / "examples" / "python"))
import mnist  # noqa: E402


def wide() -> nn.Module:
    """6.3 million parameters in 12 tensors."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(),
                         *[layer for _ in range(5) for layer in (nn.Linear(1024, 1024), nn.ReLU())],
                         nn.Linear(1024, 10), nn.LogSoftmax(1))


def deep() -> nn.Module:
    """60 small tensors."""
    layers = [layer for _ in range(29) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), *layers, nn.Linear(64, 10),
                         nn.LogSoftmax(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=20, help="of a turn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--network", default="mnist", choices=["mnist", "wide", "deep"])
    args = parser.parse_args()

    torch.set_num_threads(1)
    hvd.init()
    dist.init_process_group("starling")
    make = {"mnist": mnist.Network, "wide": wide, "deep": deep}[args.network]
    torch.manual_seed(1)
    ours, theirs = make(), DistributedDataParallel(make())
    hvd.broadcast_parameters(ours.state_dict(), 0)
    sgd = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), 0.01),
                                   ours.named_parameters())
    contestants = {"ddp": (theirs, torch.optim.SGD(theirs.parameters(), 0.01)), "hvd": (ours, sgd)}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    images, labels = torch.randn(args.batch, 1, 28, 28), torch.randint(0, 10, (args.batch,))
    for turn in range(args.turns + 1):
        for name, (model, optimizer) in contestants.items():
            hvd.barrier()
            begun = time.perf_counter()
            for _ in range(args.steps):
                optimizer.zero_grad()
                F.nll_loss(model(images), labels).backward()
                optimizer.step()
            if turn > 0:  # the first warms up
                times[name].append((time.perf_counter() - begun) / args.steps)
    if hvd.rank() == 0:
        ddp, own = (statistics.median(times[name]) for name in ("ddp", "hvd"))
        print(f"{args.network}, {hvd.size()} workers: DDP {1e3 * ddp:.2f} ms a step, "
              f"hvd {1e3 * own:.2f} ms, {ddp / own:.2f} times as fast")


if __name__ == "__main__":
    main()
