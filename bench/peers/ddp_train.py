#!/usr/bin/python3
"""Yardstick: PyTorch DistributedDataParallel over gloo, training the classic MNIST network.

One worker of several, started by `starling bench training` and `starling measure --grid race`, each
in a network of its own if there is a lab. Keeps DDP at its best: the data set stays in memory and a
batch is one gather, with no DataLoader in between. Rank 0 prints a JSON object after each evaluation
and when it ends.

    starling launch -n 4 -- sh -c 'ddp_train.py --rank $STARLING_RANK --store /tmp/new --data DIR'
"""

import argparse
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP_STEPS = 20
PIXELS = 28 * 28


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.dropout(x, 0.5, self.training)
        return F.log_softmax(self.fc2(x), 1)


def read_idx(path, magic, item_bytes):
    """The items of an idx file as a uint8 tensor of [count, item_bytes]."""
    raw = bytearray(path.read_bytes())
    header_bytes = 4 + 4 * (magic & 0xFF)
    count = int.from_bytes(raw[4:8], "big")
    is_whole = len(raw) == header_bytes + count * item_bytes
    if int.from_bytes(raw[:4], "big") != magic or count == 0 or not is_whole:
        raise ValueError(f"{path} is not a whole MNIST idx file")
    return torch.frombuffer(raw, dtype=torch.uint8, offset=header_bytes).view(count, item_bytes)


def read_split(directory, name):
    images = read_idx(directory / f"{name}-images-idx3-ubyte", 0x803, PIXELS)
    labels = read_idx(directory / f"{name}-labels-idx1-ubyte", 0x801, 1).view(-1).long()
    if len(images) != len(labels):
        raise ValueError(f"{directory}: {len(images)} {name} images but {len(labels)} labels")
    return images, labels


def to_input(images):
    return images.float().div_(255).sub_(0.1307).div_(0.3081).view(-1, 1, 28, 28)


def accuracy(model, images, labels, rank, workers):
    """Share of right answers; every worker takes a share of the images."""
    images, labels = images[rank::workers], labels[rank::workers]
    right = torch.zeros(2, dtype=torch.int64)
    model.eval()
    with torch.no_grad():
        for x, y in zip(images.split(500), labels.split(500)):
            right += torch.tensor([(model(to_input(x)).argmax(1) == y).sum(), len(y)])
    model.train()
    dist.all_reduce(right)
    return right[0].item() / right[1].item()


def bytes_sent(interface):
    """What the kernel has counted on the way out of a lab host's interface."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == interface:
            return int(counts.split()[8])
    return 0


def say(rank, **event):
    if rank == 0:
        print(json.dumps(event), flush=True)


def train(args):
    rank = args.rank
    interface = os.environ.get("STARLING_INTERFACE", "lo")
    # Otherwise gloo takes the interface that the host's name resolves to.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    torch.set_num_threads(max(1, os.cpu_count() // args.workers))
    sent_before = bytes_sent(interface)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{args.store}",
        rank=rank,
        world_size=args.workers,
        timeout=timedelta(minutes=10),
    )
    images, labels = read_split(args.data, "train")
    test_images, test_labels = read_split(args.data, "t10k")
    samples = min(args.samples or len(images), len(images))
    steps = samples // (args.batch * args.workers)  # an epoch; the rest is dropped

    torch.manual_seed(args.seed)
    model = MnistCnn()
    torch.manual_seed(args.seed + 1 + rank)  # dropout differs between workers
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr, momentum=args.momentum)
    shuffle = torch.Generator()

    every = args.evaluate_every or steps
    seconds = 0.0  # without evaluations
    warm_up_seconds = 0.0
    reached = 0.0
    done = 0
    begin = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        dist.barrier()
        start = time.perf_counter()
        order = torch.randperm(samples, generator=shuffle.manual_seed(args.seed + epoch))
        order = order[: steps * args.batch * args.workers].view(steps, args.workers, args.batch)
        for step, batch in enumerate(order[:, rank]):
            if epoch == 1 and step == WARM_UP_STEPS:
                warm_up_seconds = time.perf_counter() - start
            optimizer.zero_grad()
            F.nll_loss(ddp(to_input(images[batch])), labels[batch]).backward()
            optimizer.step()
            done += 1
            last = done == args.epochs * steps
            if not last and (args.until is None or done % every != 0):
                continue
            seconds += time.perf_counter() - start
            reached = accuracy(model, test_images, test_labels, rank, args.workers)
            say(
                rank,
                event="evaluation",
                step=done,
                steps=args.epochs * steps,
                epoch=done / steps,
                time=time.perf_counter() - begin,
                training_time=seconds,
                accuracy=reached,
            )
            start = time.perf_counter()
            if args.until is not None and reached >= args.until:
                break
        seconds += time.perf_counter() - start
        if args.until is not None and reached >= args.until:
            break

    sent = torch.zeros(args.workers, dtype=torch.int64)
    sent[rank] = bytes_sent(interface) - sent_before
    dist.all_reduce(sent)
    timed_samples = (done - WARM_UP_STEPS) * args.batch * args.workers
    say(
        rank,
        event="result",
        strategy="PyTorch DDP",
        workers=args.workers,
        batch=args.batch,
        epochs=done / steps,
        steps=done,
        seconds=time.perf_counter() - begin,
        train_seconds=seconds,
        samples_per_second=timed_samples / max(1e-9, seconds - warm_up_seconds),
        accuracy=reached,
        # All ranks share the loopback interface: its count is nobody's.
        **({} if interface == "lo" else {"kernel_bytes_sent": sent.tolist()}),
    )
    dist.barrier()
    # Destroying DDP can deadlock: it joins gloo's threads while it holds the interpreter lock that
    # a thread with a last tensor to free waits for (seen with 1.13). Nothing is left to clean up.
    os._exit(0)


class OneLineParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def parse_arguments():
    parser = OneLineParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="directory of the MNIST idx files")
    parser.add_argument("--rank", type=int, required=True, help="which worker this is")
    parser.add_argument("--store", type=Path, required=True, help="a new file where all meet")
    parser.add_argument("--workers", type=int, default=4, help="how many there are")
    parser.add_argument("--batch", type=int, default=64, help="samples a worker and step")
    parser.add_argument("--epochs", type=int, default=1, help="at most this many")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate of SGD")
    parser.add_argument("--momentum", type=float, default=0.5, help="of SGD")
    parser.add_argument("--seed", type=int, default=1, help="of weights, order and dropout")
    parser.add_argument("--samples", type=int, help="train on the first so many only")
    parser.add_argument("--until", type=float, help="stop at this test accuracy")
    parser.add_argument("--evaluate-every", type=int, help="steps; by default an epoch")
    args = parser.parse_args()
    for name in ("workers", "batch", "epochs", "samples", "evaluate_every"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1")
    if not (args.lr > 0 and 0 <= args.momentum < 1):
        parser.error("--lr must be above 0, and --momentum from 0 to below 1")
    if args.until is not None and not 0 < args.until <= 1:
        parser.error("--until must be above 0 and at most 1")
    try:
        images, _ = read_split(args.data, "train")
        read_split(args.data, "t10k")
    except (OSError, ValueError) as error:
        parser.error(error)
    samples = min(args.samples or len(images), len(images))
    if samples // (args.batch * args.workers) <= WARM_UP_STEPS:
        parser.error(f"an epoch must have more than the {WARM_UP_STEPS} warm-up steps")
    return args


if __name__ == "__main__":
    train(parse_arguments())
