"""What programs written for Horovod, and its own tests, rely on beside the operations.

    starling launch -n 2 -- python3 tests/python/horovod_programs_test.py
"""

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

import starling.torch as hvd
from starling.common import elastic

from horovod_test import equal, raises


def check_process_sets_that_cannot_be_leave_no_job_behind():
    """As Horovod's: a failing init(), then a good one, which gives the numbers from 1 on."""
    everybody = list(range(SIZE))
    hvd.shutdown()
    for wrong in ([[0], [0]], [everybody], [[SIZE]], [[0], everybody[::-1]]):
        sets = [hvd.ProcessSet(ranks) for ranks in wrong]
        with raises(ValueError):
            hvd.init(process_sets=sets)
        assert not hvd.is_initialized()
        assert all(each.process_set_id is None for each in sets)
    if SIZE == 1:
        hvd.init()
        return
    first, others = hvd.ProcessSet([0]), hvd.ProcessSet(reversed(range(1, SIZE)))
    hvd.init(process_sets=[first, others])
    known = {0: everybody, 1: [0], 2: everybody[1:]}
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == known
    # Once the job is joined, init() tells other objects which sets they are.
    again = hvd.ProcessSet(everybody[1:])
    hvd.init(process_sets=[again])
    assert again.process_set_id == 2
    if again.included():
        equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=again),
              torch.full((2,), SIZE - 1.0))
    with raises(ValueError, "add_process_set"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
    assert hvd.is_initialized()
    hvd.shutdown()
    hvd.init()


def check_handles_outlive_another_init():
    x = torch.ones(50_000)
    handle = hvd.allreduce_async(x, op=hvd.Sum)
    hvd.init()  # every one of Horovod's tests begins so
    equal(hvd.synchronize(handle), x * SIZE)


def trained(schedule_first):
    """Weights, and the learning rate, after some steps by a schedule."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if schedule_first:
        schedule = StepLR(optimizer, step_size=2, gamma=0.5)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    else:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        schedule = StepLR(optimizer, step_size=2, gamma=0.5)
    for step in range(5):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + RANK))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        schedule.step()
    return model.weight.detach(), optimizer.param_groups[0]["lr"]


def check_schedules_made_before_and_after():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch asks for the other order of steps
        before, after = trained(True), trained(False)
    assert before[1] == after[1] == 0.1 * 0.25
    equal(before[0], after[0])
    for other in hvd.allgather_object(before[0]):
        equal(before[0], other, "each rank made steps of its own")


def check_elastic_state_of_schedules():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule, plateau = StepLR(optimizer, 3), ReduceLROnPlateau(optimizer, patience=1)
    state = hvd.elastic.TorchState(model, optimizer, schedule=schedule, plateau=plateau)
    state.commit()
    for _ in range(3):
        optimizer.step()
        schedule.step()
        plateau.step(1.0)
    state.restore()
    assert state.schedule is schedule and schedule.last_epoch == 0
    assert state.plateau is plateau and plateau.num_bad_epochs == 0
    schedule.last_epoch = RANK
    state.sync()
    assert schedule.last_epoch == 0


def check_elastic_without_a_framework():
    class Counts(elastic.ObjectState):
        pass

    state = Counts(lambda thing: thing, lambda: 0, step=0)
    resets, seen = [], []
    state.register_reset_callbacks([lambda: resets.append("told")])

    def train(state, most):
        seen.append(state.step)
        state.step += 1
        state.commit()
        if len(seen) == 1:
            state.step = 50  # not committed
            raise hvd.HorovodInternalError("as asked for")
        if len(seen) == 2:
            state.on_hosts_updated(1.0, 2)
            state.check_host_updates()
        return state.step + most

    assert elastic.run_fn(train, lambda: resets.append("met"))(state, 10) == 13
    assert seen == [0, 1, 2] and resets == ["met", "told"] * 2
    state.on_hosts_updated(1.0, 1)
    try:
        state.check_host_updates()
    except hvd.HostsUpdatedInterrupt as interrupt:
        assert interrupt.skip_sync, "who is left needs nothing"
    else:
        raise AssertionError("nobody was interrupted")
    state.check_host_updates()  # told once


def check_names_that_programs_import():
    for module, names in {
        "common.basics": ["HorovodBasics"],
        "common.elastic": ["ObjectState", "State", "run_fn"],
        "common.exceptions": ["HorovodInternalError", "HostsUpdatedInterrupt"],
        "common.process_sets": ["ProcessSet", "global_process_set"],
        "common.util": ["gloo_built", "is_iterable", "mpi_built", "split_list"],
        "torch.mpi_ops": ["Average", "rank", "size", "synchronize", "poll", "allreduce_async_"],
        "torch.functions": ["broadcast_object", "broadcast_parameters"],
        "torch.elastic.state": ["TorchState", "StateHandler", "get_handler_registry"],
        "torch.elastic.sampler": ["ElasticSampler"],
        "torch.compression": ["Compression"],
        "torch.optimizer": ["DistributedOptimizer"],
    }.items():
        found = importlib.import_module(f"starling.{module}")
        for name in names:
            assert hasattr(found, name), f"{module} lacks {name}"
    from starling.common.util import split_list

    assert split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    basics = importlib.import_module("starling.common.basics").HorovodBasics()
    assert (basics.rank(), basics.size()) == (RANK, SIZE) and not basics.mpi_built()


def check_functions_are_objects_too():
    times = RANK + 2
    found = hvd.broadcast_object((lambda x: times * x) if RANK == 0 else None, 0)
    assert found(10) == 20
    assert [f() for f in hvd.allgather_object(lambda: times)] == [r + 2 for r in range(SIZE)]


def check_a_fresh_optimizer_has_state_after_a_broadcast():
    for kind, options in ((torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
                          (torch.optim.Adam, {"weight_decay": 0.1}), (torch.optim.RMSprop, {})):
        for wrapped in (False, True):
            model = nn.Linear(4, 4)
            weight = model.weight.detach().clone()
            optimizer = kind(model.parameters(), lr=0.1, **options)
            if wrapped:
                optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            state = optimizer.state_dict()["state"]
            assert len(state) == 2, (kind, state)
            equal(model.weight.detach(), weight, "it decayed")
            assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
    embedding = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(list(embedding.parameters()), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=embedding)
    assert len(optimizer.state_dict()["state"]) == 1


def check_what_is_old_is_said_to_be():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        hvd.allreduce(torch.ones(1), average=False)
        hvd.grouped_allreduce([torch.ones(1)], average=True)
        assert [each.category for each in told] == [DeprecationWarning] * 2
        assert __file__ in told[0].filename, told[0]


def check_optimizer_refuses_no_passes():
    inner = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    for passes in (0, -1):
        with raises(ValueError, "backward_passes_per_step"):
            hvd.DistributedOptimizer(inner, backward_passes_per_step=passes)


def check_adasum_of_a_process_set():
    if SIZE == 1:
        return
    hvd.shutdown()
    first = hvd.ProcessSet([0])
    hvd.init(process_sets=[first])
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.5),
                                         model.named_parameters(), op=hvd.Adasum, process_set=first)
    model(torch.full((1, 2), 1.0 + RANK)).sum().backward()
    optimizer.step()
    equal(model.weight.detach(), torch.full((1, 2), 1 - 0.5 * (1 + RANK)), "each its own step")
    hvd.shutdown()
    hvd.init()


def check_timelines_follow_each_other():
    with tempfile.TemporaryDirectory() as folder:
        one, two = (os.path.join(folder, name) for name in "12")
        hvd.start_timeline(one)
        hvd.allreduce(torch.ones(1), name="first")
        hvd.start_timeline(one)  # goes on
        hvd.allreduce(torch.ones(1), name="second")
        hvd.start_timeline(two)  # ends the one before
        hvd.allreduce(torch.ones(1), name="third")
        hvd.stop_timeline()
        hvd.stop_timeline()
        if RANK == 0:
            first, second = open(one).read(), open(two).read()
            assert json.loads(first) and json.loads(second)
            assert "first" in first and "second" in first and "third" not in first
            assert "third" in second and "second" not in second
    hvd.shutdown()
    with raises(ValueError, "hvd.init"):
        hvd.stop_timeline()
    folder = os.getcwd()
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    hvd.init()
    del os.environ["HOROVOD_TIMELINE"]
    assert not os.path.exists(os.path.join(folder, "DYNAMIC"))


def main():
    for name, check in list(globals().items()):
        if not name.startswith("check_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        try:
            check()
        except Exception:
            print(f"{name} of {SIZE} ranks:\n{traceback.format_exc()}", flush=True)
            sys.exit(1)  # the others would wait for us in the next one
        if RANK == 0:
            print(f"{name}: passed", flush=True)


if __name__ == "__main__":
    hvd.init()
    RANK, SIZE = hvd.rank(), hvd.size()
    main()
