"""starling.Dist over every system, and arrays, under 1 to 4 workers.

    STARLING=./starling python3 tests/python/dist_test.py [NAME ...]

Started by hand it starts itself under `starling launch`; with names it runs only the checks whose
names have one of them in it. Each launch runs many checks, one after the other, in every worker.
"""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

import torch
from torch import nn

import starling
from starling import _core

RANK = int(os.environ.get("STARLING_RANK", "0"))
SAMPLES = 24


def net(seed: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def data(seed: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SAMPLES, 6, generator=generator)
    return x, x @ torch.randn(6, 3, generator=generator)


def mine(dist: starling.Dist, *tensors: torch.Tensor) -> list[torch.Tensor]:
    part = SAMPLES // dist.size
    return [each[dist.rank * part : (dist.rank + 1) * part] for each in tensors]


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).square().mean()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([each.detach().double().flatten() for each in model.parameters()])


def same_everywhere(dist: starling.Dist, model: nn.Module) -> None:
    ours = flat(model)
    theirs = dist.broadcast(ours.clone())
    assert torch.equal(ours, theirs), f"rank {dist.rank} is {(ours - theirs).abs().max()} off"


# What one process does with the whole batch, all-reduce does with parts of it.


def against_one_process(make_optimizer, steps=6, before_step=None, **settings) -> None:
    model = net(seed=1 + RANK)  # rank 0's counts
    alone = net(seed=1)
    x, y = data()
    dist = starling.Dist(model, system="horovod", **settings)
    optimizer, reference = make_optimizer(model.parameters()), make_optimizer(alone.parameters())
    for _ in range(steps):
        loss_of(model, *mine(dist, x, y)).backward()
        if before_step:
            before_step(dist.clip_grad_norm_)
        assert dist.step(optimizer)
        assert all(not each.grad.any() for each in model.parameters())
        loss_of(alone, x, y).backward()
        if before_step:
            before_step(lambda *a: nn.utils.clip_grad_norm_(alone.parameters(), *a))
        reference.step()
        reference.zero_grad()
    off = (flat(model) - flat(alone)).abs().max()
    assert off < 1e-5, f"{off} from one process"
    dist.finish()
    same_everywhere(dist, model)


def check_allreduce_is_one_process_with_the_whole_batch():
    against_one_process(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01))
    against_one_process(lambda p: torch.optim.Adam(p, 0.01))
    against_one_process(lambda p: torch.optim.AdamW(p, 0.01), bucket_kb=1, exchange="ring")


def check_clips_the_mean_gradient():
    against_one_process(lambda p: torch.optim.SGD(p, 0.1), before_step=lambda clip: clip(0.05))
    against_one_process(
        lambda p: torch.optim.SGD(p, 0.1), before_step=lambda clip: clip(0.05, float("inf"))
    )


def check_sums_backward_passes():
    model, alone = net(), net()
    x, y = data()
    dist = starling.Dist(model, strategy="allreduce", backward_passes=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    reference = torch.optim.SGD(alone.parameters(), 0.05)
    for _ in range(4):
        taken = []
        for half in (slice(0, None, 2), slice(1, None, 2)):
            loss_of(model, *(each[half] for each in mine(dist, x, y))).backward()
            taken.append(dist.step(optimizer))
        assert taken == [False, True]
        (2 * loss_of(alone, x, y)).backward()
        reference.step()
        reference.zero_grad()
    assert (flat(model) - flat(alone)).abs().max() < 1e-5
    dist.finish()


def check_a_users_zero_grad_and_parameters_without_gradients():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.frozen = nn.Linear(6, 3), nn.Linear(2, 2), nn.Linear(6, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.used(x) + self.frozen(x)

    torch.manual_seed(1 + RANK)
    model = Net()
    dist = starling.Dist(model, system="horovod")
    same_everywhere(dist, model)
    before = flat(model.frozen), flat(model.unused)
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    reference = torch.optim.SGD(alone.parameters(), 0.1)
    x, y = data()
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = None
        loss_of(model, *mine(dist, x, y)).backward()
        dist.step(optimizer)
        reference.zero_grad()
        loss_of(alone, x, y).backward()
        reference.step()
    assert (flat(model) - flat(alone)).abs().max() < 1e-5
    assert torch.equal(before[0], flat(model.frozen)) and torch.equal(before[1], flat(model.unused))
    assert all(each.grad is None for each in model.frozen.parameters())
    dist.finish()


def check_tied_parameters_count_once():
    def tied():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        model[2].weight = model[0].weight
        return model

    model, alone = tied(), tied()
    dist = starling.Dist(model, system="pytorch")
    x, _ = data()
    optimizer, reference = (torch.optim.SGD(each.parameters(), 0.1) for each in (model, alone))
    for _ in range(3):
        (share,) = mine(dist, x)
        loss_of(model, share, share).backward()
        dist.step(optimizer)
        reference.zero_grad()
        loss_of(alone, x, x).backward()
        reference.step()
    assert model[0].weight is model[2].weight
    assert (flat(model) - flat(alone)).abs().max() < 1e-5
    dist.finish()


def check_parameters_of_any_float_type():
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.bfloat16, 0.05)):
        model, alone = net(1 + RANK).to(dtype), net().to(dtype)
        dist = starling.Dist(model, system="horovod")
        assert (flat(model) - flat(alone)).abs().max() < 1e-7, "the first weights"
        same_everywhere(dist, model)
        x, y = (each.to(dtype) for each in data())
        optimizer, reference = (torch.optim.SGD(each.parameters(), 0.1) for each in (model, alone))
        for _ in range(4):
            loss_of(model, *mine(dist, x, y)).backward()
            dist.step(optimizer)
            reference.zero_grad()
            loss_of(alone, x, y).backward()
            reference.step()
        assert next(model.parameters()).dtype == dtype
        off = (flat(model) - flat(alone)).abs().max()
        assert off < tolerance, f"{dtype}: {off}"
        dist.finish()
        same_everywhere(dist, model)


def check_doubles_keep_their_digits():
    model = nn.Linear(1, 1, bias=False).double()
    dist = starling.Dist(model, system="pairwise")
    with torch.no_grad():
        model.weight.fill_(1 + 1e-12)
    loss_of(model, torch.zeros(1, 1).double(), torch.zeros(1, 1).double()).backward()
    dist.step(torch.optim.SGD(model.parameters(), 0.1))
    assert abs(model.weight.item() - 1 - 1e-12) < 1e-15
    dist.finish()


def check_embeddings_with_sparse_gradients():
    torch.manual_seed(1)
    model = nn.Embedding(10, 2, sparse=True)
    before = model.weight.detach().clone()
    dist = starling.Dist(model, system="horovod")
    model(torch.tensor([dist.rank, 9])).sum().backward()
    dist.step(torch.optim.SGD(model.parameters(), 1.0))
    expected = before.clone()
    expected[: dist.size] -= 1 / dist.size
    expected[9] -= 1
    assert torch.allclose(model.weight, expected)
    dist.finish()


def check_batch_norms_buffers_are_averaged():
    model = nn.Sequential(nn.BatchNorm1d(6, momentum=1.0), nn.Linear(6, 3))
    dist = starling.Dist(model, system="horovod")
    x, y = data()
    shares = x.split(SAMPLES // dist.size)
    loss_of(model, *mine(dist, x, y)).backward()
    dist.step(torch.optim.SGD(model.parameters(), 0.1))
    assert torch.allclose(model[0].running_mean, shares[dist.rank].mean(0), atol=1e-6)
    dist.finish()
    means = torch.stack([each.mean(0) for each in shares]).mean(0)
    assert torch.allclose(model[0].running_mean, means, atol=1e-6)


def check_autocast_on_the_cpu():
    model = net()
    dist = starling.Dist(model, system="horovod")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = data()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = loss_of(model, x, y).item()
    for _ in range(30):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, *mine(dist, x, y))
        loss.backward()
        dist.step(optimizer)
    assert next(model.parameters()).dtype == torch.float32
    assert loss_of(model, x, y).item() < first / 2
    dist.finish()
    same_everywhere(dist, model)


def check_mixing_keeps_the_mean():
    for system in ("pairwise", "exponential", "d-psgd"):
        model = nn.Linear(3, 2, bias=False)
        dist = starling.Dist(model, system=system, period=1)
        with torch.no_grad():
            model.weight.fill_(float(dist.rank))
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        spreads = []
        for _ in range(3):
            model(torch.ones(1, 3)).sum().backward()
            dist.step(optimizer)
            value = model.weight[0, 0].item()
            mean, square = dist.mean([value, value**2])
            assert abs(mean - (dist.size - 1) / 2) < 1e-5, f"{system}: mean {mean}"
            spreads.append(square - mean**2)
        first = (dist.size**2 - 1) / 12
        assert dist.size == 1 or spreads[-1] < first / 2, f"{system}: spreads {first}, {spreads}"
        dist.finish()
        assert torch.allclose(model.weight, torch.full((2, 3), (dist.size - 1) / 2), atol=1e-5)
        same_everywhere(dist, model)


# A problem that nobody solves alone: each worker sees samples in which only its own features are not
# zero, so that it learns nothing of the others'. If all did so and took the mean at the end, of n
# workers, the squared error would be (1 - 1/n)^2: a quarter and more.


def learns_together(dist: starling.Dist, model: nn.Module, steps: int, rate: float) -> float:
    features = 12
    generator = torch.Generator().manual_seed(5)
    teacher = torch.randn(features, generator=generator).sign()
    optimizer = torch.optim.SGD(model.parameters(), rate)
    own = slice(dist.rank * features // dist.size, (dist.rank + 1) * features // dist.size)
    torch.manual_seed(dist.rank)
    for step in range(steps):
        x = torch.zeros(16, features)
        x[:, own] = torch.randn(16, own.stop - own.start) * dist.size**0.5
        (model(x).flatten() - x @ teacher).square().mean().backward()
        dist.step(optimizer)
    dist.finish()
    same_everywhere(dist, model)
    return (model.weight.detach().flatten() - teacher).square().mean().item()


TOGETHER = 0.2


def learning(system: str, **settings) -> None:
    torch.manual_seed(1)
    model = nn.Linear(12, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = learns_together(
            starling.Dist(model, system=system, **settings), model, steps=400, rate=0.05
        )
    assert loss < TOGETHER, f"{system} ends with a loss of {loss:.3f}"


def systems(servers_apart: bool) -> list[str]:
    apart = "distbelief parameter-server petuum project-adam tensorflow-backup".split()
    cut = ["cots-hpc", "gpipe"]
    if servers_apart:
        return apart
    return [each["name"] for each in _core.SYSTEMS if each["name"] not in apart + cut]


def check_every_system_learns_what_nobody_sees_alone():
    for system in systems(servers_apart=False):
        if system == "mxnet" and starling.size() % 2 != 0 and starling.size() > 1:
            continue  # groups of two
        learning(system, **settings_of(system))


def check_who_exchanges_nothing_would_be_noticed():
    if starling.size() > 1:
        try:
            learning("", strategy="single")
        except AssertionError:
            return
        raise AssertionError("it learned what it did not see")


def settings_of(system: str) -> dict:
    if system in ("bigdl", "caffeonspark", "firecaffe", "mxnet", "tensorflow"):  # servers update
        return {"lr": 0.05, "momentum": 0.0}
    if system == "deeplearning4j":  # its own is for models of more than twelve weights
        return {"codec_adaptive": False, "codec_threshold": 0.02}
    if system == "sparknet":  # which by itself goes by how long things take
        return {"compute_ratio": 0, "period": 10}
    return {}


def servers_learn():
    learning("")


# Data


def check_shares_of_a_loader():
    dist = starling.Dist(net(), system="horovod")
    samples = torch.arange(24)
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(samples, 3, shuffle=True, num_workers=workers)
        epochs = []
        for _ in range(2):
            assert len(dist.share(loader)) == -(-24 // dist.size // 3)
            seen = torch.cat(list(dist.share(loader)))
            assert len(seen) == 24 // dist.size
            everybody = starling.allgather(seen.numpy())
            assert sorted(everybody) == list(range(24))
            epochs.append(list(everybody))
        assert epochs[0] != epochs[1], "shuffled anew"
    plain = torch.utils.data.DataLoader(samples, 3)
    assert sorted(starling.allgather(torch.cat(list(dist.share(plain))).numpy())) == list(range(24))
    batches = list(dist.share(range(10)))  # of an iterable every n-th
    assert batches == list(range(10))[dist.rank :: dist.size][: 10 // dist.size]
    dist.finish()


def check_workers_with_fewer_batches():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    dist = starling.Dist(model, strategy="allreduce")
    dist.expect_uneven_inputs()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    batches = 2 if dist.rank == 1 else 5
    for _ in range(batches):
        (model(torch.ones(1, 1)) * (dist.rank + 1)).sum().backward()
        dist.step(optimizer)
    dist.join(optimizer)
    slopes = [rank + 1 for rank in range(dist.size)]
    others = [slope for slope in slopes if slope != 2]
    expected = -2 * sum(slopes) / len(slopes) - 3 * sum(others) / len(others)
    assert abs(model.weight.item() - expected) < 1e-5
    dist.finish()


def check_means_broadcasts_and_barriers():
    dist = starling.Dist(net(), system="horovod")
    assert dist.mean(dist.rank) == (dist.size - 1) / 2
    assert dist.mean([dist.rank * 2, 5]) == [dist.size - 1, 5]
    last = dist.size - 1
    for tensor in (torch.arange(3) + 100 * dist.rank, torch.tensor(dist.rank == last)):
        expected = torch.arange(3) + 100 * last if tensor.dim() else torch.tensor(True)
        assert torch.equal(dist.broadcast(tensor, last), expected)
    every_other = torch.full((6,), float(dist.rank))[::2]
    assert not dist.broadcast(every_other).any()
    dist.barrier()
    dist.report(loss=1.0)
    dist.finish()


def check_arrays_and_a_dist_in_one_program():
    import numpy

    assert (starling.rank(), starling.size()) == (RANK, int(os.environ["STARLING_SIZE"]))
    n = starling.size()
    dist = starling.Dist(net(), system="gosgd")
    for kind in ("float32", "float64", "float16", "int32", "int64", "uint8"):
        values = numpy.arange(6, dtype=kind).reshape(2, 3) + RANK
        total = starling.allreduce(values)
        assert total.dtype == kind and total.shape == (2, 3)
        assert (total == n * numpy.arange(6).reshape(2, 3) + n * (n - 1) // 2).all()
    assert starling.allreduce(numpy.float64(RANK), "max") == n - 1
    assert starling.allreduce(numpy.array([RANK + 1.0]), "mean")[0] == (n + 1) / 2
    rows = starling.allgather(numpy.full((RANK, 2), RANK))
    assert rows.shape == (n * (n - 1) // 2, 2)
    assert (rows[:, 0] == numpy.repeat(numpy.arange(n), numpy.arange(n))).all()
    assert (starling.broadcast(numpy.full(3, RANK), n - 1) == n - 1).all()
    starling.barrier()
    for wrong in (lambda: starling.broadcast(numpy.zeros(1), n), lambda: starling.allreduce("text")):
        try:
            wrong()
        except (ValueError, TypeError):
            continue
        raise AssertionError("no error")
    dist.finish()


def check_with_a_context():
    model = net(1 + RANK)
    with starling.Dist(model, system="local-sgd", period=4) as dist:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x, y = data()
        for _ in range(3):
            loss_of(model, *mine(dist, x, y)).backward()
            dist.step(optimizer)
    ours = flat(model)
    starling.barrier()
    assert numpy_alike(ours)


def numpy_alike(values: torch.Tensor) -> bool:
    return bool((starling.broadcast(values.numpy()) == values.numpy()).all())


# Errors: one line each, that names the culprit


def error_of(action) -> str:
    try:
        action()
    except starling.Error as error:
        assert "\n" not in str(error)
        return str(error)
    return "no error"


def check_wrong_settings():
    said = error_of(lambda: starling.Dist(net(), system="parwise"))
    assert "parwise" in said and "pairwise" in said, said
    said = error_of(lambda: starling.Dist(net(), system="pairwise", perid=16))
    assert "there is no setting 'perid'" in said, said
    said = error_of(lambda: starling.Dist(net(), system="pairwise", period=0))
    assert "period must be a whole number from 1" in said, said
    said = error_of(lambda: starling.Dist(net(), system="pairwise", period=[1]))
    assert "period = [1] cannot be" in said, said
    said = error_of(lambda: starling.Dist(nn.Tanh()))
    assert "no parameters" in said, said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = error_of(lambda: starling.Dist(nn.Linear(1, 1).to(torch.complex64)))
    assert "complex64" in said, said
    if starling.size() == 1:
        return
    said = error_of(lambda: starling.Dist(net(), system="distbelief"))
    assert "`starling launch --system distbelief" in said, said
    said = error_of(lambda: starling.Dist(net(), system="horovod", mixing="elastic"))
    assert "has no effect here" in said, said
    if starling.size() % 2 == 0:
        said = error_of(lambda: starling.Dist(net(), system="gpipe"))
        assert "cannot be cut" in said and "starling.Pipeline" in said, said


def check_no_exchange_within_a_step():
    model = net()
    dist = starling.Dist(model, system="horovod")
    said = []

    class Talkative(torch.optim.SGD):
        def step(self, closure=None):
            said.append(error_of(lambda: dist.mean(1)))
            super().step(closure)

    loss_of(model, *data()).backward()
    dist.step(Talkative(model.parameters(), 0.1))
    assert said == ["this exchange is within another, such as a step; do it before or after"], said
    dist.finish()


def check_one_dist_at_a_time():
    first = starling.Dist(net(), system="horovod")
    assert "there is a Dist in this program already" in error_of(lambda: starling.Dist(net()))
    first.finish()
    second = starling.Dist(net(), system="horovod")  # the first has made room
    assert "has ended" in error_of(first.barrier)
    second.finish()


# In the worker


def run_checks(names: list[str]) -> None:
    torch.set_num_threads(1)
    failed = []
    for name in names:
        try:
            globals()[name]()
        except Exception:
            failed.append(name)
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            sys.exit(1)
        starling.barrier()
        if starling.rank() == 0:
            print(f"ok {name}", flush=True)


def misbehave(how: str) -> None:
    """A loop in which one worker does not do as the others do."""
    torch.set_num_threads(1)
    model = net(1 + RANK)
    if how == "other settings":
        starling.Dist(model, system="pairwise", period=16 if RANK == 1 else 4)
    if how == "other model":
        starling.Dist(nn.Linear(3, 3) if RANK == 1 else model, system="pairwise")
    dist = starling.Dist(model, system="horovod")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = data()
    for step in range(100_000):
        loss_of(model, *mine(dist, x, y)).backward()
        dist.step(optimizer)
        if how == "exit":
            break
        if RANK == 2 and step == 20:
            print("now", flush=True)
            if how == "throw":
                raise RuntimeError("the data is bad")
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.005)


def lose_one() -> None:
    """Of a system that the program names, and that goes on without whoever is lost."""
    torch.set_num_threads(1)
    model = net()
    dist = starling.Dist(model, system="gosgd")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(100):
        loss_of(model, *data()).backward()
        dist.step(optimizer)
        time.sleep(0.005)
        if RANK == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.finish()
    print(f"rank {RANK} has finished")


# By hand


class Launches:
    def __init__(self, wanted: list[str]):
        self.wanted = wanted
        self.failed = 0

    def ran(self, name: str) -> bool:
        return not self.wanted or any(each in name for each in self.wanted)

    @staticmethod
    def launch(workers: int, flags: list[str], words: list[str], timeout: float = 600):
        command = [os.environ.get("STARLING", "starling"), "launch", "-n", str(workers), *flags]
        command += ["--", sys.executable, __file__, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)

    def say(self, name: str, result, well: bool) -> None:
        print(f"{'ok' if well else 'FAILED'} {name}", flush=True)
        if not well:
            self.failed += 1
            print(result.stdout[-4000:], result.stderr[-4000:], sep="\n", flush=True)

    def expect_well(self, name: str, workers: int, flags: list[str], words: list[str]) -> None:
        result = self.launch(workers, flags, words)
        self.say(name, result, result.returncode == 0)

    def expect_error(self, name: str, how: str, pattern: str, flags: list[str] = []) -> None:
        if not self.ran(name):
            return
        begun = time.monotonic()
        result = self.launch(3, flags, ["misbehave", how])
        last = (result.stderr.strip().splitlines() or [""])[-1]
        well = result.returncode != 0 and re.search(pattern, last) is not None
        self.say(f"{name} ({time.monotonic() - begun:.1f} s): {last}", result, well)


def main() -> int:
    launches = Launches(sys.argv[1:])
    checks = [name for name in globals() if name.startswith("check_") and launches.ran(name)]
    for workers in (1, 2, 3, 4):
        if checks:
            launches.expect_well(f"{len(checks)} checks, n = {workers}", workers, [], ["run", *checks])
    for system in systems(servers_apart=True):
        for workers in (1, 2, 3, 4):
            name = f"system {system}, n = {workers}"
            if launches.ran(name):
                flags = ["--system", system, "--lr", "0.05"]
                if system != "distbelief":  # Adagrad knows none
                    flags += ["--momentum", "0"]
                launches.expect_well(name, workers, flags, ["run", "servers_learn"])
    launches.expect_error("an exception", "throw", r"^error: rank 2: RuntimeError: the data is bad")
    launches.expect_error("a kill", "kill", r"^error: rank 2 .*(SIGKILL|killed)")
    launches.expect_error("settings", "other settings", r"rank 1: rank 0 has period = 4, and this")
    launches.expect_error("a model", "other model", r"rank 1: rank 0 has model = ")
    launches.expect_error(
        "a contradiction", "throw", r"sets strategy = allreduce, and its launcher server",
        ["--strategy", "server"],
    )  # fmt: skip
    if launches.ran("no finish"):
        launches.expect_well("no finish", 3, [], ["misbehave", "exit"])
    if launches.ran("a loss that others survive"):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            result = launches.launch(3, ["--run", run], ["lose"])
            with open(os.path.join(run, "settings.toml")) as file:
                kept = file.read()
        well = result.returncode == 0 and result.stdout.count("has finished") == 2
        well = well and "mixing = 'sum-weight'" in kept and "went on without it" in result.stderr
        launches.say("a loss that others survive", result, well)
    print("all well" if launches.failed == 0 else f"{launches.failed} failed")
    return min(1, launches.failed)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        run_checks(sys.argv[2:])
    elif len(sys.argv) > 1 and sys.argv[1] == "misbehave":
        misbehave(sys.argv[2])
    elif len(sys.argv) > 1 and sys.argv[1] == "lose":
        lose_one()
    else:
        sys.exit(main())
