"""Functions in threads of their own."""

from __future__ import annotations

import contextlib
import threading
from typing import Callable, Optional


def in_thread(target: Callable, args: tuple = (), name: Optional[str] = None, daemon: bool = True,
              silent: bool = False) -> threading.Thread:
    """Calls target(*args) in a thread, which it returns; if silent, nobody hears of its errors."""
    if not isinstance(args, tuple):
        raise ValueError(f"args is a tuple, (x,) for a single argument, not {args!r}")

    def call() -> None:
        with contextlib.suppress(Exception) if silent else contextlib.nullcontext():
            target(*args)

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread
