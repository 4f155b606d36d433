"""The address of a host, sent to the handler of a call with the call."""

from __future__ import annotations

import json
import socket
import ssl
from hashlib import sha256
from typing import Final, NamedTuple

from toolstile_plugins.isolation.messages import SocketChannel
from toolstile_plugins.workers.settings import endpoint

PATIENCE: Final = 10.0
"""Seconds for which each side waits for the other until a handler is connected."""


class HostAddress(NamedTuple):
    """The address of a host, for the handler of one call.

    Args:
        place: `HOST:PORT`, or the path of a Unix socket.
        token: Identifies the call; the host accepts one handler at a time.
        certificate: The SHA-256 of the certificate of the host, None for a Unix socket.
    """

    place: str
    token: str
    certificate: str | None

    @classmethod
    def from_json(cls, text: str) -> HostAddress:
        """Return the address that `to_json` wrote."""
        return cls(*json.loads(text))

    def to_json(self) -> str:
        """Return the address as JSON."""
        return json.dumps(self)

    def connect(self) -> SocketChannel:
        """Connect to the host; each message may take `PATIENCE` seconds.

        Raises:
            OSError: The host cannot be reached, or another host answers.
        """
        connection = self._open() if self.certificate is None else self._open_tls()
        try:
            connection.sendall(f"{self.token}\n".encode())
        except BaseException:
            connection.close()
            raise
        return SocketChannel(connection)

    def _open(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        try:
            connection.connect(self.place)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_tls(self) -> socket.socket:
        # Because the host signed its certificate itself, only the digest from the call is checked.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        raw = socket.create_connection(endpoint(self.place), PATIENCE)
        with raw:
            connection = tls.wrap_socket(raw)
        shown = connection.getpeercert(binary_form=True) or b""
        if sha256(shown).hexdigest() != self.certificate:
            connection.close()
            raise ConnectionRefusedError("another host answers there")
        return connection
