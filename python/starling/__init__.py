"""Starling: training on many machines when the network is the bottleneck."""

from ._core import Error, PeerLost, Timeout
from .runner import run

__all__ = ["Error", "PeerLost", "Timeout", "run"]
