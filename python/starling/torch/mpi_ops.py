"""The operations of Horovod, which meet by name whatever their order on each rank.

Each comes as f (returns the result, and gradients flow through it), f_async (returns a handle for
poll() and synchronize()) and, where the result has the shape of the input, f_ and f_async_ in place.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import torch

from .. import _core
from ..common import world as _world
from ..common.basics import (
    HorovodBasics,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    size,
)
from ..common.exceptions import HorovodInternalError
from ..common.util import get_average_backwards_compatibility_fun
from ..common.world import (
    ProcessSet,
    add_process_set,
    global_process_set,
    internal_errors,
    is_initialized,
    remove_process_set,
)
from . import timeline as _timeline
from .compression import Compression
from .handles import Memory, adopted, begin, forget_all, meeting_of, poll, synchronize

Average, Sum, Adasum, Min, Max, Product = range(6)
_BLENDS = {
    Average: "average",
    Sum: "sum",
    Adasum: "adasum",
    Min: "min",
    Max: "max",
    Product: "product",
}


# --- the job ---


def init(comm=None, process_sets=None) -> None:
    """Joins the job; see starling.common.world.init."""
    if not is_initialized():
        forget_all()
    _world.init(comm, process_sets)
    _timeline.start_from_environment()


def shutdown() -> None:
    """Leaves the job; what is under way fails."""
    _timeline.close()
    _world.shutdown()


def begin_anew() -> None:
    """Joins the next generation, with whoever is there: nothing of the last one is under way any more."""
    shutdown()
    init()


start_timeline = _timeline.start
stop_timeline = _timeline.stop
_basics = HorovodBasics()


# --- all-reduce ---


_op_or_average = get_average_backwards_compatibility_fun(HorovodBasics)


def _op_of(op: Optional[int], average: Optional[bool]) -> int:
    meant = _op_or_average(op, average)
    if meant not in _BLENDS:
        raise ValueError(f"there is no reduction {meant}")
    return meant


def _check_blend(op: int, tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        if op == Adasum and not tensor.dtype.is_floating_point:
            raise ValueError(f"there is no Adasum of {tensor.dtype}")
        if op == Average and tensor.dtype == torch.bool:
            raise ValueError("there is no average of booleans")


def _allreduce(tensors, outputs, title, name, op, before, after, process_set, wait, single):
    _check_blend(op, tensors)
    memories = [Memory(tensor, output) for tensor, output in zip(tensors, outputs)]

    def finish(exchange):
        results = [memory.give_back() for memory in memories]
        return results[0] if single else results

    return begin(
        "allreduce", title, name, memories, process_set, finish, wait,
        blend=_BLENDS[op], before=float(before), after=float(after),
    )


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _allreduce_now(tensor, name, op, before, after, process_set) -> torch.Tensor:
    return _allreduce(
        [tensor], [_empty_like(tensor)], "allreduce", name, op, before, after, process_set,
        wait=True, single=True,
    )


def _grouped_allreduce_now(tensors, name, op, before, after, process_set) -> list[torch.Tensor]:
    return _allreduce(
        tensors, [_empty_like(t) for t in tensors], "grouped_allreduce", name, op, before, after,
        process_set, wait=True, single=False,
    )


class _AllreduceFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, op, before, after, process_set):
        ctx.details = (op, before, after, process_set)
        return _allreduce_now(tensor, name, op, before, after, process_set)

    @staticmethod
    def backward(ctx, gradient):
        return (_allreduce_now(gradient, None, *ctx.details),) + (None,) * 5


class _GroupedAllreduceFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, before, after, process_set, *tensors):
        ctx.details = (op, before, after, process_set)
        return tuple(_grouped_allreduce_now(tensors, name, op, before, after, process_set))

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) * 5 + tuple(_grouped_allreduce_now(gradients, None, *ctx.details))


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, process_set=global_process_set) -> int:
    """Begins to reduce a tensor over all ranks, by default to its average; the tensor stays."""
    return _allreduce([tensor], [_empty_like(tensor)], "allreduce", name, _op_of(op, average),
                      prescale_factor, postscale_factor, process_set, wait=False, single=True)


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """The reduction of a tensor over all ranks, by default its average."""
    compressed, ctx = compression.compress(tensor)
    reduced = _AllreduceFunction.apply(compressed, name, _op_of(op, average), prescale_factor,
                                       postscale_factor, process_set)
    return compression.decompress(reduced, ctx)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, process_set=global_process_set) -> int:
    """Begins to reduce a tensor over all ranks in place."""
    return _allreduce([tensor], [tensor], "allreduce", name, _op_of(op, average), prescale_factor,
                      postscale_factor, process_set, wait=False, single=True)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """Reduces a tensor over all ranks in place, and returns it."""
    return _allreduce([tensor], [tensor], "allreduce", name, _op_of(op, average), prescale_factor,
                      postscale_factor, process_set, wait=True, single=True)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, process_set=global_process_set) -> int:
    """As allreduce_async for several tensors, all of them together or none."""
    return _allreduce(tensors, [_empty_like(t) for t in tensors], "grouped_allreduce", name,
                      _op_of(op, average), prescale_factor, postscale_factor, process_set,
                      wait=False, single=False)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As allreduce for several tensors, all of them together or none."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = _GroupedAllreduceFunction.apply(
        name, _op_of(op, average), prescale_factor, postscale_factor, process_set,
        *[compressed for compressed, _ in pairs],
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(reduced, pairs)]


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                             postscale_factor=1.0, process_set=global_process_set) -> int:
    """As allreduce_async_ for several tensors, all of them together or none."""
    return _allreduce(tensors, tensors, "grouped_allreduce", name, _op_of(op, average),
                      prescale_factor, postscale_factor, process_set, wait=False, single=False)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                       postscale_factor=1.0, process_set=global_process_set):
    """As allreduce_ for several tensors, all of them together or none."""
    return _allreduce(tensors, tensors, "grouped_allreduce", name, _op_of(op, average),
                      prescale_factor, postscale_factor, process_set, wait=True, single=False)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set) -> Callable:
    """Begins to add up or average a sparse tensor over all ranks. Returns a function that waits and
    returns the result, which is sparse, too."""
    if op not in (Average, Sum):
        raise NotImplementedError("sparse tensors can be added up or averaged")
    indices = allgather_async(tensor._indices().t().contiguous(), name=f"{name}.indices",
                              process_set=process_set)
    values = allgather_async(tensor._values(), name=f"{name}.values", process_set=process_set)

    def wait() -> torch.Tensor:
        everybodys = synchronize(values)
        if op == Average:
            everybodys = everybodys / process_set.size()
        where = synchronize(indices).t()
        return torch.sparse_coo_tensor(where, everybodys, tensor.size(), device=tensor.device)

    return wait


# --- all-gather ---


def _allgather(tensors, title, name, process_set, wait, single):
    memories = [Memory(tensor, None) for tensor in tensors]

    def finish(exchange):
        rows = exchange.rows
        results = [
            adopted(gathered, tensor, sum(rows[i :: len(tensors)]))
            for i, (tensor, gathered) in enumerate(zip(tensors, exchange.take_gathered()))
        ]
        return results[0] if single else results

    return begin("allgather", title, name, memories, process_set, finish, wait)


def _own_rows(gradient: torch.Tensor, rows: int, process_set: ProcessSet) -> torch.Tensor:
    """Of everybody's rows ours."""
    counts = _allgather([torch.tensor([rows])], "allgather", None, process_set, True, True)
    begin = int(counts[: process_set.rank()].sum())
    return gradient.narrow(0, begin, rows)


class _AllgatherFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.rows = tensor.shape[0] if tensor.dim() else 1
        ctx.process_set = process_set
        return _allgather([tensor], "allgather", name, process_set, True, True)

    @staticmethod
    def backward(ctx, gradient):
        mean = _allreduce_now(gradient, None, Average, 1, 1, ctx.process_set)
        return _own_rows(mean, ctx.rows, ctx.process_set), None, None


class _GroupedAllgatherFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        ctx.process_set = process_set
        return tuple(_allgather(tensors, "grouped_allgather", name, process_set, True, False))

    @staticmethod
    def backward(ctx, *gradients):
        means = _grouped_allreduce_now(gradients, None, Average, 1, 1, ctx.process_set)
        own = [_own_rows(mean, rows, ctx.process_set) for mean, rows in zip(means, ctx.rows)]
        return (None, None, *own)


def allgather_async(tensor, name=None, process_set=global_process_set) -> int:
    """Begins to gather the rows of a tensor from all ranks, which may have different numbers."""
    return _allgather([tensor], "allgather", name, process_set, False, True)


def allgather(tensor, name=None, process_set=global_process_set):
    """The rows of a tensor from all ranks, which may have different numbers of them."""
    return _AllgatherFunction.apply(tensor, name, process_set)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set) -> int:
    """As allgather_async for several tensors, all of them together or none."""
    return _allgather(tensors, "grouped_allgather", name, process_set, False, False)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """As allgather for several tensors, all of them together or none."""
    return list(_GroupedAllgatherFunction.apply(name, process_set, *tensors))


# --- broadcast ---


def _broadcast(tensor, output, root_rank, name, process_set, wait):
    meeting_of(process_set)
    if root_rank not in process_set.ranks:
        raise ValueError(f"broadcast from rank {root_rank}, which is not in {process_set}")
    memory = Memory(tensor, output)
    return begin("broadcast", "broadcast", name, [memory], process_set,
                  lambda exchange: memory.give_back(), wait,
                  root=process_set.ranks.index(root_rank))


class _BroadcastFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return _broadcast(tensor, _empty_like(tensor), root_rank, name, process_set, True)

    @staticmethod
    def backward(ctx, gradient):
        mean = _allreduce_now(gradient, None, Average, 1, 1, ctx.process_set)
        if rank() != ctx.root_rank:
            mean.zero_()
        return mean, None, None, None


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set) -> int:
    """Begins to hand out the root's tensor; the tensor stays."""
    return _broadcast(tensor, _empty_like(tensor), root_rank, name, process_set, False)


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The root's tensor."""
    return _BroadcastFunction.apply(tensor, root_rank, name, process_set)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set) -> int:
    """Begins to put the root's tensor in place of everybody's."""
    return _broadcast(tensor, tensor, root_rank, name, process_set, False)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Puts the root's tensor in place of everybody's, and returns it."""
    return _broadcast(tensor, tensor, root_rank, name, process_set, True)


# --- all-to-all ---


def _alltoall(tensor, splits, name, process_set, wait):
    meeting_of(process_set)
    ranks = process_set.size()
    rows = tensor.shape[0] if tensor.dim() else 1
    device = splits.device if isinstance(splits, torch.Tensor) else None
    if splits is None:
        if rows % ranks != 0:
            raise ValueError(f"alltoall: {rows} rows cannot be split evenly among {ranks} ranks")
        splits = [rows // ranks] * ranks
    else:
        if isinstance(splits, torch.Tensor) and splits.dtype != torch.int32:
            raise ValueError(f"alltoall: splits are of 32-bit integers, not {splits.dtype}")
        splits = [int(split) for split in splits]
        if len(splits) != ranks:
            raise ValueError(f"alltoall: {len(splits)} splits among {ranks} ranks")
        if min(splits) < 0 or sum(splits) > rows:
            raise ValueError(f"alltoall: {rows} rows cannot be split as {splits}")
    memory = Memory(tensor, None)

    def finish(exchange):
        received = exchange.rows
        (gathered,) = exchange.take_gathered()
        counts = torch.tensor(received, dtype=torch.int32, device=device)
        return adopted(gathered, tensor, sum(received)), counts

    return begin("alltoall", "alltoall", name, [memory], process_set, finish, wait, splits=splits)


class _AlltoallFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = _alltoall(tensor, splits, name, process_set, True)
        ctx.received, ctx.rows, ctx.process_set = received, tensor.shape[0], process_set
        if splits is None:
            return output
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, *_):
        own, _ = _alltoall(gradient, ctx.received, None, ctx.process_set, True)
        if own.shape[0] < ctx.rows:  # rows that went to nobody
            own = torch.cat([own, own.new_zeros(ctx.rows - own.shape[0], *own.shape[1:])])
        return own, None, None, None


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set) -> int:
    """Begins to hand out rows, so many to each rank; the handle gives (rows, how many from each)."""
    return _alltoall(tensor, splits, name, process_set, False)


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Hands out rows, as many to each rank as `splits` says, by default as many to all.

    Returns the rows that came; and, if splits are given, how many from each rank.
    """
    return _AlltoallFunction.apply(tensor, splits, name, process_set)


# --- reduce-scatter ---


def _reducescatter(tensors, title, name, op, before, after, process_set, wait, single, outputs=None):
    meeting_of(process_set)
    if op not in (Average, Sum):
        raise NotImplementedError("reducescatter adds up or averages")
    _check_blend(op, tensors)
    if any(tensor.dim() == 0 for tensor in tensors):
        raise HorovodInternalError("reducescatter: a tensor without dimensions has no rows")
    ranks, place = process_set.size(), process_set.rank()
    if outputs is None:
        outputs = []
        for tensor in tensors:
            rows = tensor.shape[0] // ranks + (1 if place < tensor.shape[0] % ranks else 0)
            outputs.append(torch.empty([rows, *tensor.shape[1:]], dtype=tensor.dtype,
                                       device=tensor.device))
    memories = [Memory(tensor, output) for tensor, output in zip(tensors, outputs)]

    def finish(exchange):
        results = [memory.give_back() for memory in memories]
        return results[0] if single else results

    return begin("reducescatter", title, name, memories, process_set, finish, wait,
                  blend=_BLENDS[op], before=float(before), after=float(after))


def _gathered_gradients(ctx, gradients) -> list[torch.Tensor]:
    op, before, after, process_set = ctx.details
    factor = before * after * (process_set.size() if op == Sum else 1)
    gradients = [gradient * factor for gradient in gradients]
    return _allgather(gradients, "grouped_allgather", None, process_set, True, False)


class _ReducescatterFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, op, before, after, process_set):
        ctx.details = (op, before, after, process_set)
        return _reducescatter([tensor], "reducescatter", name, op, before, after, process_set, True,
                              True)

    @staticmethod
    def backward(ctx, gradient):
        return (_gathered_gradients(ctx, [gradient])[0],) + (None,) * 5


class _GroupedReducescatterFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, before, after, process_set, *tensors):
        ctx.details = (op, before, after, process_set)
        return tuple(_reducescatter(tensors, "grouped_reducescatter", name, op, before, after,
                                    process_set, True, False))

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) * 5 + tuple(_gathered_gradients(ctx, gradients))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set,
                        prescale_factor=1.0, postscale_factor=1.0) -> int:
    """Begins to reduce a tensor over all ranks, of which each keeps its share of the rows."""
    return _reducescatter([tensor], "reducescatter", name, op, prescale_factor, postscale_factor,
                          process_set, False, True)


def reducescatter(tensor, name=None, compression=Compression.none, op=Average,
                  process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Our share of the rows of the reduction over all ranks; the first have one more, where rows do
    not divide."""
    compressed, ctx = compression.compress(tensor)
    reduced = _ReducescatterFunction.apply(compressed, name, op, prescale_factor, postscale_factor,
                                           process_set)
    return compression.decompress(reduced, ctx)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set,
                                prescale_factor=1.0, postscale_factor=1.0) -> int:
    """As reducescatter_async for several tensors, all of them together or none."""
    return _reducescatter(tensors, "grouped_reducescatter", name, op, prescale_factor,
                          postscale_factor, process_set, False, False)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """As reducescatter for several tensors, all of them together or none."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = _GroupedReducescatterFunction.apply(
        name, op, prescale_factor, postscale_factor, process_set,
        *[compressed for compressed, _ in pairs],
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(reduced, pairs)]


# --- waiting for each other ---


def barrier(process_set=global_process_set) -> None:
    """Nobody leaves before everybody has come."""
    begin("barrier", "barrier", None, [], process_set, lambda exchange: None, True)


_JOIN_SECONDS = 86_400.0  # who joins waits for the others' work, however long that is


def join(device: int = -1, process_set=global_process_set) -> int:
    """Says that no more comes from this rank, and waits until all have said so. All-reduces of the
    others go on without it. Returns the rank that came last."""
    meeting = meeting_of(process_set)
    exchange = _core.NamedExchange("join", "", [])
    with internal_errors():
        meeting.exchanges.run([exchange], _JOIN_SECONDS)
    meeting.count_anew()
    return process_set.ranks[exchange.rows[0]]
