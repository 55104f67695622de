"""Models, optimizers and other objects, the same on all ranks."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Union

import torch

from ..common.world import ProcessSet, global_process_set
from ..runner.functions import dumps, loads
from .mpi_ops import allgather, broadcast_, broadcast_async_, rank, synchronize


def broadcast_parameters(params: Union[dict, Iterable], root_rank: int,
                         process_set: ProcessSet = global_process_set) -> None:
    """Puts the root's parameters in place of everybody's.

    params: model.state_dict(), model.named_parameters() or model.parameters().
    """
    if isinstance(params, dict):
        params = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not hasattr(params, "__iter__"):
        raise ValueError(f"invalid params of type: {type(params)}")
    named = [each if isinstance(each, tuple) else (None, each) for each in params]
    handles = [
        broadcast_async_(tensor, root_rank, name, process_set)
        for name, tensor in named
        if isinstance(tensor, torch.Tensor)
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int,
                              model: Optional[torch.nn.Module] = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Puts the root's learning rates, momenta and so on in place of everybody's."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not optimizer.state_dict()["state"]:
        _give_it_state(optimizer, model)
    is_root = rank() == root_rank
    state = optimizer.state_dict() if is_root else None
    tensors: list[torch.Tensor] = []
    if is_root:
        state = _without_tensors(state, tensors)
        forms = [(tensor.shape, tensor.dtype) for tensor in tensors]
        broadcast_object((state, forms), root_rank, None, process_set)
    else:
        state, forms = broadcast_object(None, root_rank, None, process_set)
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in forms]
    handles = [broadcast_async_(tensor, root_rank, None, process_set) for tensor in tensors]
    for handle in handles:
        synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(_with_tensors(state, tensors))


def _give_it_state(optimizer: torch.optim.Optimizer, model: Optional[torch.nn.Module]) -> None:
    """A fresh optimizer has its state from a step on: takes one with gradients of zero, after which
    parameters are as before, also where they decay."""
    from .optimizer import step_here

    sparse = {p for module in (model.modules() if model is not None else ())
              if isinstance(module, torch.nn.Embedding) and module.sparse
              for p in module.parameters()}
    moving = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    before = [p.detach().clone() for p in moving]
    for p in moving:
        p.grad = torch.zeros_like(p)
        if isinstance(optimizer, torch.optim.SparseAdam) or p in sparse:
            p.grad = p.grad.to_sparse()
    step_here(optimizer)
    with torch.no_grad():
        for p, start in zip(moving, before):
            p.copy_(start)


class _Place:
    """Where in a structure a tensor stood."""

    def __init__(self, index: int):
        self.index = index


def _without_tensors(thing: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(thing, torch.Tensor):
        tensors.append(thing.detach())
        return _Place(len(tensors) - 1)
    if isinstance(thing, dict):
        return {key: _without_tensors(value, tensors) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_without_tensors(value, tensors) for value in thing)
    return thing


def _with_tensors(thing: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(thing, _Place):
        return tensors[thing.index]
    if isinstance(thing, dict):
        return {key: _with_tensors(value, tensors) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_with_tensors(value, tensors) for value in thing)
    return thing


def _as_tensor(thing: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(dumps(thing)), dtype=torch.uint8)


def _from_tensor(tensor: torch.Tensor) -> Any:
    return loads(tensor.numpy().tobytes())


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object: whatever pickle takes, and functions, too."""
    is_root = rank() == root_rank
    data = _as_tensor(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([data.numel()])
    broadcast_(length, root_rank, name and f"{name}.sz", process_set)
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, name and f"{name}.t", process_set)
    return obj if is_root else _from_tensor(data)


def broadcast_object_fn(root_rank: int = 0, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """A function that broadcasts whatever object it is given."""

    def broadcast_it(obj: Any) -> Any:
        return broadcast_object(obj, root_rank, name, process_set)

    return broadcast_it


def allgather_object(obj: Any, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> list:
    """Everybody's objects, by rank."""
    data = _as_tensor(obj)
    lengths = allgather(torch.tensor([data.numel()]), name and f"{name}.sz", process_set).tolist()
    everything = allgather(data, name and f"{name}.t", process_set)
    return [_from_tensor(part) for part in everything.split(lengths)]
