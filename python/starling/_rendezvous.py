"""How the ranks of a process group find each other: through torch's store, or, where workers come and
go, by the launcher's word."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from datetime import timedelta
from typing import Optional

import torch
import torch.distributed as dist

from . import _core, _launchers, _session
from ._tensors import byte_memory
from .common.exceptions import HasLeft

WORLD, GROUP = "init_process_group", "a group by itself"  # by whom a session is opened


def meet(store, rank: int, size: int, timeout: timedelta, opener: str = GROUP):
    """The session, the group's ranks in it, and its number there.

    A. Everybody puts into the store which session it has, its rank there, and which group numbers
       it uses.
    B. If all have the same one, the group is some of its ranks, and has the first number that none of
       them uses.
    C. Otherwise they open a new session: rank 0 listens and puts its address into the store, and what
       the session's secret is made of.

    Anybody may read the store: a launcher's secret is not in it.
    """
    session = _session.current()
    if session is not None and not dist.is_initialized():
        is_over = session.opened_by == GROUP and session.numbers_in_use() == {0}
        if is_over or session.opened_by == WORLD:
            # Of a world that was destroyed. Whoever was lost in it is no loss to the next one.
            session.close()
            session = None
    own = {"token": "", "rank": -1, "numbers": [], "host": _session.here()}
    if session is not None:
        own["token"], own["rank"] = session.token, session.rank
        own["numbers"] = sorted(session.numbers_in_use())
    store.set(f"starling/{rank}", json.dumps(own))
    everybody = [json.loads(store.get(f"starling/{r}")) for r in range(size)]
    tokens = {each["token"] for each in everybody}
    if len(tokens) == 1 and "" not in tokens:
        used = set().union(*(each["numbers"] for each in everybody))
        number = next((n for n in range(_session.FIRST_NUMBER, _core.GROUPS) if n not in used), None)
        if number is None:
            most = _core.GROUPS - _session.FIRST_NUMBER
            raise RuntimeError(f"starling has no more than {most} groups at a time")
        return session, [each["rank"] for each in everybody], number

    listen_fd = -1
    if rank == 0:
        address = "127.0.0.1"
        if len({each["host"] for each in everybody}) > 1:
            known = os.environ.get("MASTER_ADDR", socket.gethostname())
            address = _session.address_towards(known)
        listen_fd, port = _session.listen(address)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        store.set("starling/rendezvous", json.dumps([place, secrets.token_hex(16)]))
    place, token = json.loads(store.get("starling/rendezvous"))
    secret = _launchers.keyed(token)
    core = _core.Core(
        rank, size, place, secret, max(1, int(timeout.total_seconds())), listen_fd
    )
    session = _session.adopt(core, token, opened_by=opener)
    return session, list(range(size)), _session.FIRST_NUMBER


_elastic: Optional[_core.Core] = None  # from one generation to the next
_STORE_NUMBER = _core.GROUPS - 1  # of the group that is told where torch's store is


def _meet_generation(timeout: timedelta):
    """Those who are there now, and a store that rank 0 of them serves."""
    global _elastic
    if _elastic is None:
        _elastic = _core.Core.from_environment(at_once=False)
        _session.leave_on_sigterm()
    elif not _elastic.next_generation():
        raise HasLeft
    rank, size = _elastic.rank, _elastic.size
    token = _launchers.keyed(f"generation {_elastic.generation}")
    _session.adopt(_elastic, token, opened_by="an elastic job")
    host = _launchers.first_host()
    place = torch.zeros(64, dtype=torch.uint8)
    store = None
    if rank == 0:
        address = _session.address_towards(host)
        store = dist.TCPStore(address, 0, size, True, timeout, wait_for_workers=False)
        said = f"{address} {store.port}".encode()
        place[: len(said)] = torch.tensor(list(said), dtype=torch.uint8)
    group = _core.Group(_elastic, list(range(size)), _STORE_NUMBER)
    group.broadcast(byte_memory(place), 0).wait()
    if store is None:
        host, port = bytes(place.tolist()).rstrip(b"\0").decode().split()
        store = dist.TCPStore(host, int(port), size, False, timeout, wait_for_workers=False)
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(size)
    return store, rank, size


def _rendezvous(url: str, timeout: timedelta = timedelta(minutes=30), **_):
    while True:
        try:
            yield _meet_generation(timeout)
            return
        except _core.PeerLost:  # before they knew each other
            continue


def know_elastic_jobs() -> None:
    """There env:// must not believe what the launcher said before anybody was lost."""
    if "STARLING_SIZE" in os.environ and _core.is_elastic_job():
        sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers["env"] = _rendezvous


def wants_change() -> bool:
    """Whether this rank knows of somebody who waits to be let in, or to go."""
    if _session.asked_to_leave():
        _elastic.leave()
    return _elastic.wants_change()


def is_elastic() -> bool:
    return _elastic is not None
