"""Torch's tensors as the core takes them: plain memory of the CPU; and the way back."""

from __future__ import annotations

from typing import Iterable, Sequence

import torch

from . import _core, _elements
from ._arguments import Refused

ELEMENTS = {getattr(torch, name): element for name, element in _elements.ELEMENTS.items()}
_BYTE = ELEMENTS[torch.uint8]


def memory(tensor: torch.Tensor) -> _core.Memory:
    """Of a contiguous tensor of the CPU, to be reduced."""
    element = ELEMENTS.get(tensor.dtype)
    if element is None:
        raise Refused(f"starling cannot reduce tensors of {tensor.dtype}")
    return (tensor.data_ptr(), tensor.numel(), element)


def byte_memory(tensor: torch.Tensor) -> _core.Memory:
    """Of a contiguous tensor of the CPU, to be moved, whatever it holds."""
    return (tensor.data_ptr(), tensor.numel() * tensor.element_size(), _BYTE)


def bytes_in(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous and on the CPU: the tensor itself, if it is that already."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        raise Refused(f"starling exchanges dense tensors: this one is {tensor.layout}")
    if tensor.is_complex():
        tensor = tensor.resolve_conj()
    if tensor.device.type == "cpu":
        return tensor.contiguous()
    if tensor.device.type != "cuda":
        raise Refused(
            f"starling exchanges tensors of the CPU and of CUDA: this one is on {tensor.device}"
        )
    # Pinned memory is what the device copies from and to at full speed.
    staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return staged.copy_(tensor)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def joined(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """One flat tensor of the CPU, with the tensors one after the other."""
    return torch.cat([on_cpu(tensor).reshape(-1) for tensor in tensors])


class Staged:
    """A tensor in memory that the core can take, and that memory's way back into the tensor."""

    def __init__(self, tensor: torch.Tensor, returns: bool):
        self.flat = on_cpu(tensor)
        self.tensor = tensor
        self.returns = returns and self.flat.data_ptr() != tensor.data_ptr()

    def give_back(self) -> None:
        with torch.no_grad():
            self.tensor.detach().copy_(self.flat)


class Parts:
    """One flat tensor of bytes whose parts, one after the other, belong into several."""

    returns = True

    def __init__(self, flat: torch.Tensor, places: Sequence[torch.Tensor], begin: int = 0):
        self.flat, self.places, self.begin = flat, list(places), begin

    def give_back(self) -> None:
        at = self.begin
        with torch.no_grad():
            for place in self.places:
                part = self.flat[at : at + bytes_in(place)]
                place.detach().copy_(part.view(place.dtype).view(place.shape))
                at += bytes_in(place)


class Copies:
    """One tensor whose values belong into several."""

    returns = True

    def __init__(self, flat: torch.Tensor, places: Sequence[torch.Tensor]):
        self.flat, self.places = flat, list(places)

    def give_back(self) -> None:
        with torch.no_grad():
            for place in self.places:
                place.detach().copy_(self.flat)


class SparseSum:
    """Every rank's indices and values, whose sum belongs into each of some sparse tensors."""

    returns = True

    def __init__(self, places: Sequence[torch.Tensor], indices: torch.Tensor, values: torch.Tensor):
        self.places, self.indices, self.values = list(places), indices, values

    def give_back(self) -> None:
        with torch.no_grad():
            total = torch.sparse_coo_tensor(self.indices.t(), self.values, self.places[0].shape)
            for place in self.places:
                place.copy_(total.coalesce())  # not into a detached one, which has its own


class Kept:
    """Tensors that must stay for as long as the core reads them."""

    returns = False

    def __init__(self, *tensors: torch.Tensor):
        self.tensors = tensors
