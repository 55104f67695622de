"""TorchEstimator: a model of torch's trained on a DataFrame, as a stage of Spark's ML pipelines."""

from __future__ import annotations

import io
import json
import os
import tempfile
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np
import pyarrow as pa
import torch
from pyspark import cloudpickle
from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame
from pyspark.sql import types as sql

from ..runner import functions
from . import job
from .checkpoint import Checkpoint
from .flags import flags_of
from .place import rendezvous
from .run import results, work
from .samples import BadColumn, Samples, columns_of, label_type, matrix, spool, wrong_with

_FOLDER = "STARLING_SPARK_SAMPLES"  # where a worker's samples are
_ROWS_AT_ONCE = 256  # of the 10,000 that Spark hands over: of all, a layer's values may not fit in memory


class TorchEstimator(Estimator):
    """Trains a model by any of Starling's systems, one worker a task of Spark's.

    model            a torch.nn.Module
    optimizer        one of its parameters, or what makes one of them: lambda p: torch.optim.SGD(p, 0.05)
    loss             of the model's output and the labels
    feature_cols     columns of numbers, arrays of them or vectors; side by side they are a row's features
    label_cols       likewise; one column of integers stays one of integers (torch.long)
    input_shape      of a row's features, e.g. (1, 28, 28); by default as many numbers as there are
    output_col       what transform() adds
    predict          what it takes of the model's output: lambda y: y.argmax(1)
    checkpoint       a folder that all executors see: a stage that Spark starts again goes on there, and so
                     does another fit(), which wants a folder of its own if its data is another
    everything else  a flag of `starling launch`, with _ for -

    Rows go from partitions to workers by Spark's shuffle, and onto the executor's disk in chunks: neither the
    driver nor a worker holds them in memory. All workers take as many batches an epoch; where their
    numbers of rows differ, some rows come twice.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        loss: Callable,
        feature_cols: Sequence[str],
        label_cols: Sequence[str],
        epochs: int = 1,
        batch_size: int = 64,
        num_proc: int = 4,
        system: Optional[str] = "pairwise",
        *,
        input_shape: Optional[Sequence[int]] = None,
        output_col: str = "prediction",
        predict: Optional[Callable] = None,
        seed: int = 1,
        checkpoint: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        start_timeout: float = 60,
        **settings: Any,
    ):
        super().__init__()
        for name, value in {"epochs": epochs, "batch_size": batch_size, "num_proc": num_proc}.items():
            if value < 1:
                raise ValueError(f"{name}={value} cannot be")
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.feature_cols, self.label_cols = _names(feature_cols), _names(label_cols)
        self.epochs, self.batch_size, self.num_proc = epochs, batch_size, num_proc
        self.input_shape, self.output_col, self.predict = input_shape, output_col, predict
        self.seed, self.checkpoint, self.env, self.start_timeout = seed, checkpoint, env, start_timeout
        if settings.get("elastic"):
            raise ValueError("elastic: rows belong to their worker here; give a checkpoint folder instead")
        self.words = ["launch", *flags_of({"system": system, "seed": seed, **settings})]

    def _fit(self, df: DataFrame) -> "TorchModel":
        features, labels = self.feature_cols, self.label_cols
        columns = columns_of(df, features + labels)
        labels_type = label_type(df, labels)
        context = df.sparkSession.sparkContext
        job.wait_for_slots(context, self.num_proc, self.start_timeout)
        order = job.Order(self.words, environment=dict(self.env or {}), driver=job.driver_host(context))
        call = cloudpickle.dumps((_train, (self._training(labels_type),), {}))

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            end = functions.dumps(_task(batches, order, call, features, labels, labels_type))
            yield pa.RecordBatch.from_pydict({"end": pa.array([end], pa.binary())})

        rows = df.select(*columns).repartition(self.num_proc)
        try:
            # As in job.run_stage, behind a shuffle.
            ends = rows.mapInArrow(task, "end binary", barrier=True).repartition(1).collect()
        except Exception as error:
            raise job.explain(error) from None
        trained, width = results([functions.loads(bytes(row["end"])) for row in ends])[0]
        model = cloudpickle.loads(cloudpickle.dumps(self.model))
        model.load_state_dict(torch.load(io.BytesIO(trained)))
        return TorchModel(model, features, self.input_shape, self.output_col, self.predict, width)

    def _training(self, labels_type: str) -> dict[str, Any]:
        # In one pickle, so that the optimizer's parameters stay the model's.
        return {
            "model": self.model, "optimizer": self.optimizer, "loss": self.loss,
            "epochs": self.epochs, "batch_size": self.batch_size, "seed": self.seed,
            "input_shape": self.input_shape, "labels_type": labels_type,
            "checkpoint": self.checkpoint,
        }


class TorchModel(Model):
    """A trained model, `model`; transform() adds a column with what it predicts."""

    def __init__(self, model: torch.nn.Module, feature_cols: Sequence[str],
                 input_shape: Optional[Sequence[int]] = None, output_col: str = "prediction",
                 predict: Optional[Callable] = None, width: Optional[int] = None):
        super().__init__()
        self.model, self.feature_cols, self.input_shape = model.eval(), _names(feature_cols), input_shape
        self.output_col, self.predict, self.width = output_col, predict, width

    def _transform(self, df: DataFrame) -> DataFrame:
        if self.output_col in df.columns:
            raise BadColumn(f"there is a column '{self.output_col}' already: choose another output_col")
        # Features as numbers stand behind the columns as they were, which may be anything.
        inputs = [f"{self.output_col} of {name}" for name in self.feature_cols]
        numbers = [column.alias(name) for column, name in
                   zip(columns_of(df, self.feature_cols), inputs)]
        output = _output_field(self)
        known = df.sparkSession.sparkContext.broadcast(
            cloudpickle.dumps((self.model, self.input_shape, self.predict)))
        arrow = pa.float32() if output.dataType == sql.FloatType() else (
            pa.int64() if output.dataType == sql.LongType() else pa.list_(pa.float32()))
        names = [*df.columns, output.name]

        def predict(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            model, shape, choose = cloudpickle.loads(known.value)
            for batch in batches:
                values = _predicted(model, choose, _tensor(matrix(batch, inputs, "float32"), shape))
                column = pa.array(values.tolist() if values.ndim > 1 else values, arrow)
                kept = [batch.column(i) for i in range(batch.num_columns - len(inputs))]
                yield pa.RecordBatch.from_arrays([*kept, column], names=names)

        schema = sql.StructType([*df.schema.fields, output])
        return df.select("*", *numbers).mapInArrow(predict, schema)


def _names(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _tensor(rows: np.ndarray, shape: Optional[Sequence[int]]) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(rows))
    return tensor if shape is None else tensor.view(len(rows), *shape)


@torch.no_grad()
def _predicted(model: torch.nn.Module, choose: Optional[Callable], x: torch.Tensor) -> np.ndarray:
    choose = choose or (lambda y: y)
    y = torch.cat([choose(model(part)).reshape(len(part), -1) for part in x.split(_ROWS_AT_ONCE)])
    y = y[:, 0] if y.shape[1] == 1 else y
    return (y.float() if y.is_floating_point() else y.long()).numpy()


def _output_field(trained: TorchModel) -> sql.StructField:
    """What the model gives for a row decides the type of the column."""
    if trained.width is None:
        raise BadColumn("how many features a row has is not known: give TorchModel its width")
    row = _tensor(np.zeros((1, trained.width), "float32"), trained.input_shape)
    example = _predicted(trained.model, trained.predict, row)
    one = sql.FloatType() if example.dtype == np.float32 else sql.LongType()
    return sql.StructField(trained.output_col, one if example.ndim == 1 else sql.ArrayType(sql.FloatType()))


# In a task of Spark's


def _task(batches: Iterator[pa.RecordBatch], order: job.Order, call: bytes, features: list[str],
          labels: list[str], labels_type: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="starling-", dir=job.scratch()) as folder:
        wrong = ""
        try:
            facts: dict[str, Any] = spool(batches, folder, features, labels, labels_type)
        except BadColumn as error:  # to be said by all, and not tried again
            facts, wrong = {"rows": 0, "features": 0, "labels": 0}, str(error)
        ranks = job.gather(order, wrong=wrong, **facts)
        seat = job.Seat(job.rank_among(ranks), len(ranks), rendezvous(ranks))
        if wrong := wrong_with([each.facts for each in ranks]):
            return job.End(seat.rank, 1, wrong), None
        most = max(each.facts["rows"] for each in ranks)
        with open(os.path.join(folder, "facts"), "w", encoding="utf-8") as file:
            json.dump({**facts, "most_rows": most}, file)
        return work(order.with_variable(_FOLDER, folder), seat, call)


# In a worker


def _train(training: Mapping[str, Any]) -> tuple[bytes, int]:
    """Of rank 0 the weights that all agreed on; of all how many features a row has."""
    import starling

    folder = os.environ[_FOLDER]
    with open(os.path.join(folder, "facts"), encoding="utf-8") as file:
        facts = json.load(file)
    samples = Samples(folder, facts, training["labels_type"])
    batch, model, loss = training["batch_size"], training["model"], training["loss"]
    count = -(-facts["most_rows"] // batch)
    optimizer = training["optimizer"]
    if not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(model.parameters())
    dist = starling.Dist(model)
    torch.manual_seed(training["seed"] + dist.rank)
    model.train()
    past = Checkpoint(training["checkpoint"], dist)
    for epoch in range(past.restore(model, optimizer), training["epochs"]):
        seed = (training["seed"], dist.rank, epoch)
        for features, labels in samples.batches(batch, count, seed):
            y = torch.from_numpy(labels)
            y = y.view(-1) if y.dtype == torch.long else y
            last = loss(model(_tensor(features, training["input_shape"])), y)
            last.backward()
            dist.step(optimizer)
        dist.report(loss=last.item(), epoch=epoch + 1)
        past.keep(model, optimizer, epoch + 1)
    dist.finish()
    buffer = io.BytesIO()
    if dist.rank == 0:
        torch.save(model.state_dict(), buffer)
    return buffer.getvalue(), facts["features"]
