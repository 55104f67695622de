"""Horovod's words for where processes run."""

from __future__ import annotations

import socket
from typing import Optional


def parse_hosts(text: str) -> list[tuple[str, int]]:
    """"a:2,b:4" as [("a", 2), ("b", 4)]; one process where no number is given."""
    found = []
    for word in text.split(","):
        name, _, slots = word.strip().partition(":")
        if not name or (slots and not slots.isdigit()):
            raise ValueError(f"'{word}' is no host:slots")
        found.append((name, int(slots or 1)))
    return found


def parse_hostfile(path: str) -> list[tuple[str, int]]:
    """Lines "a slots=2"."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if not words:
                continue
            slots = [word[6:] for word in words[1:] if word.startswith("slots=")]
            if len(slots) > 1 or (slots and not slots[0].isdigit()):
                raise ValueError(f"'{line.strip()}' in {path} is no line 'host slots=number'")
            found.append((words[0], int(slots[0]) if slots else 1))
    return found


def host_flags(hosts: Optional[str], hostfile: Optional[str], processes: int) -> list[str]:
    """What `starling launch` is to be told of them. Raises ValueError if there are too few slots."""
    if hosts is None and hostfile is None:
        return []
    found = parse_hosts(hosts) if hosts is not None else parse_hostfile(hostfile)
    slots = sum(count for _, count in found)
    if slots < processes:
        raise ValueError(f"{processes} processes, and only {slots} slots")
    if all(is_here(name) for name, _ in found):
        return []
    return ["--hosts", ",".join(f"{name}:{count}" for name, count in found)]


def is_here(name: str) -> bool:
    return name in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn())
