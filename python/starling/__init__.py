"""Starling: training on many machines when the network is the bottleneck."""

from __future__ import annotations

import importlib
from typing import Any

from ._core import VERSION as __version__
from ._core import Error, PeerLost, Timeout

# What needs numpy or torch is imported when it is first asked for.
_PLACES = {
    "Dist": "dist",
    "Pipeline": "pipeline",
    "allgather": "arrays",
    "allreduce": "arrays",
    "barrier": "arrays",
    "broadcast": "arrays",
    "init": "arrays",
    "rank": "arrays",
    "run": "runner",
    "shutdown": "arrays",
    "size": "arrays",
    "explain": "notebook",
    "simulate": "notebook",
    "systems": "notebook",
}

__all__ = ["Error", "PeerLost", "Timeout", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'starling' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
