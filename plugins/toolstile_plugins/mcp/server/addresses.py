"""Where the server listens, and what requests may say about where they come from and go to."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import Final, Self

from mcp.server.transport_security import TransportSecuritySettings

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.server.settings import ServeSettings

LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 stands for any that is free.

    Args:
        host: A name or an IP address.
        port: The port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that `HOST:PORT` says.

        Raises:
            ValueError: When it says none.

        Example:
            >>> Address.parse("[::1]:8000")
            Address(host='::1', port=8000)
        """
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not colon or not bare or not port.isascii() or not port.isdigit():
            raise ValueError("give HOST:PORT, such as 127.0.0.1:8000")
        if int(port) > HIGHEST_PORT:
            raise ValueError(f"there is no port {port}; the highest is {HIGHEST_PORT}")
        return cls(bare, int(port))

    def __str__(self) -> str:
        """Return it as `HOST:PORT`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL that begins there."""
        return f"http://{self}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host == "localhost" or _is(self.host, "is_loopback")

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        return _is(self.host, "is_unspecified")

    def listen(self, backlog: int) -> socket.socket:
        """Return a socket that listens there.

        Raises:
            ConfigurationError: When the address cannot be had; says why.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server(
                (self.host, self.port), family=family, backlog=backlog, reuse_port=False
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"Cannot serve on {self}: {why}. Choose another address with --http HOST:PORT."
            ) from error
        # Else the parts of an answer wait for one another. asyncio sees to it only for sockets that
        # name their protocol, which this one does not; those that it accepts inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening


def security_of(address: Address, settings: ServeSettings) -> TransportSecuritySettings:
    """Return which `Host` and `Origin` headers are taken.

    A page in a browser can be made to send requests anywhere; these headers give it away.
    """
    origins: list[str] = [*settings.allowed_origins]
    if address.is_everywhere:
        names = [*LOCAL, socket.gethostname(), socket.getfqdn()]
    elif address.is_loopback:
        names = [*dict.fromkeys([*LOCAL, _bracketed(address.host)])]
        origins += [f"http://{name}{end}" for name in names for end in ("", ":*")]
    else:
        names = [_bracketed(address.host)]
    hosts = [f"{name}{end}" for name in names for end in ("", ":*")]
    return TransportSecuritySettings(
        allowed_hosts=[*hosts, *settings.allowed_hosts], allowed_origins=origins
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is(host: str, what: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host), what))
    except ValueError:
        return False
