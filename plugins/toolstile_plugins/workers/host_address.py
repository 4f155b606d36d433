"""The way from the handler of a call to its host, as it goes along with the call."""

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
    """The way to a host, for the handler of one call.

    Args:
        place: `HOST:PORT`, or the path of a Unix socket.
        token: Lets one handler in at a time.
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
        """Return it as JSON."""
        return json.dumps(self)

    def connect(self) -> SocketChannel:
        """Connect a handler with its host, which has `PATIENCE` seconds for each message.

        Raises:
            OSError: The host cannot be reached, or another one answers.
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
        # The certificate is the host's own: its digest came with the call, and nobody else tells.
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
