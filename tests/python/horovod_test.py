"""Every operation of starling.torch beside plain torch.

    starling launch -n 4 -- python3 tests/python/horovod_test.py

Each rank runs the same checks in the same order; what fails is named by all. A rank knows what the
others have, since their values come from a seed.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
import traceback
import warnings

import torch
from torch import nn

import starling.torch as hvd

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [(0,), (1,), (17,), (5, 7), (3, 4, 5), (70_001,), ()]


def values(shape, dtype, rank, seed=0):
    """Small whole numbers, which all types add up exactly."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def of_all(shape, dtype, seed=0, ranks=None):
    ranks = range(SIZE) if ranks is None else ranks
    return torch.stack([values(shape, dtype, rank, seed).to(torch.float64) for rank in ranks])


def equal(ours, expected, note=""):
    expected = expected.to(ours.dtype)
    assert ours.shape == expected.shape, f"{note}: {ours.shape}, not {expected.shape}"
    assert torch.equal(ours, expected), f"{note}: {ours}, not {expected}"


@contextlib.contextmanager
def raises(kind, *words):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"'{error}' lacks '{word}'"
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_that_ranks_are_those_of_the_launcher():
    assert hvd.is_initialized()
    if "HOROVOD_RANK" in os.environ:
        assert hvd.rank() == int(os.environ["HOROVOD_RANK"])
        assert hvd.size() == int(os.environ["HOROVOD_SIZE"])
        assert hvd.local_rank() == int(os.environ["HOROVOD_LOCAL_RANK"])
        assert hvd.local_size() == int(os.environ["HOROVOD_LOCAL_SIZE"])
        assert hvd.cross_rank() == int(os.environ["HOROVOD_CROSS_RANK"])
        assert hvd.cross_size() == int(os.environ["HOROVOD_CROSS_SIZE"])
        assert os.environ["HOROVOD_HOSTNAME"]
    assert hvd.is_homogeneous()
    hvd.init()  # once more is nothing
    for built in (hvd.mpi_built, hvd.mpi_enabled, hvd.nccl_built, hvd.ddl_built, hvd.ccl_built,
                  hvd.cuda_built, hvd.rocm_built):
        assert not built()
    assert hvd.gloo_built() and hvd.gloo_enabled()
    with raises(ValueError):
        hvd.mpi_threads_supported()


def check_allreduce():
    for dtype in FLOATS + INTEGERS:
        for shape in SHAPES:
            x = values(shape, dtype, RANK)
            everybody = of_all(shape, dtype)
            equal(hvd.allreduce(x, op=hvd.Sum), everybody.sum(0), f"sum {dtype} {shape}")
            equal(x, values(shape, dtype, RANK), "the tensor itself")
            equal(hvd.allreduce(x, op=hvd.Min), everybody.amin(0))
            equal(hvd.allreduce(x, op=hvd.Max), everybody.amax(0))
            if SIZE < 8:
                equal(hvd.allreduce(x, op=hvd.Product), everybody.prod(0))
            mean = hvd.allreduce(x)
            if dtype in INTEGERS:
                equal(mean, everybody.sum(0).div(SIZE, rounding_mode="trunc"), f"mean {dtype}")
            else:
                assert torch.allclose(mean.double(), everybody.mean(0), rtol=1e-2), dtype


def check_allreduce_of_booleans():
    flags = torch.tensor([RANK == 0, True, False])
    assert hvd.allreduce(flags, op=hvd.Max).tolist() == [True, True, False]
    assert hvd.allreduce(flags, op=hvd.Min).tolist() == [SIZE == 1, True, False]
    with raises(ValueError):
        hvd.allreduce(flags)


def check_allreduce_by_old_argument():
    x = torch.full((3,), float(RANK))
    equal(hvd.allreduce(x, average=False), torch.full((3,), float(sum(range(SIZE)))))
    equal(hvd.allreduce(x, average=True), torch.full((3,), (SIZE - 1) / 2))
    with raises(ValueError):
        hvd.allreduce(x, average=True, op=hvd.Sum)


def check_negative_integers_average_towards_zero():
    x = torch.tensor([-7 if RANK == 0 else 0, -1])
    for ours in (hvd.allreduce(x), hvd.allreduce(x.repeat(100_000))[-2:]):
        equal(ours, torch.tensor([-7, -SIZE]).div(SIZE, rounding_mode="trunc"))


def check_allreduce_in_place():
    for dtype in FLOATS + INTEGERS:
        x = values((4, 5), dtype, RANK)
        y = hvd.allreduce_(x, op=hvd.Sum)
        assert y is x
        equal(x, of_all((4, 5), dtype).sum(0))
    whole = torch.zeros(6, 4)
    columns = whole[:, 1]  # not contiguous: the tensor behind it changes
    columns += RANK
    hvd.allreduce_(columns, op=hvd.Sum)
    equal(whole[:, 1], torch.full((6,), float(sum(range(SIZE)))))
    equal(whole[:, 0], torch.zeros(6))


def check_factors():
    for dtype in FLOATS + [torch.int32, torch.int64]:
        x = values((50,), dtype, 0) + 7  # the same everywhere
        before = hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.3)
        after = hvd.allreduce(x, op=hvd.Sum, postscale_factor=0.3)
        if dtype in INTEGERS:
            equal(before, (x.double() * 0.3).to(dtype) * SIZE)
            equal(after, (x.double() * SIZE * 0.3).to(dtype))
        else:
            assert torch.allclose(before.double(), x.double() * 0.3 * SIZE, rtol=2e-2)
            assert torch.allclose(after.double(), x.double() * 0.3 * SIZE, rtol=2e-2)
    mean = hvd.allreduce(torch.full((2,), float(RANK)), prescale_factor=2, postscale_factor=3)
    assert torch.allclose(mean, torch.full((2,), 6 * (SIZE - 1) / 2))


def check_asynchronous_in_any_order():
    order = torch.randperm(40, generator=torch.Generator().manual_seed(RANK)).tolist()
    handles = {i: hvd.allreduce_async(values((i * 50,), torch.float32, RANK, i), op=hvd.Sum,
                                      name=f"any.{i}") for i in order}
    for i in reversed(order):
        equal(hvd.synchronize(handles[i]), of_all((i * 50,), torch.float32, i).sum(0))
        assert hvd.synchronize(handles[i]) is None
    with raises(ValueError):
        hvd.poll(handles[0])
    alone = hvd.allreduce_async(torch.ones(2), name="same", op=hvd.Sum)
    together = hvd.grouped_allreduce_async([torch.ones(2)], name="same", op=hvd.Sum)
    equal(hvd.synchronize(together)[0], hvd.synchronize(alone))


def check_poll():
    handle = hvd.allreduce_async(torch.ones(10), name="polled")
    polls = 0
    while not hvd.poll(handle):
        polls += 1
    equal(hvd.synchronize(handle), torch.ones(10))


def check_in_place_asynchronous():
    x = torch.full((3,), float(RANK))
    handle = hvd.allreduce_async_(x, op=hvd.Sum, name="in.place")
    assert hvd.synchronize(handle) is x
    equal(x, torch.full((3,), float(sum(range(SIZE)))))
    handles = [hvd.broadcast_async_(t, SIZE - 1) for t in (x, x.clone())]
    x.add_(0)
    for handle in handles:
        hvd.synchronize(handle)


def check_grouped_allreduce():
    for dtype in FLOATS + INTEGERS:
        tensors = [values((i, 3), dtype, RANK, i) for i in range(5)]
        expected = [of_all((i, 3), dtype, i).sum(0) for i in range(5)]
        for ours, wanted in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), expected):
            equal(ours, wanted)
        handle = hvd.grouped_allreduce_async(tensors, op=hvd.Sum, name="group")
        for ours, wanted in zip(hvd.synchronize(handle), expected):
            equal(ours, wanted)
        hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=hvd.Sum, name="group_"))
        for ours, wanted in zip(tensors, expected):
            equal(ours, wanted)
        hvd.grouped_allreduce_(tensors, op=hvd.Max)
    mixed = [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.ones(4, dtype=torch.float64)]
    for ours in hvd.grouped_allreduce(mixed, op=hvd.Sum):
        assert (ours == SIZE).all()


def check_compression():
    x = torch.full((5,), 0.5 + RANK)
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        ours = hvd.allreduce(x, compression=compression, op=hvd.Sum)
        equal(ours, torch.full((5,), sum(0.5 + r for r in range(SIZE))))
        assert ours.dtype == torch.float32
        equal(hvd.grouped_allreduce([x], compression=compression, op=hvd.Sum)[0], ours)
    compressed, ctx = hvd.Compression.fp16.compress(torch.ones(3, dtype=torch.float64))
    assert compressed.dtype == torch.float16
    assert hvd.Compression.fp16.decompress(compressed, ctx).dtype == torch.float64
    integers = torch.ones(3, dtype=torch.int32)
    assert hvd.Compression.fp16.compress(integers)[0].dtype == torch.int32


def check_allgather():
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        for tail in ((), (3,), (2, 5)):
            x = values((RANK + 1, *tail), dtype, RANK)
            expected = torch.cat([values((r + 1, *tail), dtype, r) for r in range(SIZE)])
            equal(hvd.allgather(x), expected)
            equal(hvd.synchronize(hvd.allgather_async(x, name="gathered")), expected)
    nothing = hvd.allgather(torch.zeros(0, 4))
    assert list(nothing.shape) == [0, 4]
    some = hvd.allgather(torch.zeros(2 if RANK == 0 else 0, 4))
    assert list(some.shape) == [2, 4]
    pair = [torch.full((RANK, 2), RANK), torch.full((2,), float(RANK))]
    for ours in (hvd.grouped_allgather(pair), hvd.synchronize(hvd.grouped_allgather_async(pair))):
        equal(ours[0], torch.cat([torch.full((r, 2), r) for r in range(SIZE)]))
        equal(ours[1], torch.cat([torch.full((2,), float(r)) for r in range(SIZE)]))


def check_broadcast():
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        for root in range(SIZE):
            for shape in SHAPES:
                x = values(shape, dtype, RANK)
                equal(hvd.broadcast(x, root), values(shape, dtype, root))
                equal(x, values(shape, dtype, RANK), "the tensor itself")
            assert hvd.broadcast_(x, root) is x
            equal(x, values(shape, dtype, root))
    with raises(ValueError):
        hvd.broadcast(torch.zeros(1), SIZE)


def check_alltoall():
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        for tail in ((), (2,), (2, 2)):
            x = torch.cat([values((RANK + 1, *tail), dtype, RANK, to) for to in range(SIZE)])
            expected = torch.cat([values((r + 1, *tail), dtype, r, RANK) for r in range(SIZE)])
            splits = torch.tensor([RANK + 1] * SIZE, dtype=torch.int32)
            ours, received = hvd.alltoall(x, splits)
            equal(ours, expected)
            assert received.tolist() == [r + 1 for r in range(SIZE)]
            equal(hvd.alltoall(x), expected)
    to_each = torch.cat([torch.full((r + 1,), 10.0 * RANK + r) for r in range(SIZE)])
    ours, received = hvd.alltoall(to_each, [r + 1 for r in range(SIZE)])
    equal(ours, torch.cat([torch.full((RANK + 1,), 10.0 * r + RANK) for r in range(SIZE)]))
    assert received.tolist() == [RANK + 1] * SIZE
    ours, received = hvd.synchronize(hvd.alltoall_async(torch.arange(SIZE + 3.0), [1] * SIZE))
    equal(ours, torch.full((SIZE,), float(RANK)))
    if SIZE > 1:
        with raises(ValueError):
            hvd.alltoall(torch.zeros(SIZE + 1))
    with raises(ValueError):
        hvd.alltoall(torch.zeros(SIZE - 1), torch.ones(SIZE, dtype=torch.int32))
    with raises(ValueError):
        hvd.alltoall(torch.zeros(SIZE), torch.ones(SIZE))
    with raises(ValueError):
        hvd.alltoall(torch.zeros(SIZE + 5), torch.ones(SIZE + 1, dtype=torch.int32))


def check_reducescatter():
    for dtype in FLOATS + INTEGERS:
        for rows in (SIZE * 4, SIZE + 1, 1, 0):
            x = values((rows, 3), dtype, RANK)
            begin = sum(rows // SIZE + (1 if r < rows % SIZE else 0) for r in range(RANK))
            count = rows // SIZE + (1 if RANK < rows % SIZE else 0)
            expected = of_all((rows, 3), dtype).sum(0)[begin : begin + count]
            equal(hvd.reducescatter(x, op=hvd.Sum), expected)
            equal(x, values((rows, 3), dtype, RANK), "the tensor itself")
            equal(hvd.synchronize(hvd.reducescatter_async(x, op=hvd.Sum, name="rs")), expected)
            both = hvd.grouped_reducescatter([x, x], op=hvd.Sum)
            equal(both[0], expected)
            equal(both[1], expected)
    x = torch.full((SIZE,), float(RANK))
    equal(hvd.reducescatter(x), torch.full((1,), (SIZE - 1) / 2))
    doubled = hvd.reducescatter(x, op=hvd.Sum, prescale_factor=2.0)
    equal(doubled, torch.full((1,), 2.0 * sum(range(SIZE))))
    with raises(RuntimeError):
        hvd.reducescatter(torch.tensor(1.0))
    with raises(RuntimeError):
        hvd.reducescatter(x, op=hvd.Adasum)


def check_gradients():
    def gradient_of(function, x, *seeds):
        x = x.clone().requires_grad_()
        y = function(x)
        y = y[0] if isinstance(y, (tuple, list)) else y
        y.backward(torch.ones_like(y) * (RANK + 1))
        return x.grad

    total = float(sum(range(1, SIZE + 1)))
    for dtype in (torch.float32, torch.float64):
        x = values((SIZE * 2, 3), dtype, RANK)
        ones = torch.ones_like(x)
        equal(gradient_of(lambda t: hvd.allreduce(t, op=hvd.Sum), x), ones * total)
        assert torch.allclose(gradient_of(hvd.allreduce, x), ones * total / SIZE)
        assert torch.allclose(
            gradient_of(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=3), x),
            ones * total * 3)
        equal(gradient_of(lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum), x), ones * total)
        assert torch.allclose(gradient_of(lambda t: hvd.allgather(t[: RANK + 1]), x)[: RANK + 1],
                              ones[: RANK + 1] * total / SIZE)
        assert torch.allclose(gradient_of(lambda t: hvd.grouped_allgather([t]), x),
                              ones * total / SIZE)
        root = SIZE - 1
        assert torch.allclose(gradient_of(lambda t: hvd.broadcast(t, root), x),
                              ones * (total / SIZE if RANK == root else 0))
        # What went to rank r comes back with its gradient.
        expected = torch.cat([torch.full((2, 3), float(r + 1), dtype=dtype) for r in range(SIZE)])
        equal(gradient_of(hvd.alltoall, x), expected)
        splits = torch.ones(SIZE, dtype=torch.int32)
        some = gradient_of(lambda t: hvd.alltoall(t, splits), x)
        equal(some[:SIZE], expected[::2])
        equal(some[SIZE:], torch.zeros(SIZE, 3, dtype=dtype))
        equal(gradient_of(lambda t: hvd.reducescatter(t, op=hvd.Sum), x), expected * SIZE)
        assert torch.allclose(gradient_of(hvd.reducescatter, x), expected)
        equal(gradient_of(lambda t: hvd.grouped_reducescatter([t, t], op=hvd.Sum), x),
              expected * SIZE)


def check_sparse():
    def some(rank, i):
        generator = torch.Generator().manual_seed(100 * rank + i)
        x = torch.rand(17 + i, 10, generator=generator)
        x[x < 0.8] = 0
        return x.to_sparse()

    for op in (hvd.Average, hvd.Sum):
        waits = [hvd.sparse_allreduce_async(some(RANK, i), f"sparse.{i}", op) for i in range(4)]
        for i, wait in enumerate(waits):
            expected = sum(some(r, i).to_dense() for r in range(SIZE))
            expected = expected / SIZE if op == hvd.Average else expected
            assert torch.allclose(wait().to_dense(), expected, atol=1e-6)


def check_adasum():
    def pair(a, b):
        ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
        return (1 - ab / aa / 2) * a + (1 - ab / bb / 2) * b

    row = [torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(r))
           for r in range(SIZE)]
    ours = hvd.allreduce(row[RANK], op=hvd.Adasum)
    power = 1 << (SIZE.bit_length() - 1)
    more = SIZE - power
    row = [pair(row[2 * i], row[2 * i + 1]) for i in range(more)] + row[2 * more :]
    while len(row) > 1:
        row = [pair(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    assert torch.allclose(ours, row[0])
    with raises(ValueError):
        hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum)


def check_what_differs_is_named():
    if SIZE == 1:
        return
    last = f"rank {SIZE - 1}"
    odd = RANK == SIZE - 1
    with raises(hvd.HorovodInternalError, "[4]", "[3]", last):
        hvd.allreduce(torch.zeros(4 if odd else 3))
    with raises(RuntimeError, last):
        hvd.allreduce(torch.zeros((2, 6) if odd else (2, 2, 3)))
    with raises(hvd.HorovodInternalError, "i32", "f32", last):
        hvd.allreduce(torch.zeros(3, dtype=torch.int32 if odd else torch.float32))
    with raises(hvd.HorovodInternalError, "min", "max", last):
        hvd.allreduce(torch.zeros(3), op=hvd.Min if odd else hvd.Max)
    with raises(hvd.HorovodInternalError, "root", last):
        hvd.broadcast(torch.zeros(3), 0 if odd else 1)
    with raises(hvd.HorovodInternalError, last):
        hvd.broadcast(torch.zeros(4 if odd else 3), 0)
    with raises(hvd.HorovodInternalError, last):
        hvd.allgather(torch.zeros(3, 4 if odd else 3))
    with raises(hvd.HorovodInternalError, last):
        hvd.allgather(torch.zeros(3, dtype=torch.int32 if odd else torch.float32))
    with raises(hvd.HorovodInternalError, last):
        hvd.alltoall(torch.zeros(SIZE, 4 if odd else 3))
    with raises(hvd.HorovodInternalError, last):
        hvd.reducescatter(torch.zeros(SIZE, 4 if odd else 3))
    with raises(hvd.HorovodInternalError, last):
        hvd.grouped_allreduce([torch.zeros(1)] * (2 if odd else 3))
    handle = hvd.allreduce_async(torch.zeros(4 if odd else 3), name="differs")
    with raises(hvd.HorovodInternalError, last):
        hvd.synchronize(handle)
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.full((1,), float(SIZE)))  # it goes on


def check_a_name_in_flight_is_refused():
    if SIZE == 1:
        return
    if RANK > 0:
        hvd.barrier()  # so that it cannot have ended
    first = hvd.allreduce_async(torch.ones(3), name="twice")
    if RANK == 0:
        with raises(ValueError, "twice"):
            hvd.allreduce_async(torch.ones(3), name="twice")
        gathered = hvd.allgather_async(torch.ones(3), name="twice")  # another kind
        hvd.barrier()
    else:
        gathered = hvd.allgather_async(torch.ones(3), name="twice")
    hvd.synchronize(first)
    hvd.synchronize(gathered)
    equal(hvd.allreduce(torch.ones(3), name="twice"), torch.ones(3))


def check_a_name_is_refused_however_soon_its_exchange_is_over():
    for begin in (hvd.allreduce_async, hvd.allgather_async, hvd.reducescatter_async,
                  lambda x, name: hvd.broadcast_async(x, 0, name)):
        for pause in (0, 0.1):  # a while in which it ends
            handle = begin(torch.ones(3), name="again")
            time.sleep(pause)
            with raises(ValueError, "again"):
                begin(torch.ones(3), name="again")
            hvd.synchronize(handle)
    handle = hvd.allreduce_async(torch.ones(3), name="again")
    while not hvd.poll(handle):
        pass
    hvd.synchronize(hvd.allreduce_async(torch.ones(3), name="again"))  # it has been seen to be over


def check_unsupported_tensors():
    with raises(ValueError):
        hvd.allreduce(torch.zeros(3, dtype=torch.complex64))
    with raises(ValueError):
        hvd.allreduce(torch.eye(3).to_sparse())


def check_barrier():
    hvd.barrier()


def check_join():
    for first in sorted({0, SIZE - 1}):
        for _ in range(2):
            for dtype in (torch.float32, torch.int64):
                a, b = values((5,), dtype, 0), values((17, 3), dtype, 1)
                if RANK != first:
                    handles = [hvd.allreduce_async(t, name=n, average=True)
                               for t, n in ((a, "a"), (b, "b"))]
                    for t, handle in zip((a, b), handles):
                        mean = (t.double() * (SIZE - 1) / SIZE)
                        mean = mean.trunc() if dtype == torch.int64 else mean
                        assert torch.allclose(hvd.synchronize(handle).double(), mean)
                    hvd.allreduce(torch.ones(2), op=hvd.Sum)  # without a name: counted anew after
                last = hvd.join()
                assert 0 <= last < SIZE and (last != first or SIZE == 1)
    if SIZE > 1:
        if RANK > 0:
            for collective in (hvd.allgather, lambda x: hvd.broadcast(x, 1), hvd.reducescatter):
                with raises(hvd.HorovodInternalError, "rank 0 has joined"):
                    collective(torch.ones(SIZE))
        hvd.join()
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.full((1,), float(SIZE)))


def check_process_sets():
    with raises(ValueError, "dynamic"):
        hvd.add_process_set([0])
    for wrong in ("01", 3, [0.5]):
        with raises(ValueError):
            hvd.ProcessSet(wrong)
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    for wrong in ([SIZE], [-1], [0, 0], [], range(SIZE)):
        with raises(ValueError):
            hvd.add_process_set(wrong)
    assert not hvd.remove_process_set(hvd.global_process_set)
    if SIZE == 1:
        return
    with raises(hvd.HorovodInternalError, "rank"):
        hvd.add_process_set([RANK])
    x = torch.full((3,), float(RANK))
    evens = hvd.add_process_set(range(0, SIZE, 2))
    odds = hvd.add_process_set(hvd.ProcessSet(range(1, SIZE, 2)))
    own = evens if RANK % 2 == 0 else odds
    for _ in range(3):
        equal(hvd.allreduce(x, op=hvd.Sum, process_set=own),
              torch.full((3,), float(sum(own.ranks))))
        equal(hvd.allreduce(x, op=hvd.Sum), torch.full((3,), float(sum(range(SIZE)))))
    with raises(ValueError):
        hvd.add_process_set(range(0, SIZE, 2))
    assert hvd.remove_process_set(evens) and evens.process_set_id is None
    with raises(ValueError):
        hvd.allreduce(x, process_set=evens)
    hvd.shutdown()
    ends = hvd.ProcessSet([0, SIZE - 1] if SIZE > 2 else [1])
    hvd.init(process_sets=[ends])
    assert ends.included() == (RANK in ends.ranks) and ends.size() == len(ends.ranks)
    assert hvd.global_process_set.ranks == list(range(SIZE))
    if ends.included():
        assert ends.rank() == ends.ranks.index(RANK)
        equal(hvd.allreduce(x, op=hvd.Sum, process_set=ends), torch.full((3,), float(SIZE - 1)))
        equal(hvd.allgather(x[:1], process_set=ends), torch.tensor([float(r) for r in ends.ranks]))
        equal(hvd.broadcast(x, SIZE - 1, process_set=ends), torch.full((3,), SIZE - 1.0))
        equal(hvd.alltoall(torch.ones(ends.size()), process_set=ends), torch.ones(ends.size()))
        equal(hvd.reducescatter(torch.ones(ends.size()), process_set=ends), torch.ones(1))
        assert hvd.broadcast_object(RANK, SIZE - 1, process_set=ends) == SIZE - 1
        assert hvd.allgather_object(RANK, process_set=ends) == ends.ranks
        hvd.barrier(process_set=ends)
        assert hvd.join(process_set=ends) in ends.ranks
    else:
        assert ends.rank() is None
        with raises(ValueError):
            hvd.allreduce(x, process_set=ends)


def check_objects():
    assert hvd.broadcast_object({"of": RANK}, 0) == {"of": 0}
    assert hvd.broadcast_object(RANK if RANK else None, SIZE - 1, name="o") in (SIZE - 1, None)
    assert hvd.broadcast_object_fn(root_rank=0)([RANK]) == [0]
    gathered = hvd.allgather_object({"rank": RANK, "more": "x" * RANK})
    assert gathered == [{"rank": r, "more": "x" * r} for r in range(SIZE)]


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 3, bias=False),
                         nn.BatchNorm1d(3))


def check_broadcast_of_parameters_and_optimizers():
    torch.manual_seed(0)
    expected = nn.Linear(4, 4)
    for form in (lambda m: m.state_dict(), lambda m: list(m.named_parameters()),
                 lambda m: m.parameters()):
        torch.manual_seed(RANK)
        model = nn.Linear(4, 4)
        hvd.broadcast_parameters(form(model), root_rank=0)
        equal(model.weight, expected.weight)
    with raises(ValueError):
        hvd.broadcast_parameters(3, root_rank=0)
    kinds = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
             torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.NAdam]
    for kind in kinds:
        model = nn.Linear(4, 4)
        options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        optimizer = kind(model.parameters(), lr=0.1 * (RANK + 1), **options)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        if RANK == 0:  # only the root has made a step
            for p in model.parameters():
                p.grad = torch.full_like(p, 2.0)
            with optimizer.skip_synchronize():
                optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == 0.1
        everybody = hvd.allgather_object(optimizer.state_dict())
        for other in everybody:
            assert str(other) == str(everybody[0]), kind
    with raises(ValueError):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0)
    fresh = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(fresh, root_rank=0)


def trained(steps=8, make=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), passes=1, **options):
    model = network(seed=RANK)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    for step in range(steps):
        for i in range(passes):
            loss_of(model, data(step, i, RANK)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def loss_of(model, x):
    return (model(x) - x[:, :3]).square().mean()


def data(step, i, rank):
    return torch.randn(8, 10, generator=torch.Generator().manual_seed(100 * step + 10 * i + rank))


def plain(steps=8, make=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), passes=1, average=True):
    """What all ranks do, by one."""
    model = network()
    optimizer = make(model.parameters())
    for step in range(steps):
        for i in range(passes):
            for rank in range(SIZE):
                loss = loss_of(model, data(step, i, rank))
                (loss / SIZE if average else loss).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def check_optimizer():
    expected = plain()
    for options in ({}, {"groups": 2}, {"num_groups": 3}, {"gradient_predivide_factor": 2.0}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = trained(**options)
        assert torch.allclose(ours, expected, atol=1e-5), (options, (ours - expected).abs().max())
    adam = lambda p: torch.optim.Adam(p, 0.01)  # noqa: E731
    assert torch.allclose(trained(make=adam), plain(make=adam), atol=1e-4)
    assert torch.allclose(trained(op=hvd.Sum, steps=3), plain(average=False, steps=3), atol=1e-4)
    assert torch.allclose(trained(compression=hvd.Compression.fp16), expected, atol=2e-2)
    assert torch.allclose(trained(passes=3), plain(passes=3), atol=1e-5)


def check_optimizer_of_a_process_set():
    if SIZE == 1:
        return
    hvd.shutdown()
    half = hvd.ProcessSet(list(range(SIZE // 2)))
    hvd.init(process_sets=[half])
    model = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0),
                                         model.named_parameters(), process_set=half)
    model(torch.full((1, 3), float(RANK))).sum().backward()
    optimizer.step()
    own = -float(sum(half.ranks)) / half.size() if half.included() else -float(RANK)
    assert torch.allclose(model.weight, torch.full((1, 3), own))


def check_optimizer_groups_of_parameters():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    hvd.broadcast_parameters(model.state_dict(), 0)
    groups = [list(model[0].parameters())]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1),
                                         model.named_parameters(), groups=groups)
    model(torch.full((2, 3), float(RANK))).sum().backward()
    optimizer.synchronize()
    everybody = hvd.allgather_object([p.grad for p in model.parameters()])
    for other in everybody:
        for a, b in zip(other, everybody[0]):
            equal(a, b)
    with raises(ValueError):
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), groups=[[1]])
    with raises(ValueError):
        p = next(model.parameters())
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), groups=[[p], [p]])


def check_gradients_that_only_some_ranks_have():
    if SIZE == 1:
        return
    model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1),
                                         model.named_parameters())
    x = torch.ones(1, 2)
    (model[0](x) if RANK == 0 else model[1](x)).sum().backward()
    optimizer.synchronize()
    equal(model[0].weight.grad, torch.full((2, 2), 1 / SIZE))
    assert torch.allclose(model[1].weight.grad, torch.full((2, 2), (SIZE - 1) / SIZE))
    with optimizer.skip_synchronize():
        optimizer.step()


def check_optimizer_refuses():
    model = nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), 0.1)
    with raises(ValueError, "unique"):
        hvd.DistributedOptimizer(inner, [("x", p) for p in model.parameters()])
    with raises(ValueError):
        hvd.DistributedOptimizer(inner, list(model.named_parameters())[:1])
    with raises(ValueError):
        hvd.DistributedOptimizer(inner, model.parameters())
    with raises(ValueError):
        hvd.DistributedOptimizer(inner, gradient_predivide_factor=2.0, op=hvd.Sum)
    optimizer = hvd.DistributedOptimizer(inner)
    assert isinstance(optimizer, torch.optim.SGD)
    if SIZE == 1:
        return
    model(torch.ones(1, 2)).sum().backward()
    with raises(AssertionError, "zero_grad"):
        optimizer.zero_grad()
    with raises(AssertionError, "backward_passes_per_step"):
        model(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        optimizer.step()
        assert "skip_synchronize" in str(told[0].message)
    optimizer.zero_grad()
    optimizer.set_backward_passes_per_step(2)
    model(torch.ones(1, 2)).sum().backward()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def check_sparse_gradients():
    for as_dense in (False, True):
        model = nn.Embedding(10, 3, sparse=True)
        with torch.no_grad():
            model.weight.fill_(1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0),
                                             model.named_parameters(), sparse_as_dense=as_dense)
        model(torch.tensor([0, RANK + 1])).sum().backward()
        optimizer.step()
        expected = torch.ones(10, 3)
        expected[0] -= 1
        for rank in range(SIZE):
            expected[rank + 1] -= 1 / SIZE
        assert torch.allclose(model.weight, expected, atol=1e-6)


def check_adasum_optimizer():
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0),
                                         model.named_parameters(), op=hvd.Adasum)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()  # the same steps everywhere: their mean
    assert torch.allclose(model.weight, torch.full((1, 2), -1.0))
    if SIZE == 2:
        with torch.no_grad():
            model.weight.fill_(0)
        optimizer.zero_grad()
        model(torch.tensor([[1.0 - RANK, RANK]])).sum().backward()
        optimizer.step()  # orthogonal steps: their sum
        assert torch.allclose(model.weight, torch.full((1, 2), -1.0))


def check_sync_batch_norm():
    for shape in ((4, 3), (4, 3, 5), (2, 3, 4, 4)):
        whole = torch.randn(SIZE, *shape, generator=torch.Generator().manual_seed(1),
                            dtype=torch.float64)
        theirs = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](3).double()
        ours = hvd.SyncBatchNorm(3).double()
        a = whole.flatten(0, 1).clone().requires_grad_()
        b = whole[RANK].clone().requires_grad_()
        weights = torch.randn(whole.flatten(0, 1).shape, generator=torch.Generator().manual_seed(2),
                              dtype=torch.float64)
        y, z = theirs(a), ours(b)
        own = slice(RANK * shape[0], (RANK + 1) * shape[0])
        assert torch.allclose(z, y[own])
        assert torch.allclose(ours.running_mean, theirs.running_mean)
        assert torch.allclose(ours.running_var, theirs.running_var)
        (y * weights).sum().backward()
        (z * weights[own]).sum().backward()
        assert torch.allclose(b.grad, a.grad[own], atol=1e-9)
        assert torch.allclose(hvd.allreduce(ours.weight.grad, op=hvd.Sum), theirs.weight.grad)
        assert torch.allclose(hvd.allreduce(ours.bias.grad, op=hvd.Sum), theirs.bias.grad)
        ours.eval(), theirs.eval()
        assert torch.allclose(ours(b), theirs(a)[own])


def check_sync_batch_norm_of_one_rank():
    if SIZE > 1:
        return
    for momentum in (0.1, None):
        ours, theirs = hvd.SyncBatchNorm(3, momentum=momentum), nn.BatchNorm1d(3, momentum=momentum)
        for step in range(3):
            x = data(step, 0, 0)[:, :3]
            equal(ours(x), theirs(x))
        equal(ours.running_mean, theirs.running_mean)
        equal(ours.num_batches_tracked, torch.tensor(3))


def check_timeline():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.json")
        for marks in (True, False):
            hvd.start_timeline(path, mark_cycles=marks)
            if RANK == 0:
                assert "start_time_since_epoch_in_micros" in open(path).read()
            hvd.allreduce(torch.ones(3), name="on.timeline")
            if RANK == 0:
                assert '"ALLREDUCE"' in open(path).read(), "it can be read meanwhile"
            hvd.stop_timeline()
            if RANK == 0:
                text = open(path).read()
                json.loads(text)
                for word in ("allreduce.on.timeline", "NEGOTIATE_ALLREDUCE", '"ALLREDUCE"',
                             "start_time_since_epoch_in_micros"):
                    assert word in text, text
                assert ("CYCLE_START" in text) == marks


def check_elastic_state():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1 * (RANK + 1), momentum=0.9)
    sampler = hvd.elastic.ElasticSampler(list(range(20)), shuffle=False)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=RANK, notes=[RANK])
    state.sync()
    assert state.batch == 0 and state.notes == [0] and optimizer.param_groups[0]["lr"] == 0.1
    for p, q in zip(model.parameters(), hvd.broadcast_object(list(model.parameters()), 0)):
        equal(p.detach(), q.detach())
    weight = model.weight.detach().clone()
    state.commit()
    with torch.no_grad():
        model.weight.add_(1)
    state.batch = 7
    state.notes.append(8)
    sampler.record_batch(0, 2)
    state.restore()
    equal(model.weight.detach(), weight)
    assert state.batch == 0 and state.notes == [0] and sampler.processed_num == 0
    assert list(sampler) == [i % 20 for i in range(RANK, 20 + (-20) % SIZE, SIZE)]
    sampler.record_batch(0, 1)
    sampler.reset()
    assert list(sampler)[0] == SIZE + RANK or SIZE > 4
    plain_state = hvd.elastic.ObjectState(epoch=RANK)
    plain_state.sync()
    assert plain_state.epoch == 0


def check_elastic_run_begins_again_from_the_last_commit():
    told = []
    state = hvd.elastic.ObjectState(step=0, total=0)
    state.register_reset_callbacks([lambda: told.append(hvd.size())])

    @hvd.elastic.run
    def train(state, failures):
        while state.step < 6:
            state.total += int(hvd.allreduce(torch.tensor([1]), op=hvd.Sum))
            state.step += 1
            if state.step == 4 and failures:
                failures.pop()
                if SIZE > 1:  # all notice, each in its own way
                    hvd.allreduce(torch.zeros(RANK + 1), name="fails")
                raise hvd.HorovodInternalError("as asked for")
            state.commit()
        return state.total

    assert train(state, [1, 2]) == 6 * SIZE
    assert told == [SIZE, SIZE]


def check_joining_again_and_again():
    for i in range(100 if SIZE <= 4 else 20):
        hvd.shutdown()
        assert not hvd.is_initialized()
        with raises(ValueError, "hvd.init"):
            hvd.rank()
        hvd.init()
        if i % 10 == 0:
            equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.full((1,), float(SIZE)))


def main():
    checks = [each for name, each in globals().items() if name.startswith("check_")]
    wanted = sys.argv[1:]
    for check in checks:
        if wanted and check.__name__ not in wanted:
            continue
        try:
            check()
        except Exception:
            print(f"{check.__name__} of {SIZE} ranks:\n{traceback.format_exc()}", flush=True)
            sys.exit(1)  # the others would wait for us in the next one
        if RANK == 0:
            print(f"{check.__name__}: passed", flush=True)


if __name__ == "__main__":
    hvd.init()
    RANK, SIZE = hvd.rank(), hvd.size()
    main()
