"""Exchanges under way, as torch.distributed knows them."""

from __future__ import annotations

import sys
import threading
from collections import deque
from datetime import timedelta
from typing import Callable, Optional, Sequence, Union

import torch
from torch._C import _distributed_c10d as c10d

_NO_TIMEOUT = timedelta(0)


def seconds_of(timeout: Union[None, float, timedelta]) -> Optional[float]:
    """To torch both zero and less mean none."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds > 0 else None


class Future(torch.futures.Future):
    """Of an exchange; knows whether Python is to be called when it is done.

    Whoever drives exchanges calls what was asked for at their end. Torch's own calls are short, but a
    function in Python may wait for another exchange, which nobody would drive.
    """

    def __init__(self, elsewhere: bool = False):
        super().__init__()
        self._lock = threading.Lock()
        self._elsewhere = elsewhere  # whether a thread of its own settles it

    def then(self, callback):
        with self._lock:
            self._elsewhere = True
        return super().then(callback)

    def add_done_callback(self, callback) -> None:
        with self._lock:
            self._elsewhere = True
        super().add_done_callback(callback)

    def fulfil(self, result) -> None:
        self._settle(self.set_result, result)

    def fail(self, error: Exception) -> None:
        self._settle(self.set_exception, error)

    def _settle(self, how: Callable, outcome) -> None:
        with self._lock:
            if not self._elsewhere:
                how(outcome)
                return
        threading.Thread(target=how, args=(outcome,), daemon=True).start()


class Work(c10d.Work):
    """An exchange under way. Whoever waits drives it; a future is made only for those who ask."""

    # Many are made, so that what most do not need stands here.
    told = False  # whoever asked how it ended knows
    _future: Optional[Future] = None
    _shown: Optional[torch.futures.Future] = None
    _lock = threading.RLock()  # of all works: it is held for long only where something was staged

    def __init__(self, core_work, staged: Sequence, result, source: Optional[Callable[[], int]] = None):
        super().__init__()
        self.core = core_work
        self.staged = staged  # stays until it is done, whatever becomes of the caller's
        self._result = result
        self._source = source

    def conclude(self) -> None:
        """Brings what was staged back to where it belongs, once."""
        with self._lock:
            staged, self.staged = self.staged, ()
            for each in staged:
                if each.returns:
                    each.give_back()

    # A work may be staged in another one, whose end is then its own, too.
    returns = True
    give_back = conclude

    def settle(self) -> None:
        """Once it is done: ends it as whoever waits for it would, and lets go of all memory."""
        if self.staged:
            if self.exception() is None:
                self.conclude()
            self.staged = ()
        if sys.getrefcount(self) <= 3:  # our caller and we: nobody else in Python asks
            self._result = None

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        if not self.core.wait(seconds_of(timeout)):
            raise RuntimeError(f"Wait timeout: the exchange did not end within {timeout}")
        if self.staged:
            self.conclude()
        self._wait_until_shown()
        self.told = True
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.core.done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self):
        try:
            self.core.wait(0)
        except RuntimeError as error:
            return error
        return None

    def result(self):
        return self._result

    def source_rank(self) -> int:
        """Of a receive that is done: whose message it was."""
        return -1 if self._source is None else self._source()

    _source_rank = source_rank

    def get_future(self) -> Future:
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = Future()
        self.shared().then(self._fulfil)
        return self._future

    def shared(self) -> Shared:
        """The core's work, of whose end others are told as well as this one's future."""
        with self._lock:
            if not isinstance(self.core, Shared):
                self.core = Shared(self.core)
            return self.core

    def show(self, record) -> None:
        """Ends what a profiler has begun to record when this ends.

        By a thread of its own: torch takes what one thread begins and ends for a call, and calls lie
        within each other, but exchanges end in any order.
        """
        ended = Future(elsewhere=True)
        self._shown = torch.ops.profiler._call_end_callbacks_on_jit_fut(record, ended)
        self.shared().then(lambda: ended.fulfil(None))

    def _wait_until_shown(self) -> None:
        """So that a profiler which ends next has all of it."""
        if self._shown is not None:
            self._shown.wait()

    def _fulfil(self) -> None:
        try:
            self.core.wait(0)
            self.conclude()
            self._wait_until_shown()
        except Exception as error:  # the future tells whoever waits for it
            self._future.fail(error)
        else:
            self.told = True
            self._future.fulfil(self._result)


class Shared:
    """A work of the core, which itself tells only one of its end."""

    def __init__(self, core_work):
        self.wait, self.done = core_work.wait, core_work.done
        self._core_work = core_work
        self._on_end: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_asked = False

    def then(self, on_end: Callable[[], None]) -> None:
        with self._lock:
            self._on_end.append(on_end)
            is_first, self._is_asked = not self._is_asked, True
        if is_first:
            self._core_work.then(self._tell)
        elif self.done():  # it may have told us already
            self._tell()

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._on_end:
                    return
                on_end = self._on_end.popleft()
            on_end()


class WorksUnderWay:
    """Keeps works for as long as somebody may need them.

    What somebody has begun and forgotten still needs its memory until it is done. And torch's own
    code may hold the C++ half of a work without its Python half, and wait for ever if that is gone,
    so that many of which nobody has heard yet are kept. What is left of one that is done is little.
    """

    _KEPT = 1024

    def __init__(self):
        self._works: deque[Work] = deque()
        self._over: deque[Work] = deque(maxlen=self._KEPT)

    def add(self, work: Work) -> None:
        while self._works and self._works[0].core.done():
            over = self._works.popleft()
            if not over.told:
                over.settle()
                self._over.append(over)
        self._works.append(work)

    def not_done(self) -> list[Work]:
        return [work for work in self._works if not work.core.done()]


class All:
    """Several exchanges as one."""

    def __init__(self, works: Sequence):
        self._works = list(works)

    def wait(self, timeout=None) -> bool:
        return all([work.wait(timeout) for work in self._works])

    def done(self) -> bool:
        return all(work.done() for work in self._works)

    def then(self, on_end: Callable[[], None]) -> None:
        left = len(self._works)
        guard = threading.Lock()

        def one_done():
            nonlocal left
            with guard:
                left -= 1
                last = left == 0
            if last:
                on_end()

        for work in self._works:
            work.then(one_done)
        if not self._works:
            on_end()
