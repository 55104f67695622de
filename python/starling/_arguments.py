"""What the exchanges of torch.distributed are asked with: brought into one form, and looked at.

What does not fit is refused in gloo's words, which programs and tests know.
"""

from __future__ import annotations

import functools
from typing import Callable, Sequence

import torch

_DENSE = torch.strided


class Refused(ValueError, RuntimeError):
    """Arguments that do not fit. Gloo's are of the one kind or of the other, by torch's version."""


def takes_bare_tensors(count: int, options: Callable, *words: str) -> Callable:
    """Of a method whose first arguments are so many lists: it takes bare tensors, too, and what `words`
    names in place of options, as torch's groups do: broadcast(x, root=0)."""

    def decorate(method: Callable) -> Callable:
        @functools.wraps(method)
        def called(self, *given, **named):
            lists, rest = given[:count], given[count:]
            if not any(isinstance(each, torch.Tensor) for each in lists):
                return method(self, *given, **named)
            named.update(zip(words, rest))
            opts = options()
            if "root" in named:
                opts.rootRank = named["root"]
            if "op" in named:
                opts.reduceOp = named["op"]
            return method(self, *([each] for each in lists), opts)

        return called

    return decorate


def check_alike(what: str, tensors: Sequence[torch.Tensor]) -> None:
    """That they are of one layout, type and shape."""
    if not tensors:
        raise Refused(f"{what}: requires non-empty tensor list")
    check_layouts(what, tensors)
    check_types(what, tensors[0].dtype, tensors)
    check_shapes(what, tensors[0].shape, tensors)


def check_layouts(what: str, tensors: Sequence[torch.Tensor]) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.layout != tensors[0].layout:
            raise Refused(f"{what}: invalid tensor layout at index {i} "
                          f"(expected {tensors[0].layout}, got {tensor.layout})")


def check_types(what: str, dtype: torch.dtype, tensors: Sequence[torch.Tensor]) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.dtype != dtype:
            raise Refused(f"{what}: invalid tensor type at index {i} "
                          f"(expected {dtype}, got {tensor.dtype})")


def check_shapes(what: str, shape: torch.Size, tensors: Sequence[torch.Tensor]) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.shape != shape:
            raise Refused(f"{what}: invalid tensor size at index {i} "
                          f"(expected {list(shape)}, got {list(tensor.shape)})")


def check_own(what: str, own: torch.Tensor, place: torch.Tensor, index: int) -> None:
    """Of what this rank has for itself, and where that goes."""
    if own.numel() != place.numel():
        raise Refused(f"{what}: invalid tensor size at index {index} "
                      f"(expected {own.numel()} elements, got {place.numel()})")


def check_matching(what: str, tensors: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
    """That each has a place of its kind."""
    for i, (tensor, place) in enumerate(zip(tensors, places)):
        if place.shape != tensor.shape:
            raise Refused(f"{what}: invalid size of output tensor at index {i} "
                          f"(expected length {list(tensor.shape)}, got {list(place.shape)})")
        if place.dtype != tensor.dtype:
            raise Refused(f"{what}: invalid tensor type at index {i} "
                          f"(expected {tensor.dtype}, got {place.dtype})")


def check_coalesced(what: str, tensors: Sequence[torch.Tensor]) -> None:
    """That they can go as one."""
    if not tensors:
        raise Refused(f"{what}: requires non-empty tensor list")
    check_layouts(what, tensors)
    if any(tensor.dtype != tensors[0].dtype for tensor in tensors):
        raise Refused(f"{what}: tensors must all have the same type")
    if tensors[0].layout is not _DENSE:
        raise Refused(f"{what}: unsupported layout {tensors[0].layout}")


def only(what: str, tensors: Sequence, kind: str = "tensor list"):
    """The one there is."""
    if len(tensors) != 1:
        raise Refused(f"{what}: requires a single-element {kind}, got {len(tensors)}")
    return tensors[0]


def list_of_root(what: str, lists: Sequence, is_root: bool, size: int, kind: str) -> Sequence:
    """A tensor for each rank, which only the root has."""
    if not is_root:
        if lists and lists[0]:
            raise Refused(f"{what}: requires empty {kind} on non-root")
        return []
    if len(lists) != 1:
        raise Refused(f"{what}: requires a single-element {kind} list containing a list with "
                      f"{size} tensors")
    if len(lists[0]) != size:
        raise Refused(f"{what}: Incorrect {kind} list size {len(lists[0])}. {kind.capitalize()} list "
                      f"size should be {size}, same as size of the process group")
    return lists[0]
