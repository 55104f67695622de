"""Where the workers of a job are: what each task of Spark's says of itself, and the order that all see."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass, field
from typing import Any, Sequence

from .. import _session


@dataclass(frozen=True)
class Place:
    """What a task tells the others."""

    task: int  # of the stage
    host: str  # the same for all who reach each other by loopback
    address: str  # as other hosts reach it
    port: int  # free there
    facts: dict[str, Any] = field(default_factory=dict)  # whatever else all must know

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> "Place":
        return Place(**json.loads(text))


def here(task: int, driver: str, network: str = "", **facts: Any) -> Place:
    """Of this process, on that network, or on the card that leads to the driver."""
    address = _session.address_on(network) if network else _session.address_towards(driver)
    return Place(task, _session.here(), address, _free_port(address), facts)


def by_rank(places: Sequence[Place]) -> list[Place]:
    """Tasks of one host side by side, hosts in the order of their first tasks."""
    first: dict[str, int] = {}
    for place in places:
        first[place.host] = min(place.task, first.get(place.host, place.task))
    return sorted(places, key=lambda place: (first[place.host], place.task))


def rendezvous(ranks: Sequence[Place]) -> str:
    """Where they meet: at the first one's, by loopback if they all share its host."""
    first = ranks[0]
    together = all(place.host == first.host for place in ranks)
    address = "127.0.0.1" if together else first.address
    return f"[{address}]:{first.port}" if ":" in address else f"{address}:{first.port}"


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
