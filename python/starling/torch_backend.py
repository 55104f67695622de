"""Starling as a backend of torch.distributed.

    import starling.torch_backend
    torch.distributed.init_process_group("starling")

after which DistributedDataParallel and every collective of torch.distributed run over Starling. The
ranks meet through torch's own store, however it was made (env://, tcp://, file://, torchrun's). Under
mpirun and srun, importing this module sets the variables that env:// reads.

Under `starling launch --elastic` env:// means those who are there now. After a loss,

    torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("starling")

goes on among those who are left, and whoever has come meanwhile; others_come_or_go() tells between two
steps whether somebody has.
"""

from __future__ import annotations

import functools
import weakref
from datetime import timedelta
from typing import Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _compilers, _launchers, _rendezvous
from ._arguments import (
    Refused,
    check_alike,
    check_coalesced,
    check_matching,
    check_own,
    check_shapes,
    check_types,
    list_of_root,
    only,
    takes_bare_tensors,
)
from ._profiles import shown_as
from ._tensors import (
    Copies,
    Kept,
    Parts,
    SparseSum,
    Staged,
    as_bytes,
    byte_memory,
    bytes_in,
    joined,
    memory,
    on_cpu,
)
from ._works import All, Work, WorksUnderWay, seconds_of

__all__ = ["StarlingGroup", "others_come_or_go"]

_OPS = {
    dist.ReduceOp.SUM: ("sum", torch.add),
    dist.ReduceOp.AVG: ("mean", torch.add),
    dist.ReduceOp.PRODUCT: ("product", torch.mul),
    dist.ReduceOp.MIN: ("min", torch.minimum),
    dist.ReduceOp.MAX: ("max", torch.maximum),
    dist.ReduceOp.BAND: ("and", torch.bitwise_and),
    dist.ReduceOp.BOR: ("or", torch.bitwise_or),
    dist.ReduceOp.BXOR: ("xor", torch.bitwise_xor),
}
_AT_ONCE = 0.001  # seconds
_NAMES = {hash(op): name for op, (name, _) in _OPS.items()}  # comparing them takes ten times as long
_LOCAL = {name: combine for name, combine in _OPS.values()}


def _op_name(op) -> str:
    try:
        name = _NAMES.get(hash(op))
    except TypeError:  # one that carries a factor
        name = None
    if name is None:
        raise Refused(f"starling has no reduction {op}")
    return name


class StarlingGroup(dist.ProcessGroup):
    """A process group whose exchanges are Starling's."""

    def __init__(self, store, rank: int, size: int, timeout: timedelta,
                 opener: str = _rendezvous.GROUP):
        super().__init__(rank, size)
        self._store = store
        self._timeout = timeout.total_seconds()
        self._rank, self._size = rank, size
        session, ranks, number = _rendezvous.meet(store, rank, size, timeout, opener)
        self._group = session.group(ranks, number)
        weakref.finalize(self, session.release, number)
        self._under_way = WorksUnderWay()
        self._sequence = 0

    # What torch asks of every group.
    def getBackendName(self) -> str:
        return "starling"

    _get_backend_name = name = getBackendName

    # From torch 2.0 on a group has a backend for each kind of device, which would keep the group's name;
    # ours is all of them.
    supports_coalescing = False
    group_name = group_desc = ""

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, description: str) -> None:
        self.group_desc = description

    def _get_backend(self, device) -> "StarlingGroup":
        return self

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _begun(self, core_work, staged: Sequence, result, source=None) -> Work:
        self._sequence += 1
        work = Work(core_work, staged, result, source)
        self._under_way.add(work)
        return work

    def _together(self, works: Sequence[Work], result) -> Work:
        staged = [each for work in works for each in work.staged]
        for work in works:
            work.staged = ()
        return self._begun(All([work.shared() for work in works]), staged, result)

    def _seconds(self, opts) -> float:
        given = seconds_of(getattr(opts, "timeout", None))
        return self._timeout if given is None else given

    def _check_root(self, what: str, root: int) -> None:
        if not 0 <= root < self._size:
            raise Refused(f"{what}: invalid root rank: {root} of {self._size}")

    @staticmethod
    def _check_root_tensor(what: str, index: int, tensors: Sequence) -> None:
        if not 0 <= index < len(tensors):
            raise Refused(f"{what}: invalid root tensor: {index} of {len(tensors)}")

    # Reductions.
    @shown_as("all_reduce")
    def allreduce(self, tensors, opts=None, op=dist.ReduceOp.SUM) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        op = _op_name(getattr(opts, "reduceOp", op if opts is None else opts))
        if len(tensors) != 1:
            return self._allreduce_several(tensors, op, opts)
        (tensor,) = tensors
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors, op, opts)
        # What most exchanges are takes the short way: nothing is staged, and the result keeps it.
        is_plain = tensor.is_cpu and tensor.is_contiguous() and not tensor.is_complex()
        staged = () if is_plain else (Staged(tensor, returns=True),)
        flat = tensor if is_plain else staged[0].flat
        core = self._group.all_reduce(memory(flat), op, self._seconds(opts))
        return self._begun(core, staged, [tensor])

    def _allreduce_several(self, tensors, op: str, opts) -> Work:
        """As if each of this rank's tensors were another rank's; all become the same."""
        check_alike("allreduce", tensors)
        if tensors[0].layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors, op, opts)
        total = on_cpu(functools.reduce(_LOCAL[op], [tensor.detach() for tensor in tensors]))
        if op == "mean":
            total /= len(tensors)
        core = self._group.all_reduce(memory(total), op, self._seconds(opts))
        return self._begun(core, [Copies(total, tensors)], tensors)

    def _allreduce_sparse(self, tensors, op: str, opts) -> Work:
        """Everybody's indices and values go to everybody, once all know how many there are."""
        if op != "sum":
            raise Refused(f"allreduce: sparse tensors have no {op}: unsupported reduction operation")
        own = functools.reduce(torch.add, [tensor.detach() for tensor in tensors]).coalesce()
        indices = on_cpu(own.indices().t())  # a row an element, so that ranks' follow each other
        values = on_cpu(own.values())
        rows = self._gathered(torch.tensor([len(indices)]), [1] * self._size, opts)
        rows.wait()
        counts = rows.result().tolist()
        works = [self._gathered(part, counts, opts) for part in (indices, values)]
        total = SparseSum(tensors, *(work.result() for work in works))
        return self._begun(All([work.shared() for work in works]), [total], tensors)

    def _gathered(self, rows: torch.Tensor, counts: Sequence[int], opts) -> Work:
        """Everybody's rows one behind the other: the work's result."""
        whole = rows.new_empty((sum(counts), *rows.shape[1:]))
        begin = sum(counts[: self._rank])
        whole[begin : begin + len(rows)] = rows
        row_bytes = bytes_in(whole) // max(1, len(whole))
        core = self._group.all_gather(
            byte_memory(whole), [count * row_bytes for count in counts], self._seconds(opts)
        )
        return self._begun(core, (Kept(whole),), whole)

    @shown_as("all_reduce")
    def allreduce_coalesced(self, tensors, opts=None) -> Work:
        op = _op_name(getattr(opts, "reduceOp", dist.ReduceOp.SUM))
        check_coalesced("allreduce_coalesced", tensors)
        flat = joined(tensors)
        core = self._group.all_reduce(memory(flat), op, self._seconds(opts))
        return self._begun(core, (Parts(as_bytes(flat), tensors),), tensors)

    @takes_bare_tensors(1, c10d.ReduceOptions, "root", "op")
    @shown_as("reduce")
    def reduce(self, tensors, opts=None) -> Work:
        opts = opts or c10d.ReduceOptions()
        self._check_root("reduce", opts.rootRank)
        self._check_root_tensor("reduce", opts.rootTensor, tensors)
        tensor = only("reduce", tensors)
        is_root = self._rank == opts.rootRank
        staged = Staged(tensor, returns=is_root)
        if not is_root:  # the core uses up what it was given
            staged.flat = staged.flat.clone()
        core = self._group.reduce(
            memory(staged.flat), _op_name(opts.reduceOp), opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (staged,), tensors)

    @takes_bare_tensors(2, c10d.ReduceScatterOptions, "op")
    @shown_as("reduce_scatter", 1)
    def reduce_scatter(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.ReduceScatterOptions()
        output = only("reduce_scatter", outputs, "output tensor list")
        parts = only("reduce_scatter", inputs, "input list")
        check_types("reduce_scatter", output.dtype, parts)
        lengths = [part.numel() for part in parts]
        return self._reduce_scatter(output, joined(parts), lengths, opts, outputs)

    @shown_as("reduce_scatter", 1)
    def _reduce_scatter_base(self, output, input, opts=None) -> Work:  # noqa: A002
        opts = opts or c10d.ReduceScatterOptions()
        check_types("reduce_scatter", output.dtype, [input])
        flat = on_cpu(input).reshape(-1)
        if flat.data_ptr() == input.data_ptr():  # the core uses up what it was given
            flat = flat.clone()
        return self._reduce_scatter(output, flat, [output.numel()] * self._size, opts, [output])

    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base

    def _reduce_scatter(self, output, flat, lengths, opts, result) -> Work:
        fits = len(lengths) == self._size and sum(lengths) == flat.numel()
        if not fits or lengths[self._rank] != output.numel():
            raise Refused(
                f"reduce_scatter: {flat.numel()} elements among {self._size} ranks cannot leave "
                f"{output.numel()} here: invalid tensor size"
            )
        core = self._group.reduce_scatter(
            memory(flat), lengths, _op_name(opts.reduceOp), self._seconds(opts)
        )
        begin = sum(lengths[: self._rank]) * flat.element_size()
        return self._begun(core, (Parts(as_bytes(flat), [output], begin),), result)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None) -> Work:
        works = [self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together(works, outputs)

    # Moving tensors. What they hold does not matter: they go as bytes.
    @takes_bare_tensors(1, c10d.BroadcastOptions, "root")
    @shown_as("broadcast")
    def broadcast(self, tensors, opts=None) -> Work:
        opts = opts or c10d.BroadcastOptions()
        self._check_root("broadcast", opts.rootRank)
        self._check_root_tensor("broadcast", opts.rootTensor, tensors)
        check_alike("broadcast", tensors)
        is_root = self._rank == opts.rootRank
        root = tensors[opts.rootTensor]
        staged = [Staged(root, returns=not is_root)]
        if len(tensors) > 1:
            others = [tensor for tensor in tensors if tensor is not root]
            staged.append(Copies(staged[0].flat, others))
        core = self._group.broadcast(
            byte_memory(staged[0].flat), opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, staged, tensors)

    @takes_bare_tensors(2, c10d.AllgatherOptions)
    @shown_as("all_gather", 1)
    def allgather(self, outputs, inputs, opts=None) -> Work:
        if not inputs:
            raise Refused("allgather: requires non-empty input tensor list")
        if len(outputs) != len(inputs):
            raise Refused("allgather: requires input/output tensor lists to have the same length")
        for i, places in enumerate(outputs):
            if len(places) != self._size * len(inputs):
                raise Refused(
                    f"allgather: invalid output tensor list at index {i} (expected length "
                    f"{self._size * len(inputs)}, got {len(places)})"
                )
        if len(inputs) > 1:
            return self._allgather_several(outputs, inputs, opts)
        return self._allgather(outputs[0], inputs[0], opts)

    def _allgather(self, places, tensor, opts) -> Work:
        """Of one tensor a rank; they may differ in length."""
        check_types("allgather", tensor.dtype, places)
        check_own("allgather", tensor, places[self._rank], self._rank)
        lengths = [bytes_in(place) for place in places]
        flat = torch.empty(sum(lengths), dtype=torch.uint8)
        begin = sum(lengths[: self._rank])
        flat[begin : begin + lengths[self._rank]] = as_bytes(on_cpu(tensor))
        core = self._group.all_gather(byte_memory(flat), lengths, self._seconds(opts))
        return self._begun(core, (Parts(flat, places),), places)

    def _allgather_several(self, outputs, inputs, opts) -> Work:
        """Each rank brings several tensors, and wants all of everybody's in each of its lists."""
        check_alike("allgather", inputs)
        for places in outputs:
            check_types("allgather", inputs[0].dtype, places)
            check_shapes("allgather", inputs[0].shape, places)
        works = [
            self._allgather(places[i :: len(inputs)], tensor, opts)
            for i, tensor in enumerate(inputs)
            for places in outputs
        ]
        return self._together(works, outputs)

    @shown_as("all_gather", 1)
    def _allgather_base(self, output, input, opts=None) -> Work:  # noqa: A002
        check_types("allgather", output.dtype, [input])
        if output.numel() != input.numel() * self._size:
            raise Refused(
                f"all_gather of {input.numel()} elements among {self._size} ranks does not fit "
                f"into {output.numel()}: invalid tensor size"
            )
        staged = Staged(output, returns=True)
        length = bytes_in(input)
        begin = length * self._rank
        as_bytes(staged.flat)[begin : begin + length] = as_bytes(on_cpu(input))
        core = self._group.all_gather(
            byte_memory(staged.flat), [length] * self._size, self._seconds(opts)
        )
        return self._begun(core, (staged,), [output])

    all_gather_single = all_gather_into_tensor = _allgather_base

    @shown_as("all_gather", 1)
    def allgather_coalesced(self, output_lists, inputs, opts=None) -> Work:
        what = "allgather_coalesced"
        if not inputs:
            raise Refused(f"{what}: requires non-empty input tensor list")
        if len(output_lists) != self._size:
            raise Refused(f"{what}: output lists should be equal to world size")
        for places in output_lists:
            if len(places) != len(inputs):
                raise Refused(
                    f"{what}: invalid output size: (expected length {len(inputs)}, got {len(places)})"
                )
            check_matching(what, inputs, places)
        works = [
            self._allgather([places[i] for places in output_lists], tensor, opts)
            for i, tensor in enumerate(inputs)
        ]
        return self._together(works, output_lists)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None) -> Work:
        works = [self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together(works, outputs)

    @takes_bare_tensors(2, c10d.GatherOptions, "root")
    @shown_as("gather", 1)
    def gather(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.GatherOptions()
        self._check_root("gather", opts.rootRank)
        tensor = only("gather", inputs, "input tensor list")
        places = self._list_of_root("gather", outputs, opts.rootRank, tensor, "output")
        lengths = [bytes_in(place) for place in places] or [0] * self._size
        flat = torch.empty(sum(lengths), dtype=torch.uint8)
        own = on_cpu(tensor)
        core = self._group.gather(
            byte_memory(own), byte_memory(flat), lengths, opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (Kept(own), Parts(flat, places)), places)

    @takes_bare_tensors(2, c10d.ScatterOptions, "root")
    @shown_as("scatter", 1)
    def scatter(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.ScatterOptions()
        self._check_root("scatter", opts.rootRank)
        output = only("scatter", outputs, "output tensor list")
        parts = self._list_of_root("scatter", inputs, opts.rootRank, output, "input")
        lengths = [bytes_in(part) for part in parts] or [0] * self._size
        flat = joined(parts) if parts else torch.empty(0)
        staged = Staged(output, returns=True)
        core = self._group.scatter(
            byte_memory(flat), lengths, byte_memory(staged.flat), opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (staged, Kept(flat)), outputs)

    def _list_of_root(self, what: str, lists, root: int, own: torch.Tensor, kind: str) -> Sequence:
        tensors = list_of_root(what, lists, self._rank == root, self._size, kind)
        check_types(what, own.dtype, tensors)
        if tensors:
            check_own(what, own, tensors[root], root)
        return tensors

    @shown_as("all_to_all", 1)
    def alltoall(self, outputs, inputs, opts=None) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise Refused(
                f"all_to_all: {len(inputs)} tensors into {len(outputs)} among {self._size} ranks"
            )
        check_types("all_to_all", inputs[0].dtype, [*inputs, *outputs])
        check_own("all_to_all", inputs[self._rank], outputs[self._rank], self._rank)
        out = joined(inputs)
        in_lengths = [bytes_in(tensor) for tensor in outputs]
        into = torch.empty(sum(in_lengths), dtype=torch.uint8)
        core = self._group.all_to_all(
            byte_memory(out),
            [bytes_in(tensor) for tensor in inputs],
            byte_memory(into),
            in_lengths,
            self._seconds(opts),
        )
        return self._begun(core, (Kept(out), Parts(into, outputs)), outputs)

    @shown_as("all_to_all", 1)
    def alltoall_base(self, output, input, out_splits=(), in_splits=(), opts=None) -> Work:  # noqa: A002
        def lengths(tensor, splits, what):
            rows = tensor.size(0) if tensor.dim() else 0
            row_bytes = bytes_in(tensor) // rows if rows else 0
            if not splits:
                if rows % self._size:
                    raise Refused(
                        f"all_to_all cannot split {what} of {rows} rows among {self._size} ranks"
                    )
                return [bytes_in(tensor) // self._size] * self._size
            if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
                raise Refused(f"splits {list(splits)} do not share out {what} of {rows} rows")
            return [each * row_bytes for each in splits]

        check_types("all_to_all", input.dtype, [output])
        out_lengths = lengths(input, in_splits, "the input")
        in_lengths = lengths(output, out_splits, "the output")
        if out_lengths[self._rank] != in_lengths[self._rank]:
            raise Refused(
                f"all_to_all: {out_lengths[self._rank]} bytes from this rank to itself, and room for "
                f"{in_lengths[self._rank]}: invalid tensor size"
            )
        out = on_cpu(input)
        staged = Staged(output, returns=True)
        core = self._group.all_to_all(
            byte_memory(out), out_lengths, byte_memory(staged.flat), in_lengths, self._seconds(opts)
        )
        return self._begun(core, (Kept(out), staged), [output])

    all_to_all_single = alltoall_base

    # From one to another.
    @shown_as("send")
    def send(self, tensors, dst: int, tag: int = 0) -> Work:
        own = on_cpu(only("send", tensors))
        self._check_peer("send", dst)
        core = self._group.send(byte_memory(own), dst, tag, self._timeout)
        return self._begun(core, (Kept(own),), tensors)

    @shown_as("recv")
    def recv(self, tensors, src: int, tag: int = 0) -> Work:
        staged = Staged(only("recv", tensors), returns=True)
        self._check_peer("recv", src)
        core = self._group.receive(byte_memory(staged.flat), src, tag, self._timeout)
        return self._begun(core, (staged,), tensors, source=lambda: src)

    @shown_as("recvAnySource")
    def recv_anysource(self, tensors, tag: int = 0) -> Work:
        staged = Staged(only("recv", tensors), returns=True)
        core, outcome = self._group.receive_any(byte_memory(staged.flat), tag, self._timeout)
        return self._begun(core, (staged,), tensors, source=lambda: outcome.from_)

    def _check_peer(self, what: str, peer: int) -> None:
        if not 0 <= peer < self._size:
            raise Refused(f"{what}: there is no rank {peer} in a group of {self._size}")
        if peer == self._rank:
            raise Refused(f"{what}: rank {peer} is this rank itself: there are no messages to oneself")

    # Meeting.
    @shown_as("barrier", None)
    def barrier(self, opts=None) -> Work:
        """Its end is also that of all that this rank has begun before."""
        before = self._under_way.not_done()
        core = self._group.barrier(self._seconds(opts))
        return self._begun(All([core, *(work.shared() for work in before)]), before, [])

    def monitored_barrier(
        self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier that names the ranks that did not come in time; only the first, or all."""
        is_over = timeout is not None and seconds_of(timeout) is None  # at once, with zero
        seconds = _AT_ONCE if is_over else seconds_of(timeout) or self._timeout
        core, outcome = self._group.monitored_barrier(seconds, wait_all_ranks)
        self._begun(core, (), None).wait()
        if not outcome.missing:
            return
        ranks = ", ".join(str(rank) for rank in outcome.missing)
        many = "s" if len(outcome.missing) > 1 else ""
        told = f"Rank{many} {ranks} failed to pass monitoredBarrier in {seconds * 1000:.0f} ms"
        if self._rank != 0:
            told = (
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while "
                f"waiting for send/recv from rank 0: {told}"
            )
        elif is_over:
            told = f"Rank 0 timed out in monitoredBarrier after 0 ms: {told}"
        raise RuntimeError(told)


def others_come_or_go() -> bool:
    """In an elastic job: whether somebody waits to be let in, or to go, so that the process group should
    be made anew. All ranks ask together, between two steps, and hear the same."""
    if not _rendezvous.is_elastic():
        return False
    word = torch.tensor([int(_rendezvous.wants_change())])
    dist.all_reduce(word, dist.ReduceOp.MAX)
    return bool(word.item())


def _create(store, rank: int, size: int, timeout: timedelta) -> StarlingGroup:
    return StarlingGroup(store, rank, size, timeout, _rendezvous.WORLD)


def _register() -> None:
    if hasattr(dist.Backend, "STARLING"):
        return
    try:
        # From torch 2.0 on.
        dist.Backend.register_backend("starling", _create, devices=["cpu", "cuda"])
    except TypeError:
        dist.Backend.register_backend("starling", _create)


def _open_monitored_barrier() -> None:
    """torch.distributed's asks gloo groups only, by name; ours go past that."""
    theirs = dist.monitored_barrier

    @functools.wraps(theirs)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        used = dist.distributed_c10d._get_default_group() if group is None else group
        if isinstance(used, StarlingGroup):
            return used.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
        return theirs(group, timeout, wait_all_ranks)

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


_launchers.adopt()
_rendezvous.know_elastic_jobs()
_register()
_open_monitored_barrier()
_compilers.leave_us_out()
