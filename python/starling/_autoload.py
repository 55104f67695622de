"""What newer versions of torch call when they are imported (entry point group torch.backends)."""

from __future__ import annotations

import warnings


def register() -> None:
    """Registers the backend, so that init_process_group("starling") needs no import of ours."""
    try:
        import torch.distributed as dist

        if dist.is_available():
            from . import torch_backend  # noqa: F401
    except Exception as error:  # must not keep anybody from importing torch
        warnings.warn(f"torch.distributed has no backend 'starling': {error}")
