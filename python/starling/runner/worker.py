"""One process of starling.run: calls the function and leaves what comes of it."""

from __future__ import annotations

import os
import sys
import traceback

from ..common.exceptions import HasLeft
from . import functions


def main() -> int:
    folder = sys.argv[1]
    rank = int(os.environ["STARLING_RANK"])
    with open(os.path.join(folder, "function"), "rb") as file:
        path, data = functions.loads(file.read())
    sys.path[:] = path
    try:
        function, args, kwargs = functions.loads(data)
        outcome = ("result", functions.dumps(function(*args, **kwargs)))
    except HasLeft:
        return 0
    except BaseException as error:  # also sys.exit() and Ctrl-C: the caller wants to know
        outcome = ("error", (f"{type(error).__name__}: {error}", traceback.format_exc()))
    place = os.path.join(folder, f"{rank}")
    with open(place + ".part", "wb") as file:
        file.write(functions.dumps(outcome))
    os.rename(place + ".part", place)
    if outcome[0] == "error":
        print(outcome[1][1], file=sys.stderr, end="")
        from ..common import world

        world.shutdown(failed=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
