#!/usr/bin/env python3
"""A small transformer that learns to write, character by character, by starling.Dist.

    starling launch -n 4 -- python3 examples/python/char_gpt.py --system pairwise --period 4
    starling launch -n 4 --system diloco -- python3 examples/python/char_gpt.py

It reads the King James Bible, which `make kjv` gets, or any --text FILE.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import starling

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starling"


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.look(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(future, -math.inf).softmax(-1) @ value
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.think(self.between(x))


class CharGpt(nn.Module):
    def __init__(self, characters: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.character = nn.Embedding(characters, width)
        self.place = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width))
        self.next = nn.Linear(width, characters, bias=False)
        self.next.weight = self.character.weight  # one matrix reads and writes
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.next(self.blocks(self.character(text) + self.place.weight[: text.shape[1]]))


def read(file: Path) -> tuple[torch.Tensor, list[str]]:
    """The text as numbers of characters, and which characters there are."""
    if not file.exists():
        raise SystemExit(f"there is no {file}: run 'make kjv' first, or give --text FILE")
    text = file.read_text(errors="replace")
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    return torch.tensor([numbers[each] for each in text]), characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="", help="see `starling systems`")
    parser.add_argument("--period", type=int, help="steps between exchanges")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="of each worker")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.set_num_threads(1)
    text, characters = read(args.text or next(iter(sorted((CACHE / "kjv").glob("*.txt"))), CACHE))
    train, test = text[: -len(text) // 20], text[-len(text) // 20 :]
    torch.manual_seed(1)
    model = CharGpt(len(characters), args.context, args.width, args.layers, heads=4)
    settings = {} if args.period is None else {"period": args.period}
    dist = starling.Dist(model, system=args.system, **settings)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)

    def batch(source: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(source) - args.context - 1, (args.batch,), generator=generator)
        windows = torch.stack([source[start : start + args.context + 1] for start in starts])
        return windows[:, :-1], windows[:, 1:]

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    generator = torch.Generator().manual_seed(dist.rank + 1)
    begun = time.monotonic()
    for step in range(args.steps):
        loss = loss_of(*batch(train, generator))
        loss.backward()
        dist.clip_grad_norm_(1.0)
        dist.step(optimizer)
        if dist.rank == 0 and (step + 1) % 50 == 0:
            dist.report(loss=loss.item())
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.monotonic() - begun:.1f} s")
    dist.finish()
    if dist.rank != 0:
        return
    model.eval()
    with torch.no_grad():
        trials = torch.Generator().manual_seed(0)
        test_loss = sum(loss_of(*batch(test, trials)).item() for _ in range(20)) / 20
        dist.report(test_loss=test_loss)
        print(f"test loss {test_loss:.3f}, of {math.log(len(characters)):.3f} without learning")
        line = test[:8][None]
        for _ in range(120):
            chances = model(line[:, -args.context :])[0, -1].softmax(-1)
            line = torch.cat([line, chances.multinomial(1, generator=trials)[None]], 1)
        print("".join(characters[each] for each in line[0]).replace("\n", " "))


if __name__ == "__main__":
    main()
