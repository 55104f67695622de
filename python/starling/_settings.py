"""Settings as keywords."""

from __future__ import annotations

import json
import numbers
from typing import Any

from . import _core


def toml(settings: dict[str, Any]) -> str:
    """The same as the text of a settings file."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, (bool, str)):
            text = json.dumps(value)
        elif isinstance(value, numbers.Integral):
            text = str(int(value))
        elif isinstance(value, numbers.Real):
            text = repr(float(value))
        else:
            raise _core.Error(f"{name} = {value!r} cannot be; a setting is a number, a text or a bool")
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
