"""Python programs whose workers are killed, come and go.

    STARLING=build/release/bin/starling python3 tests/python/elastic_test.py [check ...]

Each job trains until it is told to stop, and writes down what its workers see; the test looks at that,
kills, and changes what a host discovery script says. Nothing is asserted about how long things take.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

PATIENCE = 150  # seconds, for what hangs
STARLING = os.environ["STARLING"]

COMMON = r"""
import json, os, sys, time
import torch

folder = sys.argv[1]

def tell(**what):
    what.update(pid=os.getpid(), host=os.environ.get("HOROVOD_HOSTNAME"))
    with open(folder + "/log", "a") as file:
        file.write(json.dumps(what) + "\n")

def told(what):
    return os.path.exists(f"{folder}/{what}")
"""

# Trains until there is a file named stop; commits after every fifth step.
HVD = COMMON + r"""
import starling.torch as hvd

hvd.init()
torch.manual_seed(os.getpid())
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), 0.01, momentum=0.5), model.named_parameters())

@hvd.elastic.run
def train(state):
    tell(event="begin", rank=hvd.rank(), size=hvd.size(), step=state.step, resets=state.resets,
         local=hvd.local_rank(), cross=hvd.cross_size())
    while True:
        stop = hvd.allreduce(torch.tensor([float(told("stop"))]), op=hvd.Max, name="stop")
        if stop.item():
            break
        optimizer.zero_grad()
        model(torch.randn(3, 4)).pow(2).mean().backward()
        optimizer.step()
        state.step += 1
        if state.step % 5 == 0:
            state.commit()
        else:
            state.check_host_updates()
        if state.step % 10 == 0:
            tell(event="step", step=state.step, rank=hvd.rank(), size=hvd.size())
        time.sleep(0.01)
    tell(event="end", rank=hvd.rank(), size=hvd.size(), step=state.step,
         weights=[p.sum().item() for p in model.parameters()])

state = hvd.elastic.TorchState(model, optimizer, step=0, resets=0)
state.register_reset_callbacks([lambda: setattr(state, "resets", state.resets + 1)])
train(state)
"""


class Job:
    """A job under way, and what its workers have told."""

    def __init__(self, folder, words, program=HVD, arguments=()):
        self.folder = folder
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write(program)
        self.out = open(os.path.join(folder, "out"), "w+")
        self.process = subprocess.Popen(
            [*words, sys.executable, script, folder, *arguments], stdout=self.out,
            stderr=subprocess.STDOUT, text=True)

    def told(self):
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.folder, "log")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        return []

    def printed(self):
        with open(self.out.name) as file:
            return file.read()

    def until(self, what, is_so):
        """What the workers have told, once that is so."""
        deadline = time.time() + PATIENCE
        while time.time() < deadline:
            told = self.told()
            found = is_so(told)
            if found:
                return found
            assert self.process.poll() is None, f"it ended before {what}:\n{self.printed()}\n{told}"
            time.sleep(0.05)
        raise AssertionError(f"not in time: {what}\n{self.printed()}\n{self.told()}")

    def generation(self, size, after=0):
        """Once so many have begun together, of what was told from there on: by rank."""
        def begun(told):
            last = {}
            for each in told[after:]:
                if each["event"] == "begin" and each["size"] == size:
                    last[each["rank"]] = each
            return last if len(last) == size else None
        return self.until(f"{size} workers", begun)

    def steps(self, more):
        """Until each worker that is there has made so many more steps."""
        before = len(self.told())
        self.until(f"{more} steps", lambda told: sum(
            each["event"] == "step" and each["rank"] == 0 for each in told[before:]) >= more // 10)

    def tell(self, name, text=""):
        place = os.path.join(self.folder, name)
        with open(place + ".part", "w") as file:
            file.write(text)
        os.rename(place + ".part", place)

    def end(self):
        """Its status and what it printed; nobody may be left."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end:\n{self.printed()}\n{self.told()}") from None
        for pid in {each["pid"] for each in self.told()}:
            deadline = time.time() + 10
            while os.path.exists(f"/proc/{pid}") and time.time() < deadline:
                time.sleep(0.1)
            assert not os.path.exists(f"/proc/{pid}"), f"{pid} is an orphan\n{self.printed()}"
        return status, self.printed()


@contextlib.contextmanager
def job(words, *arguments, hosts=None, **options):
    with tempfile.TemporaryDirectory(prefix="starling-elastic-") as folder:
        script = os.path.join(folder, "hosts.sh")
        if hosts is not None:
            with open(os.path.join(folder, "hosts"), "w") as file:
                file.write(hosts)
            with open(script, "w") as file:
                file.write(f"#!/bin/sh\ncat {folder}/hosts\n")
            os.chmod(script, 0o755)
        under_way = Job(folder, [word.replace("HOSTS", script) for word in words],
                        arguments=arguments, **options)
        try:
            yield under_way
        finally:
            if under_way.process.poll() is None:
                under_way.process.kill()
            under_way.process.wait()


def launch(*words):
    return [STARLING, "launch", *words, "--"]


def starlingrun(*words):
    return [sys.executable, "-m", "starling.runner.launch", *words]


def ends_well(under_way, size):
    under_way.tell("stop")
    status, printed = under_way.end()
    assert status == 0, printed
    ends = [each for each in under_way.told() if each["event"] == "end"]
    assert len(ends) == size and {each["size"] for each in ends} == {size}, ends
    assert len({json.dumps(each["weights"]) for each in ends}) == 1, ends
    assert len({each["step"] for each in ends}) == 1, ends
    return printed


def error_of(printed):
    errors = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, printed
    return errors[0]


def check_a_killed_worker_is_replaced():
    for killed in (0, 1):
        with job(launch("-n", "3", "--elastic", "--restarts", "3")) as training:
            first = training.generation(3)
            training.steps(20)
            before = len(training.told())
            os.kill(first[killed]["pid"], signal.SIGKILL)
            again = training.generation(3, before)
            left = [first[rank]["pid"] for rank in range(3) if rank != killed]
            assert [again[rank]["pid"] for rank in range(2)] == left, (first, again)
            assert again[2]["pid"] not in left
            # All go on from where rank 0 is, which remembers how often it met others.
            assert len({(each["step"], each["resets"]) for each in again.values()}) == 1, again
            assert again[0]["step"] >= 20 and again[0]["resets"] >= 1, again
            training.steps(20)
            ends_well(training, 3)


def check_those_who_are_left_go_on():
    with job(launch("-n", "3", "--elastic")) as training:
        first = training.generation(3)
        training.steps(20)
        before = len(training.told())
        os.kill(first[2]["pid"], signal.SIGKILL)
        again = training.generation(2, before)
        # What was not committed is done again: never more than five steps.
        done = max(each["step"] for each in training.told()[:before] if "step" in each)
        assert done - 5 <= again[0]["step"], again
        assert again[0]["step"] % 5 == 0, again
        training.steps(10)
        printed = ends_well(training, 2)
        assert "was killed by signal 9" in printed, printed


# Rank 1 is asked to leave while it waits for rank 0, to which it has said that it stays.
ASKED_WHILE_WAITING = COMMON + r"""
import signal
import starling.torch as hvd

hvd.init()

@hvd.elastic.run
def train(state):
    state.sizes = state.sizes + [hvd.size()]
    if len(state.sizes) == 1:
        pids = hvd.allgather_object(os.getpid())
        if hvd.rank() == 0:
            time.sleep(2)
            os.kill(pids[1], signal.SIGTERM)
            time.sleep(1)
            state.on_hosts_updated(time.time(), 2)
    state.commit()
    state.commit()
    tell(event="end", sizes=state.sizes)

train(hvd.elastic.ObjectState(sizes=[]))
"""


def check_who_is_asked_to_leave_while_it_waits_goes_with_the_next_change():
    with job(launch("-n", "3", "--elastic"), program=ASKED_WHILE_WAITING) as training:
        status, printed = training.end()
        assert status == 0, printed
        assert [each["sizes"] for each in training.told()] == [[3, 2]] * 2, training.told()


def check_hosts_come_and_go():
    words = starlingrun("-np", "2", "--min-num-proc", "1", "--max-num-proc", "4",
                        "--host-discovery-script", "HOSTS")
    with job(words, hosts="localhost:2\n") as training:
        first = training.generation(2)
        assert {each["host"] for each in first.values()} == {"localhost"}, first
        training.steps(10)
        training.tell("hosts", "localhost:2\n127.0.0.1:1\n")
        more = training.generation(3)
        assert [more[rank]["pid"] for rank in range(2)] == [first[rank]["pid"] for rank in range(2)]
        assert more[2]["host"] == "127.0.0.1", more
        assert more[0]["cross"] == 2 and more[2]["local"] == 0, more
        # Nothing is restored where all are there to agree.
        done = max(each["step"] for each in training.told() if each["event"] == "step"
                   and each["size"] == 2)
        assert more[0]["step"] >= done and len({each["step"] for each in more.values()}) == 1, more
        training.steps(10)
        training.tell("hosts", "127.0.0.1:1\n")
        fewer = training.generation(1)
        assert fewer[0]["pid"] == more[2]["pid"] and fewer[0]["step"] > more[0]["step"], fewer
        training.steps(10)
        ends_well(training, 1)


def check_a_machine_that_will_be_gone_leaves():
    with job(launch("-n", "3", "--elastic")) as training:
        first = training.generation(3)
        training.steps(10)
        os.kill(first[1]["pid"], signal.SIGTERM)
        fewer = training.generation(2)
        assert [fewer[rank]["pid"] for rank in range(2)] == [first[0]["pid"], first[2]["pid"]]
        done = max(each["step"] for each in training.told() if each["event"] == "step"
                   and each["size"] == 3)
        assert fewer[0]["step"] >= done, fewer
        printed = ends_well(training, 2)
        assert "killed" not in printed and "error" not in printed, printed


def check_the_reset_limit():
    words = starlingrun("-np", "2", "--min-num-proc", "1", "--reset-limit", "1")
    with job(words) as training:
        first = training.generation(2)
        training.steps(10)
        os.kill(first[1]["pid"], signal.SIGKILL)  # who is left is a reset, who comes another
        status, printed = training.end()
        assert status == 1 and "reset limit of 1" in error_of(printed), printed


def check_a_host_is_blacklisted_for_a_while():
    words = starlingrun("-np", "3", "--min-num-proc", "1", "--host-discovery-script", "HOSTS",
                        "--blacklist-cooldown-range", "2", "4")
    with job(words, hosts="localhost:1\n127.0.0.1:2\n") as training:
        first = training.generation(3)
        training.steps(10)
        before = len(training.told())
        os.kill(first[1]["pid"], signal.SIGKILL)
        alone = training.generation(1, before)  # the host's other worker is not trusted either
        assert alone[0]["host"] == "localhost", alone
        training.generation(3, before)
        printed = ends_well(training, 3)
        assert "127.0.0.1 is blacklisted" in printed, printed


def check_the_last_host_is_not_blacklisted():
    words = starlingrun("-np", "2", "--min-num-proc", "1", "--host-discovery-script", "HOSTS")
    with job(words, hosts="localhost:2\n") as training:
        first = training.generation(2)
        training.steps(10)
        before = len(training.told())
        os.kill(first[0]["pid"], signal.SIGKILL)
        again = training.generation(2, before)
        assert again[0]["pid"] == first[1]["pid"], again
        ends_well(training, 2)


def check_too_few_end_with_a_word():
    words = starlingrun("-np", "2", "--min-num-proc", "2", "--reset-limit", "0", "--start-timeout", "1")
    with job(words) as training:
        first = training.generation(2)
        os.kill(first[1]["pid"], signal.SIGKILL)
        status, printed = training.end()
        assert status == 1 and "rank 1 was killed by signal 9" in error_of(printed), printed


def check_what_cannot_be_is_said_in_one_line():
    with tempfile.TemporaryDirectory() as folder:
        def script(name, text, mode=0o755):
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n" + text)
            os.chmod(path, mode)
            return path

        discovery = ("-np", "1", "--host-discovery-script")
        for words, said in (
            ((*discovery, script("none", "exit 3\n")), "status 3"),
            ((*discovery, script("closed", "echo localhost:1\n", 0o644)), "chmod +x"),
            ((*discovery, folder + "/missing"), "not there"),
            ((*discovery, script("rubbish", "echo localhost:many\n")), "localhost:many"),
            ((*discovery, script("elsewhere", "echo host-7:2\n")), "host-7"),
            (("-np", "2", "--min-num-proc", "3"), "cannot be"),
            (("-np", "2", "--max-num-proc", "1"), "cannot be"),
            (("-np", "2", "--blacklist-cooldown-range", "1", "2"), "goes with"),
            ((*discovery, script("good", "echo localhost:1\n"), "--blacklist-cooldown-range", "9",
              "2"), "shortest"),
        ):
            ended = subprocess.run([*starlingrun(*words), "true"], capture_output=True, text=True,
                                   timeout=PATIENCE)
            lines = ended.stderr.strip().splitlines()
            assert ended.returncode != 0 and len(lines) == 1 and said in lines[0], (words, ended)


def check_starling_run_goes_on():
    import starling

    def function(folder):
        import os

        import torch

        import starling.torch as hvd

        hvd.init()
        state = hvd.elastic.ObjectState(step=0)

        @hvd.elastic.run
        def train(state):
            while state.step < 20:
                mark = os.path.join(folder, "killed")
                if state.step == 10 and hvd.rank() == 1 and not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), 9)
                hvd.allreduce(torch.ones(3), name="x")
                state.step += 1
                state.commit()
            return state.step, hvd.size()

        return train(state)

    with tempfile.TemporaryDirectory() as folder:
        results = starling.run(function, (folder,), num_proc=3, min_num_proc=1)
        assert len(results) >= 2 and {step for step, _ in results} == {20}, results


# Tells which samples it has trained on; rank 1 ends itself in the middle, once.
DIST = COMMON + r"""
import starling
from torch.utils.data import DataLoader, TensorDataset

system = sys.argv[2]
torch.manual_seed(3)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-5, momentum=0.5)
dist = starling.Dist(model, system=system)
tell(event="begin", rank=dist.rank, size=dist.size)
loader = DataLoader(TensorDataset(torch.arange(120.0).view(-1, 1)), 2, shuffle=True)
for epoch in range(3):
    for step, (x,) in enumerate(dist.share(loader)):
        if epoch == 1 and step == 7 and dist.rank == 1 and not told("killed"):
            open(folder + "/killed", "w").close()
            os.kill(os.getpid(), 9)
        model(x).pow(2).mean().backward()
        if dist.step(optimizer):
            tell(event="did", epoch=epoch, samples=x.view(-1).tolist(), size=dist.size)
        time.sleep(0.02)
    dist.mean(1.0)
dist.finish()
tell(event="end", rank=dist.rank, size=dist.size, step=0,
     weights=[p.sum().item() for p in model.parameters()])
"""


def check_dist_goes_on():
    for system in ("horovod", "pairwise"):
        words = launch("-n", "3", "--elastic", "--restarts", "3", "--timeout", "20")
        with job(words, system, program=DIST) as training:
            status, printed = training.end()
            assert status == 0, printed
            told = training.told()
            ends = [each for each in told if each["event"] == "end"]
            assert len(ends) >= 2 and len({str(each["weights"]) for each in ends}) == 1, ends
            for epoch in range(3):
                seen = [sample for each in told if each["event"] == "did" and each["epoch"] == epoch
                        for sample in each["samples"]]
                # A batch may come twice where there are not enough for all, and where weights are
                # mixed, what the lost worker was about to tell.
                assert set(seen) == set(range(120)), (system, epoch, sorted(seen))
                assert len(seen) <= 120 + 2 * 6, (system, epoch, len(seen))


# Makes its process group anew after every loss, and when somebody has come.
TORCH = COMMON + r"""
import torch.distributed as dist
import starling.torch_backend as backend
from starling import _session

step = 0
while True:
    dist.init_process_group("starling")
    # Which goes into torch's store, that anybody may read.
    assert os.environ["STARLING_SECRET"] not in _session.current().token
    tell(event="begin", rank=dist.get_rank(), size=dist.get_world_size())
    try:
        while True:
            if backend.others_come_or_go():
                break
            word = torch.tensor([1.0, float(told("stop"))])
            dist.all_reduce(word)
            assert word[0].item() == dist.get_world_size()
            step += 1
            if step % 10 == 0:
                tell(event="step", step=step, rank=dist.get_rank(), size=dist.get_world_size())
            if word[1].item():
                tell(event="end", rank=dist.get_rank(), size=dist.get_world_size(), step=0, weights=[])
                sys.exit(0)
            time.sleep(0.01)
    except RuntimeError as error:
        tell(event="lost", what=str(error))
    dist.destroy_process_group()
"""


def check_torch_process_groups_are_made_anew():
    with job(launch("-n", "3", "--elastic", "--restarts", "3"), program=TORCH) as training:
        for killed in (0, 1):
            before = len(training.told())
            first = training.generation(3) if before == 0 else again
            training.steps(10)
            before = len(training.told())
            os.kill(first[killed]["pid"], signal.SIGKILL)
            again = training.generation(3, before)
            left = [first[rank]["pid"] for rank in range(3) if rank != killed]
            assert [again[rank]["pid"] for rank in range(2)] == left, (first, again)
        training.steps(10)
        ends_well(training, 3)


# torchrun starts all of them again.
RESTARTED = COMMON + r"""
import torch.distributed as dist
import starling.torch_backend

dist.init_process_group("starling")
word = torch.ones(1)
dist.all_reduce(word)
if dist.get_rank() == 1 and not told("killed"):
    open(folder + "/killed", "w").close()
    os.kill(os.getpid(), 9)
dist.all_reduce(word)
tell(event="end", rank=dist.get_rank(), size=dist.get_world_size(), step=0, weights=[word.item()])
"""


def check_others_join_a_program():
    with tempfile.TemporaryDirectory(prefix="starling-elastic-") as runtime:
        own = ["env", f"XDG_RUNTIME_DIR={runtime}"]  # no other job is found there
        with job([*own, *launch("-n", "2", "--elastic")], program=TORCH) as training:
            training.generation(2)
            program = [sys.executable, os.path.join(training.folder, "program.py"), training.folder]
            joining = subprocess.Popen([*own, STARLING, "join", "--workers", "2", "--", *program],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                training.generation(4)
                ends_well(training, 4)
                printed, _ = joining.communicate(timeout=PATIENCE)
                assert joining.returncode == 0, printed
            finally:
                joining.kill()


def check_torchrun_restarts():
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write(RESTARTED)
        ended = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
             "--max_restarts", "2", "--standalone", "--redirects", "1", "--tee", "1", script, folder],
            capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 0, ended.stderr
        with open(os.path.join(folder, "log")) as file:
            ends = [json.loads(line) for line in file]
        assert [each["weights"] for each in ends] == [[4.0], [4.0]], ends


def main():
    checks = {name: each for name, each in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        begun = time.time()
        try:
            checks[name]()
        except Exception:
            print(f"{name}:\n{traceback.format_exc()}", flush=True)
            sys.exit(1)
        print(f"{name}: passed ({time.time() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
