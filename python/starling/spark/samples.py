"""Samples of a DataFrame's partition, spooled to files of one row after the other, so that no worker needs to
hold its share in memory.

    folder/features   32-bit floats, the feature columns of a row side by side
    folder/labels     64-bit integers where there is one label and it is an integer, else 32-bit floats
"""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as sql
from pyspark.sql.functions import col, when


class BadColumn(ValueError):
    """What of a DataFrame cannot be numbers, in one line."""


def columns_of(df: DataFrame, names: Sequence[str]) -> list[Column]:
    """Those columns, as numbers and arrays of numbers."""
    return [_as_numbers(df, name) for name in names]


def label_type(df: DataFrame, names: Sequence[str]) -> str:
    one = len(names) == 1 and isinstance(_field(df, names[0]).dataType, sql.IntegralType)
    return "int64" if one else "float32"


def _field(df: DataFrame, name: str) -> sql.StructField:
    if name not in df.columns:
        raise BadColumn(f"there is no column '{name}'; there are {', '.join(df.columns)}")
    return df.schema[name]


def _as_numbers(df: DataFrame, name: str) -> Column:
    kind = _field(df, name).dataType
    if isinstance(kind, VectorUDT):
        # Of one that is not there it would end in a trace of Spark's own.
        vector = col(f"`{name}`")
        return when(vector.isNotNull(), vector_to_array(vector, "float32")).alias(name)
    item = kind.elementType if isinstance(kind, sql.ArrayType) else kind
    if isinstance(item, sql.DecimalType):
        return col(f"`{name}`").cast("array<double>" if item is not kind else "double").alias(name)
    if isinstance(item, (sql.NumericType, sql.BooleanType)):
        return col(f"`{name}`")
    raise BadColumn(f"column '{name}' is of {kind.simpleString()}: give numbers, arrays of them, or vectors")


def matrix(batch: pa.RecordBatch, names: Sequence[str], dtype: str) -> np.ndarray:
    """The columns of a batch side by side."""
    return np.concatenate([_flat(batch, name, dtype) for name in names], axis=1)


def _flat(batch: pa.RecordBatch, name: str, dtype: str) -> np.ndarray:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        raise BadColumn(f"column '{name}' has rows without a value: drop or fill them")
    rows = len(column)
    if pa.types.is_list(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        if rows and (lengths != lengths[0]).any():
            raise BadColumn(f"the arrays of column '{name}' are not of one length")
        column = column.flatten()
        if column.null_count:
            raise BadColumn(f"arrays of column '{name}' have places without a value")
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(dtype, copy=False).reshape(rows, -1)


def spool(batches: Iterable[pa.RecordBatch], folder: str, features: Sequence[str],
          labels: Sequence[str], labels_type: str) -> dict[str, int]:
    """Writes them, and says how many rows there are, and how many features and labels a row has."""
    rows, widths = 0, [0, 0]
    kinds = [("features", features, "float32"), ("labels", labels, labels_type)]
    files = [open(os.path.join(folder, name), "wb") for name, _, _ in kinds]
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            for i, (_, names, dtype) in enumerate(kinds):
                part = matrix(batch, names, dtype)
                if rows and part.shape[1] != widths[i]:
                    raise BadColumn(f"rows differ: {widths[i]} numbers in one, {part.shape[1]} in another")
                widths[i] = part.shape[1]
                np.ascontiguousarray(part).tofile(files[i])
            rows += batch.num_rows
    finally:
        for file in files:
            file.close()
    return {"rows": rows, "features": widths[0], "labels": widths[1]}


def wrong_with(facts: Sequence[Mapping[str, Any]]) -> str:
    """Why workers with those shares cannot train, in one line; nothing if they can."""
    for each in facts:
        if each["wrong"]:
            return each["wrong"]
    rows = [each["rows"] for each in facts]
    if min(rows) == 0:
        return f"of {sum(rows)} rows none came to rank {rows.index(0)} of {len(rows)}: ask for fewer workers"
    for name in ("features", "labels"):
        widths = sorted({each[name] for each in facts})
        if len(widths) > 1:
            return f"rows differ: {widths[0]} {name} in one, {widths[-1]} in another"
    return ""


class Samples:
    """What was spooled, in batches of a new order each time."""

    def __init__(self, folder: str, facts: dict[str, int], labels_type: str):
        shape = (facts["rows"], facts["features"])
        self.features = np.memmap(os.path.join(folder, "features"), "float32", "r", shape=shape)
        shape = (facts["rows"], facts["labels"])
        self.labels = np.memmap(os.path.join(folder, "labels"), labels_type, "r", shape=shape)

    def batches(self, size: int, count: int, seed: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """So many, all of that size or, of fewer rows, of theirs; some rows come twice where there are not
        enough."""
        order = np.random.default_rng(seed).permutation(len(self.features))
        order = np.resize(order, size * count) if len(order) < size * (count - 1) + 1 else order
        for at in range(0, count * size, size):
            rows = np.sort(order[at : at + size])  # the disk likes one direction
            yield self.features[rows], self.labels[rows]
