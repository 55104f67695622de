"""What a launcher says in the environment."""

from __future__ import annotations

import os


def get_env_rank_and_size() -> tuple[int, int]:
    """This process's rank and how many there are, before any init(); 0 of 1 if nobody says."""
    for launcher in ("HOROVOD", "OMPI_COMM_WORLD", "PMI"):
        said = [os.environ.get(f"{launcher}_{what}") for what in ("RANK", "SIZE")]
        if said != [None, None]:
            if None in said:
                raise RuntimeError(f"{launcher}_RANK and {launcher}_SIZE go together, and one is not set")
            return int(said[0]), int(said[1])
    return 0, 1
