"""starling.spark on a standalone cluster of Spark's: a master and three workers, real processes.

    tests/python/spark_test.py [NAME...]    the checks whose names begin so; by default all

Ends with 77 (skipped) where there is no Java or no PySpark; `scripts/setup spark` installs them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from unittest import mock

SKIPPED = 77
OWN_PYTHON = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starling/spark/bin/python"
WORKERS = 3


def skip(why):
    print(f"skipped: {why}; `scripts/setup spark` installs it")
    sys.exit(SKIPPED)


try:
    import pyspark
except ImportError:
    if not OWN_PYTHON.exists():
        skip("there is no PySpark")
    if Path(sys.prefix) == OWN_PYTHON.parents[1]:
        raise
    os.execv(OWN_PYTHON, [str(OWN_PYTHON), *sys.argv])
if shutil.which("java") is None:
    skip("there is no Java")

import numpy as np
import torch
from pyspark import TaskContext, cloudpickle
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

import starling.spark
from starling.runner.program import starling_program
from starling.spark import job, submit
from starling.spark.meeting import Meeting, Visit
from starling.spark.place import Place, by_rank, here, rendezvous
from starling.spark.samples import Samples, spool, wrong_with

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def processes():
    """(process, parent, command) of all."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(re.search(r"PPid:\s+(\d+)", (place / "status").read_text())[1])
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found.append((int(place.name), parent, command))
    return found


def is_there(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_that(what, seconds=180):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.2)
    return found


class Cluster:
    """A master and workers with one slot each, which all go in the end."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.home = os.path.dirname(pyspark.__file__)
        self.environment = {**os.environ, "SPARK_HOME": self.home, "SPARK_LOCAL_IP": "127.0.0.1",
                            "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}

    def __enter__(self):
        log = self.start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
                         "--port", "0", "--webui-port", "0")
        self.url = await_that(lambda: re.search(r"spark://127\.0\.0\.1:\d+", log.read_text()))[0]
        for number in range(WORKERS):
            self.start(f"worker{number}", "org.apache.spark.deploy.worker.Worker", "--cores", "1",
                       "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.folder / "work"), self.url)
        return self

    def start(self, name, *words):
        log = self.folder / f"{name}.log"
        with open(log, "w", encoding="utf-8") as out:
            self.processes.append(subprocess.Popen(
                [f"{self.home}/bin/spark-class", *words], env=self.environment, stdout=out, stderr=out))
        return log

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def error_of(action, kind=job.JobFailed):
    try:
        action()
    except kind as error:
        return str(error).splitlines()[0]
    raise AssertionError("no error")


def ancestors(process):
    parents = {child: (parent, command) for child, parent, command in processes()}
    while process in parents:
        yield process, parents[process][1]
        process = parents[process][0]


# Without a cluster


def check_places_are_in_the_order_of_hosts():
    places = [Place(0, "a", "10.0.0.1", 1), Place(1, "b", "10.0.0.2", 2), Place(2, "a", "10.0.0.1", 3)]
    assert [place.task for place in by_rank(places)] == [0, 2, 1]
    assert [place.task for place in by_rank(places[::-1])] == [0, 2, 1]
    assert rendezvous(by_rank(places)) == "10.0.0.1:1"
    assert rendezvous([places[0], places[2]]) == "127.0.0.1:1"
    assert rendezvous([Place(0, "a", "fd00::1", 1), places[1]]) == "[fd00::1]:1"
    assert Place.of(places[1].text()) == places[1]
    found = here(0, "nowhere.invalid", "lo")
    assert found.address == "127.0.0.1" and here(0, "", "127.0.0.0/8").address == "127.0.0.1", found
    assert "is not on the network eth77, it has lo 127.0.0.1" in error_of(lambda: here(0, "", "eth77"), ValueError)


def check_samples_come_back_from_disk_in_batches():
    import pyarrow as pa

    with tempfile.TemporaryDirectory() as folder:
        chunks = [pa.RecordBatch.from_pydict(
            {"x": [[i, i + 1] for i in part], "y": [float(i) for i in part], "l": list(part)})
            for part in (range(0, 5), range(5, 7))]
        facts = spool(chunks, folder, ["x", "y"], ["l"], "int64")
        assert facts == {"rows": 7, "features": 3, "labels": 1}, facts
        samples = Samples(folder, facts, "int64")
        seen = list(samples.batches(3, 3, 1))
        assert [len(x) for x, _ in seen] == [3, 3, 1]
        assert sorted(int(each[0]) for _, y in seen for each in y) == list(range(7))
        assert all(row.tolist() == [l[0], l[0] + 1, l[0]] for x, y in seen for row, l in zip(x, y))
        others = list(samples.batches(3, 3, 2))
        assert any((a[1][:1] != b[1][:1]).any() for a, b in zip(seen, others)), "not shuffled"
        more = [int(each[0]) for _, y in samples.batches(3, 4, 1) for each in y]
        assert len(more) == 12 and set(more) == set(range(7))


def check_a_meeting_seats_all_and_lets_one_in_again():
    secret = "0123456789abcdef"
    with Meeting(2, secret, 5) as meeting:
        call = lambda s=secret: Visit("127.0.0.1", meeting.port, s, 5)  # noqa: E731
        try:
            call("another secret!!")
        except Exception as error:
            assert "digest" in str(error), error
        else:
            raise AssertionError("a stranger was let in")
        first, second = call(), call()
        first._connection.send_bytes(Place(1, "a", "127.0.0.1", 11).text().encode())
        assert second.seat(Place(0, "a", "127.0.0.1", 10)) == {"rank": 0, "rendezvous": "127.0.0.1:10"}
        assert json.loads(first._connection.recv_bytes())["rank"] == 1
        second.tell(door="127.0.0.1:99")
        first.close()
        await_that(lambda: 1 not in meeting._doors and meeting._doors.get(0))
        again = call()
        assert again.seat(Place(1, "b", "127.0.0.1", 12)) == {"rank": 1, "doors": ["127.0.0.1:99"]}
        again.close()
        second.tell(ended=0)
        second.close()
        await_that(lambda: meeting._ended_well)
        assert call().seat(Place(1, "b", "127.0.0.1", 12)) == {"rank": 1, "over": True}
    with Meeting(2, secret, 1) as meeting:
        said = Visit("127.0.0.1", meeting.port, secret, 1).seat(Place(0, "a", "127.0.0.1", 10))
        assert said["error"].startswith("of 2 workers 1 came within 1 s"), said


def check_a_task_that_is_back_is_not_sent_to_its_own_old_door():
    secret = "0123456789abcdef"
    with Meeting(2, secret, 5) as meeting:
        visits = [Visit("127.0.0.1", meeting.port, secret, 5) for _ in range(3)]
        for task, visit in enumerate(visits[:2]):
            visit._connection.send_bytes(Place(task, "a", "127.0.0.1", 10 + task).text().encode())
        for task, visit in enumerate(visits[:2]):
            assert json.loads(visit._connection.recv_bytes())["rank"] == task
            visit.tell(door=f"127.0.0.1:{20 + task}")
        await_that(lambda: all(meeting._doors.values()))
        # Its machine is lost, of which nobody has heard.
        assert visits[2].seat(Place(0, "b", "127.0.0.1", 12)) == {"rank": 0, "doors": ["127.0.0.1:21"]}
        visits[2].tell(door="127.0.0.1:30")
        await_that(lambda: meeting._doors[0] == "127.0.0.1:30")
        visits[0].close()
        time.sleep(0.3)
        assert meeting._doors == {0: "127.0.0.1:30", 1: "127.0.0.1:21"}


class Context:
    """Of a SparkContext what is asked before there is a slot."""

    master = "yarn"

    def __init__(self, **settings):
        self.settings = settings

    def getConf(self):
        return {"spark." + name: value for name, value in self.settings.items()}


def check_dynamic_allocation_is_refused():
    context = Context(**{"dynamicAllocation.enabled": "true"})
    assert "spark.dynamicAllocation.enabled=false" in error_of(lambda: job.wait_for_slots(context, 2, 1))
    job.wait_for_slots(context, 2, 1, elastic=True)  # whose tasks are ordinary ones, and bring their executors


def check_a_worker_is_no_task_of_slurms_if_its_executor_is():
    said = {"SLURM_STEP_ID": "0", "OMPI_COMM_WORLD_RANK": "1", "STARLING_RANK": "2", "HOME": "/home/a"}
    with mock.patch.dict(os.environ, said, clear=True), mock.patch.object(job, "scratch", lambda: "/scratch"):
        found = job._environment(job.Order(["launch"], environment={"SAID": "so"}))
    assert set(found) == {"HOME", "SAID", "PATH", "PYTHONPATH"}, found


def check_what_spark_says_is_said_in_a_line():
    said = ("An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
            ": org.apache.spark.SparkException: Job aborted due to stage failure: no space\n\tat org.apache")
    assert str(job.explain(RuntimeError(said))) == "Spark's job failed: Job aborted due to stage failure: no space"
    assert str(job.explain(RuntimeError("a\nb"))) == "Spark's job failed: a"


def check_shares_that_cannot_be_trained_on():
    share = {"rows": 4, "features": 2, "labels": 1, "wrong": ""}
    assert wrong_with([share, share]) == ""
    assert wrong_with([share, {**share, "rows": 0, "features": 0}]) == (
        "of 4 rows none came to rank 1 of 2: ask for fewer workers")
    assert wrong_with([share, {**share, "features": 3}]) == "rows differ: 2 features in one, 3 in another"
    assert wrong_with([{**share, "rows": 0}, {**share, "rows": 0, "wrong": "column 'x'"}]) == "column 'x'"


def check_predictions_are_made_of_a_few_rows_at_a_time():
    from starling.spark import estimator

    sizes = []

    class Noting(torch.nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return x.sum(1)

    found = estimator._predicted(Noting(), lambda y: y.squeeze(), torch.arange(514.0).view(257, 2))
    assert sizes == [256, 1] and found.tolist() == [4.0 * i + 1 for i in range(257)], sizes


def check_what_stands_behind_the_dashes():
    for words, wrong in ((["bench"], "train"), (["launch"], "second --"), (["train", "--machines=2"], "--machines")):
        assert wrong in error_of(lambda: submit.order_of(words))
    order = submit.order_of(["launch", "--system", "easgd", "--", "./loop", "--", "x"])
    assert order.words == ["launch", "--system", "easgd"] and order.program == ["./loop", "--", "x"]
    seat = job.Seat(2, 3, "10.0.0.1:5")
    assert job.words_of(submit.order_of(["train", "--run", "r"]), seat) == [
        "train", "--run", "r-machine-2", "--workers", "3", "--machines", "3", "--machine", "2",
        "--rendezvous", "10.0.0.1:5"]
    guest = replace(seat, doors=["10.0.0.1:7"])
    assert job.words_of(submit.order_of(["train", "--elastic", "--data-folder", "d"]), guest) == [
        "join", "10.0.0.1:7", "--workers", "1", "--data-folder", "d"]
    order = submit.order_of(["train", "--elastic", "--run=r", "--interface=eth1", "--certificates", "a,b,c"])
    assert job.words_of(order, guest) == [
        "join", "10.0.0.1:7", "--workers", "1", "--interface", "eth1", "--certificates", "a,b,c"]
    assert order.network == "eth1" and submit.order_of(["train", "--system", "easgd"]).network == ""
    assert job.words_of(order, seat)[:4] == ["train", "--elastic", "--run", "r-machine-2"]
    assert order.secret not in repr(order)


def check_the_program_hands_over_to_spark_submit():
    def said(*words):
        ended = subprocess.run([starling_program(), "spark-submit", *words], text=True, stderr=subprocess.PIPE,
                               env={**os.environ, "PYSPARK_PYTHON": sys.executable}, timeout=60)
        assert ended.returncode != 0
        return ended.stderr.strip()

    assert "behind --, is required" in said("-n", "3")
    assert said("-n", "3", "--master", "local[3]", "--", "bench") == (
        "error: behind -- stands what each worker runs: train ..., or launch ... -- program")


def check_no_java_is_said(folder):
    ended = subprocess.run(
        [sys.executable, "-c", "import starling.spark; starling.spark.run(print)"], text=True,
        stderr=subprocess.PIPE, env={**os.environ, "JAVA_HOME": str(folder)}, timeout=60)
    line = ended.stderr.strip().splitlines()[-1]
    assert "Spark needs Java, and there is none in JAVA_HOME" in line and "setup spark" in line, ended.stderr


# On the cluster


def check_run_returns_what_each_rank_returns(spark):
    def report(a, b=0):
        import starling.torch as hvd

        hvd.init()
        total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
        return hvd.rank(), hvd.size(), a + b + int(total), os.environ["SAID"]

    assert starling.spark.run(report, (1,), {"b": 2}, num_proc=3, env={"SAID": "so"}, spark=spark) == [
        (rank, 3, 6, "so") for rank in range(3)]
    assert starling.spark.run(lambda: 7, num_proc=1, spark=spark) == [7]


def check_what_goes_wrong_is_one_line(spark):
    def fails():
        import starling.torch as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise KeyError("the reason")
        hvd.barrier()

    run = starling.spark.run
    assert error_of(lambda: run(fails, num_proc=3, spark=spark)) == "rank 1: KeyError: 'the reason'"
    assert "there is no system 'nonsense'" in error_of(
        lambda: run(fails, num_proc=2, system="nonsense", spark=spark))
    few = error_of(lambda: run(fails, num_proc=5, start_timeout=1, spark=spark))
    assert few.startswith("5 workers need as many slots, and Spark has 3 after 1 s"), few


def check_another_secret_is_refused(spark):
    order = job.Order(["launch", "--timeout", "5"], [sys.executable, "-c", "import starling; starling.init()"],
                      driver=job.driver_host(spark.sparkContext))

    def task(told):
        if TaskContext.get().partitionId() == 1:
            told = replace(told, secret="f" * 32)
        return job.work(told, job.take_seat(told, 2))

    ends = job.run_stage(spark.sparkContext.parallelize(range(2), 2), order, task)
    assert all(end.status != 0 for end in ends), ends
    assert any("secret" in end.error for end in ends), ends


def made_up(spark, rows=3000):
    """Points of the plane, and which side of a line they are on."""
    points = np.random.default_rng(1).normal(size=(rows, 2))
    rows = [(float(x), [float(y)], int(x > y)) for x, y in points]
    return spark.createDataFrame(rows, "x float, y array<float>, side int")


def estimator(**more):
    torch.manual_seed(1)
    return starling.spark.TorchEstimator(**{
        "model": torch.nn.Linear(2, 2), "optimizer": lambda p: torch.optim.SGD(p, 0.5),
        "loss": torch.nn.functional.cross_entropy, "feature_cols": ["x", "y"], "label_cols": ["side"],
        "epochs": 3, "batch_size": 32, "num_proc": 3, "predict": lambda y: y.argmax(1), **more})


def check_an_estimator_trains_and_predicts(spark):
    df = made_up(spark)
    with tempfile.TemporaryDirectory() as folder:
        for system, kept in (("pairwise", folder), ("horovod", None)):
            model = estimator(system=system, checkpoint=kept).fit(df)
            told = model.transform(df)
            assert told.columns == ["x", "y", "side", "prediction"]
            right = told.where("prediction = side").count() / 3000
            assert right > 0.97, (system, right)
        assert sorted(os.listdir(folder)) == [f"epoch-3-rank-{rank}" for rank in range(3)]
        # There is nothing left to do: the model is the one that was kept.
        again = estimator(checkpoint=folder).fit(df)
        kept = torch.stack([torch.load(f"{folder}/epoch-3-rank-{rank}")["model"]["weight"] for rank in range(3)])
        assert torch.allclose(again.model.weight, kept.mean(0), atol=1e-6)
    raw = replaced(model, predict=None).transform(df)
    assert dict(raw.dtypes)["prediction"] == "array<float>" and len(raw.first()["prediction"]) == 2


def replaced(model, **what):
    given = {name: getattr(model, name) for name in
             ("model", "feature_cols", "input_shape", "output_col", "predict", "width")}
    return starling.spark.TorchModel(**{**given, **what})


def check_an_estimator_takes_vectors_and_optimizers(spark):
    df = VectorAssembler(inputCols=["a", "b"], outputCol="v").transform(
        spark.createDataFrame([(float(i), float(-i), 2.0 * i) for i in range(-20, 21)], "a double, b double, t double"))
    model = torch.nn.Linear(2, 1)
    trained = starling.spark.TorchEstimator(
        model, torch.optim.SGD(model.parameters(), 0.001), torch.nn.functional.mse_loss, "v", "t", epochs=20,
        batch_size=8, num_proc=2, system="horovod").fit(df)
    told = trained.transform(df)
    assert dict(told.dtypes)["prediction"] == "float"
    assert all(abs(row["prediction"] - row["t"]) < 0.5 for row in told.collect())


def check_an_estimator_refuses_what_it_cannot_learn(spark):
    bad = starling.spark.samples.BadColumn
    df = made_up(spark, 2)
    assert "there is no column 'z'; there are x, y, side" in error_of(
        lambda: estimator(feature_cols=["z"]).fit(df), bad)
    text = spark.createDataFrame([("a", 1)], "x string, side int")
    assert "'x' is of string" in error_of(lambda: estimator(feature_cols=["x"]).fit(text), bad)
    few = error_of(lambda: estimator().fit(df.limit(1)))
    assert few.startswith("of 1 rows none came to rank") and "fewer workers" in few, few
    nulls = spark.createDataFrame([(None, 1)] * 9, "x float, side int")
    assert "'x' has rows without a value" in error_of(lambda: estimator(feature_cols=["x"]).fit(nulls))
    vectors = spark.createDataFrame([(None, 1)] * 9, StructType([StructField("x", VectorUDT()),
                                                                 StructField("side", IntegerType())]))
    assert "'x' has rows without a value" in error_of(lambda: estimator(feature_cols=["x"]).fit(vectors))


def check_a_killed_executor_begins_the_stage_anew(spark):
    def once(marker):
        import starling.torch as hvd

        hvd.init()
        if hvd.rank() == 1 and not os.path.exists(marker):
            own = list(ancestors(os.getpid()))
            with open(marker, "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            os.kill(next(process for process, command in own if "ExecutorBackend" in command), signal.SIGKILL)
            time.sleep(600)
        hvd.barrier()
        return hvd.rank()

    with tempfile.TemporaryDirectory() as folder:
        marker = os.path.join(folder, "marker")
        assert starling.spark.run(once, (marker,), num_proc=3, spark=spark) == [0, 1, 2]
        killed = int(Path(marker).read_text())
        await_that(lambda: not is_there(killed), 10)


def check_an_elastic_run_goes_on_without_a_killed_executor(spark):
    """Rank 1 kills its executor; the others go slowly until whoever comes in its place trains, too."""
    def train(folder):
        import starling

        torch.manual_seed(1)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-8)  # squares of up to 900: with more it diverges
        marker, back = f"{folder}/killed", f"{folder}/back"
        came_later = os.path.exists(marker)
        dist = starling.Dist(model)
        samples = torch.utils.data.TensorDataset(torch.arange(900.0).view(-1, 1))
        for epoch in range(3):
            for step, (x,) in enumerate(dist.share(torch.utils.data.DataLoader(samples, 3))):
                if epoch == 0 and step == 7 and dist.rank == 1 and not os.path.exists(marker):
                    own = list(ancestors(os.getpid()))
                    Path(marker).write_text(str(os.getpid()))
                    os.kill(next(process for process, command in own if "ExecutorBackend" in command), signal.SIGKILL)
                    time.sleep(600)
                model(x).pow(2).mean().backward()
                if dist.step(optimizer) and came_later:
                    Path(back).write_text("")
                time.sleep(0.001 if os.path.exists(back) else 0.2)
        dist.finish()
        return model.weight.item(), came_later

    with tempfile.TemporaryDirectory() as folder:
        told = starling.spark.run(train, (folder,), num_proc=3, elastic=True, timeout=10, start_timeout=300, spark=spark)
        killed = int(Path(folder, "killed").read_text())
        await_that(lambda: not is_there(killed), 10)
    assert len(told) == 3 and all(told), told
    assert len({weight for weight, _ in told}) == 1 and [later for _, later in told].count(True) == 1, told


def check_a_program_of_ones_own_runs_under_spark_submit(cluster):
    ended = subprocess.run(
        [starling_program(), "spark-submit", "-n", str(WORKERS), "--master", cluster.url, "--conf",
         "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m", "--", "launch", "--system",
         "easgd", "--", "sh", "-c", f"echo $RANK of $WORLD_SIZE >>{cluster.folder}/own"],
        env=cluster.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert ended.returncode == 0, ended.stdout
    said = sorted(Path(cluster.folder, "own").read_text().splitlines())
    assert said == [f"{rank} of {WORKERS}" for rank in range(WORKERS)], said


def check_an_elastic_job_goes_on_without_a_killed_executor(cluster):
    """The built-in trainer, under spark-submit."""
    run = cluster.folder / "elastic"
    driver = subprocess.Popen(
        [sys.executable, "-m", "starling.spark.submit", str(WORKERS), "--master", cluster.url, "--conf",
         "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m", "--",
         "train", "--data", "synthetic", "--samples", "2000", "--model", "mlp", "--system", "pairwise", "--elastic",
         "--epochs", "30",
         "--run", str(run)],
        env=cluster.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        metrics = Path(f"{run}-machine-0/metrics.jsonl")
        await_that(lambda: metrics.exists() and '"step"' in metrics.read_text(), 180)
        trainers = {process: list(ancestors(process)) for process, _, command in processes()
                    if "starling-trainer" in command.split(" ")[0]}
        victim = next((process for process, above in trainers.items()
                       if any("ExecutorBackend" in each for _, each in above)
                       and any(str(run) in each for _, each in above)
                       and not any("--machine 0 " in each for _, each in above)))
        executor = next(each for each, command in trainers[victim] if "ExecutorBackend" in command)
        os.kill(executor, signal.SIGKILL)
        await_that(lambda: not is_there(victim), 20)
        said = driver.communicate(timeout=400)[0]
        assert driver.returncode == 0 and "averaged model" in said, said
    finally:
        driver.kill()


def main():
    chosen = [(name, check) for name, check in sorted(globals().items()) if name.startswith("check_")
              and (len(sys.argv) == 1 or any(name[6:].startswith(word) for word in sys.argv[1:]))]
    failed = []

    def do(name, check, *given):
        begun = time.monotonic()
        try:
            check(*given)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        ended = "FAILED" if name in failed else "ok"
        print(f"{ended:7} {name} {time.monotonic() - begun:.1f} s", flush=True)

    takes = {name: check.__code__.co_varnames[: check.__code__.co_argcount] for name, check in chosen}
    with tempfile.TemporaryDirectory(prefix="spark-test-") as folder:
        for name, check in chosen:
            if takes[name] in ((), ("folder",)):
                do(name, check, *[folder] * len(takes[name]))
        if all(takes[name] in ((), ("folder",)) for name, _ in chosen):
            return len(failed)
        with Cluster(Path(folder)) as cluster:
            os.environ.update({name: cluster.environment[name] for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")})
            if any(takes[name] == ("spark",) for name, _ in chosen):
                spark = (SparkSession.builder.master(cluster.url).appName("spark_test")
                         .config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
                         .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "3")
                         .config("spark.ui.showConsoleProgress", "false").getOrCreate())
                spark.sparkContext.setLogLevel("OFF")
                for name, check in chosen:
                    if takes[name] == ("spark",):
                        do(name, check, spark)
                spark.stop()
            for name, check in chosen:
                if takes[name] == ("cluster",):
                    do(name, check, cluster)
    return len(failed)


if __name__ == "__main__":
    starling_program()  # says what to do where there is none
    sys.exit(1 if main() else 0)
