"""The types of elements that the core reduces, by the names that torch and numpy have for them."""

from __future__ import annotations

from . import _core

ELEMENTS = {
    name: _core.ELEMENTS.index(element)
    for name, element in {
        "float32": "f32",
        "float64": "f64",
        "float16": "f16",
        "bfloat16": "bf16",
        "uint8": "u8",
        "int8": "i8",
        "int16": "i16",
        "int32": "i32",
        "int64": "i64",
        "bool": "bool",
    }.items()
}
