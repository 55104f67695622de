#!/usr/bin/python3
"""torch.distributed over Starling beside gloo, and beside Starling's own core, in one run.

    bench/python/backend.py                    # 4 workers on this machine
    bench/python/backend.py --workers 8 --json

Both backends live in the same processes and take turns, so that what else the machine does befalls them
alike; the core is measured before and after each length, by processes of its own. Before each all-reduce
all ranks meet, here as there.
DistributedDataParallel trains on inputs that are in memory already, in turns with the bare network, which
exchanges nothing: no backend could be faster. Of training, some steps are timed together, up to where all
ranks meet: one that need not wait for the others could be ahead of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ALL_REDUCE_BYTES = [4_000, 64_000, 1_000_000, 16_000_000]
GPT = SimpleNamespace(width=128, layers=4, heads=4, context=128)
SYMBOLS = 64
STEPS = 5  # of training that are timed together


def tasks():
    """Name, network, and a batch of inputs and targets."""
    import torch

    sys.path.insert(0, str(HERE.parent / "peers"))
    import ddp_train

    text = torch.randint(0, SYMBOLS, (8, GPT.context + 1))
    return [
        ("mnist-cnn", ddp_train.MnistCnn, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)),
         ddp_train.Digits.loss),
        ("char-gpt", lambda: ddp_train.CharGpt(GPT, SYMBOLS), text[:, :-1], text[:, 1:],
         ddp_train.Text.loss),
    ]


def work(rounds: int, seconds: float) -> None:
    """What each worker does; rank 0 prints what came of it."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import starling.torch_backend  # noqa: F401

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in ("starling", "gloo")}
    found = {"torch": torch.__version__, "all_reduce": {}, "core": {}, "training": {}}

    def take_turns(names, action, meet=lambda: None, at_a_time=10) -> dict[str, float]:
        """Seconds that action(name) takes for each: the median."""
        times: dict[str, list[float]] = {name: [] for name in names}
        for name in names:
            action(name)
        for _ in range(rounds):
            for name in names:
                end = time.perf_counter() + seconds / rounds
                goes_on = torch.tensor([True])
                while goes_on.item():
                    for _ in range(at_a_time):
                        meet()
                        begun = time.perf_counter()
                        action(name)
                        times[name].append(time.perf_counter() - begun)
                    goes_on[0] = time.perf_counter() < end
                    dist.broadcast(goes_on, 0, group=groups["starling"])  # all or none
        return {name: statistics.median(each) for name, each in times.items()}

    for size in ALL_REDUCE_BYTES:
        values = torch.zeros(size // 4)
        before = core_seconds(size)
        found["all_reduce"][size] = take_turns(
            groups, lambda name: dist.all_reduce(values, group=groups[name]),
            lambda: dist.barrier(groups["starling"]))
        found["core"][size] = (before + core_seconds(size)) / 2
    for task, network, inputs, targets, loss in tasks():
        models = {
            name: DistributedDataParallel(network(), process_group=group)
            for name, group in groups.items()
        }
        models["bare"] = network()
        optimizers = {n: torch.optim.SGD(m.parameters(), 0.01) for n, m in models.items()}

        def train(name):
            for _ in range(STEPS):
                optimizers[name].zero_grad()
                loss(models[name](inputs), targets).backward()
                optimizers[name].step()
            dist.barrier(groups["starling"])

        times = take_turns(models, train, at_a_time=1)
        found["training"][task] = {name: each / STEPS for name, each in times.items()}
    if dist.get_rank() == 0:
        print("found " + json.dumps(found), flush=True)
    dist.barrier(groups["starling"])


def core_seconds(size: int) -> float:
    """What Starling's own benchmark takes for the same all-reduce, without Python; on rank 0, for which
    the others wait."""
    import torch.distributed as dist

    seconds = 0.0
    if dist.get_rank() == 0:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("STARLING_")}
        run = subprocess.run(
            [ROOT / "starling", "bench", "exchange", "--workers", str(dist.get_world_size()),
             "--sizes", f"{size // 1000}KB", "--algorithms", "auto", "--no-peers", "--json"],
            capture_output=True, text=True, check=True, env=environment)
        (row,) = json.loads(run.stdout)["rows"]
        seconds = row["median_seconds"]
    dist.barrier()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/python/backend.py --workers 4")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="for each thing and backend")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.rounds, args.seconds)

    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment.setdefault("PYTHONPATH", str(ROOT / "build" / "release" / "python"))
    load = os.getloadavg()[0]
    run = subprocess.run(
        [ROOT / "starling", "launch", "-n", str(args.workers), "--", sys.executable, __file__,
         "--work", "--rounds", str(args.rounds), "--seconds", str(args.seconds)],
        stdout=subprocess.PIPE, text=True, env=environment)
    lines = [line.split("found ", 1)[1] for line in run.stdout.splitlines() if "found " in line]
    if run.returncode != 0 or not lines:
        raise SystemExit(f"the workers failed:\n{run.stdout}")
    found = json.loads(lines[0])
    found["machine"] = {"cores": os.cpu_count(), "load before": load, "python":
                        platform.python_version(), "workers": args.workers}
    if args.json:
        print(json.dumps(found))
        return
    print(f"{args.workers} workers on {os.cpu_count()} cores, load {load:.1f} before; "
          f"Python {platform.python_version()}, torch {found['torch']}")
    print(f"\n{'all-reduce of':<14}{'core':>12}{'starling':>12}{'gloo':>12}{'over core':>12}")
    for size, times in found["all_reduce"].items():
        alone = found["core"][size]
        print(f"{int(size) // 1000:>10} KB "
              f"{1e6 * alone:>9.0f} us{1e6 * times['starling']:>9.0f} us{1e6 * times['gloo']:>9.0f} us"
              f"{1e6 * (times['starling'] - alone):>+9.0f} us")
    print(f"\n{'a step by DDP':<14}{'starling':>12}{'gloo':>12}{'bare':>12}{'times as fast':>16}"
          f"{'bare would be':>16}")
    for task, times in found["training"].items():
        print(f"{task:<14}{1e3 * times['starling']:>9.2f} ms{1e3 * times['gloo']:>9.2f} ms"
              f"{1e3 * times['bare']:>9.2f} ms{times['gloo'] / times['starling']:>16.2f}"
              f"{times['gloo'] / times['bare']:>16.2f}")


if __name__ == "__main__":
    main()
