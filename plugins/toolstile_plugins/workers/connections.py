"""Connections from handlers on workers to the host that waits for their calls."""

from __future__ import annotations

import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Final, NamedTuple

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.cli_support import needing
from toolstile_plugins.isolation.messages import SocketChannel
from toolstile_plugins.workers.settings import endpoint

PATIENCE: Final = 10.0
"""Seconds for which each side waits for the other until a handler is connected."""
_LONGEST_TOKEN: Final = 64
_PAUSE: Final = 0.1
"""Seconds until the next attempt to accept a connection."""


class HostAddress(NamedTuple):
    """The address of a host, for the handler of one call.

    `place` is `HOST:PORT`, or the path of a Unix socket. `token` identifies the call. `certificate`
    is the SHA-256 of the host's certificate, None for a Unix socket.
    """

    place: str
    token: str
    certificate: str | None

    def connect(self) -> SocketChannel:
        """Connect to the host, or raise `OSError`; each message may take `PATIENCE` seconds."""
        with ExitStack() as stack:
            if self.certificate is None:
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.settimeout(PATIENCE)
                connection.connect(self.place)
            else:
                # The host signed its certificate itself, so only the digest in the call is checked.
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
                with socket.create_connection(endpoint(self.place), PATIENCE) as raw:
                    connection = stack.enter_context(tls.wrap_socket(raw))
                shown = connection.getpeercert(binary_form=True) or b""
                if sha256(shown).hexdigest() != self.certificate:
                    raise ConnectionRefusedError("another host answers there")
            connection.sendall(f"{self.token}\n".encode())
            stack.pop_all()
        return SocketChannel(connection)


class ExpectedHandler:
    """A handler that is expected to connect; `address`, the host's, is sent to it with its call.

    `channel` is the channel to the handler; waiting for it ends with `EOFError` after an
    abandonment.
    """

    def __init__(self, address: HostAddress) -> None:
        self.address = address
        self.channel: Future[SocketChannel] = Future()
        self._lock = threading.Lock()
        self._is_given_up = False

    def admit(self, channel: SocketChannel) -> None:
        """Connect the handler; close the channel if it has one, or its call was abandoned."""
        with self._lock:
            is_free = not self.channel.done()
            if is_free:
                self.channel.set_result(channel)
        if not is_free:
            channel.close()

    def expect_another(self) -> bool:
        """Close the channel to a lost handler, expect another; False if the call was abandoned."""
        with self._lock:
            self.channel.result().close()
            if not self._is_given_up:
                self.channel = Future()
            return not self._is_given_up

    def give_up(self) -> None:
        """Abandon the call; readers of the channel get its end."""
        with self._lock:
            self._is_given_up = True
            if not self.channel.done():
                self.channel.set_exception(EOFError())
            elif self.channel.exception() is None:
                self.channel.result().shut_down()

    def close(self) -> None:
        """Abandon the call, and close the channel, which has no readers left."""
        self.give_up()
        with suppress(EOFError):
            self.channel.result().close()


class HandlerConnections:
    """Accepts connections of handlers, one at a time for each call.

    Handlers on this machine use a Unix socket that only this user can open; handlers on other
    machines use TLS at `address`, `HOST` or `HOST:PORT`. A handler identifies its call by a token.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._server: socket.socket | None = None
        self._certificate: Certificate | None = None
        self._place = ""
        self._is_closed = False
        self._expected: dict[str, ExpectedHandler] = {}

    def open(self) -> None:
        """Listen at once, so that a host with an unusable address raises `ConfigurationError`."""
        with self._lock:
            try:
                self._server = self._listen()
            except OSError as error:
                raise ConfigurationError(
                    f"plugins.workers.address: {self._address} cannot be used: {error}. Name an "
                    "address of this machine, and a port that is free."
                ) from error

    @contextmanager
    def expected(self) -> Generator[ExpectedHandler]:
        """Let the handler of a call connect during the block; the address may raise `OSError`."""
        token = token_urlsafe(32)
        with self._lock:
            if self._server is None:
                self._server = self._listen()
            digest = None if self._certificate is None else self._certificate.digest
            expected = ExpectedHandler(HostAddress(self._place, token, digest))
            self._expected[token] = expected
        try:
            yield expected
        finally:
            with self._lock:
                self._expected.pop(token, None)
            expected.close()

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._is_closed = True
            if self._server is not None:
                with suppress(OSError):
                    # Because `close` alone leaves the thread waiting in `accept`.
                    self._server.shutdown(socket.SHUT_RDWR)
                self._server.close()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> socket.socket:
        self._folder = Path(tempfile.mkdtemp(prefix="toolstile-"))
        if self._address is None:
            self._place = str(self._folder / "host")
            server = socket.socket(socket.AF_UNIX)
            server.bind(self._place)
            server.listen()
        else:
            host, port = endpoint(self._address)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = socket.create_server((host, port), family=family)
            self._certificate = Certificate.make(self._folder)
            name = f"[{host}]" if ":" in host else host
            self._place = f"{name}:{server.getsockname()[1]}"
        threading.Thread(
            target=self._accept, args=(server,), name="toolstile-handlers", daemon=True
        ).start()
        return server

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                if self._is_closed:
                    return
                # The process may be out of descriptors until others are closed.
                time.sleep(_PAUSE)
                continue
            try:
                # In a thread, because a client that sends nothing would block the others.
                threading.Thread(target=self._admit, args=(connection,), daemon=True).start()
            except RuntimeError:
                connection.close()

    def _admit(self, connection: socket.socket) -> None:
        expected = None
        with suppress(OSError):
            connection.settimeout(PATIENCE)
            if self._certificate is not None:
                with connection as raw:
                    connection = self._certificate.tls.wrap_socket(raw, server_side=True)
            with connection.makefile("rb") as lines:
                token = lines.readline(_LONGEST_TOKEN).decode("latin-1").rstrip("\n")
            connection.settimeout(None)
            with self._lock:
                expected = self._expected.get(token)
        if expected is None:
            connection.close()
        else:
            expected.admit(SocketChannel(connection))


class Certificate(NamedTuple):
    """A self-signed certificate; handlers trust its SHA-256, which is sent with each call."""

    tls: ssl.SSLContext
    digest: str

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Make a certificate, in a folder that only this user can read."""
        told = "plugins.workers.address needs cryptography, which is not installed."
        with needing(told, "postgres"):
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "toolstile")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = folder / "host.pem"
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(file)
        file.unlink()
        return cls(tls, sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest())
