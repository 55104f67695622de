"""What torch's groups take beside what torch.distributed gives them, and what they refuse: as gloo's.

    starling launch -n 2 -- python3 tests/python/torch_arguments_test.py
"""

import faulthandler
import os
import re
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import starling.torch_backend
from starling import _core, _session

RANK = int(os.environ["STARLING_RANK"])
SIZE = int(os.environ["STARLING_SIZE"])
ONE, WIDE, TWO = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
SPARSE = torch.sparse_coo_tensor([[0]], [1.0], size=(1,))


def options(kind, **settings):
    made = kind()
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def refusal(action):
    try:
        action()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it was not refused")


def gist(message):
    """What gloo says, up to where the numbers begin."""
    said = re.search(r"ProcessGroupGloo::\w+: ([^(:\n]+)", message).group(1)
    return re.match(r"[^\d]+", said).group(0).strip()


def rooted(kind, root):
    return options(kind, rootRank=root)


def wrong_calls():
    """Each of them fails before anything is exchanged, in every rank."""
    broadcast, reduce = c10d.BroadcastOptions, c10d.ReduceOptions
    scatter, gather = c10d.ScatterOptions, c10d.GatherOptions
    next_rank = (RANK + 1) % SIZE
    for root in (-1, SIZE):
        yield lambda g, root=root: g.broadcast([ONE], rooted(broadcast, root))
        yield lambda g, root=root: g.reduce([ONE], rooted(reduce, root))
        yield lambda g, root=root: g.scatter([ONE], [], rooted(scatter, root))
        yield lambda g, root=root: g.gather([], [ONE], rooted(gather, root))
    for index in (-1, 1):
        yield lambda g, i=index: g.broadcast([ONE], options(broadcast, rootRank=0, rootTensor=i))
        yield lambda g, i=index: g.reduce([ONE], options(reduce, rootRank=0, rootTensor=i))
    yield lambda g: g.broadcast([], rooted(broadcast, 0))
    yield lambda g: g.broadcast([ONE, WIDE], rooted(broadcast, 0))
    yield lambda g: g.broadcast([ONE, TWO], rooted(broadcast, 0))
    yield lambda g: g.reduce([ONE, ONE], rooted(reduce, 0))
    for tensors in ([], [ONE, WIDE], [ONE, TWO], [ONE, SPARSE]):
        yield lambda g, t=tensors: g.allreduce(t, c10d.AllreduceOptions())
    yield lambda g: g.allreduce([SPARSE], options(c10d.AllreduceOptions, reduceOp=dist.ReduceOp.MAX))
    for tensors in ([], [ONE, WIDE], [ONE, SPARSE], [SPARSE, SPARSE]):
        yield lambda g, t=tensors: g.allreduce_coalesced(t, c10d.AllreduceCoalescedOptions())
    for outputs in ([], [ONE, ONE]):
        yield lambda g, o=outputs: g.scatter(o, [], rooted(scatter, 0))
        yield lambda g, o=outputs: g.gather([], o, rooted(gather, 0))
    for lists in ([], [[ONE] * SIZE] * 2, [[ONE] * (SIZE - 1)], [[ONE] * (SIZE + 1)],
                  [[WIDE] * SIZE], [[TWO] * SIZE]):
        yield lambda g, x=lists: g.scatter([ONE], x, rooted(scatter, RANK))
        yield lambda g, x=lists: g.gather(x, [ONE], rooted(gather, RANK))
    if SIZE > 1:
        yield lambda g: g.scatter([ONE], [[ONE] * SIZE], rooted(scatter, next_rank))
        yield lambda g: g.gather([[ONE] * SIZE], [ONE], rooted(gather, next_rank))
    for outputs, inputs in (([], []), ([], [ONE]), ([[ONE] * SIZE] * 2, [ONE]),
                            ([[ONE] * (SIZE + 1)], [ONE]), ([[WIDE] * SIZE], [ONE]),
                            ([[TWO] * SIZE], [ONE]), ([[ONE] * 2 * SIZE] * 2, [ONE, WIDE]),
                            ([[ONE] * 2 * SIZE] * 2, [ONE, TWO])):
        yield lambda g, o=outputs, i=inputs: g.allgather(o, i)
    for outputs, inputs in (([], []), ([[ONE]] * (SIZE + 1), [ONE]), ([[WIDE]] * SIZE, [ONE]),
                            ([[TWO]] * SIZE, [ONE]), ([[ONE, ONE]] * SIZE, [ONE])):
        yield lambda g, o=outputs, i=inputs: g.allgather_coalesced(o, i)


def check_refusals(gloo, ours):
    for number, call in enumerate(wrong_calls()):
        theirs = gist(refusal(lambda: call(gloo)))
        message = refusal(lambda: call(ours))
        assert theirs in message, f"call {number}: gloo says '{theirs}', starling '{message}'"


def check_sizes_that_broke_an_invariant(gloo, ours):
    alone = [TWO] * SIZE
    for wrong in (
        lambda: dist.scatter(ONE, alone if RANK == 0 else None, 0, group=ours) if RANK == 0 else no(),
        lambda: dist.gather(ONE, alone if RANK == 0 else None, 0, group=ours) if RANK == 0 else no(),
        lambda: dist.all_to_all([ONE] * SIZE, alone, group=ours),
        lambda: dist.all_to_all_single(torch.zeros(SIZE), torch.zeros(2 * SIZE), [1] * SIZE, [2] * SIZE,
                                       group=ours),
        lambda: dist.all_reduce(ONE, dist.ReduceOp.BAND, group=ours),
        lambda: dist.all_reduce(ONE, c10d._make_nccl_premul_sum(2.0), group=ours),
        lambda: ours.send([ONE], RANK, 0),
        lambda: ours.recv([ONE], RANK, 0),
    ):
        refusal(wrong)


def no():
    raise RuntimeError("only the root has lists")


def check_the_core_looks_itself(gloo, ours):
    core = ours._group
    memory = (ONE.data_ptr(), 1, _core.ELEMENTS.index("f32"))
    two = (TWO.data_ptr(), 2, _core.ELEMENTS.index("f32"))
    each, whole = [1] * SIZE, (torch.zeros(SIZE).data_ptr(), SIZE, memory[2])
    for wrong in (
        lambda: core.broadcast(memory, SIZE),
        lambda: core.broadcast(memory, -1),
        lambda: core.reduce(memory, "sum", SIZE),
        lambda: core.reduce(memory, "and", 0),
        lambda: core.all_reduce(memory, "xor"),
        lambda: core.all_gather(whole, [1] * (SIZE + 1)),
        lambda: core.all_gather(whole, [2] * SIZE),
        lambda: core.reduce_scatter(whole, [2] * SIZE, "sum"),
        lambda: core.gather(two, whole, each, RANK),
        lambda: core.gather(memory, whole, each, SIZE),
        lambda: core.scatter(whole, each, two, RANK),
        lambda: core.all_to_all(whole, each, (ONE.data_ptr(), 0, memory[2]), [0] * SIZE),
        lambda: core.send(memory, RANK),
        lambda: core.receive(memory, SIZE),
        lambda: _core.Group(_session.current().core, [SIZE], 5),
        lambda: _core.Group(_session.current().core, [0], _core.GROUPS),
    ):
        refusal(wrong)
    if SIZE > 1:
        elsewhere = _core.Group(_session.current().core, [(RANK + 1) % SIZE], _core.GROUPS - 2)
        refusal(lambda: elsewhere.all_gather(memory, [1]))
        refusal(lambda: elsewhere.all_to_all(memory, [1], memory, [1]))


def check_refusals_are_of_both_kinds(gloo, ours):
    for kind in (ValueError, RuntimeError):
        try:
            ours.allreduce([])
        except kind:
            continue
        raise AssertionError(f"it was no {kind}")


def check_bare_tensors(gloo, ours):
    """The same values as gloo's, and the same shape of what the future gives."""
    mine = torch.tensor([RANK + 1.0])
    last = SIZE - 1
    for call in (
        lambda g, x: g.broadcast(x, root=last),
        lambda g, x: g.broadcast(x, last),
        lambda g, x: g.allreduce(x),
        lambda g, x: g.allreduce(x, dist.ReduceOp.MAX),
        lambda g, x: g.allreduce([x], op=dist.ReduceOp.MAX),
        lambda g, x: g.allgather([torch.zeros(1) for _ in range(SIZE)], x),
        lambda g, x: g.allgather([[torch.zeros(1) for _ in range(SIZE)]], [x]),
        lambda g, x: g.scatter(x, [torch.tensor([10.0 + r]) for r in range(SIZE)]
                               if RANK == last else [], root=last)
        if RANK == last else g.scatter([x], [], rooted(c10d.ScatterOptions, last)),
        lambda g, x: g.gather([torch.zeros(1) for _ in range(SIZE)], x, root=last)
        if RANK == last else g.gather([], [x], rooted(c10d.GatherOptions, last)),
    ):
        theirs, result = (call(g, mine.clone()).get_future().wait() for g in (gloo, ours))
        assert [list(x) for x in theirs] == [list(x) for x in result], (theirs, result)
    x = mine.clone()
    ours.reduce(x, root=last, op=dist.ReduceOp.MAX).wait()
    assert RANK != last or x.item() == SIZE
    place = torch.zeros(1)
    ours.reduce_scatter(place, [mine.clone() for _ in range(SIZE)], op=dist.ReduceOp.SUM).wait()
    assert place.item() == SIZE * (SIZE + 1) / 2


def check_several_sparse_tensors(gloo, ours):
    def result(group):
        tensors = [torch.sparse_coo_tensor([[RANK, i]], [1.0 + i, 2.0], size=(SIZE + 2,))
                   for i in range(2)]
        group.allreduce(tensors).get_future().wait()
        return [each.to_dense().tolist() for each in tensors]

    assert result(gloo) == result(ours)


def check_a_barrier_ends_what_was_begun(gloo, ours):
    tensors = [torch.full((300, 300), float(i)).t()[::2] for i in range(20)]  # all staged
    for tensor in tensors:
        ours.allreduce(tensor)
    ours.barrier().wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full((150, 300), float(i * SIZE))), i


def main():
    faulthandler.dump_traceback_later(100, exit=True)
    place = os.path.join(tempfile.gettempdir(), "starling-args-" + os.environ["STARLING_RENDEZVOUS"])
    store = dist.FileStore(place, SIZE)
    gloo = c10d.ProcessGroupGloo(dist.PrefixStore("gloo", store), RANK, SIZE,
                                 timedelta(seconds=60))
    ours = starling.torch_backend.StarlingGroup(dist.PrefixStore("starling", store), RANK, SIZE,
                                                timedelta(seconds=60))
    dist.init_process_group("starling", store=dist.PrefixStore("world", store), rank=RANK,
                            world_size=SIZE)
    for check in (check_refusals, check_sizes_that_broke_an_invariant, check_the_core_looks_itself,
                  check_refusals_are_of_both_kinds, check_bare_tensors, check_several_sparse_tensors,
                  check_a_barrier_ends_what_was_begun):
        check(gloo, dist.group.WORLD if check is check_sizes_that_broke_an_invariant else ours)
        if RANK == 0:
            print(f"{check.__name__}: passed", flush=True)
    ours.barrier().wait()


if __name__ == "__main__":
    sys.exit(main())
