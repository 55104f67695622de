"""Odds and ends under the names that Horovod's programs import."""

from __future__ import annotations

from typing import Any, Sequence

from .basics import ccl_built, cuda_built, ddl_built, gloo_built, mpi_built, nccl_built, rocm_built

__all__ = ["ccl_built", "cuda_built", "ddl_built", "gloo_built", "is_iterable", "mpi_built",
           "nccl_built", "num_rank_is_power_2", "rocm_built", "split_list"]


def is_iterable(thing: Any) -> bool:
    return hasattr(thing, "__iter__")


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(things: Sequence, parts: int) -> list[Sequence]:
    """Parts that differ by at most one in length, the longer ones first."""
    length, more = divmod(len(things), parts)
    begins = [i * length + min(i, more) for i in range(parts + 1)]
    return [things[begin:end] for begin, end in zip(begins, begins[1:])]
