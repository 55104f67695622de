"""Starling as a backend of torch.distributed.

    import starling.torch_backend
    torch.distributed.init_process_group("starling")

after which DistributedDataParallel and every collective of torch.distributed run over Starling.
The ranks meet through torch's own store, however it was made (env://, tcp://, file://, torchrun's).
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import weakref
from datetime import timedelta
from typing import Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _core, _session

__all__ = ["StarlingGroup"]

_ELEMENTS = {
    getattr(torch, name): _core.ELEMENTS.index(element)
    for name, element in {
        "float32": "f32",
        "float64": "f64",
        "float16": "f16",
        "bfloat16": "bf16",
        "uint8": "u8",
        "int8": "i8",
        "int16": "i16",
        "int32": "i32",
        "int64": "i64",
        "bool": "bool",
    }.items()
}
_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "mean",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "and",
    dist.ReduceOp.BOR: "or",
    dist.ReduceOp.BXOR: "xor",
}
_NO_TIMEOUT = timedelta(0)


def _op_name(op) -> str:
    for known, name in _OPS.items():
        if op == known:
            return name
    raise ValueError(f"starling has no reduction {op}")


def _memory(tensor: torch.Tensor) -> _core.Memory:
    element = _ELEMENTS.get(tensor.dtype)
    if element is None:
        raise ValueError(f"starling cannot exchange tensors of {tensor.dtype}")
    return _core.Memory(tensor.data_ptr(), tensor.numel(), element)


def _seconds(timeout: Optional[timedelta]) -> Optional[float]:
    if timeout is None or timeout.total_seconds() <= 0:  # to torch both zero and less mean none
        return None
    return timeout.total_seconds()


class _Staged:
    """A tensor as the core can take it: dense, on the CPU; and the way back."""

    def __init__(self, tensor: torch.Tensor, returns: bool):
        if tensor.is_sparse:
            raise ValueError("starling exchanges dense tensors only: call to_dense() before")
        dense = tensor.detach()
        if dense.is_complex():
            dense = torch.view_as_real(dense.resolve_conj().contiguous())
        if dense.device.type != "cpu":
            self.flat = torch.empty(
                dense.shape, dtype=dense.dtype, pin_memory=torch.cuda.is_available()
            )
            self.flat.copy_(dense)
        else:
            self.flat = dense.contiguous()
        self.original = tensor
        self.returns = returns and self.flat.data_ptr() != tensor.data_ptr()

    def give_back(self) -> None:
        if not self.returns:
            return
        with torch.no_grad():
            flat = torch.view_as_complex(self.flat) if self.original.is_complex() else self.flat
            self.original.detach().copy_(flat.view(self.original.shape))


class _Work(c10d.Work):
    """An exchange under way. Whoever waits drives it; a future is made only for those who ask."""

    def __init__(self, core_work, after: Sequence[Callable[[], None]], result, source: int = -1):
        super().__init__()
        self._core = core_work
        self._after = list(after)
        self._result = result
        self._source = source
        self._lock = threading.Lock()
        self._future: Optional[torch.futures.Future] = None

    def _conclude(self) -> None:
        with self._lock:
            after, self._after = self._after, []
            for step in after:
                step()

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        if not self._core.wait(_seconds(timeout)):
            raise RuntimeError(f"the exchange did not end within {timeout}")
        self._conclude()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._core.done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self):
        try:
            self._core.wait(0)
        except RuntimeError as error:
            return error
        return None

    def result(self):
        return self._result

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        if self._future is None:
            self._future = torch.futures.Future()
            self._core.then(self._fulfil)
        return self._future

    def _fulfil(self) -> None:
        try:
            self._core.wait(0)
            self._conclude()
        except Exception as error:  # the future tells whoever waits for it
            self._future.set_exception(error)
        else:
            self._future.set_result(self._result)


class _Done:
    """Of an exchange that needed none."""

    def wait(self, timeout=None) -> bool:
        return True

    def done(self) -> bool:
        return True

    def then(self, on_end) -> None:
        on_end()


class _All:
    """Several exchanges as one."""

    def __init__(self, works):
        self._works = list(works)

    def wait(self, timeout=None) -> bool:
        return all([work.wait(timeout) for work in self._works])

    def done(self) -> bool:
        return all(work.done() for work in self._works)

    def then(self, on_end) -> None:
        left = len(self._works)
        guard = threading.Lock()

        def one_done():
            nonlocal left
            with guard:
                left -= 1
                last = left == 0
            if last:
                on_end()

        for work in self._works:
            work.then(one_done)
        if not self._works:
            on_end()


class StarlingGroup(dist.ProcessGroup):
    """A process group whose exchanges are Starling's."""

    def __init__(self, store, rank: int, size: int, timeout: timedelta):
        super().__init__(rank, size)
        self._store = store
        self._timeout = timeout.total_seconds()
        self._session, ranks, self._number = _meet(store, rank, size, timeout)
        self._group = self._session.group(ranks, self._number)
        weakref.finalize(self, self._session.release, self._number)
        self._under_way: list[_Work] = []
        self._sequence = 0

    # What torch asks of every group.
    def getBackendName(self) -> str:
        return "starling"

    _get_backend_name = name = getBackendName

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _begun(self, core_work, staged: Sequence[_Staged], result, source: int = -1) -> _Work:
        self._sequence += 1
        work = _Work(core_work, [each.give_back for each in staged if each.returns], result, source)
        work.keeps = staged  # until it is done, whatever becomes of the caller's
        self._under_way = [each for each in self._under_way if not each.is_completed()]
        self._under_way.append(work)
        return work

    def _seconds_of(self, opts) -> float:
        given = _seconds(getattr(opts, "timeout", None))
        return self._timeout if given is None else given

    # Reductions.
    def allreduce(self, tensors, opts=None) -> _Work:
        tensors, op = _tensors_and_op(tensors, opts)
        seconds = self._seconds_of(opts)
        staged = [_Staged(tensor, returns=True) for tensor in tensors]
        works = [self._group.all_reduce(_memory(each.flat), op, seconds) for each in staged]
        return self._begun(_one(works), staged, tensors)

    def allreduce_coalesced(self, tensors, opts=None) -> _Work:
        tensors, op = _tensors_and_op(tensors, opts)
        if not tensors:
            return self._begun(_Done(), [], tensors)
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        core = self._group.all_reduce(_memory(flat), op, self._seconds_of(opts))
        return self._begun(core, [_Parts(flat, tensors)], tensors)

    def reduce(self, tensors, opts=None) -> _Work:
        opts = opts or c10d.ReduceOptions()
        (tensor,) = tensors
        is_root = self.rank() == opts.rootRank
        staged = _Staged(tensor, returns=is_root)
        if not is_root:  # the core uses up what it was given
            staged.flat = staged.flat.clone()
        core = self._group.reduce(
            _memory(staged.flat), _op_name(opts.reduceOp), opts.rootRank, self._seconds_of(opts)
        )
        return self._begun(core, [staged], tensors)

    def reduce_scatter(self, outputs, inputs, opts=None) -> _Work:
        opts = opts or c10d.ReduceScatterOptions()
        (output,), (parts,) = outputs, inputs
        flat = torch.cat([part.detach().reshape(-1) for part in parts])
        return self._reduce_scatter(output, flat, [part.numel() for part in parts], opts, outputs)

    def _reduce_scatter_base(self, output, input, opts=None) -> _Work:  # noqa: A002
        opts = opts or c10d.ReduceScatterOptions()
        flat = input.detach().reshape(-1).clone()
        return self._reduce_scatter(output, flat, [output.numel()] * self.size(), opts, output)

    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base

    def _reduce_scatter(self, output, flat, lengths, opts, result) -> _Work:
        if sum(lengths) != flat.numel() or lengths[self.rank()] != output.numel():
            raise ValueError(
                f"reduce_scatter of {flat.numel()} elements among {self.size()} ranks cannot leave "
                f"{output.numel()} here"
            )
        core = self._group.reduce_scatter(
            _memory(flat), lengths, _op_name(opts.reduceOp), self._seconds_of(opts)
        )
        begin = sum(lengths[: self.rank()])
        return self._begun(core, [_Part(flat, begin, output)], result)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None) -> _Work:
        works = [self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together(works, outputs)

    # Moving tensors.
    def broadcast(self, tensors, opts=None) -> _Work:
        opts = opts or c10d.BroadcastOptions()
        is_root = self.rank() == opts.rootRank
        staged = [_Staged(tensor, returns=not is_root) for tensor in tensors]
        seconds = self._seconds_of(opts)
        works = [
            self._group.broadcast(_memory(each.flat), opts.rootRank, seconds) for each in staged
        ]
        return self._begun(_one(works), staged, tensors)

    def allgather(self, outputs, inputs, opts=None) -> _Work:
        (places,), (tensor,) = outputs, inputs
        if len(places) != self.size():
            raise ValueError(f"all_gather among {self.size()} ranks into {len(places)} tensors")
        lengths = [place.numel() for place in places]
        if lengths[self.rank()] != tensor.numel():
            raise ValueError(
                f"all_gather of {tensor.numel()} elements into a place for {lengths[self.rank()]}"
            )
        flat = torch.empty(sum(lengths), dtype=tensor.dtype)
        begin = sum(lengths[: self.rank()])
        flat[begin : begin + tensor.numel()].copy_(tensor.detach().reshape(-1))
        core = self._group.all_gather(_memory(flat), lengths, self._seconds_of(opts))
        return self._begun(core, [_Parts(flat, places)], outputs)

    def _allgather_base(self, output, input, opts=None) -> _Work:  # noqa: A002
        if output.numel() != input.numel() * self.size():
            raise ValueError(
                f"all_gather of {input.numel()} elements among {self.size()} ranks does not fit "
                f"into {output.numel()}"
            )
        staged = _Staged(output, returns=True)
        begin = input.numel() * self.rank()
        staged.flat.view(-1)[begin : begin + input.numel()].copy_(input.detach().reshape(-1))
        core = self._group.all_gather(
            _memory(staged.flat), [input.numel()] * self.size(), self._seconds_of(opts)
        )
        return self._begun(core, [staged], output)

    all_gather_single = all_gather_into_tensor = _allgather_base

    def allgather_coalesced(self, output_lists, inputs, opts=None) -> _Work:
        works = [
            self.allgather([[places[i] for places in output_lists]], [tensor], opts)
            for i, tensor in enumerate(inputs)
        ]
        return self._together(works, output_lists)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None) -> _Work:
        works = [self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together(works, outputs)

    def gather(self, outputs, inputs, opts=None) -> _Work:
        opts = opts or c10d.GatherOptions()
        (tensor,) = inputs
        is_root = self.rank() == opts.rootRank
        places = outputs[0] if is_root else []
        lengths = [place.numel() for place in places] if is_root else [0] * self.size()
        flat = torch.empty(sum(lengths), dtype=tensor.dtype)
        staged = _Staged(tensor, returns=False)
        core = self._group.gather(
            _memory(staged.flat), _memory(flat), lengths, opts.rootRank, self._seconds_of(opts)
        )
        return self._begun(core, [staged, _Parts(flat, places)], outputs)

    def scatter(self, outputs, inputs, opts=None) -> _Work:
        opts = opts or c10d.ScatterOptions()
        (output,) = outputs
        is_root = self.rank() == opts.rootRank
        parts = inputs[0] if is_root else []
        lengths = [part.numel() for part in parts] if is_root else [0] * self.size()
        flat = torch.cat([p.detach().reshape(-1) for p in parts]) if is_root else output.new_empty(0)
        staged = _Staged(output, returns=True)
        core = self._group.scatter(
            _memory(flat), lengths, _memory(staged.flat), opts.rootRank, self._seconds_of(opts)
        )
        return self._begun(core, [staged, _Parts(flat, [])], outputs)

    def alltoall(self, outputs, inputs, opts=None) -> _Work:
        out = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
        into = torch.empty(sum(t.numel() for t in outputs), dtype=out.dtype)
        core = self._group.all_to_all(
            _memory(out),
            [tensor.numel() for tensor in inputs],
            _memory(into),
            [tensor.numel() for tensor in outputs],
            self._seconds_of(opts),
        )
        return self._begun(core, [_Parts(out, []), _Parts(into, outputs)], outputs)

    def alltoall_base(self, output, input, out_splits=(), in_splits=(), opts=None) -> _Work:  # noqa: A002
        def lengths(tensor, splits, what):
            rows = tensor.size(0) if tensor.dim() else 0
            row = tensor.numel() // rows if rows else 0
            if not splits:
                if rows % self.size():
                    raise ValueError(
                        f"all_to_all cannot split {what} of {rows} rows among {self.size()} ranks"
                    )
                return [tensor.numel() // self.size()] * self.size()
            if len(splits) != self.size() or sum(splits) != rows or min(splits) < 0:
                raise ValueError(f"splits {list(splits)} do not share out {what} of {rows} rows")
            return [each * row for each in splits]

        staged_out = _Staged(input, returns=False)
        staged_in = _Staged(output, returns=True)
        core = self._group.all_to_all(
            _memory(staged_out.flat),
            lengths(input, in_splits, "the input"),
            _memory(staged_in.flat),
            lengths(output, out_splits, "the output"),
            self._seconds_of(opts),
        )
        return self._begun(core, [staged_out, staged_in], output)

    all_to_all_single = alltoall_base

    # From one to another.
    def send(self, tensors, dst: int, tag: int = 0) -> _Work:
        (tensor,) = tensors
        staged = _Staged(tensor, returns=False)
        core = self._group.send(_memory(staged.flat), dst, tag, self._timeout)
        return self._begun(core, [staged], tensors)

    def recv(self, tensors, src: int, tag: int = 0) -> _Work:
        (tensor,) = tensors
        staged = _Staged(tensor, returns=True)
        core = self._group.receive(_memory(staged.flat), src, tag, self._timeout)
        return self._begun(core, [staged], tensors, source=src)

    def barrier(self, opts=None) -> _Work:
        return self._begun(self._group.barrier(self._seconds_of(opts)), [], None)

    def _together(self, works, result) -> _Work:
        core = _All(work._core for work in works)
        after = [step for work in works for step in work._after]
        for work in works:
            work._after = []
        joined = _Work(core, after, result)
        joined.keeps = works
        self._under_way.append(joined)
        return joined


class _Parts:
    """One flat tensor whose parts, one after the other, belong to several."""

    returns = True

    def __init__(self, flat, places):
        self.flat, self.places = flat, list(places)

    def give_back(self) -> None:
        at = 0
        with torch.no_grad():
            for place in self.places:
                part = self.flat[at : at + place.numel()]
                place.detach().copy_(part.view(place.shape))
                at += place.numel()


class _Part(_Parts):
    """One part of a flat tensor."""

    def __init__(self, flat, begin, place):
        super().__init__(flat, [place])
        self.begin = begin

    def give_back(self) -> None:
        (place,) = self.places
        with torch.no_grad():
            part = self.flat[self.begin : self.begin + place.numel()]
            place.detach().copy_(part.view(place.shape))


def _one(works):
    return works[0] if len(works) == 1 else _All(works)


def _tensors_and_op(tensors, opts):
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    op = getattr(opts, "reduceOp", opts if opts is not None else dist.ReduceOp.SUM)
    return list(tensors), _op_name(op)


def _meet(store, rank: int, size: int, timeout: timedelta):
    """The session, the group's ranks in it, and its number there.

    A. Everybody puts into the store which session it has, its rank there, and which group numbers
       it uses.
    B. If all have the same one, the group is some of its ranks, and has the first number that none of
       them uses.
    C. Otherwise they open a new session: rank 0 listens and puts its address into the store.
    """
    session = _session.current()
    own = {"token": "", "rank": -1, "numbers": []}
    if session is not None:
        own = {
            "token": session.token,
            "rank": session.rank,
            "numbers": sorted(session.numbers_in_use()),
        }
    store.set(f"starling/{rank}", json.dumps(own))
    everybody = [json.loads(store.get(f"starling/{r}")) for r in range(size)]
    tokens = {each["token"] for each in everybody}
    if len(tokens) == 1 and "" not in tokens:
        used = set().union(*(each["numbers"] for each in everybody))
        number = next(n for n in range(_session.FIRST_NUMBER, 4096) if n not in used)
        return session, [each["rank"] for each in everybody], number

    listen_fd = -1
    if rank == 0:
        address = _session.address_towards(os.environ.get("MASTER_ADDR", "127.0.0.1"))
        listen_fd, port = _session.listen(address)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        store.set("starling/rendezvous", json.dumps([place, secrets.token_hex(16)]))
    place, secret = json.loads(store.get("starling/rendezvous"))
    core = _core.Core(
        rank, size, place, secret, max(1, int(timeout.total_seconds())), listen_fd
    )
    return _session.adopt(core, secret), list(range(size)), _session.FIRST_NUMBER


def _create(store, rank: int, size: int, timeout: timedelta) -> StarlingGroup:
    return StarlingGroup(store, rank, size, timeout)


def _register() -> None:
    try:
        dist.Backend.register_backend("starling", _create, devices=["cpu"])  # from torch 2.0 on
    except TypeError:
        dist.Backend.register_backend("starling", _create)


_register()
