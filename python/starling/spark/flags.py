"""Settings as keywords, as flags of the program's."""

from __future__ import annotations

from typing import Any, Mapping


def flags_of(settings: Mapping[str, Any]) -> list[str]:
    """period=16 as --period 16; True as a flag by itself."""
    words: list[str] = []
    for name, value in settings.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words
