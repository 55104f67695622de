"""DistributedOptimizer: an optimizer whose step() first makes gradients those of all ranks.

Gradients are asked for while the backward pass goes on, some of them at a time, and meet by the names
of their parameters.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from typing import Iterable, Optional, Sequence, Union

import torch

from .. import _core
from ..common import world as _world
from ..common.util import split_list
from ..common.world import ProcessSet, global_process_set
from .compression import Compression
from .functions import broadcast_object
from .handles import Handle, Memory, synchronize
from .mpi_ops import (
    _BLENDS,
    Adasum,
    Average,
    grouped_allreduce_async_,
    size,
    sparse_allreduce_async,
)

_BATCH_BYTES = 4 << 20  # of gradients that are asked for at once


def _names_of(optimizer: torch.optim.Optimizer, named_parameters) -> dict[torch.Tensor, str]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if named_parameters is None:
        return {
            p: f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(optimizer.param_groups)
            for j, p in enumerate(group["params"])
        }
    named = list(named_parameters)
    if any(not isinstance(each, tuple) for each in named):
        raise ValueError("named_parameters is a sequence of tuples (name, parameter), as "
                         "model.named_parameters() gives them")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of parameters must be unique; twice there: {', '.join(twice)}")
    by_parameter = {p: name for name, p in named}
    unnamed = [p for p in parameters if p not in by_parameter]
    if unnamed:
        raise ValueError(f"{len(unnamed)} of the optimizer's parameters are not in "
                         f"named_parameters, the first of shape {list(unnamed[0].shape)}")
    return by_parameter


class _Batch:
    """Gradients that were asked for together."""

    def __init__(self, handle: Handle, parts: list, terms: tuple):
        self.handle = handle
        self.parts = parts  # (parameter, compressed gradient, what undoes the compression)
        self.terms = terms  # what must be as it was if they are to be asked for again


class _Distributed:
    """What is added to an optimizer; its own class stands behind this one."""

    def _distribute(self, names, compression, passes, op, predivide, groups, sparse_as_dense,
                    process_set) -> None:
        self._parameter_names = names
        self._compression = compression
        self.backward_passes_per_step = passes
        self.op = op
        self.gradient_predivide_factor = predivide
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._passes_left = {p: passes for p in names}
        self._hooked: dict[torch.Tensor, None] = {}  # in order
        self._accumulators: list = []
        self._ready: dict[torch.Tensor, None] = {}  # not asked for yet
        self._ready_bytes = 0
        self._asked: dict[torch.Tensor, None] = {}
        self._batches: list[_Batch] = []
        self._kept: dict[torch.Tensor, _Batch] = {}  # by their first parameter, from step to step
        self._sparse: list = []
        self._grouped: list = []
        self._synchronized = False
        self._should_synchronize = True
        self._group_of: dict[torch.Tensor, tuple] = {}
        self._ready_in_group: dict[tuple, int] = {}
        if process_set.included() and (size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"):
            self._form_groups(groups)
            self._hook()

    def _form_groups(self, groups: Union[None, int, list]) -> None:
        if groups is None:
            return
        own = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        # The same groups everywhere, whatever the order here.
        order = broadcast_object([self._parameter_names[p] for p in own], self.process_set.ranks[0],
                                 process_set=self.process_set)
        own.sort(key=lambda p: order.index(self._parameter_names[p]))
        if isinstance(groups, int):
            parts = split_list(own, groups)
        else:
            wanted = {p for p in own}
            parts = [[p for p in part if p in wanted] for part in groups]
            grouped = {p for part in parts for p in part}
            parts += [[p] for p in own if p not in grouped]
        for part in (tuple(part) for part in parts if part):
            self._ready_in_group[part] = 0
            for p in part:
                self._group_of[p] = part

    def _hook(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    self._hooked[p] = None
                    accumulator = p.expand_as(p).grad_fn.next_functions[0][0]
                    accumulator.register_hook(self._hook_of(p))
                    self._accumulators.append(accumulator)

    def _hook_of(self, p: torch.Tensor):
        def gradient_is_there(*_) -> None:
            if self._passes_left[p] <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call "
                    "to step(). Increase backward_passes_per_step to accumulate gradients locally."
                )
            self._passes_left[p] -= 1
            if self._passes_left[p] == 0:
                self._gradient_ready(p)

        return gradient_is_there

    def _gradient_ready(self, p: torch.Tensor) -> None:
        group = self._group_of.get(p)
        if group is not None:
            self._ready_in_group[group] += 1
            if self._ready_in_group[group] == len(group):
                self._ask_for_group(group)
            return
        self._ready[p] = None
        self._ready_bytes += p.numel() * p.element_size()
        if self._ready_bytes >= _BATCH_BYTES:
            self._ask()
            self._begin()

    def _factors(self) -> tuple[float, float]:
        if self.op != Average:
            return 1.0, 1.0
        return 1.0 / self.gradient_predivide_factor, self.gradient_predivide_factor

    def _gradient(self, p: torch.Tensor) -> torch.Tensor:
        if p.grad is None:  # another rank may have computed one
            p.grad = torch.zeros_like(p)
        return p.grad

    def _ask(self) -> None:
        """Makes a batch of all gradients that are ready."""
        ready, self._ready, self._ready_bytes = self._ready, {}, 0
        if not ready:
            return
        self._asked.update(ready)
        meeting = _world.world().meeting(self.process_set)
        kept = self._kept.get(next(iter(ready)))
        if kept is not None and self._ask_again(kept, meeting, list(ready)):
            return
        before, after = self._factors()
        parts, exchanges, memories = [], [], []
        for p in ready:
            gradient = self._gradient(p)
            name = self._parameter_names[p]
            if gradient.is_sparse:
                if not self.sparse_as_dense:
                    wait = sparse_allreduce_async(gradient, name, self.op, self.process_set)
                    self._sparse.append((p, wait))
                    continue
                gradient = gradient.to_dense()
            compressed, ctx = self._compression.compress(gradient)
            memory = Memory(compressed, compressed)
            exchanges.append(_core.NamedExchange("allreduce", name, [memory.described()],
                                                 _BLENDS[self.op], 0, before, after))
            memories.append(memory)
            parts.append((p, compressed, ctx))
        if not exchanges:
            return

        def finish() -> None:
            for memory in memories:
                memory.give_back()

        names = f"allreduce of the gradients from '{self._parameter_names[parts[0][0]]}' on"
        handle = Handle(names, exchanges, memories, finish)
        terms = (meeting, self.op, self.gradient_predivide_factor)
        batch = _Batch(handle, parts, terms)
        self._batches.append(batch)
        if len(parts) == len(ready) and all(gradient is p.grad and memory.source is memory.target
                                            and gradient.data_ptr() == memory.source.data_ptr()
                                            for memory, (p, gradient, _) in zip(memories, parts)):
            self._kept[parts[0][0]] = batch

    def _ask_again(self, kept: _Batch, meeting, ready: list[torch.Tensor]) -> bool:
        """Most batches are as they were in the step before, but for where gradients lie. False if this
        one is not."""
        if kept.terms != (meeting, self.op, self.gradient_predivide_factor):
            return False
        if len(kept.parts) != len(ready):
            return False
        addresses, parts = [], []
        for p, (other, before, _) in zip(ready, kept.parts):
            gradient = p.grad
            if p is not other or gradient is None or gradient.dtype is not before.dtype:
                return False
            if gradient.shape != before.shape or not gradient.is_contiguous():
                return False
            if gradient.device.type != "cpu" or gradient.layout is not torch.strided:
                return False
            addresses.append(gradient.data_ptr())
            parts.append((p, gradient, None))
        handle = Handle(kept.handle.names, kept.handle.exchanges, parts, lambda: None)
        handle.addresses = addresses
        batch = _Batch(handle, parts, kept.terms)
        self._batches.append(batch)
        self._kept[ready[0]] = batch
        return True

    def _begin(self) -> None:
        for batch in self._batches:
            if batch.handle.work is None:
                batch.handle.begin(batch.terms[0])

    def _ask_for_group(self, group: tuple) -> None:
        self._ready_in_group[group] = 0
        before, after = self._factors()
        pairs = [self._compression.compress(_densified(self._gradient(p))) for p in group]
        for p in group:
            self._asked[p] = None
        handle = grouped_allreduce_async_(
            [compressed for compressed, _ in pairs], name=self._parameter_names[group[0]],
            op=self.op, prescale_factor=before, postscale_factor=after,
            process_set=self.process_set)
        self._grouped.append((group, handle, [ctx for _, ctx in pairs]))

    def synchronize(self) -> None:
        """Waits until all gradients are those of all ranks. Who has computed none adds zeros."""
        if self.process_set.included():
            for group in self._ready_in_group:
                if not any(p in self._asked for p in group):
                    self._ask_for_group(group)
            for p in self._hooked:
                if p not in self._asked and p not in self._group_of:
                    self._ready[p] = None
            self._ask()
            try:
                self._take_results()
            except BaseException:
                self._kept.clear()  # what is not over cannot be asked for again
                raise
            finally:
                self._forget()
        self._synchronized = True

    def _take_results(self) -> None:
        # The last batch first: whoever waits for it drives all that is under way, and no other thread
        # need be woken.
        for batch in reversed(self._batches):
            batch.handle.wait(batch.terms[0])
            for p, compressed, ctx in batch.parts:
                self._put(p, self._compression.decompress(compressed, ctx))
        for group, handle, contexts in self._grouped:
            for p, output, ctx in zip(group, synchronize(handle), contexts):
                self._put(p, self._compression.decompress(output, ctx))
        for p, wait in self._sparse:
            self._put(p, wait())

    @staticmethod
    def _put(p: torch.Tensor, gradient: torch.Tensor) -> None:
        if p.grad is gradient:
            return
        with torch.no_grad():
            if p.grad.is_sparse:
                p.grad = gradient if gradient.is_sparse else gradient.to_sparse()
            else:
                p.grad.copy_(gradient)

    def _forget(self) -> None:
        for under_way in (self._batches, self._grouped, self._sparse, self._asked, self._ready):
            under_way.clear()
        self._ready_bytes = 0
        for p in self._passes_left:
            self._passes_left[p] = self.backward_passes_per_step
        for group in self._ready_in_group:
            self._ready_in_group[group] = 0

    @contextmanager
    def skip_synchronize(self):
        """In it, step() takes gradients as they are: after synchronize() and, say, clipping."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many gradients are added up here before those of all ranks are formed."""
        self.backward_passes_per_step = passes
        for p in self._passes_left:
            self._passes_left[p] = passes

    def step(self, closure=None):
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(): gradients are exchanged once more, which takes time"
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        if self._asked or self._ready:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(), while gradients are exchanged"
            )
        return super().zero_grad(*args, **kwargs)

    def begin_anew(self) -> None:
        """Forgets what was asked for, perhaps of ranks that are not there any more."""
        self._forget()
        self._kept.clear()
        self._synchronized = False
        self._should_synchronize = True

    def load_state_dict(self, *args, **kwargs):
        self.begin_anew()
        return super().load_state_dict(*args, **kwargs)


def _densified(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.to_dense() if gradient.is_sparse else gradient


class _DistributedAdasum:
    """Every rank takes its own step, and the steps are combined by Adasum."""

    def _distribute(self, names, compression, passes, process_set) -> None:
        self._parameter_names = names
        self._compression = compression
        self.backward_passes_per_step = passes
        self.process_set = process_set
        self.op = Adasum

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Nothing to do: it is steps that are exchanged, not gradients."""

    @contextmanager
    def skip_synchronize(self):
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")

    def step(self, closure=None):
        if not self.process_set.included():
            return super().step(closure)
        moving = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        starts = [p.detach().clone() for p in moving]
        loss = super().step(closure)
        exchanges, parts, memories = [], [], []
        for p, start in zip(moving, starts):
            compressed, ctx = self._compression.compress(p.detach() - start)
            memory = Memory(compressed, compressed)
            exchanges.append(_core.NamedExchange("allreduce", self._parameter_names[p],
                                                 [memory.described()], "adasum"))
            memories.append(memory)
            parts.append((p, start, compressed, ctx))

        def finish() -> None:
            with torch.no_grad():
                for memory, (p, start, compressed, ctx) in zip(memories, parts):
                    memory.give_back()
                    p.copy_(start + self._compression.decompress(compressed, ctx))

        handle = Handle("the combination of all ranks' steps", exchanges, memories, finish)
        if exchanges:
            handle.wait(_world.world().meeting(self.process_set))
        return loss


def DistributedOptimizer(  # noqa: N802, Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable] = None,
    compression=Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[None, int, Sequence] = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """The optimizer, whose step() first makes gradients those of all ranks.

    It is of a class of its own that has the optimizer's as its base, and shares its state.

    named_parameters: names by which gradients meet; model.named_parameters().
    compression: what becomes of a gradient on its way, e.g. Compression.fp16.
    backward_passes_per_step: how many gradients are added up here before.
    op: Average, Sum or Adasum, which combines steps instead of gradients.
    gradient_predivide_factor: with Average, gradients are divided by it before they are added up, and
        the sum by size / factor.
    groups: how many groups of gradients are exchanged all together, or lists of parameters.
    sparse_as_dense: exchange sparse gradients as dense ones.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor goes with op=Average only")
    if num_groups != 0:
        warnings.warn("num_groups has been replaced by groups", DeprecationWarning)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step is at least 1, not {backward_passes_per_step}")
    groups = _checked_groups(groups)
    names = _names_of(optimizer, named_parameters)
    is_adasum = op == Adasum and size() > 1
    addition = _DistributedAdasum if is_adasum else _Distributed
    kind = type(optimizer.__class__.__name__, (addition, optimizer.__class__), {})
    distributed = kind.__new__(kind)
    # What stands in place of a method, as the step() that a learning rate's schedule has put there, is
    # the other optimizer's.
    distributed.__dict__.update({name: value for name, value in optimizer.__dict__.items()
                                 if not (callable(value) and hasattr(kind, name))})
    if is_adasum:
        distributed._distribute(names, compression, backward_passes_per_step, process_set)
    else:
        distributed._distribute(names, compression, backward_passes_per_step,
                                op if op != Adasum else Average, gradient_predivide_factor, groups,
                                sparse_as_dense, process_set)
    return distributed


def step_here(optimizer: torch.optim.Optimizer) -> None:
    """A step of the optimizer's own, which no other rank hears of."""
    if isinstance(optimizer, _Distributed):
        super(_Distributed, optimizer).step()
    elif isinstance(optimizer, _DistributedAdasum):
        super(_DistributedAdasum, optimizer).step()
    else:
        optimizer.step()


def _checked_groups(groups):
    if groups is None or groups == 0:
        return None
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"there cannot be {groups} groups")
        return groups
    if not isinstance(groups, (list, tuple)):
        raise ValueError("groups is a number, or a list of lists of parameters")
    seen: set[int] = set()
    for p in (p for group in groups for p in group):
        if not isinstance(p, torch.Tensor):
            raise ValueError("groups must consist of torch.Tensor.")
        if id(p) in seen:
            raise ValueError("A parameter can only appear once in groups.")
        seen.add(id(p))
    return groups
