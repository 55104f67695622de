#!/usr/bin/env python3
"""MNIST by Horovod's elastic interface over Starling: kill workers, add some, and it goes on.

    starling launch -n 4 --elastic --restarts 10 -- python3 examples/python/mnist_hvd_elastic.py
    starlingrun -np 2 --max-num-proc 4 --host-discovery-script ./hosts.sh \\
        python3 examples/python/mnist_hvd_elastic.py

with a hosts.sh that prints, say, localhost:2 now and localhost:4 later.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import mnist
import starling.torch as hvd  # in place of horovod.torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.0125, help="for each worker")
    args = parser.parse_args()

    data = TensorDataset(*mnist.load(train=True))
    test = mnist.load(train=False)
    hvd.init()  # from here on the others wait for one who comes later
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = mnist.Network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), args.lr * hvd.size(), momentum=0.5),
        named_parameters=model.named_parameters(),
    )
    sampler = hvd.elastic.ElasticSampler(data)
    loader = DataLoader(data, args.batch, sampler=sampler)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        begun = time.monotonic()
        while state.epoch < args.epochs:
            for batch, (images, labels) in enumerate(loader):
                optimizer.zero_grad()
                F.nll_loss(model(images), labels).backward()
                optimizer.step()
                sampler.record_batch(batch, args.batch)
                if batch % 10 == 9:
                    state.commit()  # what comes after it is done again if somebody is lost
                else:
                    state.check_host_updates()
            if hvd.rank() == 0:
                right = mnist.accuracy(model, *test)
                print(
                    f"epoch {state.epoch + 1}: {100 * right:.2f} % right, {hvd.size()} workers, "
                    f"{time.monotonic() - begun:.1f} s",
                    flush=True,
                )
            state.epoch += 1
            sampler.set_epoch(state.epoch)
            state.commit()

    def on_reset() -> None:
        for group in optimizer.param_groups:
            group["lr"] = args.lr * hvd.size()

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)
    state.register_reset_callbacks([on_reset])
    train(state)


if __name__ == "__main__":
    main()
