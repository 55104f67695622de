"""Odds and ends under the names that Horovod's programs import."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import warnings
from typing import Any, Callable, Iterator, Optional, Sequence

from .basics import ccl_built, cuda_built, ddl_built, gloo_built, mpi_built, nccl_built, rocm_built

__all__ = ["ccl_built", "check_extension", "cuda_built", "ddl_built", "env", "extension_available",
           "get_average_backwards_compatibility_fun", "gloo_built", "gpu_available", "is_iterable",
           "mpi_built", "nccl_built", "num_rank_is_power_2", "rocm_built", "split_list"]


@contextlib.contextmanager
def env(**variables: Optional[str]) -> Iterator[None]:
    """Sets these variables of the environment for a while; one that is None stays as it is."""
    given = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Of "torch", "tensorflow" and "mxnet": whether it is the first, and is installed."""
    return ext_base_name == "torch" and importlib.util.find_spec("torch") is not None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether that framework has a GPU here."""
    if not extension_available(ext_base_name):
        return False
    import torch

    return torch.cuda.is_available()


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError if there is no such thing as "horovod.torch"."""
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f"Starling has no {ext_name}, or what it needs is not installed")


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable:
    """A function of op= and the older average=: what is meant, of reduce_ops."""

    def op_of(op, average):
        if op is None and average is None:
            return reduce_ops.Average
        if average is None:
            return op
        if op is not None:
            raise ValueError("op supersedes average: give only one of them")
        warnings.warn("average= has been replaced by op=", DeprecationWarning, stacklevel=4)
        return reduce_ops.Average if average else reduce_ops.Sum

    return op_of


def is_iterable(thing: Any) -> bool:
    return hasattr(thing, "__iter__")


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(things: Sequence, parts: int) -> list[Sequence]:
    """Parts that differ by at most one in length, the longer ones first."""
    length, more = divmod(len(things), parts)
    begins = [i * length + min(i, more) for i in range(parts + 1)]
    return [things[begin:end] for begin, end in zip(begins, begins[1:])]
