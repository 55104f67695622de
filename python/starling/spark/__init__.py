"""Starling on Spark: its executors' slots are workers.

    results = starling.spark.run(train, args=(3,), num_proc=4, system="pairwise")
    model = starling.spark.TorchEstimator(model, optimizer, loss, ["pixels"], ["digit"]).fit(df)
    model.transform(df)
"""

from __future__ import annotations

from typing import Any

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        "starling.spark needs PySpark 3.5 or later: run `scripts/setup spark`, or `pip install pyspark`"
    ) from error

from .job import JobFailed
from .run import run

__all__ = ["JobFailed", "TorchEstimator", "TorchModel", "run"]


def __getattr__(name: str) -> Any:
    if name not in ("TorchEstimator", "TorchModel"):
        raise AttributeError(f"module 'starling.spark' has no attribute '{name}'")
    from . import estimator  # which needs torch

    return getattr(estimator, name)
