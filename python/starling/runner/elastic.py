"""Horovod's words for jobs whose workers come and go, in those of `starling launch`."""

from __future__ import annotations

from typing import Optional, Sequence

_RESTARTS = 100  # of processes that fail, where nobody says how often workers may come and go
_MOST = 1024  # of processes on one machine


def elastic_words(
    num_proc: int,
    min_num_proc: Optional[int],
    max_num_proc: Optional[int],
    reset_limit: Optional[int] = None,
    script: Optional[str] = None,
    slots: Optional[int] = None,
    cooldown: Optional[Sequence[int]] = None,
) -> list[str]:
    """What `starling launch` is told of an elastic job; nothing if it is not one. Raises ValueError on
    numbers that cannot be.

    A script has as many processes as it names slots, unless max_num_proc is less."""
    if min_num_proc is None and max_num_proc is None and script is None:
        return []
    least = num_proc if min_num_proc is None else min_num_proc
    most = max_num_proc
    if most is None:
        most = num_proc if script is None else _MOST
    if not 1 <= least <= num_proc <= most:
        raise ValueError(f"between {least} and {most} processes, and {num_proc} to begin with, "
                         "cannot be")
    words = ["--elastic", "--min-workers", str(least), "--max-workers", str(most)]
    words += ["--restarts", str(_RESTARTS if reset_limit is None else reset_limit)]
    if reset_limit is not None:
        words += ["--reset-limit", str(reset_limit)]
    if script is None:
        return words
    words += ["--host-discovery-script", script]
    if slots is not None:
        words += ["--slots-per-host", str(slots)]
    if cooldown is not None:
        words += ["--blacklist-cooldown", str(cooldown[0]), str(cooldown[1])]
    return words
