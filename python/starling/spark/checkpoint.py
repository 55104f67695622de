"""What the workers of an Estimator keep after each epoch, so that a stage that Spark starts again goes on there.

    FOLDER/epoch-3-rank-0   the weights and the optimizer's state of a worker, whole or not there
"""

from __future__ import annotations

import os
import re
from typing import Any, Optional

import torch


class Checkpoint:
    """One worker's, in a folder that all see; without one nothing is kept."""

    def __init__(self, folder: Optional[str], dist: Any):
        self._folder, self._dist = folder, dist
        if folder:
            os.makedirs(folder, exist_ok=True)

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """How many epochs are done: the last that all workers have kept, whose state is now here."""
        if not self._folder:
            return 0
        found: dict[int, set[int]] = {}
        for name in os.listdir(self._folder):
            if match := re.fullmatch(r"epoch-(\d+)-rank-(\d+)", name):
                found.setdefault(int(match[1]), set()).add(int(match[2]))
        whole = [epoch for epoch, ranks in found.items() if ranks >= set(range(self._dist.size))]
        # What one sees all must go on from, even if its disk is behind.
        epoch = torch.tensor([max(whole, default=0)])
        self._dist.broadcast(epoch)
        if epoch.item() > 0:
            kept = torch.load(self._place(int(epoch)))
            # Into the tensors that are there: they live in the memory that is exchanged.
            model.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])
        self._dist.barrier()
        return int(epoch)

    def keep(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        if not self._folder:
            return
        place = self._place(epoch)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, place + ".part")
        os.replace(place + ".part", place)
        self._dist.barrier()  # all have this one: the one before may go
        if epoch > 1 and os.path.exists(self._place(epoch - 1)):
            os.remove(self._place(epoch - 1))

    def _place(self, epoch: int) -> str:
        return os.path.join(self._folder, f"epoch-{epoch}-rank-{self._dist.rank}")
