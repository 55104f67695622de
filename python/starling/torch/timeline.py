"""What rank 0 has waited for and exchanged, as a file that chrome://tracing shows."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Optional

from ..common import world as _world


class _Timeline:
    def __init__(self, path: str, mark_cycles: bool):
        self.path = path
        self.file = open(path, "w", encoding="utf-8")
        self.mark_cycles = mark_cycles
        self.rows: dict[str, int] = {}
        self.file.write("[\n")
        # The core's clock counts from anywhere; the first event tells where it stood at which time.
        self.write({
            "name": "start", "ph": "M", "pid": 0,
            "args": {"start_time_since_epoch_in_micros": time.time_ns() // 1000},
        }, first=True)
        self.file.flush()  # so that it can be looked at while it is written

    def write(self, event: dict, first: bool = False) -> None:
        self.file.write(("" if first else ",\n") + json.dumps(event))

    def row(self, title: str) -> int:
        if title not in self.rows:
            self.rows[title] = len(self.rows) + 1
            self.write({"name": "process_name", "ph": "M", "pid": self.rows[title],
                        "args": {"name": title}})
        return self.rows[title]

    def note(self, exchange) -> None:
        asked, begun, over = (seconds * 1e6 for seconds in exchange.times)
        act = exchange.act.upper()
        row = self.row(f"{exchange.act}.{exchange.name}")
        if self.mark_cycles:
            self.write({"name": "CYCLE_START", "ph": "i", "ts": asked, "pid": 0, "s": "g"})
        for name, begin, end in ((f"NEGOTIATE_{act}", asked, begun), (act, begun, over)):
            self.write({"name": name, "ph": "X", "ts": begin, "dur": end - begin, "pid": row})
        self.file.flush()

    def close(self) -> None:
        self.file.write("\n]\n")
        self.file.close()


_lock = threading.Lock()
_open: Optional[_Timeline] = None


def start(file_path: str, mark_cycles: bool = False) -> None:
    """Begins to record; rank 0 writes the file. What is recorded is what is synchronized.

    A recording under way ends; or goes on, if it is of that file.
    """
    global _open
    is_ours = _world.world().rank == 0
    with _lock:
        if _open is not None and _open.path == file_path:
            _open.mark_cycles = mark_cycles
            return
        ended, _open = _open, _Timeline(file_path, mark_cycles) if is_ours else None
    if ended is not None:
        ended.close()


def stop() -> None:
    """Ends the recording, if there is one."""
    _world.world()  # there must be one
    close()


def close() -> None:
    global _open
    with _lock:
        ended, _open = _open, None
    if ended is not None:
        ended.close()


def start_from_environment() -> None:
    """HOROVOD_TIMELINE is a file, or DYNAMIC: only start() begins."""
    path = os.environ.get("HOROVOD_TIMELINE")
    if path and path != "DYNAMIC" and _open is None:
        start(path, os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES") == "1")


def note(exchange) -> None:
    if _open is None:
        return
    with _lock:
        if _open is not None:
            _open.note(exchange)
