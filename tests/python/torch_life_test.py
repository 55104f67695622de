"""Process groups of "starling" as programs begin and end them, again and again.

    starling launch -n 3 -- python3 tests/python/torch_life_test.py
"""

import faulthandler
import os
import tempfile
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import starling
from starling import _core, _rendezvous, torch_backend  # noqa: F401

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])


def begin(name: str) -> None:
    """Another world, whose store is a file: that of env:// may still be the last world's."""
    folder = os.path.join(tempfile.gettempdir(), "starling-life-" + os.environ["STARLING_RENDEZVOUS"])
    os.makedirs(folder, exist_ok=True)
    dist.init_process_group("starling", init_method=f"file://{folder}/{name}", rank=RANK,
                            world_size=SIZE, timeout=timedelta(seconds=60))


def check_sum() -> None:
    x = torch.full((10,), float(RANK))
    dist.all_reduce(x)
    assert x[0].item() == sum(range(SIZE)), x


def check_every_way_in() -> None:
    """By the launcher's variables, by a file, and by an address."""
    dist.init_process_group("starling")  # MASTER_ADDR and the others are the launcher's
    assert dist.get_rank() == RANK and dist.get_world_size() == SIZE
    assert dist.get_backend() == "starling"
    check_sum()
    dist.barrier()
    dist.destroy_process_group()
    begin("by a file")
    check_sum()
    dist.destroy_process_group()
    place = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group("starling", init_method=place, rank=RANK, world_size=SIZE)
    check_sum()
    dist.barrier()
    dist.destroy_process_group()


def check_a_group_is_destroyed_before_the_world() -> None:
    begin("with a group")
    for _ in range(3):
        group = dist.new_group(list(range(SIZE)))
        dist.barrier(group)
        dist.destroy_process_group(group)
    check_sum()
    dist.destroy_process_group()


def check_again_and_again() -> None:
    for time in range(30):
        begin(str(time))
        group = dist.new_group(list(range(SIZE)))
        check_sum()
        dist.barrier(group)
        dist.destroy_process_group()


def check_loaders(way: str) -> None:
    """Processes that a DataLoader forks or spawns leave the session alone."""
    begin(way)
    check_sum()
    data = TensorDataset(torch.arange(12.0))
    loader = DataLoader(data, 4, num_workers=2, multiprocessing_context=way)
    for _ in range(2):
        assert sum(batch[0].sum().item() for batch in loader) == 66
        check_sum()
    dist.destroy_process_group()


def check_forks_cannot_speak() -> None:
    begin("fork by hand")
    check_sum()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            os._exit(0 if "a forked process cannot exchange" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    check_sum()  # the child's end was none of ours
    dist.destroy_process_group()


def check_the_store_is_told_no_secret() -> None:
    """Neither the launcher's nor the one of a session that is opened anew."""
    told: list = []
    secrets = [os.environ["STARLING_SECRET"]]
    meet, core = _rendezvous.meet, _core.Core

    class Overheard:
        def __init__(self, store):
            self.get, self._store = store.get, store

        def set(self, key, value):
            told.append(value)
            self._store.set(key, value)

    def opened(rank, size, place, secret, *more):
        secrets.append(secret)
        return core(rank, size, place, secret, *more)

    opened.from_environment = core.from_environment
    with mock.patch.object(_rendezvous, "meet", lambda store, *rest: meet(Overheard(store), *rest)), \
            mock.patch.object(_core, "Core", opened):
        begin("overheard")
        check_sum()
        dist.new_group(list(range(SIZE)))  # which have a session already
        dist.barrier()
        dist.destroy_process_group()
        starling.shutdown()
        starling.init()  # the launcher's session
        begin("overheard again")
        check_sum()
        dist.destroy_process_group()
    assert len(told) >= 3 and len(secrets) == 2, (told, secrets)
    assert not [secret for secret in secrets if secret in "".join(told)], told
    starling.shutdown()


def main() -> None:
    patience = int(os.environ.get("STARLING_TEST_SECONDS", 120))
    faulthandler.dump_traceback_later(patience, exit=True)  # what hangs says where
    check_every_way_in()
    check_a_group_is_destroyed_before_the_world()
    check_again_and_again()
    check_forks_cannot_speak()
    check_the_store_is_told_no_secret()
    check_loaders("fork")
    check_loaders("spawn")
    print("passed", flush=True)


if __name__ == "__main__":
    main()
