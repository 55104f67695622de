"""Every operation of torch.distributed over "starling" gives what it gives over "gloo".

    starling launch -n 4 -- python3 tests/python/torch_backend_test.py

Each rank runs the same checks in the same order, in a group of either backend; what fails is named
by all.
"""

import contextlib
import faulthandler
import os
import sys
import tempfile
import threading
import time
import traceback
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

import starling.torch_backend  # noqa: F401

RANK = int(os.environ["STARLING_RANK"])
SIZE = int(os.environ["STARLING_SIZE"])
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
GLOO_TYPES = [torch.float32, torch.float64, torch.float16, torch.uint8, torch.int8, torch.int32,
              torch.int64]
SIZES = [0, 1, 7, 1000, 65537]


def values(count, dtype, rank=RANK, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 3, (count,), generator=generator).to(dtype)


class Checks:
    def __init__(self, gloo, ours):
        self.gloo, self.ours = gloo, ours

    def same(self, operation, *inputs):
        """Runs the operation on copies of the inputs in both groups and compares."""
        results = []
        for group in (self.gloo, self.ours):
            copies = [[t.clone() for t in x] if isinstance(x, list) else x.clone() for x in inputs]
            operation(group, *copies)
            results.append(copies)
        for theirs, ours in zip(*results):
            theirs, ours = ([x] if torch.is_tensor(x) else x for x in (theirs, ours))
            for a, b in zip(theirs, ours):
                assert a.shape == b.shape and torch.equal(a, b), f"gloo {a}, starling {b}"

    def check_all_reduce(self):
        ops = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]
        for dtype in GLOO_TYPES:
            for size in SIZES[1:]:
                for op in ops:
                    self.same(lambda g, x: dist.all_reduce(x, op, group=g), values(size, dtype))

    def check_all_reduce_of_no_elements_and_of_no_dimensions(self):
        for group in (self.gloo, self.ours):
            empty = torch.zeros(0)
            dist.all_reduce(empty, group=group)
            scalar = torch.tensor(float(RANK))
            dist.all_reduce(scalar, group=group)
            assert scalar.item() == sum(range(SIZE)) and scalar.dim() == 0

    def check_all_reduce_of_every_type(self):
        for dtype in FLOATS + INTEGERS + [torch.int16]:
            x = torch.full((5,), 1, dtype=dtype)
            dist.all_reduce(x, group=self.ours)
            assert x.tolist() == [SIZE] * 5, x
        flags = torch.tensor([RANK == 0, False])
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=self.ours)
        assert flags.tolist() == [True, False]
        z = torch.tensor([complex(RANK, 1)])
        dist.all_reduce(z, group=self.ours)
        assert z.item() == complex(sum(range(SIZE)), SIZE)

    def check_mean(self):
        x = torch.full((3,), float(RANK))
        dist.all_reduce(x, dist.ReduceOp.AVG, group=self.ours)
        assert x[0].item() == (SIZE - 1) / 2

    def check_strided(self):
        whole = torch.arange(24.0).view(4, 6) + RANK
        x = whole.t()[1:4]
        dist.all_reduce(x, group=self.ours)
        expected = (torch.arange(24.0).view(4, 6) * SIZE + sum(range(SIZE))).t()[1:4]
        assert torch.equal(x, expected)
        assert torch.equal(whole.t()[1:4], expected), "the tensor behind the view has changed, too"

    def check_broadcast(self):
        for root in range(SIZE):
            for size in SIZES:
                self.same(lambda g, x: dist.broadcast(x, root, group=g),
                          values(size, torch.int64))

    def check_reduce(self):
        for root in range(SIZE):
            def reduce_and_look_at_root(g, x):
                dist.reduce(x, root, group=g)
                if RANK != root:
                    x.zero_()  # what is left there is nobody's
            self.same(reduce_and_look_at_root, values(100, torch.float32))

    def check_all_gather(self):
        for size in SIZES[1:]:
            places = [torch.zeros(size, dtype=torch.int64) for _ in range(SIZE)]
            self.same(lambda g, p, x: dist.all_gather(p, x, group=g), places,
                      values(size, torch.int64))

    def check_uneven_all_gather(self):
        places = [torch.zeros(r + 1) for r in range(SIZE)]
        dist.all_gather(places, torch.full((RANK + 1,), float(RANK)), group=self.ours)
        assert [p.tolist() for p in places] == [[float(r)] * (r + 1) for r in range(SIZE)]

    def check_all_gather_into_one(self):
        whole = torch.zeros(SIZE * 3)
        dist.all_gather_into_tensor(whole, torch.full((3,), float(RANK)), group=self.ours)
        assert whole.tolist() == [float(r) for r in range(SIZE) for _ in range(3)]

    def check_gather_and_scatter(self):
        for root in range(SIZE):
            def gather(g, places, x):
                dist.gather(x, places if RANK == root else None, root, group=g)
            places = [torch.zeros(5, dtype=torch.int32) for _ in range(SIZE)]
            self.same(gather, places, values(5, torch.int32))

            def scatter(g, x, parts):
                dist.scatter(x, parts if RANK == root else None, root, group=g)
            self.same(scatter, torch.zeros(5, dtype=torch.int32),
                      [values(5, torch.int32, seed=r) for r in range(SIZE)])

    def check_reduce_scatter(self):
        out = torch.zeros(4)
        dist.reduce_scatter(out, [torch.full((4,), float(r)) for r in range(SIZE)],
                            group=self.ours)
        assert out.tolist() == [float(RANK * SIZE)] * 4
        dist.reduce_scatter_tensor(out, torch.arange(4.0 * SIZE), group=self.ours)
        assert out.tolist() == [float((RANK * 4 + i) * SIZE) for i in range(4)]

    def check_all_to_all(self):
        ins = [torch.full((r + 1,), float(10 * RANK + r)) for r in range(SIZE)]
        outs = [torch.zeros(RANK + 1) for _ in range(SIZE)]
        dist.all_to_all(outs, ins, group=self.ours)
        assert [o.tolist() for o in outs] == [[10.0 * r + RANK] * (RANK + 1) for r in range(SIZE)]
        self.same(lambda g, o, i: dist.all_to_all_single(o, i, group=g),
                  torch.zeros(SIZE * 3), torch.arange(SIZE * 3.0) + 100 * RANK)
        in_splits = [r + 1 for r in range(SIZE)]
        out_splits = [RANK + 1] * SIZE
        self.same(lambda g, o, i: dist.all_to_all_single(o, i, out_splits, in_splits, group=g),
                  torch.zeros(sum(out_splits), 2),
                  torch.arange(2.0 * sum(in_splits)).view(-1, 2) + 100 * RANK)

    def check_send_and_receive(self):
        if SIZE == 1:
            return
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        for tag in (0, 7):
            got = torch.zeros(10)
            receiving = dist.irecv(got, before, group=self.ours, tag=tag)
            dist.isend(torch.full((10,), float(RANK + tag)), after, group=self.ours, tag=tag).wait()
            receiving.wait()
            assert got.tolist() == [float(before + tag)] * 10

    def check_asynchronous(self):
        tensors = [torch.full((1000,), float(RANK + i)) for i in range(20)]
        works = [dist.all_reduce(t, group=self.ours, async_op=True) for t in tensors]
        futures = [work.get_future() for work in works[:10]]
        for work in works[10:]:
            work.wait()
        for future in futures:
            future.wait()
        for i, tensor in enumerate(tensors):
            assert tensor[0].item() == sum(r + i for r in range(SIZE))
        doubled = dist.all_reduce(torch.ones(1), group=self.ours, async_op=True).get_future().then(
            lambda f: f.value()[0] * 2)
        assert doubled.wait().item() == 2 * SIZE

    def check_objects(self):
        everybody = [None] * SIZE
        dist.all_gather_object(everybody, {"rank": RANK}, group=self.ours)
        assert everybody == [{"rank": r} for r in range(SIZE)]
        words = [f"from {RANK}", RANK]
        dist.broadcast_object_list(words, SIZE - 1, group=self.ours)
        assert words == [f"from {SIZE - 1}", SIZE - 1]

    def check_groups(self):
        ends = sorted({0, SIZE - 1})
        group = dist.new_group(ends, backend="starling")
        if RANK in ends:
            x = torch.ones(1)
            dist.all_reduce(x, group=group)
            assert x.item() == len(ends)
        dist.barrier(group=self.ours)

    def check_coalesced(self):
        tensors = [torch.full((i + 1,), float(RANK)) for i in range(3)]
        dist.all_reduce_coalesced(tensors, group=self.ours)
        for i, tensor in enumerate(tensors):
            assert tensor.tolist() == [float(sum(range(SIZE)))] * (i + 1)

    def check_bits(self):
        for op, of_flags in ((dist.ReduceOp.BAND, [SIZE == 1, True]),
                             (dist.ReduceOp.BOR, [True, True]),
                             (dist.ReduceOp.BXOR, [True, SIZE % 2 == 1])):
            for dtype in [torch.uint8, torch.int8, torch.int32, torch.int64]:
                self.same(lambda g, x: dist.all_reduce(x, op, group=g),
                          values(101, dtype) * 37 + RANK)
            flags = torch.tensor([RANK == 0, True])
            dist.all_reduce(flags, op, group=self.ours)
            assert flags.tolist() == of_flags, (of_flags, flags)
            fails(RuntimeError, lambda: dist.all_reduce(torch.ones(2), op, group=self.ours))

    def check_any_source(self):
        if RANK == 0:
            seen = []
            for i in range(4 * (SIZE - 1)):
                got = torch.zeros(70000)
                if i % 2 == 0:
                    source = dist.recv(got, group=self.ours, tag=3)
                else:
                    work = dist.irecv(got, group=self.ours, tag=3)
                    work.wait()
                    source = work._source_rank()
                assert torch.equal(got, torch.full((70000,), float(source))), source
                seen.append(source)
            assert sorted(seen) == sorted(4 * list(range(1, SIZE)))
        else:
            for _ in range(4):
                dist.send(torch.full((70000,), float(RANK)), 0, group=self.ours, tag=3)

    def check_batches_of_messages(self):
        if SIZE == 1:
            return
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        got = torch.zeros(3)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((3,), float(RANK)), after, group=self.ours),
            dist.P2POp(dist.irecv, got, before, group=self.ours)])
        for work in works:
            work.wait()
        assert got.tolist() == [float(before)] * 3

    def check_monitored_barrier(self):
        dist.monitored_barrier(self.ours, timedelta(seconds=60))
        if SIZE != 3:
            return
        late = {1, 2}
        for name_all, named in ((True, "1, 2"), (False, "1")):
            # Longer than rank 0 waits; rank 0 itself is never late to its own count.
            time.sleep(4 if RANK in late else 0)
            message = fails(RuntimeError, lambda: dist.monitored_barrier(
                self.ours, timedelta(seconds=2), wait_all_ranks=name_all))
            assert f"{named} failed to pass" in message, message
            assert RANK == 0 or f"Rank {RANK} successfully reached" in message, message
            dist.barrier(self.ours)
        time.sleep(2 if RANK in late else 0)
        message = fails(RuntimeError, lambda: self.ours.monitored_barrier(
            timedelta(0) if RANK == 0 else 10.0))  # both are ways to say it
        assert RANK > 0 or "Rank 0 timed out in monitoredBarrier" in message, message
        dist.barrier(self.ours)

    def check_time_is_limited(self):
        impatient = dist.new_group(backend="starling", timeout=timedelta(seconds=1))
        message = ""
        if RANK > 0 and SIZE > 1:
            message = fails(RuntimeError, lambda: dist.broadcast(torch.ones(1), 0, group=impatient))
            assert "broadcast did not finish within its timeout of 1 s" in message, message
            work = dist.irecv(torch.ones(1), 0, group=self.ours, tag=9)
            message = fails(RuntimeError, lambda: work.wait(timedelta(milliseconds=100)))
            assert "did not end within" in message, message
        if RANK == 1 and SIZE > 1:  # the root's own children wait for it, theirs for them
            message = fails(RuntimeError, lambda: dist.recv(torch.ones(1), 0, group=impatient))
            assert "waits for rank 0" in message, message
        dist.barrier(self.ours)
        if RANK == 0:
            for rank in range(1, SIZE):
                dist.send(torch.ones(1), rank, group=self.ours, tag=9)

    def check_sparse(self):
        def sparse(dtype, rows):
            generator = torch.Generator().manual_seed(RANK)
            indices = torch.randint(0, 10, (2, rows), generator=generator)
            each = torch.randint(0, 9, (rows, 3), generator=generator).to(dtype)
            return torch.sparse_coo_tensor(indices, each, (10, 10, 3))

        for rows in (0, 1, 30):
            x = sparse(torch.float32, rows)
            y = x.clone()
            dist.all_reduce(x, group=self.gloo)
            dist.all_reduce(y, group=self.ours)
            assert torch.equal(x.to_dense(), y.to_dense())
            assert y.is_sparse and y.is_coalesced() == x.is_coalesced()
        fails(ValueError, lambda: dist.all_reduce(
            sparse(torch.float32, 2), dist.ReduceOp.MAX, group=self.ours))

    def check_moving_any_type_and_shape(self):
        tensors = [torch.tensor([complex(1, 2)]), torch.tensor(True), torch.zeros(0, 3),
                   torch.arange(12, dtype=torch.int16).view(3, 4).t(),
                   torch.arange(24.0).view(2, 3, 4)[:, 1], torch.ones(4, dtype=torch.bfloat16)]
        for expected in tensors:
            for root in {0, SIZE - 1}:
                x = expected.clone() if RANK == root else torch.zeros_like(expected)
                dist.broadcast(x, root, group=self.ours)
                assert torch.equal(x, expected), (x, expected)
            places = [torch.zeros_like(expected) for _ in range(SIZE)]
            dist.all_gather(places, expected, group=self.ours)
            assert all(torch.equal(place, expected) for place in places)
            strided = torch.zeros(*expected.shape, 2, dtype=expected.dtype)[..., 0]
            dist.scatter(strided, [expected] * SIZE if RANK == 0 else None, 0, group=self.ours)
            assert torch.equal(strided, expected)

    def check_several_tensors_of_a_rank(self):
        # What c10d's groups take, though torch.distributed offers it no more.
        def call(group, name, *args):
            getattr(group, name)(*args).wait()

        for group_op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
            def reduce(g, x, y):
                options = c10d.AllreduceOptions()
                options.reduceOp = group_op
                call(g, "allreduce", [x, y], options)
            self.same(reduce, values(9, torch.int64), values(9, torch.int64, seed=1))
        if SIZE > 1:
            def broadcast(g, x, y):
                options = c10d.BroadcastOptions()
                options.rootRank, options.rootTensor = 1, 1
                call(g, "broadcast", [x, y], options)
            self.same(broadcast, values(9, torch.int64), values(9, torch.int64, seed=1))

    def check_what_does_not_fit_is_refused(self):
        two, three = torch.ones(2), torch.ones(3)
        whole = [torch.ones(2) for _ in range(SIZE)]
        for wrong in [
            lambda: dist.all_gather([three] * SIZE, two, group=self.ours),
            lambda: dist.all_gather([two] * (SIZE + 1), two, group=self.ours),
            lambda: dist.all_gather_into_tensor(torch.ones(2 * SIZE + 1), two, group=self.ours),
            lambda: dist.reduce_scatter(three, whole, group=self.ours),
            lambda: dist.reduce_scatter_tensor(three, torch.ones(2 * SIZE), group=self.ours),
            lambda: dist.all_to_all_single(torch.ones(SIZE + 1), torch.ones(SIZE + 1),
                                           [1] * (SIZE + 1), group=self.ours),
            lambda: self.ours.allreduce([two, three]),
            lambda: self.ours.broadcast([]),
            lambda: self.ours.send([two], SIZE, 0),
        ]:
            fails(ValueError, wrong)
        fails((ValueError, RuntimeError),
              lambda: dist.all_reduce(torch.ones(2, device="meta"), group=self.ours))
        dist.barrier(self.ours)

    def check_groups_within_groups(self):
        even = list(range(0, SIZE, 2))
        fourth = list(range(0, SIZE, 4))
        groups = [(ranks, dist.new_group(ranks, backend="starling")) for ranks in (even, fourth)]
        works = []
        for ranks, group in groups:
            if RANK in ranks:
                x = torch.tensor([RANK])
                works.append((dist.all_reduce(x, group=group, async_op=True), x, sum(ranks)))
        for work, x, expected in works:
            work.wait()
            assert x.item() == expected

    def check_groups_in_threads(self):
        groups = [dist.new_group(backend="starling") for _ in range(2)]
        wrong = []

        def work(group, factor):
            for i in range(50):
                x = torch.full((100 * (i + 1),), float(factor * RANK))
                dist.all_reduce(x, group=group)
                if x[0].item() != factor * sum(range(SIZE)):
                    wrong.append((i, factor, x[0].item()))

        threads = [threading.Thread(target=work, args=(g, f)) for f, g in enumerate(groups, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong

    def check_futures(self):
        def chain(group):
            x = torch.full((5,), float(RANK))
            work = dist.all_reduce(x, group=group, async_op=True)
            first = work.get_future()
            assert work.get_future().wait()[0] is not None
            then = first.then(lambda f: f.value()[0] + 1).then(lambda f: f.value() * 2)
            return then.wait()
        assert torch.equal(chain(self.gloo), chain(self.ours))
        strided = torch.zeros(6, 2)[:, 0] + RANK
        future = dist.all_reduce(strided, group=self.ours, async_op=True).get_future()
        assert future.wait()[0][0].item() == sum(range(SIZE)), "the result is back where it belongs"

    def check_futures_whose_callbacks_wait_for_others(self):
        """As PowerSGD's do, and whatever was under way when they were asked for."""
        def another(f):
            return dist.all_reduce(f.value()[0], group=self.ours, async_op=True).get_future().wait()[0]

        x = torch.full((5,), float(RANK))
        if RANK == 0:
            time.sleep(0.2)  # so that it is under way with the others
        future = dist.all_reduce(x, group=self.ours, async_op=True).get_future()
        done = future.then(another).then(lambda f: f.value() + 1).wait()
        assert done[0].item() == sum(range(SIZE)) * SIZE + 1

    def check_futures_of_exchanges_and_of_what_awaits_them(self):
        """A barrier's end is also that of all before it, whose ends somebody else waits for, too."""
        works = [dist.all_reduce(torch.ones(100_000), group=self.ours, async_op=True)
                 for _ in range(3)]
        futures = [work.get_future() for work in works]
        dist.barrier(self.ours, async_op=True).get_future().wait()
        for future in futures:
            assert future.wait()[0][0].item() == SIZE

    def check_what_profilers_show(self):
        """Of each exchange its name, its shapes, and that it ends at another time than the call."""
        def exchange(group):
            dist.all_reduce(torch.ones(3), group=group)
            works = [dist.all_reduce(torch.ones(n), group=group, async_op=True) for n in (4, 5)]
            dist.broadcast(torch.ones(2, 3), 0, group=group)
            dist.reduce(torch.ones(6), 0, group=group)
            places = [torch.ones(7) for _ in range(SIZE)]
            dist.all_gather(places, torch.ones(7), group=group)
            dist.gather(torch.ones(7), places if RANK == 0 else None, 0, group=group)
            dist.scatter(torch.ones(7), places if RANK == 0 else None, 0, group=group)
            for work in reversed(works):
                work.wait()
            if RANK < 2 <= SIZE:
                (dist.send if RANK == 0 else dist.recv)(torch.ones(8), 1 - RANK, group=group)

        def shown(what, group, name):
            with torch.autograd.profiler.profile(record_shapes=True) as profile:
                what(group)
            dist.barrier(group)
            events = [e for e in profile.function_events if e.name.startswith(name + ":")]
            assert events and all(e.is_async for e in events), events
            return sorted((e.name.split(":")[1], e.input_shapes) for e in events)

        theirs = shown(exchange, self.gloo, "gloo")
        ours = shown(exchange, self.ours, "starling")
        assert theirs == ours, f"gloo {theirs}, starling {ours}"
        model = DistributedDataParallel(torch.nn.Linear(3, 3), process_group=self.ours)
        ours = shown(lambda _: model(torch.ones(1, 3)).sum().backward(), self.ours, "starling")
        assert ("all_reduce", [[12]]) in ours, ours  # of which DDP hears by a future

    def check_many_at_once_and_forgotten(self):
        for i in range(200):
            dist.all_reduce(torch.ones(100), group=self.ours, async_op=True)
        dist.barrier(self.ours)

    def check_what_was_waited_for_is_let_go_of(self):
        work = dist.all_reduce(torch.ones(100), group=self.ours, async_op=True)
        work.wait()
        left = weakref.ref(work)
        del work
        dist.all_reduce(torch.ones(1), group=self.ours)
        assert left() is None

    def check_data_parallel(self):
        for options in ({}, {"find_unused_parameters": True}, {"bucket_cap_mb": 0.0001},
                        {"gradient_as_bucket_view": True}):
            self.trains_alike(no_sync=True, **options)
        self.trains_alike(static_graph=True)

    def check_data_parallel_with_unused_parameters(self):
        self.trains_alike(find_unused_parameters=True, skip=True)

    def check_data_parallel_with_hooks(self):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

        for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
            self.trains_alike(hook=lambda model, group: model.register_comm_hook(group, hook))
        self.trains_alike(hook=lambda model, group: model.register_comm_hook(
            powerSGD_hook.PowerSGDState(group, 1, start_powerSGD_iter=2,
                                        min_compression_rate=0.5), powerSGD_hook.powerSGD_hook))

    def check_data_parallel_that_is_compiled(self):
        if not hasattr(torch, "compile"):
            return  # torch 1.13
        self.trains_alike(compiled=True)

    def check_data_parallel_with_uneven_inputs(self):
        self.trains_alike(steps=4 + RANK, join=True)

    def check_data_parallel_with_sparse_gradients(self):
        def trained(group):
            torch.manual_seed(0)
            model = DistributedDataParallel(torch.nn.Sequential(
                torch.nn.EmbeddingBag(20, 4, sparse=True), torch.nn.Linear(4, 1)),
                process_group=group)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            torch.manual_seed(100 + RANK)
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randint(0, 20, (8, 3))).square().mean().backward()
                optimizer.step()
            return torch.cat([p.detach().flatten() for p in model.parameters()])

        theirs, ours = trained(self.gloo), trained(self.ours)
        assert torch.allclose(theirs, ours, atol=1e-6), (theirs - ours).abs().max()

    def check_models_that_differ_are_refused(self):
        if SIZE == 1:
            return
        model = torch.nn.Linear(3, 3, bias=RANK > 0)
        fails(RuntimeError, lambda: DistributedDataParallel(model, process_group=self.ours))
        dist.barrier(self.ours)

    def trains_alike(self, steps=6, no_sync=False, skip=False, join=False, hook=None, compiled=False,
                     **options):
        """Trains over either backend and compares parameters and buffers."""
        def trained(group):
            torch.manual_seed(RANK)
            model = DistributedDataParallel(Network(), process_group=group, **options)
            if hook is not None:
                hook(model, group)
            if compiled:
                model = torch.compile(model, backend="eager")
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            torch.manual_seed(100 + RANK)
            with model.join() if join else contextlib.nullcontext():
                for step in range(steps):
                    without = skip and (step + RANK) % 2 == 0
                    if no_sync and step % 3 == 0:
                        with model.no_sync():
                            model(torch.randn(8, 10), without).square().mean().backward()
                    model(torch.randn(8, 10), without).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            return torch.cat([x.detach().flatten().float() for x in model.state_dict().values()])

        theirs, ours = trained(self.gloo), trained(self.ours)
        assert torch.allclose(theirs, ours, atol=1e-5), (theirs - ours).abs().max()


class Network(torch.nn.Module):
    """With buffers, and a part that can be left out."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(10, 30)
        self.norm = torch.nn.BatchNorm1d(30)
        self.part = torch.nn.Linear(30, 30)
        self.last = torch.nn.Linear(30, 3)

    def forward(self, x, without_part=False):
        x = torch.relu(self.norm(self.first(x)))
        return self.last(x if without_part else x + self.part(x))


def fails(kind, action):
    """The message that it fails with."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"there was no {kind}")


def main():
    patience = int(os.environ.get("STARLING_TEST_SECONDS", 120))
    faulthandler.dump_traceback_later(patience, exit=True)  # what hangs says where
    place = os.path.join(tempfile.gettempdir(), "starling-test-" + os.environ["STARLING_RENDEZVOUS"])
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=RANK, world_size=SIZE)
    checks = Checks(dist.new_group(backend="gloo"), dist.new_group(backend="starling"))
    wanted = sys.argv[1:]
    failed = 0
    for name in (n for n in dir(checks) if n.startswith("check_")):
        if wanted and name not in wanted:
            continue
        try:
            getattr(checks, name)()
        except Exception:
            failed += 1
            print(f"{name} of {SIZE} ranks:\n{traceback.format_exc()}", flush=True)
            break  # the others would wait for us in the next one
        if RANK == 0:
            print(f"{name}: passed", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
