"""Where `starling`, the program that launches, is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def starling_program() -> str:
    """STARLING_PROGRAM, or beside the package, or in the build tree that it is in, or on the PATH."""
    named = os.environ.get("STARLING_PROGRAM")
    if named:
        return named
    package = Path(__file__).parent.parent
    # As it was imported, which in a build tree is a folder of links.
    for above in (package, Path(os.path.abspath(__import__("starling").__file__)).parent):
        for place in (above / "bin" / "starling", above.parent.parent / "bin" / "starling"):
            if place.is_file() and os.access(place, os.X_OK):
                return str(place)
    found = shutil.which("starling")
    if found:
        return found
    raise FileNotFoundError(
        "the program `starling` is neither beside the package nor on the PATH; set STARLING_PROGRAM"
    )
