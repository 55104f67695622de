"""Where `starling`, the program that launches, is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import starling


def starling_program() -> str:
    """STARLING_PROGRAM, or beside Python's own scripts, in the build tree of the package, or on the
    PATH."""
    named = os.environ.get("STARLING_PROGRAM")
    if named:
        return named
    # As it was imported, which in a build tree is a folder of links.
    package = Path(os.path.abspath(starling.__file__)).parent
    for folder in (Path(sysconfig.get_path("scripts")), package.parent.parent / "bin"):
        place = folder / "starling"
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("starling")
    if found:
        return found
    raise FileNotFoundError(
        "the program `starling` is neither beside the package nor on the PATH; set STARLING_PROGRAM"
    )
