"""What the MNIST examples share: the data, a network, and how well it does.

The data is what `make mnist` gets; $XDG_CACHE_HOME counts, as it does there.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starling" / "mnist"


def _read_idx(path: Path, magic: int, item_bytes: int) -> torch.Tensor:
    """The items of an idx file as a uint8 tensor of [count, item_bytes]."""
    if not path.exists():
        raise SystemExit(f"there is no {path}: run 'make mnist' first")
    raw = bytearray(path.read_bytes())
    header_bytes = 4 + 4 * (magic & 0xFF)
    count = int.from_bytes(raw[4:8], "big")
    is_whole = count > 0 and len(raw) == header_bytes + count * item_bytes
    if int.from_bytes(raw[:4], "big") != magic or not is_whole:
        raise SystemExit(f"{path} is not a whole MNIST idx file")
    return torch.frombuffer(raw, dtype=torch.uint8, offset=header_bytes).view(count, item_bytes)


def load(train: bool, folder: Path = FOLDER) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as [count, 1, 28, 28] of mean 0 and deviation 1, and their labels."""
    name = "train" if train else "t10k"
    images = _read_idx(folder / f"{name}-images-idx3-ubyte", 0x803, 28 * 28)
    labels = _read_idx(folder / f"{name}-labels-idx1-ubyte", 0x801, 1)
    if len(images) != len(labels):
        raise SystemExit(f"{folder} has {len(images)} {name} images, but {len(labels)} labels")
    return (images.float() / 255 - 0.1307).div_(0.3081).view(-1, 1, 28, 28), labels.view(-1).long()


class Network(nn.Module):
    """The classic one of two convolutions, as `starling train --model mnist-cnn` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2))
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, self.training)
        return F.log_softmax(self.fc2(x), 1)


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images that the model names right."""
    was_training = model.training
    model.eval()
    right = sum(
        (model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500))
    )
    model.train(was_training)
    return right / len(labels)
