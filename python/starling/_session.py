"""The session of this process: joined once, shared by everything above it."""

from __future__ import annotations

import atexit
import fcntl
import ipaddress
import os
import signal
import socket
import struct
import sys
import threading

from . import _core, _launchers

FIRST_NUMBER = 1024  # of groups that anybody makes; those below are Dist's and arrays'

_lock = threading.Lock()
_open: "Session | None" = None


class Session:
    """A job joined. Groups of its ranks exchange; the last one to go closes it."""

    def __init__(self, core: _core.Core, token: str, opened_by: str = ""):
        self.core = core
        self.token = token  # the same on all ranks, and on no others
        self.opened_by = opened_by  # whose it is to close
        self.rank: int = core.rank
        self.size: int = core.size
        self._numbers: set[int] = {0}
        self._guard = threading.Lock()

    def numbers_in_use(self) -> set[int]:
        with self._guard:
            return set(self._numbers)

    def group(self, ranks: list[int], number: int) -> _core.Group:
        """The ranks, which all know the group by that number."""
        with self._guard:
            self._numbers.add(number)
        return _core.Group(self.core, ranks, number)

    def release(self, number: int) -> None:
        with self._guard:
            self._numbers.discard(number)

    def close(self, failed: bool = False) -> None:
        """Leaves; if this rank has failed, the others hear that."""
        global _open
        with _lock:
            if _open is self:
                _open = None
        self.core.close(failed)


def current() -> "Session | None":
    return _open


def adopt(core: _core.Core, token: str, opened_by: str = "") -> Session:
    """Makes it this process's session."""
    global _open
    session = Session(core, token, opened_by)
    with _lock:
        _open = session
    _watch_for_failure()
    return session


def joined() -> Session:
    """The session there is, or the launcher's; alone if there is neither."""
    session = current()
    if session is not None:
        return session
    if "STARLING_EVENTS_FD" in os.environ and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # the launcher shows lines when they are complete
    try:
        return adopt(_core.Core.from_environment(), _launchers.job_name())
    except Exception as error:
        report_failure(error)
        raise


def report_failure(error: BaseException) -> None:
    """Tells the launcher, if there is one, why this worker ends."""
    message = str(error) if isinstance(error, _core.Error) else f"{type(error).__name__}: {error}"
    _core.report_error(message, 0 if isinstance(error, _core.PeerLost) else -1)


_watching = False


def _watch_for_failure() -> None:
    """From here on the launcher and the others hear of an exception that ends this process."""
    global _watching
    if _watching:
        return
    _watching = True
    before = sys.excepthook

    def tell(kind: type, error: BaseException, trace: object) -> None:
        before(kind, error, trace)
        report_failure(error)
        session = current()
        if session is not None:
            session.close(failed=True)

    sys.excepthook = tell


_asked_to_leave = False


def _note_to_leave(*_: object) -> None:
    global _asked_to_leave
    _asked_to_leave = True


def leave_on_sigterm() -> None:
    """In an elastic job: so a machine says that it will be gone soon. The training looks for it."""
    if threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _note_to_leave)


def asked_to_leave() -> bool:
    return _asked_to_leave


def listen(address: str) -> tuple[int, int]:
    """A socket that listens there for the other ranks: its descriptor and its port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    return listener.detach(), port


def here() -> str:
    """The same for all who reach each other by loopback, and for nobody else."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot:
            return boot.read().strip() + os.readlink("/proc/self/ns/net")
    except OSError:
        return socket.gethostname()


def address_towards(host: str) -> str:
    """This machine's address on the way to that host."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)
            found = probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"
    # Some machines know their own name by a loopback address, where no other can call.
    if ipaddress.ip_address(found).is_loopback and _is_machines_name(host):
        return _outward_address() or found
    return found


def _is_machines_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host != "localhost"
    return False


def _outward_address() -> str:
    """The first by which others can call this machine; nothing if it has none."""
    found = [address for _, address in _own_addresses() if not ipaddress.ip_address(address).is_loopback]
    return found[0] if found else ""


def address_on(network: str) -> str:
    """This machine's address on a network, by the name of an interface or as 10.0.0.0/24."""
    own = _own_addresses()
    for name, address in own:
        if name == network or _is_in(address, network):
            return address
    has = ", ".join(f"{name} {address}" for name, address in own)
    raise ValueError(f"{socket.gethostname()} is not on the network {network}, it has {has}")


def _is_in(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False  # it is the name of an interface


def _own_addresses() -> list[tuple[str, str]]:
    """(interface, IPv4 address)"""
    get_address = 0x8915  # SIOCGIFADDR; a sockaddr_in stands behind the name
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(probe, get_address, struct.pack("40s", name.encode()))
            except OSError:  # it has no address
                continue
            found.append((name, socket.inet_ntoa(told[20:24])))
    return found


def _close_at_exit() -> None:
    # Before the interpreter goes: a thread of ours may want its lock.
    session = _open
    if session is not None:
        session.close()


atexit.register(_close_at_exit)


def _forget_in_child() -> None:
    # A fork has the parent's sockets, and must neither speak nor say goodbye for it.
    global _open
    if _open is not None:
        _open.core.abandon()
        _open = None
    if signal.getsignal(signal.SIGTERM) is _note_to_leave:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # who ends its children means it


os.register_at_fork(after_in_child=_forget_in_child)
