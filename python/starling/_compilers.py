"""Keeps torch.compile away from Starling's own functions.

While a compiled program runs, torch looks at every Python function that is called in it, and compiles
that, too: also ours, which DistributedDataParallel calls from C++. What they do with addresses of memory
it cannot compile, and fails.
"""

from __future__ import annotations

import functools
import importlib
import sys

import torch


def leave_us_out() -> None:
    """Of all that is compiled from now on. The compiler takes seconds to import, and most need it not."""
    if not hasattr(torch, "compile"):  # before torch 2.0
        return
    if "torch._dynamo" in sys.modules:
        _skip_starling()
    theirs = torch.compile

    @functools.wraps(theirs)
    def compile(*given, **named):  # noqa: A001
        _skip_starling()
        return theirs(*given, **named)

    torch.compile = compile


@functools.lru_cache(maxsize=None)
def _skip_starling() -> None:
    for name in ("trace_rules", "skipfiles"):  # the latter before torch 2.3
        try:
            rules = importlib.import_module(f"torch._dynamo.{name}")
        except ImportError:
            continue
        if hasattr(rules, "add"):
            return rules.add("starling")
