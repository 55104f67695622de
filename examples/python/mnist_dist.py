#!/usr/bin/env python3
"""MNIST by starling.Dist, with any system: a training loop of one's own, and two lines of ours.

    starling launch -n 4 -- python3 examples/python/mnist_dist.py --system pairwise
    starling launch -n 4 -- python3 examples/python/mnist_dist.py --system horovod
    starling launch -n 4 -- python3 examples/python/mnist_dist.py --system easgd
    starling launch -n 4 -- python3 examples/python/mnist_dist.py --system gosgd
    starling launch -n 4 --system parameter-server --lr 0.05 -- python3 examples/python/mnist_dist.py

What has servers of its own is named to the launcher, which starts them.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import mnist
import starling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="", help="see `starling systems`")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = mnist.Network()
    dist = starling.Dist(model, system=args.system)
    torch.manual_seed(dist.rank + 1)  # for dropout
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.5)
    loader = DataLoader(TensorDataset(*mnist.load(train=True)), args.batch, shuffle=True)
    test = mnist.load(train=False)

    begun = time.monotonic()
    for epoch in range(args.epochs):
        for images, labels in dist.share(loader):
            loss = F.nll_loss(model(images), labels)
            loss.backward()
            dist.step(optimizer)
        dist.report(loss=loss.item(), epoch=epoch + 1)
    dist.finish()
    if dist.rank == 0:
        right = mnist.accuracy(model, *test)
        dist.report(accuracy=right, epoch=args.epochs)
        print(f"{100 * right:.2f} % right, {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
