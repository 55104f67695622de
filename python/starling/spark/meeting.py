"""Where the tasks of an elastic job find each other, at the driver: they come and go one by one, so it is no
barrier stage, and Spark has no channel between its tasks.

  A. A task calls, and both ends prove that they know the job's secret.
  B. It tells its place. When as many as there shall be workers have come, each gets its rank.
  C. From then on it tells where others can ask to be let in (its worker's door), and how it has ended.
  D. One that Spark has started again gets the doors of those who are there. If there are none any more, it
     was the last: it is over if anybody has ended well, and begins anew with B if not.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
import time
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from .place import Place, by_rank, rendezvous

_HANDSHAKE_SECONDS = 10.0
# A machine that has lost its power says no goodbye; Spark takes a minute or two to start its tasks again.
_SILENCE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
_MOST_BYTES = 1 << 16  # of a message


class Meeting:
    """The driver's side, for as long as the job runs."""

    def __init__(self, size: int, secret: str, seconds: float):
        self._size, self._secret, self._seconds = size, secret.encode(), seconds
        self._changed = threading.Condition()
        self._waiting: dict[int, Place] = {}  # by task
        self._ranks: dict[int, int] = {}  # by task; none until all have come
        self._rendezvous = ""
        self._doors: dict[int, str] = {}  # of those who are there, by task
        self._visits: dict[int, Connection] = {}  # the newest of each task
        self._ended_well = False
        meeting = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                meeting._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, *_: Any) -> None:
                pass  # a stranger, or a task that Spark has killed

        self._server = Server(("", 0), Handler)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> "Meeting":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: socket.socket) -> None:
        request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, number in _SILENCE.items():
            request.setsockopt(socket.IPPROTO_TCP, option, number)
        with Connection(os.dup(request.fileno())) as connection:
            _prove(connection, self._secret, listens=True)
            place = Place.of(connection.recv_bytes(_MOST_BYTES).decode())
            with self._changed:
                self._visits[place.task] = connection
                self._doors.pop(place.task, None)  # of its life before, should nobody have heard its end
                self._changed.notify_all()
            try:
                _send(connection, self._seat(place))
                while True:
                    self._hear(place.task, json.loads(connection.recv_bytes(_MOST_BYTES)))
            except (EOFError, OSError):
                pass
            finally:
                with self._changed:
                    if self._visits[place.task] is connection:
                        self._doors.pop(place.task, None)
                    self._changed.notify_all()

    def _hear(self, task: int, said: dict[str, Any]) -> None:
        with self._changed:
            if "door" in said:
                self._doors[task] = said["door"]
            self._ended_well = self._ended_well or said.get("ended") == 0
            self._changed.notify_all()

    def _seat(self, place: Place) -> dict[str, Any]:
        deadline = time.monotonic() + self._seconds
        with self._changed:
            if self._ranks:
                # Who is known to be there may not have a door yet.
                self._changed.wait_for(
                    lambda: self._ended_well or not self._doors or any(self._doors.values()),
                    max(0.0, deadline - time.monotonic()))
                if self._ended_well:
                    return {"over": True, "rank": self._ranks[place.task]}
                doors = [door for door in self._doors.values() if door]
                if doors:
                    self._doors[place.task] = ""
                    return {"rank": self._ranks[place.task], "doors": doors}
                if self._doors:
                    return {"error": "none of the other workers lets it in"}
                self._ranks, self._waiting = {}, {}
            self._waiting[place.task] = place
            if len(self._waiting) == self._size:
                ranks = by_rank(list(self._waiting.values()))
                self._ranks = {each.task: rank for rank, each in enumerate(ranks)}
                self._rendezvous = rendezvous(ranks)
                self._doors = {task: "" for task in self._ranks}
                self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._ranks, max(0.0, deadline - time.monotonic())):
                return {"error": f"of {self._size} workers {len(self._waiting)} came within "
                                 f"{self._seconds:g} s: see that Spark has a slot for each"}
            return {"rank": self._ranks[place.task], "rendezvous": self._rendezvous}


class Visit:
    """A task's side."""

    def __init__(self, host: str, port: int, secret: str, seconds: float):
        self._seconds = seconds
        link = socket.create_connection((host, port), _HANDSHAKE_SECONDS)
        link.setblocking(True)
        self._connection = Connection(link.detach())
        _prove(self._connection, secret.encode(), listens=False)

    def seat(self, place: Place) -> dict[str, Any]:
        self._connection.send_bytes(place.text().encode())
        if not self._connection.poll(self._seconds + _HANDSHAKE_SECONDS):
            return {"error": "the driver does not answer"}
        return json.loads(self._connection.recv_bytes(_MOST_BYTES))

    def tell(self, **what: Any) -> None:
        _send(self._connection, what)

    def close(self) -> None:
        self._connection.close()


def _send(connection: Connection, what: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(what).encode())


def _prove(connection: Connection, secret: bytes, listens: bool) -> None:
    """Both ends, and within a time: who says nothing is hung up on."""
    alarm = threading.Timer(_HANDSHAKE_SECONDS, lambda: _hang_up(connection))
    alarm.daemon = True
    alarm.start()
    try:
        for step in (deliver_challenge, answer_challenge) if listens else (
                answer_challenge, deliver_challenge):
            step(connection, secret)
    finally:
        alarm.cancel()


def _hang_up(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)
