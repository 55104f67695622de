"""What the core module is made of: sessions, groups, exchanges. It knows no framework."""

from typing import Callable, Optional, Tuple

VERSION: str
BUILT_WITH: str
ELEMENTS: list[str]
GROUPS: int

class Error(RuntimeError): ...
class Timeout(Error): ...
class PeerLost(Error): ...

# Somebody's, who keeps it until the exchange is done: address, elements, and which of ELEMENTS they are.
Memory = Tuple[int, int, int]

def is_elastic_job() -> bool:
    """Whether this process was launched for a job whose workers come and go."""

class Core:
    """A job joined."""

    def __init__(
        self,
        rank: int,
        size: int,
        rendezvous: str,
        secret: str,
        timeout: int = 60,
        listen_fd: int = -1,
    ) -> None: ...
    @staticmethod
    def from_environment(at_once: bool = True) -> Core:
        """at_once: in an elastic job, others are let in or out as they come, or when all ask for it."""
    @property
    def is_elastic(self) -> bool: ...
    @property
    def generation(self) -> int: ...
    def end_generation(self) -> None: ...
    def next_generation(self) -> bool: ...
    def wants_change(self) -> bool: ...
    def leave(self) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def abandon(self) -> None: ...
    def close(self, failed: bool = False) -> None: ...

class Work:
    """An exchange under way."""

    def done(self) -> bool: ...
    def wait(self, timeout: Optional[float] = None) -> bool: ...
    def then(self, on_end: Callable[[], None]) -> None: ...

class Outcome:
    """What is known of an exchange once it is done."""

    @property
    def from_(self) -> int: ...
    @property
    def missing(self) -> list[int]: ...

class Group:
    """Some ranks of a job, in an order. Each exchange has begun when its call returns."""

    def __init__(self, core: Core, ranks: list[int], number: int) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ranks(self) -> list[int]: ...
    def all_reduce(self, values: Memory, op: str, timeout: Optional[float] = None) -> Work: ...
    def broadcast(self, values: Memory, root: int, timeout: Optional[float] = None) -> Work: ...
    def reduce(
        self, values: Memory, op: str, root: int, timeout: Optional[float] = None
    ) -> Work: ...
    def all_gather(
        self, all: Memory, lengths: list[int], timeout: Optional[float] = None
    ) -> Work: ...
    def reduce_scatter(
        self, values: Memory, lengths: list[int], op: str, timeout: Optional[float] = None
    ) -> Work: ...
    def gather(
        self,
        piece: Memory,
        all: Memory,
        lengths: list[int],
        root: int,
        timeout: Optional[float] = None,
    ) -> Work: ...
    def scatter(
        self,
        all: Memory,
        lengths: list[int],
        piece: Memory,
        root: int,
        timeout: Optional[float] = None,
    ) -> Work: ...
    def all_to_all(
        self,
        out: Memory,
        out_lengths: list[int],
        into: Memory,
        in_lengths: list[int],
        timeout: Optional[float] = None,
    ) -> Work: ...
    def barrier(self, timeout: Optional[float] = None) -> Work: ...
    def monitored_barrier(self, timeout: float, name_all: bool) -> tuple[Work, Outcome]: ...
    def send(
        self, values: Memory, to: int, tag: int = 0, timeout: Optional[float] = None
    ) -> Work: ...
    def receive(
        self, values: Memory, from_: int, tag: int = 0, timeout: Optional[float] = None
    ) -> Work: ...
    def receive_any(
        self, values: Memory, tag: int = 0, timeout: Optional[float] = None
    ) -> tuple[Work, Outcome]: ...
