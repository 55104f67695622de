"""What each process of a job prints, in files of its own beside the console: FOLDER/rank.N/stdout and
stderr."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from typing import BinaryIO, Mapping, Optional, Sequence

_OF_RANK = re.compile(rb"\[(\d+)\] (.*)", re.DOTALL)  # as `starling launch` prints it


class _Files:
    def __init__(self, folder: str, processes: int):
        self._folder = folder
        self._digits = len(str(processes - 1))
        self._open: dict[tuple[int, str], BinaryIO] = {}
        for rank in range(processes):
            for name in ("stdout", "stderr"):
                self._file(rank, name)

    def put(self, line: bytes, name: str) -> None:
        match = _OF_RANK.match(line)
        if match:
            file = self._file(int(match[1]), name)
            file.write(match[2])
            file.flush()

    def _file(self, rank: int, name: str) -> BinaryIO:
        if (rank, name) not in self._open:
            folder = os.path.join(self._folder, f"rank.{rank:0{self._digits}}")
            os.makedirs(folder, exist_ok=True)
            self._open[rank, name] = open(os.path.join(folder, name), "wb")
        return self._open[rank, name]

    def close(self) -> None:
        for file in self._open.values():
            file.close()


class Relayed:
    """A launcher whose lines go to where it would have put them, and into files."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str,
                 processes: int, shows_errors: bool = True):
        self._files = _Files(folder, processes)
        self.said: list[bytes] = []  # on stderr
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self._threads = [
            threading.Thread(target=self._relay, args=(self.process.stdout, 1, "stdout")),
            threading.Thread(target=self._relay, args=(self.process.stderr,
                                                       2 if shows_errors else None, "stderr")),
        ]
        for thread in self._threads:
            thread.start()

    def _relay(self, stream: BinaryIO, console: Optional[int], name: str) -> None:
        for line in stream:
            if console is not None:
                os.write(console, line)
            if name == "stderr":
                self.said.append(line)
            self._files.put(line, name)

    def wait(self) -> int:
        for thread in self._threads:
            thread.join()
        self._files.close()
        return self.process.wait()
