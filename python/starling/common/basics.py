"""What a process can ask of the job it is in. Knows no framework."""

from __future__ import annotations

from . import world as _world
from .world import is_initialized, process_set_ids_and_ranks


def rank() -> int:
    """Which of all this process is."""
    return _world.world().rank


def size() -> int:
    """How many processes there are."""
    return _world.world().size


def local_rank() -> int:
    """Which of those on this machine this process is."""
    return _world.world().local_rank


def local_size() -> int:
    """How many processes there are on this machine."""
    return _world.world().local_size


def cross_rank() -> int:
    """Which machine this is, among those that have a process of our local rank."""
    return _world.world().cross_rank


def cross_size() -> int:
    """How many machines have a process of our local rank."""
    return _world.world().cross_size


def is_homogeneous() -> bool:
    """Whether there are as many processes on each machine."""
    return _world.world().homogeneous


def mpi_threads_supported() -> bool:
    """Raises ValueError: there is no MPI in it."""
    raise ValueError("Starling does not exchange over MPI")


def _yes(verbose: bool = False) -> bool:
    """True: Starling's links are in gloo's place, without which programs would look for MPI."""
    return True


def _no(verbose: bool = False) -> bool:
    """False: Starling exchanges over links of its own."""
    return False


def _none(verbose: bool = False) -> int:
    """0: Starling exchanges over links of its own."""
    return 0


gloo_enabled = gloo_built = _yes
mpi_enabled = mpi_built = ddl_built = ccl_built = cuda_built = rocm_built = _no
nccl_built = _none


class HorovodBasics:
    """The same by the name that some of Horovod's own look for."""

    Average, Sum, Adasum, Min, Max, Product = range(6)
    _get_process_set_ids_and_ranks = staticmethod(process_set_ids_and_ranks)
    init, shutdown = staticmethod(_world.init), staticmethod(_world.shutdown)
    rank, size = staticmethod(rank), staticmethod(size)
    local_rank, local_size = staticmethod(local_rank), staticmethod(local_size)
    cross_rank, cross_size = staticmethod(cross_rank), staticmethod(cross_size)
    is_homogeneous = staticmethod(is_homogeneous)
    is_initialized = staticmethod(is_initialized)
    mpi_threads_supported = staticmethod(mpi_threads_supported)
    gloo_enabled = gloo_built = staticmethod(_yes)
    mpi_enabled = mpi_built = staticmethod(_no)
    ddl_built = ccl_built = cuda_built = rocm_built = staticmethod(_no)
    nccl_built = staticmethod(_none)
