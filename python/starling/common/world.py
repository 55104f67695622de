"""The job of this process as Horovod's programs see it: who is in it, and its process sets."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import json
import os
import pickle
import secrets
import socket
import sys
from typing import Iterable, Optional, Sequence, Union

from .. import _core, _launchers, _session
from .exceptions import HasLeft, HorovodInternalError

_FIRST_NUMBER = 2048  # of our groups: below are those of torch.distributed's
_FUSED_BYTES = 8 << 20
_A_DAY = 86400.0


def _seconds_of(variable: str, otherwise: float) -> float:
    seconds = float(os.environ.get(variable) or 0)
    return seconds if seconds > 0 else otherwise


class ProcessSet:
    """Some ranks that exchange among themselves.

    Give it to init(process_sets=[...]) or add_process_set(), and then to any operation.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[list[int]] = None
    mpi_comm = None

    def __init__(self, ranks: Iterable[int]):
        if isinstance(ranks, (str, bytes)) or not hasattr(ranks, "__iter__"):
            raise ValueError(f"a process set is a list of ranks, not {ranks!r}")
        ranks = sorted(ranks)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"a process set is a list of ranks, not {ranks!r}")
        self.ranks = ranks

    def _invalidate(self) -> None:
        self.process_set_id = None

    def size(self) -> Optional[int]:
        """How many there are; None while the set is not known to all."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self) -> Optional[int]:
        """Our place in it; None if we have none, or while the set is not known to all."""
        is_known = self.process_set_id is not None
        return self.ranks.index(world().rank) if is_known and self.included() else None

    def included(self) -> bool:
        """Whether this rank is in it."""
        return world().rank in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


class Meeting:
    """The exchanges of a process set, and names for those that have none."""

    def __init__(self, core: _core.Core, ranks: Sequence[int], number: int):
        fused = int(os.environ.get("HOROVOD_FUSION_THRESHOLD") or _FUSED_BYTES)
        group = _FIRST_NUMBER + number % (4096 - _FIRST_NUMBER)
        # Who is late is waited for, unless somebody says for how long; who is lost is noticed anyway.
        overdue = _seconds_of("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", _A_DAY)
        warning = _seconds_of("HOROVOD_STALL_CHECK_TIME_SECONDS", 60)
        if os.environ.get("HOROVOD_STALL_CHECK_DISABLE") == "1":
            overdue = warning = _A_DAY
        self.exchanges = _core.NamedExchanges(core, list(ranks), group, fused, overdue, warning)
        self._unnamed: dict[str, int] = {}

    def name(self, act: str, name: Optional[str]) -> str:
        if name is not None:
            return name
        count = self._unnamed[act] = self._unnamed.get(act, 0) + 1
        return f"noname.{count}"

    def count_anew(self) -> None:
        """When all have joined, whatever each had asked for before."""
        self._unnamed.clear()


class World:
    """A job joined."""

    def __init__(self, core: _core.Core):
        self.core = core
        self.rank: int = core.rank
        self.size: int = core.size
        self.local_rank = self.cross_rank = 0
        self.local_size = self.cross_size = 1
        self.homogeneous = True
        self.sets: dict[int, ProcessSet] = {}
        self.adopted: dict[int, list[ProcessSet]] = {}  # other objects for them
        self.meetings: dict[int, Meeting] = {}
        self.sets_opened = 0
        self.dynamic_sets = False

    def meeting(self, process_set: ProcessSet) -> Meeting:
        meeting = self.meetings.get(process_set.process_set_id)
        if meeting is None:
            raise ValueError(f"{process_set} is not registered: see init() and add_process_set()")
        return meeting

    def check_sets(self, process_sets: Sequence[ProcessSet]) -> None:
        """That they can be opened beside those there are."""
        known = [each.ranks for each in self.sets.values()]
        for ranks in (each.ranks for each in process_sets):
            if not ranks or ranks[0] < 0 or ranks[-1] >= self.size or len(set(ranks)) < len(ranks):
                raise ValueError(f"{ranks} are no process set of {self.size} ranks")
            if ranks in known:
                raise ValueError(f"there is a process set of the ranks {ranks} already")
            known.append(ranks)

    def open_set(self, process_set: ProcessSet) -> None:
        self.check_sets([process_set])
        set_id = next(number for number in itertools.count(1) if number not in self.sets)
        process_set.process_set_id = set_id
        self.sets[set_id] = process_set
        # Where a set that was removed has had this number, others may be closing its meeting yet.
        self.sets_opened += 1
        self.meetings[set_id] = Meeting(self.core, process_set.ranks, self.sets_opened)

    def forget_set(self, set_id: int) -> None:
        for each in [self.sets.pop(set_id), *self.adopted.pop(set_id, [])]:
            each._invalidate()

    def adopt(self, process_sets: Sequence[ProcessSet]) -> None:
        """Other objects for sets that are open."""
        by_ranks = {tuple(each.ranks): set_id for set_id, each in self.sets.items()}
        found = [by_ranks.get(tuple(each.ranks)) for each in process_sets]
        if None in found or len(set(found)) < len(found):
            raise ValueError("once the job is joined init() knows process sets by their ranks, each once; "
                             "others take add_process_set()")
        for process_set, set_id in zip(process_sets, found):
            process_set.process_set_id = set_id
            self.adopted.setdefault(set_id, []).append(process_set)

    def gather(self, thing, name: Optional[str] = None) -> list:
        """Everybody's, by rank."""
        data = pickle.dumps(thing)
        buffer = bytearray(data)
        address = _address_of(buffer)
        exchange = _core.NamedExchange(
            "allgather",
            self.meetings[0].name("world", name),
            [_core.Tensor(address, 0, _core.ELEMENTS.index("u8"), [len(buffer)])],
        )
        try:
            with internal_errors():
                self.meetings[0].exchanges.run([exchange])
        except BaseException:
            given_up.append(buffer)
            raise
        (gathered,) = exchange.take_gathered()
        whole, at, things = bytes(memoryview(gathered)), 0, []
        for length in exchange.rows:
            things.append(pickle.loads(whole[at : at + length]))
            at += length
        return things

    def close(self, failed: bool) -> None:
        for meeting in self.meetings.values():
            meeting.exchanges.close()
        if self.core is _elastic and not failed:
            self.core.end_generation()  # init() goes on to the next one
        else:
            self.core.close(failed)

    def abandon(self) -> None:
        for meeting in self.meetings.values():
            meeting.exchanges.abandon()
        self.core.abandon()


def _address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0


class internal_errors:
    """Turns the core's errors into Horovod's."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None or not issubclass(kind, _core.Error):
            return
        raised = HorovodInternalError(str(error))
        raised.rank_is_lost = issubclass(kind, _core.PeerLost) and "has left" not in str(error)
        raise raised from None


given_up: list = []  # what holds memory that the core may still read or write, as nobody has waited
_world: Optional[World] = None
_generations = 0
_elastic: Optional[_core.Core] = None  # where workers come and go, from one generation to the next
_next_door: Optional[tuple[str, str, int]] = None  # where the next job meets, its secret, our socket


def world() -> World:
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def is_initialized() -> bool:
    return _world is not None


def init(comm=None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job: of `starling launch`, torchrun or mpirun; alone, if nobody has launched us.

    process_sets: those to know from the start, or "dynamic" to add some later.
    """
    global _world
    ranks = list(comm) if hasattr(comm, "__iter__") else comm
    if ranks not in (None, [], list(range(_size_from_environment()))):
        raise ValueError("init(comm) of some ranks only, or of an MPI communicator, is not there; use "
                         "process_sets")
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(f'process_sets is a list of them or "dynamic", not {process_sets!r}')
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    wanted = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)
    if _world is not None:
        _world.adopt(wanted)
        return
    _world = _meet()
    _world.dynamic_sets = os.environ.get("HOROVOD_DYNAMIC_PROCESS_SETS") == "1"
    try:
        _world.check_sets(wanted)  # all of them before the first, which nobody could close
    except ValueError:
        shutdown()
        raise
    for process_set in wanted:
        _world.open_set(process_set)


def _meet() -> World:
    """All who are there. Where workers come and go, one may be lost before they know each other."""
    while True:
        joined = World(_join())
        global_process_set.ranks = list(range(joined.size))
        joined.sets[0] = global_process_set
        joined.meetings[0] = Meeting(joined.core, global_process_set.ranks, 0)
        try:
            _learn_of_others(joined)
            return joined
        except HorovodInternalError:
            if joined.core is not _elastic:
                raise
            joined.close(failed=False)


def shutdown(failed: bool = False) -> None:
    """Leaves the job. init() joins again, once all have left. If this rank has failed, the others hear
    that.

    In an elastic job it leaves the generation, and init() joins the next, with whoever is there then.
    """
    global _world
    leaving, _world = _world, None
    if leaving is None:
        return
    for set_id in [each for each in leaving.sets if each != 0]:
        leaving.forget_set(set_id)
    leaving.close(failed)


def _size_from_environment() -> int:
    for name in ("STARLING_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"):
        if name in os.environ:
            return int(os.environ[name])
    return 1


def _timeout_seconds() -> int:
    return int(os.environ.get("STARLING_TIMEOUT_SECONDS") or 60)


def _join() -> _core.Core:
    """The first job meets where the launcher says, every further one where rank 0 has listened since
    the one before: so nobody of the next can be mistaken for one of the last."""
    global _generations, _next_door
    _generations += 1
    if _elastic is not None:
        return _join_the_next()
    with internal_errors():
        if _next_door is not None:
            place, secret, listen_fd = _next_door
            rank, size = _last_rank_and_size
            _next_door = None
            return _core.Core(rank, size, place, secret, _timeout_seconds(), listen_fd)
        if "STARLING_SIZE" in os.environ:
            return _launched()
        if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
            return _join_by_store()
        return _core.Core.from_environment()  # mpirun's, srun's, or alone


def _launched() -> _core.Core:
    global _elastic
    core = _core.Core.from_environment(at_once=False)
    if core.is_elastic:
        _elastic = core
        os.environ["HOROVOD_ELASTIC"] = "1"
        _session.leave_on_sigterm()
    return core


def _join_the_next() -> _core.Core:
    # Perhaps while we waited for the others, to whom we had said that we stay.
    _tell_if_asked_to_leave()
    with internal_errors():
        if _elastic.next_generation():
            return _elastic
    raise HasLeft


def is_elastic() -> bool:
    """Whether workers come and go."""
    return _elastic is not None


def wants_change() -> bool:
    """Whether this rank knows of somebody who waits to be let in, or to go."""
    if _elastic is None:
        return False
    _tell_if_asked_to_leave()
    return _elastic.wants_change()


def _tell_if_asked_to_leave() -> None:
    if _session.asked_to_leave():
        _elastic.leave()


def others_come_or_go(told: bool = False) -> bool:
    """Whether somebody waits to be let in, or to go, or any rank was told so. All ask together, and hear
    the same."""
    if _elastic is None:
        return told
    return any(world().gather(told or wants_change(), "starling.others_come_or_go"))


_last_rank_and_size = (0, 1)
_stores: list = []


def _join_by_store() -> _core.Core:
    """Rank 0 listens, and leaves its address in a store of torch's."""
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(iter(rendezvous("env://")))
    listen_fd = -1
    if rank == 0:
        listen_fd, place = _listen_at(_session.address_towards(_launchers.first_host()))
        store.set("starling/hvd", json.dumps([place, secrets.token_hex(16)]))
    place, said = json.loads(store.get("starling/hvd"))
    _stores.append(store)  # rank 0 may be the one who serves it
    return _core.Core(rank, size, place, _launchers.keyed(said), _timeout_seconds(), listen_fd)


def _listen_at(address: str) -> tuple[int, str]:
    listen_fd, port = _session.listen(address)
    return listen_fd, f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _learn_of_others(joined: World) -> None:
    """Who shares a machine with whom, and where the next job will meet."""
    global _next_door, _last_rank_and_size
    listen_fd, place, secret = -1, "", ""
    if joined.rank == 0 and joined.size > 1 and _elastic is None:
        listen_fd, place = _listen_at(_session.address_towards(_launchers.first_host()))
        secret = secrets.token_hex(16)
    machine = socket.gethostname()
    if _elastic is not None:  # ranks move up, and say nothing of where they are
        machine = os.environ.get("HOROVOD_HOSTNAME"), os.environ.get("HOROVOD_CROSS_RANK")
    elif "STARLING_SIZE" in os.environ:  # machines may have unlike numbers of workers
        machine = os.environ.get("HOROVOD_CROSS_RANK", machine)
    everybody = joined.gather({"machine": machine, "door": (place, secret)})
    if _elastic is None:
        place, secret = everybody[0]["door"]
        _next_door = (place, secret, listen_fd)
        _last_rank_and_size = (joined.rank, joined.size)

    machines = [each["machine"] for each in everybody]
    ranks_on = {m: [r for r, other in enumerate(machines) if other == m] for m in machines}
    here = ranks_on[machines[joined.rank]]
    joined.local_rank, joined.local_size = here.index(joined.rank), len(here)
    across = [ranks[joined.local_rank] for ranks in ranks_on.values() if len(ranks) > joined.local_rank]
    joined.cross_rank, joined.cross_size = across.index(joined.rank), len(across)
    joined.homogeneous = len({len(ranks) for ranks in ranks_on.values()}) == 1


def add_process_set(process_set: Union[ProcessSet, Iterable[int]]) -> ProcessSet:
    """Makes a process set known to all; all ranks must call this with the same ranks.

    Needs init(process_sets="dynamic") or HOROVOD_DYNAMIC_PROCESS_SETS=1.
    """
    here = _dynamic_world("add_process_set")
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    everybody = here.gather(process_set.ranks)
    for rank, ranks in enumerate(everybody):
        if ranks != process_set.ranks:
            raise HorovodInternalError(
                f"add_process_set: rank {here.rank} adds {process_set.ranks}, rank {rank} {ranks}"
            )
    here.open_set(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forgets a process set; all ranks must call this. False if there is no such set to remove."""
    here = _dynamic_world("remove_process_set")
    set_id = process_set.process_set_id
    everybody = here.gather(set_id)
    for rank, other in enumerate(everybody):
        if other != set_id:
            raise HorovodInternalError(
                f"remove_process_set: rank {here.rank} removes {set_id}, rank {rank} {other}"
            )
    if set_id == 0 or set_id not in here.sets:
        return False
    here.meetings.pop(set_id).exchanges.close()
    here.forget_set(set_id)
    return True


def _dynamic_world(what: str) -> World:
    here = world()
    if not here.dynamic_sets:
        raise ValueError(
            f'{what} needs init(process_sets="dynamic") or HOROVOD_DYNAMIC_PROCESS_SETS=1'
        )
    return here


def process_set_ids_and_ranks() -> dict[int, list[int]]:
    return {set_id: list(each.ranks) for set_id, each in world().sets.items()}


def _leave_at_exit() -> None:
    failed = getattr(sys, "last_value", None) is not None  # an error that nobody has caught
    shutdown(failed)
    if _elastic is not None:
        _elastic.close(failed)


atexit.register(_leave_at_exit)


def _forget_in_child() -> None:
    # A fork has the parent's sockets, and must neither speak nor say goodbye for it.
    global _world, _next_door, _elastic
    if _world is not None:
        _world.abandon()
    elif _elastic is not None:
        _elastic.abandon()
    _world = _next_door = _elastic = None


os.register_at_fork(after_in_child=_forget_in_child)
