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
import json
import os
import secrets
import socket
import sys
import weakref
from datetime import timedelta
from typing import Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _core, _launchers, _session
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
from .common.exceptions import HasLeft
from ._works import All, Done, Work, WorksUnderWay, seconds_of

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
_NAMES = {hash(op): name for op, (name, _) in _OPS.items()}  # comparing them takes ten times as long
_LOCAL = {name: combine for name, combine in _OPS.values()}


def _op_name(op) -> str:
    name = _NAMES.get(hash(op))
    if name is None:
        raise ValueError(f"starling has no reduction {op}")
    return name


def _check_alike(what: str, tensors: Sequence[torch.Tensor]) -> None:
    if not tensors:
        raise ValueError(f"{what}: requires non-empty tensor list")
    for i, tensor in enumerate(tensors[1:], 1):
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(
                f"{what}: invalid tensor type at index {i} "
                f"(expected {tensors[0].dtype}, got {tensor.dtype})"
            )
        if tensor.shape != tensors[0].shape:
            raise ValueError(
                f"{what}: invalid tensor size at index {i} "
                f"(expected {tuple(tensors[0].shape)}, got {tuple(tensor.shape)})"
            )


def _check_types(what: str, dtype: torch.dtype, tensors: Sequence[torch.Tensor]) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.dtype != dtype:
            raise ValueError(
                f"{what}: invalid tensor type at index {i} (expected {dtype}, got {tensor.dtype})"
            )


def _only(what: str, tensors: Sequence) -> object:
    if len(tensors) != 1:
        raise ValueError(f"{what}: requires a single-element list, got {len(tensors)}")
    return tensors[0]


class StarlingGroup(dist.ProcessGroup):
    """A process group whose exchanges are Starling's."""

    def __init__(self, store, rank: int, size: int, timeout: timedelta):
        super().__init__(rank, size)
        self._store = store
        self._timeout = timeout.total_seconds()
        self._rank, self._size = rank, size
        session, ranks, number = _meet(store, rank, size, timeout)
        self._group = session.group(ranks, number)
        weakref.finalize(self, session.release, number)
        self._under_way = WorksUnderWay()
        self._sequence = 0

    # What torch asks of every group.
    def getBackendName(self) -> str:
        return "starling"

    _get_backend_name = name = getBackendName

    # From torch 2.0 on a group has a backend for each kind of device; ours is all of them.
    supports_coalescing = False

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
        return self._begun(All([work.core for work in works]), staged, result)

    def _seconds(self, opts) -> float:
        given = seconds_of(getattr(opts, "timeout", None))
        return self._timeout if given is None else given

    def _check_root(self, what: str, root: int) -> None:
        if not 0 <= root < self._size:
            raise ValueError(f"{what}: invalid root rank: {root} of {self._size}")

    # Reductions.
    def allreduce(self, tensors, opts=None) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        op = _op_name(getattr(opts, "reduceOp", dist.ReduceOp.SUM if opts is None else opts))
        if len(tensors) != 1:
            return self._allreduce_several(tensors, op, opts)
        (tensor,) = tensors
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensor, op, opts)
        # What most exchanges are takes the short way: nothing is staged, and the result keeps it.
        is_plain = tensor.is_cpu and tensor.is_contiguous() and not tensor.is_complex()
        staged = () if is_plain else (Staged(tensor, returns=True),)
        flat = tensor if is_plain else staged[0].flat
        core = self._group.all_reduce(memory(flat), op, self._seconds(opts))
        return self._begun(core, staged, [tensor])

    def _allreduce_several(self, tensors, op: str, opts) -> Work:
        """As if each of this rank's tensors were another rank's; all become the same."""
        _check_alike("allreduce", tensors)
        total = on_cpu(functools.reduce(_LOCAL[op], [tensor.detach() for tensor in tensors]))
        if op == "mean":
            total /= len(tensors)
        core = self._group.all_reduce(memory(total), op, self._seconds(opts))
        return self._begun(core, [Copies(total, tensors)], tensors)

    def _allreduce_sparse(self, tensor, op: str, opts) -> Work:
        """Everybody's indices and values go to everybody, once all know how many there are."""
        if op != "sum":
            raise ValueError(f"allreduce: sparse tensors have no {op}: unsupported reduction operation")
        own = tensor.detach().coalesce()
        indices = on_cpu(own.indices().t())  # a row an element, so that ranks' follow each other
        values = on_cpu(own.values())
        rows = self._gathered(torch.tensor([len(indices)]), [1] * self._size, opts)
        rows.wait()
        counts = rows.result().tolist()
        works = [self._gathered(part, counts, opts) for part in (indices, values)]
        total = SparseSum(tensor, *(work.result() for work in works))
        return self._begun(All([work.core for work in works]), [total], [tensor])

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

    def allreduce_coalesced(self, tensors, opts=None) -> Work:
        op = _op_name(getattr(opts, "reduceOp", dist.ReduceOp.SUM))
        if not tensors:
            return self._begun(Done(), (), tensors)
        _check_types("allreduce_coalesced", tensors[0].dtype, tensors)
        flat = joined(tensors)
        core = self._group.all_reduce(memory(flat), op, self._seconds(opts))
        return self._begun(core, (Parts(as_bytes(flat), tensors),), tensors)

    def reduce(self, tensors, opts=None) -> Work:
        opts = opts or c10d.ReduceOptions()
        tensor = _only("reduce", tensors)
        self._check_root("reduce", opts.rootRank)
        is_root = self._rank == opts.rootRank
        staged = Staged(tensor, returns=is_root)
        if not is_root:  # the core uses up what it was given
            staged.flat = staged.flat.clone()
        core = self._group.reduce(
            memory(staged.flat), _op_name(opts.reduceOp), opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (staged,), tensors)

    def reduce_scatter(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.ReduceScatterOptions()
        output, parts = _only("reduce_scatter", outputs), _only("reduce_scatter", inputs)
        _check_types("reduce_scatter", output.dtype, parts)
        lengths = [part.numel() for part in parts]
        return self._reduce_scatter(output, joined(parts), lengths, opts, outputs)

    def _reduce_scatter_base(self, output, input, opts=None) -> Work:  # noqa: A002
        opts = opts or c10d.ReduceScatterOptions()
        _check_types("reduce_scatter", output.dtype, [input])
        flat = on_cpu(input).reshape(-1)
        if flat.data_ptr() == input.data_ptr():  # the core uses up what it was given
            flat = flat.clone()
        return self._reduce_scatter(output, flat, [output.numel()] * self._size, opts, output)

    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base

    def _reduce_scatter(self, output, flat, lengths, opts, result) -> Work:
        fits = len(lengths) == self._size and sum(lengths) == flat.numel()
        if not fits or lengths[self._rank] != output.numel():
            raise ValueError(
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
    def broadcast(self, tensors, opts=None) -> Work:
        opts = opts or c10d.BroadcastOptions()
        _check_alike("broadcast", tensors)
        self._check_root("broadcast", opts.rootRank)
        if not 0 <= opts.rootTensor < len(tensors):
            raise ValueError(f"broadcast: invalid root tensor: {opts.rootTensor}")
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

    def allgather(self, outputs, inputs, opts=None) -> Work:
        if len(outputs) != len(inputs) or not inputs:
            raise ValueError("allgather: requires input/output tensor lists to have the same length")
        if len(inputs) > 1:
            return self._allgather_several(outputs, inputs, opts)
        places, tensor = outputs[0], inputs[0]
        if len(places) != self._size:
            raise ValueError(
                f"allgather: invalid output tensor list: {len(places)} for {self._size} ranks"
            )
        _check_types("allgather", tensor.dtype, places)
        lengths = [bytes_in(place) for place in places]
        if lengths[self._rank] != bytes_in(tensor):
            raise ValueError(
                f"allgather: invalid tensor size: {tensor.numel()} elements do not fit "
                f"{places[self._rank].numel()}"
            )
        flat = torch.empty(sum(lengths), dtype=torch.uint8)
        begin = sum(lengths[: self._rank])
        flat[begin : begin + lengths[self._rank]] = as_bytes(on_cpu(tensor))
        core = self._group.all_gather(byte_memory(flat), lengths, self._seconds(opts))
        return self._begun(core, (Parts(flat, places),), outputs)

    def _allgather_several(self, outputs, inputs, opts) -> Work:
        """Each rank brings several tensors, and wants all of everybody's in each of its lists."""
        _check_alike("allgather", inputs)
        for places in outputs:
            if len(places) != self._size * len(inputs):
                raise ValueError("allgather: invalid output tensor list")
            _check_alike("allgather", [inputs[0], *places])
        works = [
            self.allgather([places[i :: len(inputs)]], [tensor], opts)
            for i, tensor in enumerate(inputs)
            for places in outputs
        ]
        return self._together(works, outputs)

    def _allgather_base(self, output, input, opts=None) -> Work:  # noqa: A002
        _check_types("allgather", output.dtype, [input])
        if output.numel() != input.numel() * self._size:
            raise ValueError(
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
        return self._begun(core, (staged,), output)

    all_gather_single = all_gather_into_tensor = _allgather_base

    def allgather_coalesced(self, output_lists, inputs, opts=None) -> Work:
        if len(output_lists) != self._size or any(len(o) != len(inputs) for o in output_lists):
            raise ValueError("allgather_coalesced: invalid output tensor lists")
        works = [
            self.allgather([[places[i] for places in output_lists]], [tensor], opts)
            for i, tensor in enumerate(inputs)
        ]
        return self._together(works, output_lists)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None) -> Work:
        works = [self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together(works, outputs)

    def gather(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.GatherOptions()
        tensor = _only("gather", inputs)
        self._check_root("gather", opts.rootRank)
        places = self._lists_of_root("gather", outputs, opts.rootRank, tensor.dtype)
        lengths = [bytes_in(place) for place in places] or [0] * self._size
        flat = torch.empty(sum(lengths), dtype=torch.uint8)
        own = on_cpu(tensor)
        core = self._group.gather(
            byte_memory(own), byte_memory(flat), lengths, opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (Kept(own), Parts(flat, places)), outputs)

    def scatter(self, outputs, inputs, opts=None) -> Work:
        opts = opts or c10d.ScatterOptions()
        output = _only("scatter", outputs)
        self._check_root("scatter", opts.rootRank)
        parts = self._lists_of_root("scatter", inputs, opts.rootRank, output.dtype)
        lengths = [bytes_in(part) for part in parts] or [0] * self._size
        flat = joined(parts) if parts else torch.empty(0)
        staged = Staged(output, returns=True)
        core = self._group.scatter(
            byte_memory(flat), lengths, byte_memory(staged.flat), opts.rootRank, self._seconds(opts)
        )
        return self._begun(core, (staged, Kept(flat)), outputs)

    def _lists_of_root(self, what: str, lists, root: int, dtype: torch.dtype) -> Sequence:
        if self._rank != root:
            if lists and lists[0]:
                raise ValueError(f"{what}: requires empty lists on all ranks but the root")
            return []
        tensors = _only(what, lists)
        if len(tensors) != self._size:
            raise ValueError(f"{what}: Incorrect list size {len(tensors)} for {self._size} ranks")
        _check_types(what, dtype, tensors)
        return tensors

    def alltoall(self, outputs, inputs, opts=None) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise ValueError(
                f"all_to_all: {len(inputs)} tensors into {len(outputs)} among {self._size} ranks"
            )
        _check_types("all_to_all", inputs[0].dtype, [*inputs, *outputs])
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

    def alltoall_base(self, output, input, out_splits=(), in_splits=(), opts=None) -> Work:  # noqa: A002
        def lengths(tensor, splits, what):
            rows = tensor.size(0) if tensor.dim() else 0
            row_bytes = bytes_in(tensor) // rows if rows else 0
            if not splits:
                if rows % self._size:
                    raise ValueError(
                        f"all_to_all cannot split {what} of {rows} rows among {self._size} ranks"
                    )
                return [bytes_in(tensor) // self._size] * self._size
            if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
                raise ValueError(f"splits {list(splits)} do not share out {what} of {rows} rows")
            return [each * row_bytes for each in splits]

        _check_types("all_to_all", input.dtype, [output])
        out = on_cpu(input)
        staged = Staged(output, returns=True)
        core = self._group.all_to_all(
            byte_memory(out),
            lengths(input, in_splits, "the input"),
            byte_memory(staged.flat),
            lengths(output, out_splits, "the output"),
            self._seconds(opts),
        )
        return self._begun(core, (Kept(out), staged), output)

    all_to_all_single = alltoall_base

    # From one to another.
    def send(self, tensors, dst: int, tag: int = 0) -> Work:
        own = on_cpu(_only("send", tensors))
        self._check_peer("send", dst)
        core = self._group.send(byte_memory(own), dst, tag, self._timeout)
        return self._begun(core, (Kept(own),), tensors)

    def recv(self, tensors, src: int, tag: int = 0) -> Work:
        staged = Staged(_only("recv", tensors), returns=True)
        self._check_peer("recv", src)
        core = self._group.receive(byte_memory(staged.flat), src, tag, self._timeout)
        return self._begun(core, (staged,), tensors, source=lambda: src)

    def recv_anysource(self, tensors, tag: int = 0) -> Work:
        staged = Staged(_only("recv", tensors), returns=True)
        core, outcome = self._group.receive_any(byte_memory(staged.flat), tag, self._timeout)
        return self._begun(core, (staged,), tensors, source=lambda: outcome.from_)

    def _check_peer(self, what: str, peer: int) -> None:
        if not 0 <= peer < self._size:
            raise ValueError(f"{what}: there is no rank {peer} in a group of {self._size}")

    # Meeting.
    def barrier(self, opts=None) -> Work:
        return self._begun(self._group.barrier(self._seconds(opts)), (), None)

    def monitored_barrier(
        self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier that names the ranks that did not come in time; only the first, or all."""
        seconds = seconds_of(timeout) or self._timeout
        core, outcome = self._group.monitored_barrier(seconds, wait_all_ranks)
        self._begun(core, (), None).wait()
        if outcome.missing:
            ranks = ", ".join(str(rank) for rank in outcome.missing)
            raise RuntimeError(
                f"Ranks {ranks} failed to pass monitoredBarrier in {seconds * 1000:.0f} ms"
                if len(outcome.missing) > 1
                else f"Rank {ranks} failed to pass monitoredBarrier in {seconds * 1000:.0f} ms"
            )


def _meet(store, rank: int, size: int, timeout: timedelta):
    """The session, the group's ranks in it, and its number there.

    A. Everybody puts into the store which session it has, its rank there, and which group numbers
       it uses.
    B. If all have the same one, the group is some of its ranks, and has the first number that none of
       them uses.
    C. Otherwise they open a new session: rank 0 listens and puts its address into the store.
    """
    session = _session.current()
    if session is not None and session.opened_by == __name__ and not dist.is_initialized():
        # Of a world that was destroyed. Whoever was lost in it is no loss to the next one.
        session.close()
        session = None
    own = {"token": "", "rank": -1, "numbers": [], "host": _session.here()}
    if session is not None:
        own["token"], own["rank"] = session.token, session.rank
        own["numbers"] = sorted(session.numbers_in_use())
    store.set(f"starling/{rank}", json.dumps(own))
    everybody = [json.loads(store.get(f"starling/{r}")) for r in range(size)]
    tokens = {each["token"] for each in everybody}
    if len(tokens) == 1 and "" not in tokens:
        used = set().union(*(each["numbers"] for each in everybody))
        number = next((n for n in range(_session.FIRST_NUMBER, _core.GROUPS) if n not in used), None)
        if number is None:
            most = _core.GROUPS - _session.FIRST_NUMBER
            raise RuntimeError(f"starling has no more than {most} groups at a time")
        return session, [each["rank"] for each in everybody], number

    listen_fd = -1
    if rank == 0:
        address = "127.0.0.1"
        if len({each["host"] for each in everybody}) > 1:
            known = os.environ.get("MASTER_ADDR", socket.gethostname())
            address = _session.address_towards(known)
        listen_fd, port = _session.listen(address)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        store.set("starling/rendezvous", json.dumps([place, secrets.token_hex(16)]))
    place, secret = json.loads(store.get("starling/rendezvous"))
    core = _core.Core(
        rank, size, place, secret, max(1, int(timeout.total_seconds())), listen_fd
    )
    session = _session.adopt(core, secret, opened_by=__name__)
    return session, list(range(size)), _session.FIRST_NUMBER


_elastic: Optional[_core.Core] = None  # from one generation to the next
_STORE_NUMBER = _core.GROUPS - 1  # of the group that is told where torch's store is


def _meet_generation(timeout: timedelta):
    """Those who are there now, and a store that rank 0 of them serves."""
    global _elastic
    if _elastic is None:
        _elastic = _core.Core.from_environment(at_once=False)
        _session.leave_on_sigterm()
    elif not _elastic.next_generation():
        raise HasLeft
    rank, size = _elastic.rank, _elastic.size
    token = f"{os.environ['STARLING_SECRET']} {_elastic.generation}"
    _session.adopt(_elastic, token, opened_by="an elastic job")
    host = os.environ["STARLING_RENDEZVOUS"].rsplit(":", 1)[0].strip("[]")
    place = torch.zeros(64, dtype=torch.uint8)
    store = None
    if rank == 0:
        address = _session.address_towards(host)
        store = dist.TCPStore(address, 0, size, True, timeout, wait_for_workers=False)
        said = f"{address} {store.port}".encode()
        place[: len(said)] = torch.tensor(list(said), dtype=torch.uint8)
    group = _core.Group(_elastic, list(range(size)), _STORE_NUMBER)
    group.broadcast(byte_memory(place), 0).wait()
    if store is None:
        host, port = bytes(place.tolist()).rstrip(b"\0").decode().split()
        store = dist.TCPStore(host, int(port), size, False, timeout, wait_for_workers=False)
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(size)
    return store, rank, size


def _rendezvous(url: str, timeout: timedelta = timedelta(minutes=30), **_):
    while True:
        try:
            yield _meet_generation(timeout)
            return
        except _core.PeerLost:  # before they knew each other
            continue


def _know_elastic_jobs() -> None:
    """There env:// must not believe what the launcher said before anybody was lost."""
    if "STARLING_SIZE" in os.environ and _core.is_elastic_job():
        sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers["env"] = _rendezvous


def others_come_or_go() -> bool:
    """In an elastic job: whether somebody waits to be let in, or to go, so that the process group should
    be made anew. All ranks ask together, between two steps, and hear the same."""
    if _elastic is None:
        return False
    if _session.asked_to_leave():
        _elastic.leave()
    word = torch.tensor([int(_elastic.wants_change())])
    dist.all_reduce(word, dist.ReduceOp.MAX)
    return bool(word.item())


def _create(store, rank: int, size: int, timeout: timedelta) -> StarlingGroup:
    return StarlingGroup(store, rank, size, timeout)


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
_know_elastic_jobs()
_register()
_open_monitored_barrier()
