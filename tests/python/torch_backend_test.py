"""Every operation of torch.distributed over "starling" gives what it gives over "gloo".

    starling launch -n 4 -- python3 tests/python/torch_backend_test.py

Each rank runs the same checks in the same order, in a group of either backend; what fails is named
by all.
"""

import os
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist

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

    def check_data_parallel(self):
        from torch.nn.parallel import DistributedDataParallel

        def trained(group, **options):
            torch.manual_seed(RANK)
            model = DistributedDataParallel(
                torch.nn.Sequential(torch.nn.Linear(10, 30), torch.nn.ReLU(),
                                    torch.nn.Linear(30, 3)), process_group=group, **options)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            torch.manual_seed(100 + RANK)
            for step in range(10):
                if step % 3 == 0:
                    with model.no_sync():
                        model(torch.randn(8, 10)).square().mean().backward()
                model(torch.randn(8, 10)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            return torch.cat([p.detach().flatten() for p in model.parameters()])

        for options in ({}, {"find_unused_parameters": True}, {"static_graph": True},
                        {"bucket_cap_mb": 0.0001}, {"gradient_as_bucket_view": True}):
            if options.get("static_graph"):
                continue  # not with no_sync
            theirs, ours = trained(self.gloo, **options), trained(self.ours, **options)
            assert torch.allclose(theirs, ours, atol=1e-6), (theirs - ours).abs().max()


def main():
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
