"""What this installation of Starling is, and what it has found.

    python3 -m starling.info
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from typing import Optional

from . import _core


def _version_of(module: str) -> Optional[str]:
    try:
        return importlib.import_module(module).__version__
    except ImportError:
        return None


def _backends() -> list[str]:
    """The backends of torch.distributed, ours among them if it can be used."""
    try:
        import torch.distributed as dist

        from . import torch_backend  # noqa: F401
    except ImportError:
        return []
    known = getattr(dist.Backend, "backend_list", None)
    if known is None:  # before torch 2.0
        known = ["gloo", "mpi", "nccl", *(name.lower() for name in dist.Backend._plugins)]
    usable = {
        "gloo": lambda: getattr(dist, "is_gloo_available", lambda: True)(),
        "mpi": dist.is_mpi_available,
        "nccl": dist.is_nccl_available,
        "ucc": lambda: getattr(dist, "is_ucc_available", lambda: False)(),
        "xccl": lambda: getattr(dist, "is_xccl_available", lambda: False)(),
        "undefined": lambda: False,
    }
    return [name for name in dict.fromkeys(known) if usable.get(name, lambda: True)()]


def information() -> dict[str, object]:
    """Versions, and the backends that torch.distributed has here."""
    return {
        "starling": _core.VERSION,
        "built_with": _core.BUILT_WITH,
        "core": _core.__file__,
        "python": platform.python_version(),
        "torch": _version_of("torch"),
        "numpy": _version_of("numpy"),
        "backends": _backends(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m starling.info",
        description="Prints what this installation of Starling is, and what it has found.",
        epilog="example: python3 -m starling.info --json",
    )
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    as_json = parser.parse_args().json
    found = information()
    if as_json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        if isinstance(value, list):
            value = ", ".join(value)
        print(f"{name.replace('_', ' '):<11} {value or 'not found'}")


if __name__ == "__main__":
    main()
