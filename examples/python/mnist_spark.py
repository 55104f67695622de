#!/usr/bin/env python3
"""MNIST on Spark: by starling.spark.run with a loop of one's own, or by TorchEstimator from a DataFrame.

    spark-submit --master spark://HOST:7077 examples/python/mnist_spark.py --workers 3
    spark-submit --master spark://HOST:7077 examples/python/mnist_spark.py --workers 3 --system horovod
    spark-submit --master spark://HOST:7077 examples/python/mnist_spark.py --workers 3 --estimator

Without spark-submit, --master says where. All machines need MNIST where `make mnist` puts it (--data), and the
folder in which --estimator keeps it as Parquet (--parquet).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from pyspark.sql import DataFrame, SparkSession
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mnist  # noqa: E402
import starling.spark  # noqa: E402


def train(folder: str, epochs: int, batch: int, lr: float) -> float:
    """What each worker does; returns the share of test images that rank 0 names right."""
    from torch.utils.data import DataLoader, TensorDataset

    import starling

    torch.manual_seed(1)
    model = mnist.Network()
    dist = starling.Dist(model)  # by the system that run() was told
    torch.manual_seed(dist.rank + 1)  # for dropout
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.5)
    loader = DataLoader(TensorDataset(*mnist.load(True, Path(folder))), batch, shuffle=True)
    for epoch in range(epochs):
        for images, labels in dist.share(loader):
            loss = F.nll_loss(model(images), labels)
            loss.backward()
            dist.step(optimizer)
        dist.report(loss=loss.item(), epoch=epoch + 1)
    dist.finish()
    return mnist.accuracy(model, *mnist.load(False, Path(folder))) if dist.rank == 0 else 0.0


def by_function(spark: SparkSession, args: argparse.Namespace) -> float:
    return starling.spark.run(train, (args.data, args.epochs, args.batch, args.lr), spark=spark,
                              num_proc=args.workers, system=args.system, run=args.run)[0]


class Scaled(nn.Module):
    """From bytes to mean 0 and deviation 1."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return (pixels / 255 - 0.1307) / 0.3081


def dataframe(spark: SparkSession, args: argparse.Namespace, is_train: bool) -> DataFrame:
    """MNIST as Parquet, with columns pixels and digit, written at the first call."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    place = Path(args.parquet) / ("train.parquet" if is_train else "test.parquet")
    if not place.exists():
        images, labels = mnist.load(is_train, Path(args.data))
        pixels = ((images * 0.3081 + 0.1307) * 255).round().numpy().astype(np.uint8)
        rows = pa.ListArray.from_arrays(np.arange(0, pixels.size + 1, 784, dtype=np.int32), pixels.ravel())
        place.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pa.table({"pixels": rows, "digit": labels.numpy()}), place)
    return spark.read.parquet(str(place))


def by_estimator(spark: SparkSession, args: argparse.Namespace) -> float:
    torch.manual_seed(1)
    estimator = starling.spark.TorchEstimator(
        model=nn.Sequential(Scaled(), mnist.Network()),
        optimizer=lambda parameters: torch.optim.SGD(parameters, args.lr, momentum=0.5),
        loss=F.nll_loss, feature_cols=["pixels"], label_cols=["digit"], input_shape=(1, 28, 28),
        epochs=args.epochs, batch_size=args.batch, num_proc=args.workers, system=args.system,
        predict=lambda y: y.argmax(1), run=args.run)
    model = estimator.fit(dataframe(spark, args, True))
    predicted = model.transform(dataframe(spark, args, False))
    return predicted.where("prediction = digit").count() / predicted.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", help="e.g. spark://127.0.0.1:7077 or local[3]")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--system", default="pairwise", help="see `starling systems`")
    parser.add_argument("--estimator", action="store_true", help="train from a DataFrame")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--data", default=str(mnist.FOLDER))
    parser.add_argument("--parquet", default=str(mnist.FOLDER))
    parser.add_argument("--run", help="keep metrics, bytes and a summary in FOLDER-machine-RANK")
    args = parser.parse_args()

    builder = SparkSession.builder.appName("mnist_spark")
    spark = (builder.master(args.master) if args.master else builder).getOrCreate()
    spark.sparkContext.addPyFile(mnist.__file__)
    begun = time.monotonic()
    try:
        right = by_estimator(spark, args) if args.estimator else by_function(spark, args)
    except starling.spark.JobFailed as error:
        sys.exit(f"error: {error}")
    print(f"{args.system}, {args.workers} workers on Spark: {100 * right:.2f} % right, "
          f"{time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
