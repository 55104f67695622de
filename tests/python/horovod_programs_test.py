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
from unittest import mock

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

import starling
import starling.torch as hvd
from starling.common import elastic, util, world
from starling.runner.common.util.env import get_env_rank_and_size
from starling.runner.util.threads import in_thread
from starling.torch.elastic.state import StateHandler, get_handler_registry, set_handler_registry

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


def check_numbers_of_process_sets_are_had_again():
    if SIZE == 1:
        return
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    first, others = hvd.add_process_set([0]), hvd.add_process_set(range(1, SIZE))
    assert (first.process_set_id, others.process_set_id) == (1, 2)
    same = hvd.ProcessSet([0])
    hvd.init(process_sets=[same])
    assert same.process_set_id == 1
    for _ in range(20):  # nobody may mistake what is said in one for what was said in the last
        assert hvd.remove_process_set(first)
        assert first.process_set_id is None and same.process_set_id is None
        first = hvd.add_process_set([SIZE - 1] if first.ranks == [0] and SIZE > 2 else [0])
        assert first.process_set_id == 1
        if first.included():
            hvd.barrier(first)
        if others.included():
            equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=others),
                  torch.full((2,), SIZE - 1.0))
    assert str(others) == f"ProcessSet(process_set_id=2, ranks={list(range(1, SIZE))}, mpi_comm=None)"
    hvd.shutdown()
    assert others.process_set_id is None
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


def check_elastic_state_of_others_kinds():
    """A state that has something before it is one, and a handler that is not complete before its end."""

    class Own(hvd.elastic.TorchState):
        def __init__(self, model):
            self.note = "before"
            super().__init__(model=model, step=3)

    model = nn.Linear(2, 2)
    state = Own(model)
    assert state.note == "before" and state.step == 3 and state.model is model

    class Counter:
        count = 1

    class CounterHandler(StateHandler):
        def __init__(self, value):
            super().__init__(value)
            self.saved = [value.count]

        def save(self):
            self.saved.append(self.value.count)

        def restore(self):
            self.value.count = self.saved[-1]

        def sync(self):
            self.value.count = hvd.broadcast_object(self.value.count, 0)

    registry = get_handler_registry()
    set_handler_registry([(Counter, CounterHandler), *registry])
    try:
        counter = Counter()
        state = hvd.elastic.TorchState(model, counter=counter)
        counter.count = 8
        state.restore()
        assert counter.count == 1
    finally:
        set_handler_registry(registry)


def check_host_messages_can_be_looked_for():
    state = hvd.elastic.ObjectState(step=0)
    assert state._host_messages.empty()
    state.on_hosts_updated(1.0, 2)
    assert not state._host_messages.empty()
    with raises(hvd.HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._host_messages.empty()
    assert issubclass(hvd.HostsUpdatedInterrupt, RuntimeError), "as Horovod's is"


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
        "common.exceptions": ["HorovodInternalError", "HorovodVersionMismatchError",
                              "HostsUpdatedInterrupt"],
        "common.process_sets": ["ProcessSet", "global_process_set"],
        "common.util": ["get_average_backwards_compatibility_fun", "gloo_built", "is_iterable",
                        "mpi_built", "split_list"],
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
    assert (basics.rank(), basics.size()) == (RANK, SIZE) and not basics.mpi_built(verbose=True)
    assert basics.gloo_built() and basics.gloo_enabled()
    assert starling.__version__[0].isdigit()


def check_what_programs_ask_of_their_surroundings():
    with util.env(STARLING_TEST_A="a", HOROVOD_RANK="of another", STARLING_TEST_B=None):
        assert os.environ["STARLING_TEST_A"] == "a" and os.environ["HOROVOD_RANK"] == "of another"
        assert "STARLING_TEST_B" not in os.environ
    assert "STARLING_TEST_A" not in os.environ and os.environ.get("HOROVOD_RANK") != "of another"
    assert util.extension_available("torch", verbose=True)
    assert util.gpu_available("torch") == torch.cuda.is_available()
    assert not util.extension_available("mxnet") and not util.gpu_available("mxnet")
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with raises(ImportError, "tensorflow"):
        util.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")


def check_what_the_launcher_has_said():
    if "HOROVOD_RANK" in os.environ:
        assert get_env_rank_and_size() == (RANK, SIZE)
    with mock.patch.dict(os.environ, clear=True):
        assert get_env_rank_and_size() == (0, 1)
        os.environ["OMPI_COMM_WORLD_RANK"] = "3"
        with raises(RuntimeError, "OMPI_COMM_WORLD_SIZE"):
            get_env_rank_and_size()
        os.environ["OMPI_COMM_WORLD_SIZE"] = "4"
        assert get_env_rank_and_size() == (3, 4)


def check_functions_in_threads_of_their_own():
    seen = []
    in_thread(seen.append, (RANK,), name="seer").join()
    in_thread(lambda: seen.append(1 / 0), silent=True).join()
    assert seen == [RANK]
    assert in_thread(seen.clear, daemon=False).daemon is False
    with raises(ValueError, "(x,)"):
        in_thread(seen.append, 3)


def check_communicators_are_refused():
    hvd.shutdown()
    for comm in (object(), [0, 7]):
        with raises(ValueError, "process_sets"):
            hvd.init(comm=comm)
    hvd.init(comm=list(range(SIZE)))


def check_what_is_given_up_keeps_its_memory():
    """The core may still write there."""
    if SIZE == 1:
        return
    if RANK == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        handle = hvd.allreduce_async(torch.zeros(50_000), name="given up", op=hvd.Sum)
        for wait in (lambda: hvd.synchronize(handle),
                     lambda: hvd.allreduce(torch.zeros(50_000), name="at once", op=hvd.Sum)):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with raises(KeyboardInterrupt):
                wait()
        assert [each.exchanges[0].name for each in world.given_up] == ["given up", "at once"]
        hvd.broadcast_object("go on", 0)
    else:
        hvd.broadcast_object(None, 0)
        for name in ("given up", "at once"):
            hvd.allreduce(torch.zeros(50_000), name=name, op=hvd.Sum)
    hvd.barrier()
    hvd.shutdown()
    hvd.init()
    assert not world.given_up


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
