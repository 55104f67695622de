#!/usr/bin/python3
"""Yardstick: PyTorch DistributedDataParallel over gloo, training the classic MNIST network or a small
language model.

One worker of several, started by `starling bench training` and `starling measure --grid race`, each
in a network of its own if there is a lab. Keeps DDP at its best: the data set stays in memory and a
batch is one gather, with no DataLoader in between. Networks, first weights, optimizers, learning
rates and what an evaluation takes are ours (src/train), so that only the exchange differs. Rank 0
prints a JSON object after each evaluation and when it ends.

    starling launch -n 4 -- sh -c 'ddp_train.py --rank $STARLING_RANK --store /tmp/new --data DIR'
"""

import argparse
import json
import math
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP_STEPS = 20  # before samples a second are counted
PIXELS = 28 * 28
DEVIATION = 0.05  # of a language model's first weights
LINES_IN_BLOCK = 50  # of text, of which every 20th is for validation
BLOCKS_TO_ONE_FOR_VALIDATION = 20


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


class Digits:
    """MNIST, a sample an image. The network ends in log-probabilities."""

    unit = {}
    loss = staticmethod(F.nll_loss)
    samples_at_once = 500  # in an evaluation

    def __init__(self, args):
        self.images, self.labels = read_split(args.data, "train")
        self.test_images, self.test_labels = read_split(args.data, "t10k")
        self.samples, self.test_samples = len(self.images), len(self.test_images)

    def network(self):
        return MnistCnn()

    def batch(self, which):
        return to_input(self.images[which]), self.labels[which]

    def test_batch(self, which):
        return to_input(self.test_images[which]), self.test_labels[which]


def linear(inputs, outputs, bias, deviation=DEVIATION):
    layer = nn.Linear(inputs, outputs, bias)
    nn.init.normal_(layer.weight, 0, deviation)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.heads
        self.qkv = linear(args.width, 3 * args.width, False)
        self.out = linear(args.width, args.width, False, DEVIATION / math.sqrt(2 * args.layers))
        head_width = args.width // args.heads
        speed = torch.exp(torch.arange(head_width // 2) * (-2 * math.log(10_000) / head_width))
        angle = torch.outer(torch.arange(args.context).float(), speed)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.future = torch.full((args.context, args.context), -math.inf).triu_(1)

    def rotated(self, x):
        """Each pair of numbers turned by an angle that grows with its place."""
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        one, other = x.chunk(2, -1)
        return torch.cat((one * cos - other * sin, one * sin + other * cos), -1)

    def forward(self, x):
        batch, places, width = x.shape
        parts = self.qkv(x).view(batch, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = self.rotated(parts[0]), self.rotated(parts[1]), parts[2]
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        mixed = (scores + self.future[:places, :places]).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, places, width))


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.norm1 = nn.LayerNorm(args.width)
        self.attention = Attention(args)
        self.norm2 = nn.LayerNorm(args.width)
        self.up = linear(args.width, 4 * args.width, True)
        self.down = linear(4 * args.width, args.width, True, DEVIATION / math.sqrt(2 * args.layers))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    """One matrix is the embedding and the last layer."""

    def __init__(self, args, symbols):
        super().__init__()
        self.embedding = nn.Embedding(symbols, args.width)
        nn.init.normal_(self.embedding.weight, 0, DEVIATION)
        self.blocks = nn.Sequential(*[Block(args) for _ in range(args.layers)])
        self.norm = nn.LayerNorm(args.width)

    def forward(self, x):
        return F.linear(self.norm(self.blocks(self.embedding(x))), self.embedding.weight)


class Text:
    """The King James Bible, a sample a window of characters, one window behind the other."""

    unit = {"loss_unit": "bits per character"}
    samples_at_once = 32

    def __init__(self, args):
        self.args = args
        with open(args.data / "kjv.txt", "rb") as file:
            lines = file.readlines()
        self.symbols = sorted(set(b"".join(lines)))
        split = (bytearray(), bytearray())  # for training, for validation
        for number, line in enumerate(lines):
            block = number // LINES_IN_BLOCK % BLOCKS_TO_ONE_FOR_VALIDATION
            split[block == BLOCKS_TO_ONE_FOR_VALIDATION - 1].extend(line)
        places = bytes(self.symbols.index(i) if i in self.symbols else 0 for i in range(256))
        self.train, self.test = (
            torch.frombuffer(part.translate(places), dtype=torch.uint8) for part in split
        )
        self.samples, self.test_samples = (
            (len(part) - 1) // args.context for part in (self.train, self.test)
        )

    def network(self):
        return CharGpt(self.args, len(self.symbols))

    @staticmethod
    def loss(scores, targets, reduction="mean"):
        return F.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction=reduction)

    def windows(self, text, which):
        context = self.args.context
        text = text[which.unsqueeze(1) * context + torch.arange(context + 1)].long()
        return text[:, :-1], text[:, 1:]

    def batch(self, which):
        return self.windows(self.train, which)

    def test_batch(self, which):
        return self.windows(self.test, which)


TASKS = {"mnist-cnn": Digits, "char-gpt": Text}


def evaluate(task, model, rank, workers):
    """Accuracy and loss on what is for testing, of which every worker takes a share. Replicas are
    alike, so that three numbers are all that is sent."""
    mine = torch.arange(task.test_samples)[rank::workers]
    tally = torch.zeros(3, dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        for which in mine.split(task.samples_at_once):
            inputs, targets = task.test_batch(which)
            scores = model(inputs)
            right = (scores.argmax(-1) == targets).sum()
            tally += torch.tensor(
                [right, task.loss(scores, targets, reduction="sum"), targets.numel()]
            )
    model.train()
    dist.all_reduce(tally)
    right, nats, count = tally.tolist()
    return right / count, nats / count / (math.log(2) if task.unit else 1)


def make_optimizer(args, model):
    parameters = list(model.parameters())
    betas = (args.adam_beta1, args.adam_beta2)
    if args.optimizer == "adam":
        return torch.optim.Adam(parameters, args.lr, betas, weight_decay=args.weight_decay)
    if args.optimizer == "adamw":  # matrices alone decay
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2]},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0},
        ]
        return torch.optim.AdamW(groups, args.lr, betas, weight_decay=args.weight_decay)
    return torch.optim.SGD(
        parameters, args.lr, momentum=args.momentum, weight_decay=args.weight_decay
    )


def rate_share(args, step, steps_per_epoch, steps):
    """Of the learning rate: it warms up, then stays or follows half a cosine down."""
    warm_steps = args.warmup * steps_per_epoch
    if step < warm_steps:
        return min(1, (step + 1) / warm_steps)
    if args.lr_schedule == "constant":
        return 1
    way = (step - warm_steps) / max(1, steps - warm_steps)
    return args.lr_end + (1 - args.lr_end) * (1 + math.cos(math.pi * min(1, way))) / 2


def is_reached(until, accuracy, loss):
    if until is None:
        return False
    measure, goal = until
    return accuracy >= goal if measure == "accuracy" else loss <= goal


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


def train(args, task):
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
    samples = min(args.samples or task.samples, task.samples)
    global_batch = args.batch * args.workers
    steps_per_epoch = samples // global_batch  # the rest is dropped
    steps = args.steps or max(1, round(args.epochs * steps_per_epoch))

    torch.manual_seed(args.seed * 10_000)  # as our own workers draw their first weights
    model = task.network()
    torch.manual_seed(args.seed * 10_000 + rank)  # dropout differs between workers
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = make_optimizer(args, ddp)
    shuffle = torch.Generator()

    every = max(1, math.ceil(args.evaluate_every * steps_per_epoch))
    seconds = 0.0  # without evaluations
    warm_up_seconds = 0.0
    accuracy = loss = 0.0
    dist.barrier()
    begin = start = time.perf_counter()
    for step in range(steps):
        if step % steps_per_epoch == 0:
            epoch = step // steps_per_epoch + 1
            order = torch.randperm(samples, generator=shuffle.manual_seed(args.seed + epoch))
            order = order[: steps_per_epoch * global_batch].view(steps_per_epoch, args.workers, -1)
        if step == WARM_UP_STEPS:
            warm_up_seconds = seconds + time.perf_counter() - start
        for group in optimizer.param_groups:
            group["lr"] = args.lr * rate_share(args, step, steps_per_epoch, steps)
        inputs, targets = task.batch(order[step % steps_per_epoch, rank])
        optimizer.zero_grad()
        task.loss(ddp(inputs), targets).backward()
        if args.clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        done = step + 1
        if done < steps and (args.until is None or done % every != 0):
            continue
        seconds += time.perf_counter() - start
        accuracy, loss = evaluate(task, model, rank, args.workers)
        say(
            rank,
            event="evaluation",
            step=done,
            steps=steps,
            epoch=done / steps_per_epoch,
            time=time.perf_counter() - begin,
            training_time=seconds,
            accuracy=accuracy,
            test_loss=loss,
            **task.unit,
        )
        start = time.perf_counter()
        if is_reached(args.until, accuracy, loss):
            break

    sent = torch.zeros(args.workers, dtype=torch.int64)
    sent[rank] = bytes_sent(interface) - sent_before
    dist.all_reduce(sent)
    timed_samples = (done - WARM_UP_STEPS) * global_batch
    say(
        rank,
        event="result",
        strategy="PyTorch DDP",
        workers=args.workers,
        model=args.model,
        parameters=sum(p.numel() for p in model.parameters()),
        batch=args.batch,
        epochs=done / steps_per_epoch,
        steps=done,
        seconds=time.perf_counter() - begin,
        train_seconds=seconds,
        samples_per_second=timed_samples / max(1e-9, seconds - warm_up_seconds),
        accuracy=accuracy,
        loss=loss,
        **task.unit,
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


def goal(text):
    """As --until of starling train has it: accuracy=0.97, or loss=2.2."""
    measure, _, value = text.partition("=")
    if measure not in ("accuracy", "loss") or not float(value) > 0:
        raise ValueError(text)
    return measure, float(value)


def parse_arguments():
    parser = OneLineParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="directory of the MNIST idx files, or of kjv.txt")
    add("--rank", type=int, required=True, help="which worker this is")
    add("--store", type=Path, required=True, help="a new file where all meet")
    add("--workers", type=int, default=4, help="how many there are")
    add("--model", choices=TASKS, default="mnist-cnn", help="what is trained")
    add("--layers", type=int, default=2, help="char-gpt: how many blocks")
    add("--width", type=int, default=128, help="char-gpt: numbers that stand for a character")
    add("--heads", type=int, default=4, help="char-gpt: heads of attention in a block")
    add("--context", type=int, default=64, help="char-gpt: characters it looks at")
    add("--batch", type=int, default=64, help="samples a worker and step")
    add("--epochs", type=float, default=1, help="at most this many")
    add("--steps", type=int, help="at most this many, in place of epochs")
    add("--optimizer", choices=("sgd", "adam", "adamw"), default="sgd")
    add("--lr", type=float, default=0.1, help="learning rate")
    add("--momentum", type=float, default=0.5, help="of SGD")
    add("--adam-beta1", type=float, default=0.9, help="of Adam")
    add("--adam-beta2", type=float, default=0.999, help="of Adam")
    add("--weight-decay", type=float, default=0, help="AdamW: of matrices alone")
    add("--clip", type=float, default=0, help="the most a gradient's norm may be; 0: anything")
    add("--lr-schedule", choices=("constant", "cosine"), default="constant")
    add("--lr-end", type=float, default=0, help="cosine: the share of lr that is left at the end")
    add("--warmup", type=float, default=0, help="epochs until the learning rate is whole")
    add("--seed", type=int, default=1, help="of weights, order and dropout")
    add("--samples", type=int, help="train on the first so many only")
    add("--until", type=goal, help="stop at, e.g., accuracy=0.97 or loss=2.2")
    add("--evaluate-every", type=float, default=1, help="epochs, if there is a goal")
    args = parser.parse_args()
    for name in ("workers", "batch", "steps", "samples", "layers", "heads", "context"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1")
    if not (args.lr > 0 and 0 <= args.momentum < 1):
        parser.error("--lr must be above 0, and --momentum from 0 to below 1")
    if args.width % (2 * args.heads) != 0:
        parser.error("--width must be a multiple of twice --heads")
    try:
        task = TASKS[args.model](args)
    except (OSError, ValueError) as error:
        parser.error(error)
    samples = min(args.samples or task.samples, task.samples)
    steps = samples // (args.batch * args.workers)
    if steps < 1 or (args.steps or args.epochs * steps) <= WARM_UP_STEPS:
        parser.error(f"there must be more than the {WARM_UP_STEPS} warm-up steps")
    return args, task


if __name__ == "__main__":
    train(*parse_arguments())
