"""A relay between clients and a server, which counts round trips and loses answers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

SYNC = b"S\0\0\0\4"
"""The end of statements that a client of PostgreSQL sends together."""


class Relay:
    """Passes on what clients and a server on this machine send each other.

    Args:
        port: The port of the server.
        delay: Seconds by which each round trip takes longer.

    Attributes:
        port: The port for clients.
        trips: How often a client sent something for the first time, or after an answer.
    """

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self._server = ("127.0.0.1", port)
        self._delay = delay
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_silent = self._is_late = False
        self._losing: bytes | None = None
        self._late: list[tuple[socket.socket, bytes]] = []
        self.port = self._listening.getsockname()[1]
        self.trips = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        """Pass on nothing from now on, and accept no clients."""
        self._is_silent = True

    def lose_answer(self, words: bytes, *, late: bool = False) -> None:
        """Cut the next client off that sends some words; late, they arrive with `deliver`."""
        self._losing, self._is_late = words, late

    def deliver(self) -> None:
        """Pass on what is late."""
        for server, data in self._late:
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all connections."""
        for each in (self._listening, *self._sockets):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._is_silent:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                answered = threading.Event()
                answered.set()
                for work in (self._pass_on_requests, self._pass_on_answers):
                    threading.Thread(
                        target=work, args=(client, server, answered), daemon=True
                    ).start()

    def _pass_on_requests(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if answered.is_set():
                    answered.clear()
                    with self._lock:
                        self.trips += 1
                    time.sleep(self._delay)
                if self._losing is not None and self._losing in data:
                    self._losing = None
                    self._lose(client, server, data)
                    return
                if not self._is_silent:
                    server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _lose(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        while SYNC not in data:
            data += client.recv(65536)
        client.shutdown(socket.SHUT_RDWR)
        self._late.append((server, data))
        if not self._is_late:
            self.deliver()

    def _pass_on_answers(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                answered.set()
                if not self._is_silent:
                    client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
