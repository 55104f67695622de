#!/usr/bin/env python3
"""MNIST by Horovod's interface over Starling: a Horovod program with one import changed.

    starling launch -n 4 -- python3 examples/python/mnist_hvd.py
    starlingrun -np 4 python3 examples/python/mnist_hvd.py
    torchrun --nproc_per_node 4 examples/python/mnist_hvd.py
    mpirun -n 4 python3 examples/python/mnist_hvd.py
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import mnist
import starling.torch as hvd  # in place of horovod.torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--fp16", action="store_true", help="exchange gradients as 16-bit floats")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = mnist.Network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), args.lr, momentum=0.5),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16 else hvd.Compression.none,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    data = TensorDataset(*mnist.load(train=True))
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, args.batch, sampler=sampler)
    test = mnist.load(train=False)
    for epoch in range(args.epochs):
        begun = time.monotonic()
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            F.nll_loss(model(images), labels).backward()
            optimizer.step()
        share = len(test[0]) // hvd.size()
        own = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
        right = mnist.accuracy(model, test[0][own], test[1][own])
        right = hvd.allreduce(torch.tensor(right), name="accuracy").item()
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1}: {100 * right:.2f} % right, {time.monotonic() - begun:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
