#!/usr/bin/python3
"""MNIST by DistributedDataParallel over Starling: a PyTorch program whose backend has another name.

    starling launch -n 4 -- python3 examples/python/mnist_ddp.py
    torchrun --nproc_per_node 4 examples/python/mnist_ddp.py
    python3 -m torch.distributed.launch --use_env --nproc_per_node 4 examples/python/mnist_ddp.py
    mpirun -n 4 python3 examples/python/mnist_ddp.py
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import mnist
import starling.torch_backend


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--backend", default="starling", help="or gloo, to compare")
    args = parser.parse_args()

    dist.init_process_group(args.backend)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = DistributedDataParallel(mnist.Network())
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    data = TensorDataset(*mnist.load(train=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, args.batch, sampler=sampler)
    test = mnist.load(train=False)
    for epoch in range(args.epochs):
        begun = time.monotonic()
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            F.nll_loss(model(images), labels).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch + 1}: {100 * mnist.accuracy(model.module, *test):.2f} % right, "
                f"{time.monotonic() - begun:.1f} s",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
